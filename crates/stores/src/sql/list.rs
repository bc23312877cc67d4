//! List and stat: the rows in the order of the table, some at a time, because a long read keeps the
//! database from cleaning up.

use std::time::{Duration, Instant};

use sessile_core::{Cursor, Filter, Head, Listed, Page, Result, Stat, Timestamp};

use super::row::{Columns, key, owner, time, unsigned};

const STAT_ROWS: usize = 1_000;
const STAT_TIME_MAX: Duration = Duration::from_secs(2);

pub struct Chunk {
    /// `None` for a tombstone or an alias, an error for a damaged row.
    pub records: Vec<Result<Option<Listed>>>,
    /// The position of the last row.
    pub last: Option<Cursor>,
}

/// The position after a row with this number. A record keeps it for life, regenerations included.
pub fn after_row(number: i64) -> Cursor {
    Cursor(number.to_string())
}

/// The number of [`after_row`], or one before all rows.
pub fn row_of(cursor: Option<&Cursor>) -> Result<i64> {
    cursor.map_or(Ok(i64::MIN), |cursor| cursor.parse(|text| text.parse().ok()))
}

/// Decodes `bin, id, kind, version, created, written, expires`, the bytes of the payload and
/// `owner`.
pub fn listed(row: &impl Columns) -> Result<Option<Listed>> {
    if row.integer(2)? != Some(0) {
        return Ok(None);
    }
    let head = Head {
        version: unsigned(row, 3)?,
        created: time(row, 4)?,
        written: time(row, 5)?,
        expires: time(row, 6)?,
        ends: None,
        owner: owner(row, 8)?,
    };
    let payload_bytes = row.integer(7)?.unwrap_or(0).unsigned_abs();
    Ok(Some(Listed { key: key(row, 0)?, payload_bytes, head }))
}

/// From as many rows as the filter wants.
pub fn page(filter: &Filter, now: Timestamp, Chunk { records, last }: Chunk) -> Page {
    let full = records.len() == filter.entries_max;
    let mut page = Page { next: last.filter(|_| full), ..Page::default() };
    for record in records {
        match record {
            Ok(Some(record))
                if !record.head.expired(now)
                    && filter.matches(&record.key, record.payload_bytes, record.head.owner) =>
            {
                page.entries.push(record);
            }
            Ok(_) => {}
            Err(error) => log::warn!("a listing passes over a row: {error:#}"),
        }
    }
    page
}

/// `next_rows` reads the rows after a position, at most so many. Passes over damaged rows.
pub fn stat(
    now: Timestamp,
    mut next_rows: impl FnMut(Option<&Cursor>, usize) -> Result<Chunk>,
) -> Result<Stat> {
    let (start, mut stat, mut after) = (Instant::now(), Stat::default(), None);
    loop {
        let Chunk { records, last } = next_rows(after.as_ref(), STAT_ROWS)?;
        stat.complete = last.is_none() || records.len() < STAT_ROWS;
        for record in records.into_iter().flatten().flatten() {
            stat.count(&record.head, record.payload_bytes, now);
        }
        if stat.complete || start.elapsed() >= STAT_TIME_MAX {
            return Ok(stat);
        }
        after = last;
    }
}
