//! Sessions by what became of each, as text, as JSON, and as an exit code.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sessile_core::{Error, ErrorKind};
use sessile_stores::copy::Compared;

use crate::arguments::CopyArguments;
use crate::command_result::{CommandFailure, CommandResult};
use crate::units;

#[derive(Debug, Default)]
pub struct Counts {
    found: BTreeMap<Compared, u64>,
    pub moved: u64,
    /// By the code of the error, with the first one.
    refused: BTreeMap<&'static str, (u64, String)>,
}

impl Counts {
    /// Counts one session. An error of the store, after which no other can be copied, is returned.
    pub fn count(&mut self, outcome: Result<Compared, Error>) -> Result<(), Error> {
        match outcome {
            Ok(found) => *self.found.entry(found).or_default() += 1,
            Err(error) => self.refuse(error)?,
        }
        Ok(())
    }

    pub fn refuse(&mut self, error: Error) -> Result<(), Error> {
        self.refuse_several(1, error)
    }

    pub fn refuse_several(&mut self, sessions: u64, error: Error) -> Result<(), Error> {
        if !is_of_one_session(&error) {
            return Err(error);
        }
        let first = || (0, format!("{error:#}"));
        self.refused.entry(error.kind().code()).or_insert_with(first).0 += sessions;
        Ok(())
    }

    fn of(&self, found: Compared) -> u64 {
        self.found.get(&found).copied().unwrap_or(0)
    }

    fn refused(&self) -> u64 {
        self.refused.values().map(|(number, _)| number).sum()
    }

    pub fn as_text(&self, arguments: &CopyArguments) -> String {
        let sessions = |number| units::with_noun(number, "session");
        let [missing, older, same] = [Compared::Missing, Compared::Older, Compared::Same];
        let [missing, older, same] = [missing, older, same].map(|found| self.of(found));
        let mut lines = if arguments.moves {
            vec![(self.moved, "moved")]
        } else if arguments.verify {
            vec![(same, "equal"), (missing, "missing"), (older, "older in the new store")]
        } else if arguments.dry_run {
            vec![(missing, "to copy"), (older, "to replace"), (same, "there already")]
        } else {
            vec![(missing, "copied"), (older, "replaced"), (same, "there already")]
        };
        lines.extend([
            (self.of(Compared::Newer), "newer in the new store"),
            (self.of(Compared::Ended), "ended in the old store"),
            (self.of(Compared::EndedInNew), "left in the old store: ended in the new one"),
        ]);
        lines.retain(|(number, what)| *number > 0 || *what == "copied" || *what == "moved");
        let mut text: String =
            lines.iter().map(|(number, what)| format!("{} {what}\n", sessions(*number))).collect();
        for (code, (number, _)) in &self.refused {
            text.push_str(&format!("{} not copied: {code}\n", sessions(*number)));
        }
        text
    }

    /// A line for each reason for which sessions were left out.
    pub fn reasons(&self) -> String {
        let reasons = self.refused.iter();
        reasons.map(|(code, (_, first))| format!("{code}, for example: {first}\n")).collect()
    }

    pub fn as_json(&self, arguments: &CopyArguments, [from, to]: [&str; 2], seconds: f64) -> Value {
        let refused: BTreeMap<&str, u64> =
            self.refused.iter().map(|(code, (number, _))| (*code, *number)).collect();
        json!({
            "schema": 1,
            "from": from,
            "to": to,
            "changed": !arguments.dry_run && !arguments.verify,
            "missing": self.of(Compared::Missing),
            "older": self.of(Compared::Older),
            "same": self.of(Compared::Same),
            "newer": self.of(Compared::Newer),
            "ended": self.of(Compared::Ended),
            "ended_in_new": self.of(Compared::EndedInNew),
            "moved": self.moved,
            "refused": refused,
            "seconds": seconds,
        })
    }

    pub fn judge(&self, arguments: &CopyArguments) -> CommandResult {
        let sessions = |number, is, are| {
            let verb = if number == 1 { is } else { are };
            format!("{} {verb}", units::with_noun(number, "session"))
        };
        let behind = self.of(Compared::Missing) + self.of(Compared::Older);
        if arguments.verify && behind > 0 {
            return Err(CommandFailure::found(format!(
                "{} missing or older in the new store; run the command without --verify",
                sessions(behind, "is", "are")
            )));
        }
        let left = self.of(Compared::EndedInNew);
        if left > 0 {
            return Err(CommandFailure::found(format!(
                "{} in the old store and ended in the new one: by a log-out there, which counts, \
                 or by a move to the old store, from where only `copy --move` takes them back",
                sessions(left, "is", "are")
            )));
        }
        if self.refused() > 0 {
            return Err(CommandFailure::found(format!(
                "{} not copied; the same command tries those again that were in use",
                sessions(self.refused(), "was", "were")
            )));
        }
        Ok(())
    }
}

/// The other sessions can still be copied.
fn is_of_one_session(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::LockTimeout { .. }
            | ErrorKind::TooLarge { .. }
            | ErrorKind::InvalidId
            | ErrorKind::Denied
            | ErrorKind::Corrupt
            | ErrorKind::Stale
            | ErrorKind::Destroyed
            | ErrorKind::Gone
    )
}
