//! One large save in a worker: a small payload is there, a large one replaces it, and what is there then is looked at.
//!
//! It owns the verdict: what the store said is compared with what it holds, byte by byte.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sessile_core::ErrorKind;

use crate::contender::Contender;
use crate::monotonic::now_ns;
use crate::worker::protocol::Failure;

/// What is to be saved.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Save {
    /// An id that nobody has used.
    pub session: usize,
    /// Size of the large payload.
    pub payload_bytes: usize,
}

/// What became of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Saved {
    /// The verdict.
    pub outcome: Outcome,
    /// What the store holds after the save.
    pub after: After,
    /// What it said, if that was an error.
    pub error: Option<Failure>,
    /// The limit that the error names.
    pub limit: Option<u64>,
    /// How long begin and commit took together.
    pub save_ns: u64,
    /// How long it took to read the session after that.
    pub read_ns: u64,
}

/// What became of a large payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Acknowledged, and read back byte for byte.
    #[default]
    Stored,
    /// An error, and the old payload is untouched.
    Refused,
    /// An error, and stored all the same.
    Contradicted,
    /// The old payload is gone and the new one is not there, or it is although the save was acknowledged.
    Lost,
}

/// What a store holds after a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum After {
    /// The large payload.
    New,
    /// The small one from before.
    Old,
    /// Nothing.
    Nothing,
    /// Something else.
    Other,
}

impl Outcome {
    fn of(acknowledged: bool, after: After) -> Outcome {
        match (acknowledged, after) {
            (true, After::New) => Outcome::Stored,
            (false, After::Old) => Outcome::Refused,
            (false, After::New) => Outcome::Contradicted,
            (true, After::Old) | (_, After::Nothing | After::Other) => Outcome::Lost,
        }
    }

    /// The word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Stored => "stored",
            Outcome::Refused => "refused",
            Outcome::Contradicted => "contradicted",
            Outcome::Lost => "lost",
        }
    }
}

/// Saves a large payload over a small one.
///
/// # Errors
///
/// When the small one cannot be stored, or the session cannot be read afterwards.
pub(crate) fn save(contender: &mut dyn Contender, save: &Save, seed: u64, ttl: Duration) -> Result<Saved, Failure> {
    let mut random = fastrand::Rng::with_seed(seed ^ save.session as u64);
    let mut text = |bytes| std::iter::repeat_with(|| random.u8(..)).take(bytes).collect::<Vec<u8>>();
    let (old, new) = (text(SMALL_BYTES), text(save.payload_bytes));
    contender.create(save.session, &old, ttl).map_err(failure)?;
    let start = now_ns();
    let begun = contender.begin(save.session).map(|found| found == Some(old.as_slice())).map_err(failure)?;
    if !begun {
        return Err(Failure { code: "miss".to_owned(), message: "a small payload is not what was stored".to_owned() });
    }
    let told = contender.commit(&new);
    let saved = now_ns();
    let after = match contender.read(save.session).map_err(failure)? {
        Some(payload) if payload == new => After::New,
        Some(payload) if payload == old => After::Old,
        Some(_) => After::Other,
        None => After::Nothing,
    };
    let read_ns = now_ns() - saved;
    let limit = told.as_ref().err().and_then(|error| match error.kind() {
        ErrorKind::TooLarge { limit, .. } => Some(*limit),
        _ => None,
    });
    let outcome = Outcome::of(told.is_ok(), after);
    Ok(Saved { outcome, after, error: told.err().map(failure), limit, save_ns: saved - start, read_ns })
}

const SMALL_BYTES: usize = 1_500;

fn failure(error: sessile_core::Error) -> Failure {
    Failure::of(&error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_believed_only_if_it_holds_what_it_said() {
        assert_eq!(Outcome::of(true, After::New), Outcome::Stored);
        assert_eq!(Outcome::of(false, After::Old), Outcome::Refused);
        assert_eq!(Outcome::of(false, After::New), Outcome::Contradicted);
        for (acknowledged, after) in
            [(true, After::Old), (true, After::Nothing), (true, After::Other), (false, After::Nothing)]
        {
            assert_eq!(Outcome::of(acknowledged, after), Outcome::Lost, "{acknowledged} {after:?}");
        }
    }
}
