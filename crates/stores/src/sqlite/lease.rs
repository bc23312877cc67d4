//! A lease: what `begin` saw, and the changes that are allowed only if it is still so.
//!
//! Invariant: every change compares the stored row with what was seen, in the statement or transaction that
//! makes it. The byte lock keeps others away; this is what makes a commit right even if that fails.

use std::time::Duration;

use rusqlite::Connection;
use sessile_core::{Error, ErrorKind, Key, Limits, Record, Result, Timestamp, Ttl};

use super::connection::immediate;
use super::failure::failure;
use super::new_record;
use super::row::{self, Content, Row, ms, prepare};
use crate::byte_lock::ByteLock;

/// A held session lock. Dropping it frees the lock, except in a forked child.
pub(super) struct Held {
    key: Key,
    lock: ByteLock,
    pub fence: u64,
    begun: Timestamp,
    seen: Seen,
}

/// What the lease goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// A live record: its row, version and creation.
    Live { row: i64, version: u64, created: Timestamp },
    /// None, but perhaps a tombstone.
    Nothing { mark: Option<i64> },
}

impl Seen {
    fn of(row: Option<&Row>, now: Timestamp) -> Seen {
        match row.map(|row| (row.row, &row.content)) {
            Some((row, Content::Live(record))) if !record.expired(now) => {
                Seen::Live { row, version: record.version, created: record.created }
            }
            Some((_, Content::Destroyed { mark, .. })) => Seen::Nothing { mark: Some(*mark) },
            _ => Seen::Nothing { mark: None },
        }
    }
}

fn destroyed() -> Error {
    Error::new(ErrorKind::Destroyed, "the session was destroyed after it was read")
}

fn replaced() -> Error {
    Error::new(ErrorKind::Stale, "the record was replaced after it was read")
        .advice("do not delete the lock file of a database in use")
}

fn gone() -> Error {
    Error::new(ErrorKind::Gone, "the record is gone, and so long ago that it may have been destroyed")
}

pub(super) fn nothing_to_touch() -> Error {
    Error::new(ErrorKind::Gone, "there is no record to touch")
}

impl Held {
    pub fn new(key: Key, lock: ByteLock, fence: u64, begun: Timestamp, row: Option<&Row>) -> Held {
        Held { key, lock, fence, begun, seen: Seen::of(row, begun) }
    }

    /// Follows the record to its new key. The old lock is dropped, which frees it.
    pub fn moved(&mut self, key: Key, lock: ByteLock, seen: Seen) {
        (self.key, self.lock, self.seen) = (key, lock, seen);
    }

    /// Replaces the payload, if the row is still what was seen.
    pub fn commit(&self, connection: &Connection, payload: &[u8], ttl: Ttl, now: Timestamp) -> Result<()> {
        self.check_owner()?;
        if let Seen::Live { row, version, created } = self.seen
            && self.replace(connection, (row, version, created), payload, ttl, now)?
        {
            return Ok(());
        }
        immediate(connection, || {
            let record = match self.check(connection, now)? {
                Some(Row { content: Content::Live(old), .. }) => {
                    let (expires, ends) = ttl.deadline(now, old.created, old.ends);
                    Record { version: old.version + 1, written: now, expires, ends, ..old }
                }
                _ => new_record(ttl, now),
            };
            row::put(connection, &self.key, &record, payload)
        })
    }

    /// The common case in one statement, which is its own transaction. It leaves both indexes alone: `due` may
    /// stay earlier than the expiry, a sweep then looks once and puts it right. False when a check in it failed.
    fn replace(
        &self,
        connection: &Connection,
        (row, version, created): (i64, u64, Timestamp),
        payload: &[u8],
        ttl: Ttl,
        now: Timestamp,
    ) -> Result<bool> {
        // The stored absolute end is used in the statement, because a touch may have changed it meanwhile.
        let (expires, ends) = ttl.deadline(now, created, None);
        let sql = "UPDATE session SET payload = ?1, version = version + 1, written = ?2,
                expires = min(?3, coalesce(?4, ends, ?3)), ends = coalesce(?4, ends)
            WHERE row = ?5 AND bin = ?6 AND id = ?7 AND kind = 0 AND version = ?8 AND created = ?9
                AND due <= min(?3, coalesce(?4, ends, ?3))";
        let version = i64::try_from(version).unwrap_or(i64::MAX);
        let (bin, id) = (self.key.bin().name(), self.key.id());
        let values = (payload, ms(now), ms(expires), ends.map(ms), row, bin, id, version, ms(created));
        Ok(prepare(connection, sql)?.execute(values).map_err(failure)? == 1)
    }

