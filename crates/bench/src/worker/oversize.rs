//! One large save: a large payload replaces a small one, and the store's answer is compared with
//! its content, byte by byte.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sessile_core::ErrorKind;
use sessile_results::{ContentAfterSave, SaveOutcome};

use crate::contender::Contender;
use crate::monotonic::now_ns;
use crate::worker::protocol::{ContenderFailure, WorkerResult};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SaveTask {
    /// An unused id.
    pub session: usize,
    /// Of the large payload.
    pub payload_bytes: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SaveReport {
    pub outcome: SaveOutcome,
    pub after: ContentAfterSave,
    pub error: Option<ContenderFailure>,
    /// The limit that the error names.
    pub limit: Option<u64>,
    /// Begin and commit together.
    pub save_ns: u64,
    /// The read after that.
    pub read_ns: u64,
}

/// Saves a large payload over a small one. Fails when the small one cannot be stored, or the
/// session cannot be read afterwards.
pub(crate) fn save(
    contender: &mut dyn Contender,
    save: &SaveTask,
    seed: u64,
    ttl: Duration,
) -> WorkerResult<SaveReport> {
    let mut random = fastrand::Rng::with_seed(seed ^ save.session as u64);
    let mut text =
        |bytes| std::iter::repeat_with(|| random.u8(..)).take(bytes).collect::<Vec<u8>>();
    let (old, new) = (text(SMALL_BYTES), text(save.payload_bytes));
    contender.create(save.session, &old, ttl).map_err(failure)?;
    let start = now_ns();
    let begun = contender
        .begin(save.session)
        .map(|found| found == Some(old.as_slice()))
        .map_err(failure)?;
    if !begun {
        return Err(ContenderFailure {
            code: "miss".to_owned(),
            message: "a small payload is not what was stored".to_owned(),
        });
    }
    let told = contender.commit(&new);
    let saved = now_ns();
    let after = match contender.read(save.session).map_err(failure)? {
        Some(payload) if payload == new => ContentAfterSave::New,
        Some(payload) if payload == old => ContentAfterSave::Old,
        Some(_) => ContentAfterSave::Other,
        None => ContentAfterSave::Nothing,
    };
    let read_ns = now_ns() - saved;
    let limit = told.as_ref().err().and_then(|error| match error.kind() {
        ErrorKind::TooLarge { limit, .. } => Some(*limit),
        _ => None,
    });
    let outcome = SaveOutcome::judge(told.is_ok(), after);
    Ok(SaveReport {
        outcome,
        after,
        error: told.err().map(failure),
        limit,
        save_ns: saved - start,
        read_ns,
    })
}

const SMALL_BYTES: usize = 1_500;

fn failure(error: sessile_core::Error) -> ContenderFailure {
    ContenderFailure::from_error(&error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_believed_only_if_it_holds_what_it_said() {
        assert_eq!(SaveOutcome::judge(true, ContentAfterSave::New), SaveOutcome::Stored);
        assert_eq!(SaveOutcome::judge(false, ContentAfterSave::Old), SaveOutcome::Refused);
        assert_eq!(SaveOutcome::judge(false, ContentAfterSave::New), SaveOutcome::Contradicted);
        for (acknowledged, after) in [
            (true, ContentAfterSave::Old),
            (true, ContentAfterSave::Nothing),
            (true, ContentAfterSave::Other),
            (false, ContentAfterSave::Nothing),
        ] {
            assert_eq!(
                SaveOutcome::judge(acknowledged, after),
                SaveOutcome::Lost,
                "{acknowledged} {after:?}"
            );
        }
    }
}
