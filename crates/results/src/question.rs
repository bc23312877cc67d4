//! The question of a row: an operation, and the conditions it was measured under.

use serde::{Deserialize, Serialize};

/// The operation that a contender was asked for, and its conditions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Question {
    pub experiment: String,
    pub op: String,
    pub workers: usize,
    pub sessions: usize,
    /// Payload size, or the mean size.
    pub payload_bytes: usize,
    /// `fixed`, or the spread of sizes.
    pub payload_spread: String,
    /// The workload, unless each request is a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    pub durability: String,
}

impl Question {
    /// Whether another question is one operation of as many workers, among as many sessions of
    /// alike sizes.
    pub fn is_alike(&self, other: &Question) -> bool {
        (&self.op, self.workers, self.sessions, &self.payload_spread)
            == (&other.op, other.workers, other.sessions, &other.payload_spread)
    }
}