    /// The leased row, within a transaction of the caller; `None` when the lease saw none and may create it.
    ///
    /// # Errors
    ///
    /// `Destroyed`, `Stale` or `Gone` when the row is not what the lease has seen.
    pub fn check(&self, connection: &Connection, now: Timestamp) -> Result<Option<Row>> {
        self.check_owner()?;
        let there = row::select(connection, &self.key, true)?;
        match (self.seen, there) {
            (Seen::Live { version, created, .. }, Some(row)) => match &row.content {
                Content::Live(record) if record.version == version && record.created == created => Ok(Some(row)),
                Content::Destroyed { .. } => Err(destroyed()),
                _ => Err(replaced()),
            },
            (Seen::Live { .. }, None) => Err(gone()),
            // A tombstone is remembered for an hour; after that its absence proves nothing.
            (Seen::Nothing { .. }, None) if now.since(self.begun) >= Limits::TOMBSTONE_TTL => Err(gone()),
            (Seen::Nothing { .. }, None) => Ok(None),
            (Seen::Nothing { mark: seen }, Some(row)) => match row.content {
                Content::Destroyed { mark, .. } if seen != Some(mark) => Err(destroyed()),
                content if content.takes_id(now) => Err(replaced()),
                _ => Ok(None),
            },
        }
    }

    /// A lease belongs to the process that began it: a forked child may neither use nor release it.
    fn check_owner(&self) -> Result<()> {
        if self.lock.is_ours() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Stale, "the lease belongs to the process that this one was forked from"))
    }
}

/// Moves the expiry of a live row, within a transaction of the caller.
pub(super) fn touch(connection: &Connection, row: &Row, ttl: Ttl, now: Timestamp) -> Result<()> {
    let record = match &row.content {
        Content::Live(record) if !record.expired(now) => record,
        _ => return Err(nothing_to_touch()),
    };
    let (expires, ends) = ttl.deadline(now, record.created, record.ends);
    let values = (row.row, ms(expires), ends.map(ms));
    // Only a shorter life moves the index entry.
    let sql = if row.due <= expires {
        "UPDATE session SET expires = ?2, ends = ?3 WHERE row = ?1"
    } else {
        "UPDATE session SET expires = ?2, ends = ?3, due = ?2 WHERE row = ?1"
    };
    prepare(connection, sql)?.execute(values).map_err(failure)?;
    Ok(())
}

/// Gives the leased row the new id and lets the old one lead there, within a transaction of the caller.
/// `there` is what the free new id still has: a tombstone, a spent id, an expired record.
pub(super) fn move_record(
    connection: &Connection,
    held: &Held,
    old: Option<Row>,
    new: &Key,
    there: Option<Row>,
    (now, grace): (Timestamp, Duration),
) -> Result<Seen> {
    let Some(old) = old else {
        return Ok(Seen::of(there.as_ref(), now)); // without a record only the lock moves
    };
    if let Some(there) = there {
        prepare(connection, "DELETE FROM session WHERE row = ?1")?.execute([there.row]).map_err(failure)?;
    }
    let sql = "UPDATE session SET id = ?2 WHERE row = ?1";
    prepare(connection, sql)?.execute((old.row, new.id())).map_err(failure)?;
    let until = now.plus(grace);
    row::lead(connection, &held.key, new, now, until, until.plus(Limits::TOMBSTONE_TTL))?;
    Ok(held.seen)
}
