//! What looks at many rows: sweep, stat, list. All in small steps, so that nobody waits for them.
//!
//! A sweep visits the rows that are due, in order of `due`. Commits and touches do not move that column unless the life of
//! the record gets shorter, so a live row may be due long before it expires: the sweep then files it under its true expiry.
//! A session in use costs the index one move for each of its lifetimes instead of one for each request.
//!
//! A batch is removed by statements that name its rows by primary key and lock nothing else. Leased rows are left alone. A
//! lock that is taken between the look at it and the deletion does no harm: its owner reads the clock after it has the lock,
//! so it finds the record expired too, which reads as missing.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use mysql::{Row, Value as Got};
use sessile_core::{Bin, Budget, Cursor, Entry, Error, ErrorKind, Filter, Key, Page, Result, Stat, Swept, Timestamp};

use super::Mysql;
use super::connection::Link;
use super::failure::Attempt;
use super::row::{integer, text, time};
use super::statement::{Message, Value, of_key};
use crate::sql::corrupt;

/// Rows of one transaction: its duration is what the commit of another session may have to wait.
const BATCH_ROWS: u64 = 100;
const STAT_ROWS: usize = 1_000;
const STAT_TIME_MAX: Duration = Duration::from_secs(2);

/// A row that is due.
struct Due {
    key: Key,
    live: bool,
    expires: Timestamp,
}

/// Where a sweep stopped: the `due` and the key.
pub(super) type Position = (i64, Key);

#[derive(Default)]
struct Batch {
    rows: Vec<Due>,
    /// Rows looked at, those that are damaged included.
    examined: u64,
    last: Option<Position>,
}

impl Mysql {
    pub(super) fn sweep_within(&self, budget: Budget) -> Result<Swept> {
        let start = Instant::now();
        let mut position = self.swept_to.lock().unwrap_or_else(PoisonError::into_inner);
        let mut swept = Swept::default();
        while !swept.complete && swept.examined < budget.records_max && start.elapsed() < budget.time_max {
            let most = BATCH_ROWS.min(budget.records_max - swept.examined);
            let (batch, removed) = self.with_link(|link| {
                let now = self.clock.now();
                let mut batch = self.select_due(link, position.as_ref(), now, most)?;
                self.leave_out_leased(link, &mut batch)?;
                let removed = self.remove(link, &batch.rows, now)?;
                Ok((batch, removed))
            })?;
            swept.examined += batch.examined;
            swept.removed += removed;
            swept.complete = batch.examined < most;
            *position = if swept.complete { None } else { batch.last };
        }
        Ok(swept)
    }

    fn select_due(&self, link: &mut Link, after: Option<&Position>, now: Timestamp, most: u64) -> Attempt<Batch> {
        let table = &self.table;
        let most = Value::Number(i64::try_from(most).unwrap_or(i64::MAX));
        let columns = format!("SELECT due, bin, id, kind, expires FROM {table} FORCE INDEX (due) WHERE due <= ?");
        let order = "ORDER BY due, bin, id LIMIT ?";
        let message = match after {
            None => Message::new().then(&format!("{columns} {order}"), &[Value::time(now), most]),
            Some((due, key)) => {
                let after = "AND due >= ? AND (due > ? OR bin > ? OR (bin = ? AND id > ?))";
                let [bin, id] = of_key(key);
                let due = Value::Number(*due);
                let values = [Value::time(now), due, due, bin, bin, id, most];
                Message::new().then(&format!("{columns} {after} {order}"), &values)
            }
        };
        let mut batch = Batch::default();
        for row in link.ask(&message)?.next().rows() {
            batch.examined += 1;
            match read_due(row) {
                Ok((due, row)) => {
                    batch.last = Some((due, row.key.clone()));
                    batch.rows.push(row);
                }
                // One damaged row must not keep all others from being swept; it stays as it is.
                Err(error) => log::warn!("a sweep passes over a row: {error:#}"),
            }
        }
        Ok(batch)
    }

