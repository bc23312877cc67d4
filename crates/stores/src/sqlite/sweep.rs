//! The batches of a sweep: one SELECT, a look at the lock of each row, one transaction.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use sessile_core::{Budget, Result, Swept, Timestamp};

use super::connection::{as_sweep, immediate};
use super::failure::failure;
use super::files::file_error;
use super::row::{cached, execute};
use super::{Sqlite, lock_name};
use crate::sql::ms;
use crate::sql::sweep::{self, DueAction, DueRow, SweptBatch};

/// Rows of one transaction, which is what another writer may have to wait for.
const BATCH_ROWS: u64 = 32;
/// A rest after each batch: SQLite's write lock has no queue.
const REST_MAX: Duration = Duration::from_millis(1);

pub(super) type Position = (i64, i64);

pub(super) fn sweep(store: &Sqlite, budget: Budget) -> Result<Swept> {
    store.read(|connection| {
        as_sweep(connection, || {
            sweep::sweep(&store.swept_to, budget, BATCH_ROWS, |after, most| {
                let start = Instant::now();
                let batch = sweep_batch(store, connection, after, most)?;
                if batch.examined == most {
                    std::thread::sleep((start.elapsed() / 2).min(REST_MAX));
                }
                Ok(batch)
            })
        })
    })
}

fn sweep_batch(
    store: &Sqlite,
    connection: &Connection,
    after: Option<&Position>,
    most: u64,
) -> Result<SweptBatch<Position>> {
    let now = store.clock.now();
    let sql = "SELECT due, bin, id, kind, expires, row FROM session
        WHERE due <= ?1 AND (due, row) > (?2, ?3) ORDER BY due, row LIMIT ?4";
    let (due, row) = after.copied().unwrap_or((i64::MIN, i64::MIN));
    let mut statement = cached(connection, sql)?;
    let mut rows = statement.query((ms(now), due, row, most)).map_err(failure)?;
    let mut batch = SweptBatch { examined: 0, removed: 0, last: None };
    let mut free = Vec::new();
    while let Some(row) = rows.next().map_err(failure)? {
        let integer = |column| row.get(column).map_err(failure);
        let position: Position = (integer(0)?, integer(5)?);
        batch.examined += 1;
        batch.last = Some(position);
        match DueRow::new(row) {
            Ok(due) => {
                if store.locks.holder(lock_name(&due.key)).map_err(file_error)?.is_none() {
                    free.push((position.1, due));
                }
            }
            // One damaged row must not keep the others from being swept.
            Err(error) => log::warn!("a sweep passes over a row: {error:#}"),
        }
    }
    drop(rows); // ends the read transaction, which could not become one that writes
    if !free.is_empty() {
        batch.removed = immediate(connection, || remove(connection, &free, now))?;
        store.every_second.sync_if_due();
    }
    Ok(batch)
}

/// Removes what is still due and expired, and files the living anew.
fn remove(connection: &Connection, rows: &[(i64, DueRow)], now: Timestamp) -> Result<u64> {
    let mut removed = 0;
    for (number, row) in rows {
        let action = row.action(now);
        let sql = if action == DueAction::Refile {
            "UPDATE session SET due = expires WHERE row = ?1 AND bin = ?2 AND id = ?3 AND kind = 0 \
             AND expires > ?4"
        } else {
            "DELETE FROM session WHERE row = ?1 AND bin = ?2 AND id = ?3 AND due <= ?4 AND (kind \
             <> 0 OR expires <= ?4)"
        };
        let values = (number, row.key.bin().name(), row.key.id(), ms(now));
        let changed = execute(connection, sql, values)?;
        removed += u64::from(changed == 1 && action == DueAction::RemoveRecord);
    }
    Ok(removed)
}
