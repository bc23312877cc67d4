//! Memory of the worker processes of a row.

use serde::{Deserialize, Serialize};

/// Sums over the workers of a row, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerMemory {
    /// Page tables (`VmPTE`): each worker that maps a store has its own.
    pub page_tables: u64,
    /// Resident memory (`VmRSS`); shared memory counts in each worker.
    pub resident: u64,
    /// Proportional resident memory (`Pss`); shared memory is divided among the workers.
    pub proportional: u64,
    /// Resident memory with prepared ids and an empty store: the part of the harness.
    pub prepared: u64,
}