    fn leave_out_leased(&self, link: &mut Link, batch: &mut Batch) -> Attempt<()> {
        if batch.rows.is_empty() {
            return Ok(());
        }
        let locks: Vec<String> = batch.rows.iter().map(|row| self.locks.of(&row.key)).collect();
        let values: Vec<Value<'_>> = locks.iter().map(|lock| Value::Word(lock)).collect();
        let each = vec!["IS_USED_LOCK(?) IS NULL"; locks.len()].join(", ");
        let row = link.ask(&Message::new().then(&format!("SELECT {each}"), &values))?.next().row();
        let free = row.map(Row::unwrap).unwrap_or_default();
        let mut free = free.iter().map(|free| integer(free).is_ok_and(|free| free == 1));
        batch.rows.retain(|_| free.next().unwrap_or(false));
        Ok(())
    }

    /// Removes what is still due and expired, puts right what is not, and counts the records removed.
    fn remove(&self, link: &mut Link, rows: &[Due], now: Timestamp) -> Attempt<u64> {
        let table = &self.table;
        let mut message = Message::new();
        let mut counted = Vec::new();
        let mut bins: Vec<&Bin> = rows.iter().map(|row| row.key.bin()).collect();
        bins.sort();
        bins.dedup();
        for bin in bins {
            let ids = |wanted: &dyn Fn(&Due) -> bool| -> Vec<&str> {
                rows.iter().filter(|row| row.key.bin() == bin && wanted(row)).map(|row| row.key.id()).collect()
            };
            let mut add = |start: &str, ids: Vec<&str>, end: &str, count: bool| {
                if ids.is_empty() {
                    return;
                }
                let places = vec!["?"; ids.len()].join(", ");
                let mut values = vec![Value::Word(bin.name())];
                values.extend(ids.iter().map(|id| Value::Word(id)));
                values.extend([Value::time(now), Value::time(now)]);
                message.add(&format!("{start} WHERE bin = ? AND id IN ({places}) {end}"), &values);
                counted.push(count);
            };
            let delete = format!("DELETE FROM {table}");
            add(
                &delete,
                ids(&|row| row.live && row.expires <= now),
                "AND kind = 0 AND due <= ? AND expires <= ?",
                true,
            );
            add(&delete, ids(&|row| !row.live), "AND kind <> 0 AND due <= ? AND due <= ?", false);
            let refile = format!("UPDATE {table} SET due = expires");
            add(&refile, ids(&|row| row.live && row.expires > now), "AND kind = 0 AND due <= ? AND expires > ?", false);
        }
        if counted.is_empty() {
            return Ok(0);
        }
        let mut answers = link.ask(&message)?;
        let removed = counted.into_iter().map(|count| (count, answers.next().changed()));
        Ok(removed.filter(|(count, _)| *count).map(|(_, changed)| changed).sum())
    }

    /// Counts and sizes, in chunks in the order of the table.
    pub(super) fn count(&self) -> Result<Stat> {
        let (start, now) = (Instant::now(), self.clock.now());
        let mut stat = Stat { complete: true, ..Stat::default() };
        let mut last: Option<Key> = None;
        loop {
            let rows = self.with_link(|link| self.chunk(link, last.as_ref(), None, STAT_ROWS))?;
            let full = rows.len() == STAT_ROWS;
            for row in rows {
                let Ok(row) = read_row(row) else { continue };
                if let Some(entry) = row.entry {
                    add(&mut stat, &entry, now);
                }
                last = Some(row.key);
            }
            if !full {
                return Ok(stat);
            }
            if start.elapsed() >= STAT_TIME_MAX {
                return Ok(Stat { complete: false, ..stat });
            }
        }
    }

