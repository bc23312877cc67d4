//! What looks at many rows: sweep, stat, list. All in small steps, so that nobody waits for them.
//!
//! A sweep visits the rows that are due, in order of `due`. Commits and touches seldom move that column, so a live row may be
//! due long before it expires: the sweep then files it under its true expiry. A session in use costs the index one move
//! for each of its lifetimes instead of one for each request.
//!
//! Leased rows are left alone. A lock that is taken between the look at it and the deletion does no harm: its owner reads
//! the clock after it has the lock, so it finds the record expired too, which reads as missing.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use sessile_core::{Bin, Budget, Cursor, Entry, Error, ErrorKind, Filter, Key, Page, Result, Stat, Swept, Timestamp};

use super::Postgres;
use super::answer::Row;
use super::failure::Failure;
use super::row::number;
use super::statements::Sql;
use crate::sql::{corrupt, ms};

/// Rows of one transaction of a sweep.
const BATCH_ROWS: u64 = 100;
const STAT_ROWS: i64 = 5_000;
const STAT_TIME_MAX: Duration = Duration::from_secs(2);

impl Postgres {
    pub(super) fn remove_expired(&self, budget: Budget) -> Result<Swept> {
        let start = Instant::now();
        let mut position = self.swept_to.lock().unwrap_or_else(PoisonError::into_inner);
        let mut swept = Swept::default();
        while swept.examined < budget.records_max && start.elapsed() < budget.time_max {
            let now = ms(self.clock.now());
            let most = BATCH_ROWS.min(budget.records_max - swept.examined);
            let (due, row) = position.unwrap_or((i64::MIN, i64::MIN));
            let limit = i64::try_from(most).unwrap_or(i64::MAX);
            // Sent twice it would do no harm, but count wrong by what the first one removed.
            let batch = self.pool.with(|link| {
                let answer = self.pool.run_one(link, Sql::Sweep, &[&now, &due, &row, &limit])?;
                let row = answer.row().ok_or_else(|| Failure::Client("no answer to a sweep".to_owned()))?;
                let last: (Option<i64>, Option<i64>) = (row.try_get(2)?, row.try_get(3)?);
                Ok((number(row, 0)?, number(row, 1)?, last.0.zip(last.1)))
            });
            let (examined, removed, last) = batch?;
            let examined = examined.unsigned_abs();
            swept.examined += examined;
            swept.removed += removed.unsigned_abs();
            swept.complete = examined < most;
            *position = last.filter(|_| !swept.complete);
            if swept.complete {
                break;
            }
        }
        Ok(swept)
    }

    /// Counts and sizes, in chunks so that no long read keeps the server from cleaning up.
    pub(super) fn count(&self) -> Result<Stat> {
        let (start, now) = (Instant::now(), ms(self.clock.now()));
        let mut stat = Stat { complete: true, ..Stat::default() };
        let mut after = i64::MIN;
        loop {
            let (seen, last) = self.pool.with(|link| {
                let answer = self.pool.run_one(link, Sql::Count, &[&now, &after, &STAT_ROWS])?;
                let row = answer.row().ok_or_else(|| Failure::Client("no answer to a count".to_owned()))?;
                let last: Option<i64> = row.try_get(1)?;
                let (sessions, expired, bytes) = (number(row, 2)?, number(row, 3)?, number(row, 4)?);
                stat.sessions += sessions.unsigned_abs();
                stat.expired += expired.unsigned_abs();
                stat.payload_bytes += bytes.unsigned_abs();
                let oldest: Option<i64> = row.try_get(5)?;
                let oldest = oldest.map(|ms| Timestamp::from_ms(ms.max(0).unsigned_abs()));
                stat.oldest_written = [stat.oldest_written, oldest].into_iter().flatten().min();
                Ok((number(row, 0)?, last))
            })?;
            match last {
                Some(last) if seen == STAT_ROWS => after = last,
                _ => return Ok(stat),
            }
            if start.elapsed() >= STAT_TIME_MAX {
                return Ok(Stat { complete: false, ..stat });
            }
        }
    }

    /// One page of the live records, in order of rows. A record keeps its row for life, regenerations included.
    pub(super) fn page(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let foreign = || Error::new(ErrorKind::InvalidArgument, "the cursor is not one of this store");
        let after = cursor.map_or(Ok(i64::MIN), |cursor| cursor.0.parse::<i64>().map_err(|_| foreign()))?;
        let most = i64::try_from(filter.entries_max).unwrap_or(i64::MAX);
        let now = self.clock.now();
        let answer = self.pool.with(|link| self.pool.run_one(link, Sql::List, &[&after, &most]))?;
        let mut page = Page::default();
        for row in &answer.rows {
            match entry(row) {
                Ok(Some(entry)) => {
                    let wanted = filter.bin.as_ref().is_none_or(|bin| bin == entry.key.bin())
                        && entry.payload_bytes >= filter.payload_bytes_min;
                    if wanted && entry.expires > now {
                        page.entries.push(entry);
                    }
                }
                Ok(None) => {}
                Err(error) => log::warn!("a listing passes over a row: {error:#}"),
            }
        }
        if let Some(last) = answer.rows.last()
            && answer.rows.len() == filter.entries_max
        {
            page.next = Some(Cursor(number(last, 0)?.to_string()));
        }
        Ok(page)
    }
}

/// The entry of a row; `None` for what is not a record.
fn entry(row: &Row) -> Result<Option<Entry>> {
    let wrong = |_| corrupt("a stored row has a column of the wrong type");
    if row.try_get::<i16>(3).map_err(wrong)? != 0 {
        return Ok(None);
    }
    let (bin, id): (&str, &str) = (row.try_get(1).map_err(wrong)?, row.try_get(2).map_err(wrong)?);
    let key = Bin::new(bin).and_then(|bin| Key::in_bin(bin, id));
    let unsigned =
        |column| u64::try_from(number(row, column)?).map_err(|_| corrupt("a stored row has a negative number"));
    Ok(Some(Entry {
        key: key.map_err(|_| corrupt("a stored row has a malformed bin or id"))?,
        payload_bytes: row.try_get::<Option<i64>>(8).map_err(wrong)?.unwrap_or(0).unsigned_abs(),
        version: unsigned(4)?,
        created: Timestamp::from_ms(unsigned(5)?),
        written: Timestamp::from_ms(unsigned(6)?),
        expires: Timestamp::from_ms(unsigned(7)?),
    }))
}
