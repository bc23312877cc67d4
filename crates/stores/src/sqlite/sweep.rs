//! What looks at many rows: sweep, stat, list. All in small steps, so that nobody waits for them.
//!
//! A sweep visits the rows that are due, in order of `due`. Commits and touches do not move that column (see
//! `lease.rs`), so a live row may be due long before it expires: the sweep then files it under its true expiry.
//! A session in use costs the index one move for each of its lifetimes instead of one for each request.
//!
//! Leased rows are left alone. A lock that is taken between the look at it and the deletion does no harm: its
//! owner reads the clock after it has the lock, so it finds the record expired too, which reads as missing.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use sessile_core::{Bin, Budget, Cursor, Entry, Error, ErrorKind, Filter, Key, Page, Result, Stat, Swept, Timestamp};

use super::connection::{as_sweep, immediate};
use super::failure::failure;
use super::row::prepare;
use super::schema::file_error;
use super::{Sqlite, lock_name};
use crate::sql::{corrupt, ms};

/// Rows of one transaction: its duration is what another writer may have to wait.
const BATCH_ROWS: u64 = 32;
const STAT_ROWS: i64 = 1_000;
const STAT_TIME_MAX: Duration = Duration::from_secs(2);

struct Due {
    row: i64,
    key: Key,
    live: bool,
    expires: i64,
}

#[derive(Default)]
struct Batch {
    rows: Vec<Due>,
    /// Rows looked at, those that are damaged included.
    examined: u64,
    last: Option<(i64, i64)>,
}

/// One call of `sweep`.
pub(super) fn sweep(store: &Sqlite, budget: Budget) -> Result<Swept> {
    store.read(|connection| as_sweep(connection, || sweep_on(connection, store, budget)))
}

fn sweep_on(connection: &Connection, store: &Sqlite, budget: Budget) -> Result<Swept> {
    let start = Instant::now();
    let mut position = store.swept_to.lock().unwrap_or_else(PoisonError::into_inner);
    let mut swept = Swept::default();
    while swept.examined < budget.records_max && start.elapsed() < budget.time_max {
        let batch_start = Instant::now();
        let now = ms(store.clock.now());
        let most = BATCH_ROWS.min(budget.records_max - swept.examined);
        let mut batch = select_due(connection, *position, now, most)?;
        swept.examined += batch.examined;
        swept.complete = batch.examined < most;
        let mut free = Vec::with_capacity(batch.rows.len());
        for row in batch.rows.drain(..) {
            if store.locks.holder(lock_name(&row.key)).map_err(file_error)?.is_none() {
                free.push(row);
            }
        }
        if !free.is_empty() {
            swept.removed += immediate(connection, || remove(connection, &free, now))?;
            store.sync_if_due();
        }
        *position = if swept.complete { None } else { batch.last };
        if swept.complete {
            break;
        }
        // SQLite's write lock has no queue: leave it free for a moment, or waiting writers would only meet it taken.
        std::thread::sleep((batch_start.elapsed() / 2).min(Duration::from_millis(1)));
    }
    Ok(swept)
}

fn select_due(connection: &Connection, after: Option<(i64, i64)>, now: i64, most: u64) -> Result<Batch> {
    let sql = "SELECT row, bin, id, kind, expires, due FROM session
        WHERE due <= ?1 AND (due, row) > (?2, ?3) ORDER BY due, row LIMIT ?4";
    let (due, row) = after.unwrap_or((i64::MIN, i64::MIN));
    let mut statement = prepare(connection, sql)?;
    let mut rows = statement.query((now, due, row, most)).map_err(failure)?;
    let mut batch = Batch::default();
    while let Some(row) = rows.next().map_err(failure)? {
        batch.examined += 1;
        batch.last = Some((row.get(5).map_err(failure)?, row.get(0).map_err(failure)?));
        match read_due(row) {
            Ok(due) => batch.rows.push(due),
            // One damaged row must not keep all others from being swept; it stays as it is.
            Err(error) => log::warn!("a sweep passes over a row: {error:#}"),
        }
    }
    Ok(batch)
}

fn read_due(row: &rusqlite::Row<'_>) -> Result<Due> {
    let read = || -> rusqlite::Result<(i64, String, String, i64, i64)> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    };
    let (number, bin, id, kind, expires) = read().map_err(failure)?;
    Ok(Due { row: number, key: stored_key(&bin, &id)?, live: kind == 0, expires })
}

fn stored_key(bin: &str, id: &str) -> Result<Key> {
    let key = Bin::new(bin).and_then(|bin| Key::in_bin(bin, id));
    key.map_err(|_| corrupt("a stored row has a malformed bin or id"))
}