    /// One page of the live records, in order of keys.
    pub(super) fn page(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let after = cursor.map(parse).transpose()?;
        let now = self.clock.now();
        let bin = filter.bin.as_ref();
        let rows = self.with_link(|link| self.chunk(link, after.as_ref(), bin, filter.entries_max))?;
        let full = rows.len() == filter.entries_max;
        let mut page = Page::default();
        let mut last = None;
        for row in rows {
            match read_row(row) {
                Ok(row) => {
                    let wanted = |entry: &Entry| entry.payload_bytes >= filter.payload_bytes_min && entry.expires > now;
                    page.entries.extend(row.entry.filter(wanted));
                    last = Some(row.key);
                }
                Err(error) => log::warn!("a listing passes over a row: {error:#}"),
            }
        }
        page.next = last.filter(|_| full).map(|key| Cursor(format!("{}/{}", key.bin().name(), key.id())));
        Ok(page)
    }

    /// The heads of some rows behind a key.
    fn chunk(&self, link: &mut Link, after: Option<&Key>, bin: Option<&Bin>, most: usize) -> Attempt<Vec<Row>> {
        let table = &self.table;
        let most = Value::Number(i64::try_from(most).unwrap_or(i64::MAX));
        let mut conditions = Vec::new();
        let mut values = Vec::new();
        if let Some(bin) = bin {
            conditions.push("bin = ?");
            values.push(Value::Word(bin.name()));
        }
        if let Some(key) = after {
            // Once more in a form in which every server finds the place in the index.
            conditions.push("bin >= ? AND (bin > ? OR id > ?)");
            let [bin, id] = of_key(key);
            values.extend([bin, bin, id]);
        }
        let filter = if conditions.is_empty() { String::new() } else { format!("WHERE {}", conditions.join(" AND ")) };
        values.push(most);
        let statement = format!(
            "SELECT bin, id, kind, version, created, written, expires, bytes FROM {table} FORCE INDEX (PRIMARY) {filter} \
             ORDER BY bin, id LIMIT ?"
        );
        Ok(link.ask(&Message::new().then(&statement, &values))?.next().rows())
    }
}

fn stored_key(bin: Option<Got>, id: Option<Got>) -> Result<Key> {
    let key = bin.and_then(text).zip(id.and_then(text));
    let key = key.and_then(|(bin, id)| Key::in_bin(Bin::new(&bin).ok()?, &id).ok());
    key.ok_or_else(|| corrupt("a stored row has a malformed bin or id"))
}

fn read_due(row: Row) -> Result<(i64, Due)> {
    let mut columns = row.unwrap().into_iter();
    let due = integer(&columns.next().unwrap_or(Got::NULL))?;
    let key = stored_key(columns.next(), columns.next())?;
    let live = integer(&columns.next().unwrap_or(Got::NULL))? == 0;
    Ok((due, Due { key, live, expires: time(&columns.next().unwrap_or(Got::NULL))? }))
}

struct Listed {
    key: Key,
    /// Of a record, perhaps expired.
    entry: Option<Entry>,
}

fn read_row(row: Row) -> Result<Listed> {
    let mut columns = row.unwrap().into_iter();
    let key = stored_key(columns.next(), columns.next())?;
    let mut next = || columns.next().unwrap_or(Got::NULL);
    if integer(&next())? != 0 {
        return Ok(Listed { key, entry: None });
    }
    let number = |value: Got| Ok(time(&value)?.as_ms());
    let entry = Entry {
        key: key.clone(),
        version: number(next())?,
        created: time(&next())?,
        written: time(&next())?,
        expires: time(&next())?,
        payload_bytes: number(next())?,
    };
    Ok(Listed { key, entry: Some(entry) })
}

fn add(stat: &mut Stat, entry: &Entry, now: Timestamp) {
    if entry.expires <= now {
        stat.expired += 1;
        return;
    }
    stat.sessions += 1;
    stat.payload_bytes += entry.payload_bytes;
    stat.oldest_written = Some(stat.oldest_written.map_or(entry.written, |oldest| oldest.min(entry.written)));
}

/// `bin/id`
fn parse(cursor: &Cursor) -> Result<Key> {
    let key = cursor.0.split_once('/').and_then(|(bin, id)| Key::in_bin(Bin::new(bin).ok()?, id).ok());
    key.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "the cursor is not one of this store"))
}
