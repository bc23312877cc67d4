//! A contender that was not measured, and why.

use serde::{Deserialize, Serialize};

use crate::naming;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub store: String,
    pub variant: String,
    /// At this number of workers; `None`: at all.
    pub workers: Option<usize>,
    pub reason: String,
}

impl LeftOut {
    /// Name and variant as one word, and the number of workers if given.
    pub fn title(&self) -> String {
        let workers =
            self.workers.map_or(String::new(), |workers| format!(" at {workers} workers"));
        naming::title(&self.store, &self.variant) + &workers
    }
}