/// Removes what is still due and expired, puts right what is not, and counts the records removed.
fn remove(connection: &Connection, rows: &[Due], now: i64) -> Result<u64> {
    let mut delete = prepare(
        connection,
        "DELETE FROM session WHERE row = ?1 AND bin = ?2 AND id = ?3 AND due <= ?4 AND (kind <> 0 OR expires <= ?4)",
    )?;
    let mut refile = prepare(
        connection,
        "UPDATE session SET due = expires WHERE row = ?1 AND bin = ?2 AND id = ?3 AND kind = 0 AND expires > ?4",
    )?;
    let mut removed = 0;
    for row in rows {
        let values = (row.row, row.key.bin().name(), row.key.id(), now);
        if row.live && row.expires > now {
            refile.execute(values).map_err(failure)?;
        } else if delete.execute(values).map_err(failure)? == 1 {
            removed += u64::from(row.live);
        }
    }
    Ok(removed)
}

/// Counts and sizes, in chunks so that no long read keeps the log from being reused.
pub(super) fn stat(connection: &Connection, now: Timestamp) -> Result<Stat> {
    let start = Instant::now();
    let sql = "SELECT row, expires, written, length(payload) FROM session WHERE row > ?1 AND kind = 0
        ORDER BY row LIMIT ?2";
    let mut stat = Stat { complete: true, ..Stat::default() };
    let mut last = i64::MIN;
    loop {
        let mut statement = prepare(connection, sql)?;
        let mut rows = statement.query((last, STAT_ROWS)).map_err(failure)?;
        let mut count = 0;
        while let Some(row) = rows.next().map_err(failure)? {
            let read =
                || Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get::<_, u64>(2)?, row.get::<_, Option<u64>>(3)?));
            let (number, expires, written, bytes) = read().map_err(failure)?;
            (last, count) = (number, count + 1);
            if expires <= ms(now) {
                stat.expired += 1;
                continue;
            }
            stat.sessions += 1;
            stat.payload_bytes += bytes.unwrap_or(0);
            let written = Timestamp::from_ms(written);
            stat.oldest_written = Some(stat.oldest_written.map_or(written, |oldest| oldest.min(written)));
        }
        if count < STAT_ROWS {
            return Ok(stat);
        }
        if start.elapsed() >= STAT_TIME_MAX {
            return Ok(Stat { complete: false, ..stat });
        }
    }
}

/// One page of the live records, in order of rows. A record keeps its row for life, regenerations included.
pub(super) fn list(connection: &Connection, cursor: Option<&Cursor>, filter: &Filter, now: Timestamp) -> Result<Page> {
    let foreign = || Error::new(ErrorKind::InvalidArgument, "the cursor is not one of this store");
    let after = cursor.map_or(Ok(i64::MIN), |cursor| cursor.0.parse::<i64>().map_err(|_| foreign()))?;
    let sql = "SELECT row, bin, id, kind, version, created, written, expires, length(payload) FROM session
        WHERE row > ?1 ORDER BY row LIMIT ?2";
    let most = i64::try_from(filter.entries_max).unwrap_or(i64::MAX);
    let mut statement = prepare(connection, sql)?;
    let mut rows = statement.query((after, most)).map_err(failure)?;
    let mut page = Page::default();
    let (mut count, mut last) = (0, after);
    while let Some(row) = rows.next().map_err(failure)? {
        (count, last) = (count + 1, row.get(0).map_err(failure)?);
        if row.get::<_, i64>(3).map_err(failure)? != 0 {
            continue;
        }
        let entry = match read_entry(row) {
            Ok(entry) => entry,
            Err(error) => {
                log::warn!("a listing passes over a row: {error:#}");
                continue;
            }
        };
        let wanted = filter.bin.as_ref().is_none_or(|bin| bin == entry.key.bin())
            && entry.payload_bytes >= filter.payload_bytes_min;
        if wanted && entry.expires > now {
            page.entries.push(entry);
        }
    }
    if count == most {
        page.next = Some(Cursor(last.to_string()));
    }
    Ok(page)
}

fn read_entry(row: &rusqlite::Row<'_>) -> Result<Entry> {
    let read = || -> rusqlite::Result<(String, String, [u64; 5])> {
        let numbers = [row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?, row.get::<_, Option<u64>>(8)?.unwrap_or(0)];
        Ok((row.get(1)?, row.get(2)?, numbers))
    };
    let (bin, id, [version, created, written, expires, payload_bytes]) = read().map_err(failure)?;
    Ok(Entry {
        key: stored_key(&bin, &id)?,
        payload_bytes,
        version,
        created: Timestamp::from_ms(created),
        written: Timestamp::from_ms(written),
        expires: Timestamp::from_ms(expires),
    })
}
