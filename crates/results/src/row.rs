//! A row of a result: one contender, operation and number of workers.

use serde::{Deserialize, Serialize};

use crate::{
    Faults, Figures, Outcome, Oversize, Question, Rebuild, Removal, Subject, WebFigures, reference,
};

/// The tier of the user's own server.
pub const AS_CONFIGURED: &str = "as configured";
/// Stores whose sessions lie on the disk of a server, and these servers.
pub const ON_SERVER_DISK: [(&str, &str); 2] = [("mysql", "mariadbd"), ("postgres", "postgres")];

/// A measured combination of contender, operation and number of workers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    #[serde(flatten)]
    pub subject: Subject,
    #[serde(flatten)]
    pub question: Question,
    #[serde(flatten)]
    pub figures: Figures,
    #[serde(flatten)]
    pub outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oversize: Option<Oversize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<Rebuild>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removal: Option<Removal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<WebFigures>,
}

impl Row {
    /// The row as one that failed, and why.
    pub fn into_failed(mut self, why: String) -> Row {
        self.outcome.failed = Some(why);
        self
    }

    /// The contender, operation and number of workers in words.
    pub fn in_words(&self) -> String {
        let Question { op, workers, .. } = &self.question;
        format!("{} {op} at {workers}", self.subject.title())
    }

    /// Lost updates are a fault only of a contender that takes locks.
    pub fn is_bad(&self) -> bool {
        let unlocked = || reference::by_name(&self.subject.store).is_some_and(|it| it.unlocked);
        let it = &self.outcome;
        it.failed.is_some() || it.errors + it.misses > 0 || it.lost > 0 && !unlocked()
    }

    /// Bytes of a session as a multiple of its payload. `None` where they are no space of sessions:
    /// not weighed, or of a server with a disk, of which only the growth of its memory is known.
    pub fn times_payload(&self) -> Option<f64> {
        let (store, bytes) = (&self.subject.store, self.figures.bytes_per_session);
        let server = reference::by_name(store).and_then(|it| it.server);
        let keeps_on_disk = ON_SERVER_DISK
            .iter()
            .any(|(name, of)| name == store || server.is_some_and(|it| it == *of));
        (bytes > 0 && !keeps_on_disk)
            .then(|| bytes as f64 / self.question.payload_bytes.max(1) as f64)
    }

    /// The faults of a row that has figures all the same, briefly. Updates that a row without a
    /// lock lost are none.
    pub fn fault_counts(&self) -> Option<String> {
        if !self.is_bad() {
            return None;
        }
        let Outcome { errors, misses, lost, .. } = self.outcome;
        let counts = [("errors", errors), ("misses", misses), ("lost", lost)];
        let found = counts.iter().filter(|(_, count)| *count > 0);
        let said: Vec<String> = found.map(|(what, count)| format!("{count} {what}")).collect();
        (!said.is_empty()).then(|| said.join(", "))
    }

    /// What went wrong with the reason; `None` if the row is sound.
    pub fn complaint(&self) -> Option<String> {
        if let Some(why) = &self.outcome.failed {
            return Some(format!("failed: {why}"));
        }
        let fault = self.fault_counts()?;
        let first = self.outcome.first_error.as_ref();
        Some(first.map_or(fault.clone(), |first| format!("{fault}; the first: {first}")))
    }

    pub fn fault(&self) -> String {
        let Outcome { errors, misses, lost, .. } = self.outcome;
        let counts = || format!("{errors} errors, {misses} misses, {lost} lost updates");
        let of_kills = self.faults.as_ref().map(Faults::in_words).filter(|words| !words.is_empty());
        self.outcome.failed.clone().or(of_kills).unwrap_or_else(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_row_are_no_levels_of_its_json() {
        let json = serde_json::to_value(Row::default()).unwrap();
        let parts = ["subject", "question", "figures", "outcome"];
        assert!(parts.iter().all(|part| json.get(part).is_none()), "{json}");
        for name in ["store", "experiment", "rounds", "errors"] {
            assert!(json.get(name).is_some(), "{json}");
        }
    }
}
