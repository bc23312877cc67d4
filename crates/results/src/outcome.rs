//! The faults of a row: errors, misses, lost updates.

use serde::{Deserialize, Serialize};

/// The faults of a measurement.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Failed operations and damaged payloads.
    pub errors: u64,
    pub first_error: Option<String>,
    /// Sessions that were not there.
    pub misses: u64,
    /// Acknowledged updates missing in the store. Counted after the last round, on the contender's
    /// row with the most workers.
    pub lost: u64,
    /// Why there are no figures.
    pub failed: Option<String>,
}

impl Outcome {
    /// Why there are no figures, or the first error.
    pub fn why(&self) -> &str {
        let why = self.failed.as_deref().or(self.first_error.as_deref());
        why.unwrap_or("no error was reported")
    }
}
