//! A sweep, in small batches, because others wait for each.
//!
//! A sweep visits the rows that are due, in order of `due`. Commits and touches move that column
//! only for a shorter life, so a live row may be due long before it expires; the sweep then files
//! the row under its true expiry. A session in use costs the index one move for each of its
//! lifetimes, instead of one for each request.
//!
//! Leased rows are left alone. A lock that is taken between the look at it and the deletion does no
//! harm: its owner reads the clock after it has the lock, so it finds the record expired, too.

use std::time::Instant;

use sessile_core::{Budget, Key, Result, Swept, Timestamp};

use super::row::{Columns, key, time, wrong_type};
use crate::locks::process_local::ProcessLocal;

/// Where the last sweep stopped; `None` at the start. `P` names a row in the order of `due`.
pub type SweptTo<P> = ProcessLocal<Option<P>>;

pub struct SweptBatch<P> {
    /// Rows looked at, damaged ones included.
    pub examined: u64,
    pub removed: u64,
    pub last: Option<P>,
}

/// One call of `sweep`. `sweep_batch` looks at the next rows behind a position, at most so many.
pub fn sweep<P>(
    swept_to: &SweptTo<P>,
    budget: Budget,
    batch_rows: u64,
    sweep_batch: impl FnMut(Option<&P>, u64) -> Result<SweptBatch<P>>,
) -> Result<Swept> {
    let mut position = swept_to.take();
    let swept = sweep_from(&mut position, budget, batch_rows, sweep_batch);
    swept_to.put(position);
    swept
}

fn sweep_from<P>(
    position: &mut Option<P>,
    budget: Budget,
    batch_rows: u64,
    mut sweep_batch: impl FnMut(Option<&P>, u64) -> Result<SweptBatch<P>>,
) -> Result<Swept> {
    let start = Instant::now();
    let mut swept = Swept::default();
    while !swept.complete
        && swept.examined < budget.records_max
        && start.elapsed() < budget.time_max
    {
        let most = batch_rows.min(budget.records_max - swept.examined);
        let batch = sweep_batch(position.as_ref(), most)?;
        swept.examined += batch.examined;
        swept.removed += batch.removed;
        swept.complete = batch.examined < most;
        *position = batch.last.filter(|_| !swept.complete);
    }
    Ok(swept)
}

pub struct DueRow {
    pub due: i64,
    pub key: Key,
    live: bool,
    expires: Timestamp,
}

/// What a sweep does with a row that is due and not leased.
#[derive(PartialEq, Eq)]
pub enum DueAction {
    /// An expired record, which counts.
    RemoveRecord,
    /// A tombstone or an alias, which does not count.
    Remove,
    /// A live record gets its true expiry as `due`.
    Refile,
}

impl DueRow {
    /// Decodes `due, bin, id, kind, expires`.
    pub fn new(row: &impl Columns) -> Result<DueRow> {
        Ok(DueRow {
            due: row.integer(0)?.ok_or_else(wrong_type)?,
            key: key(row, 1)?,
            live: row.integer(3)?.ok_or_else(wrong_type)? == 0,
            expires: time(row, 4)?,
        })
    }

    pub fn action(&self, now: Timestamp) -> DueAction {
        match (self.live, self.expires > now) {
            (true, true) => DueAction::Refile,
            (true, false) => DueAction::RemoveRecord,
            (false, _) => DueAction::Remove,
        }
    }
}
