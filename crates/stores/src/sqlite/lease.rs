//! A lease: what `begin` saw, and the changes that are allowed only if it is still so.
//!
//! Invariant: every change compares the stored row with what was seen, in the statement or transaction that
//! makes it. The byte lock keeps others away; this is what makes a commit right even if that fails.

use std::time::Duration;

use rusqlite::Connection;
use sessile_core::{Key, Result, Timestamp, Ttl};

use super::connection::immediate;
use super::failure::failure;
use super::row::{self, Row, prepare};
use crate::byte_lock::ByteLock;
use crate::sql::{Content, Seen, end_of_grace, ms, next_head, not_ours, nothing_to_touch};

/// A held session lock. Dropping it frees the lock, except in a forked child.
pub(super) struct Held {
    key: Key,
    lock: ByteLock,
    pub fence: u64,
    begun: Timestamp,
    /// Where the live record was, if there was one.
    row: Option<i64>,
    seen: Seen,
}

impl Held {
    pub fn new(key: Key, lock: ByteLock, fence: u64, begun: Timestamp, row: Option<&Row>) -> Held {
        let seen = Seen::of(row.map(|row| &row.content), begun);
        Held { key, lock, fence, begun, row: row.map(|row| row.row), seen }
    }

    /// Follows the record to its new key. The old lock is dropped, which frees it.
    pub fn moved(&mut self, key: Key, lock: ByteLock, seen: Seen) {
        (self.key, self.lock, self.seen) = (key, lock, seen);
    }

    /// Replaces the payload, if the row is still what was seen.
    pub fn commit(&self, connection: &Connection, payload: &[u8], ttl: Ttl, now: Timestamp) -> Result<()> {
        self.check_owner()?;
        if let (Seen::Live { version, created }, Some(row)) = (self.seen, self.row)
            && self.replace(connection, (row, version, created), payload, ttl, now)?
        {
            return Ok(());
        }
        immediate(connection, || {
            let seen = self.check(connection, now)?.and_then(|row| row.content.into_record());
            let record = next_head(seen, ttl, now);
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
        let seen = self.seen.check(there.as_ref().map(|row| &row.content), self.begun, now)?;
        Ok(there.filter(|_| seen))
    }

    /// A lease belongs to the process that began it: a forked child may neither use nor release it.
    fn check_owner(&self) -> Result<()> {
        if self.lock.is_ours() { Ok(()) } else { Err(not_ours()) }
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
        return Ok(Seen::of(there.as_ref().map(|row| &row.content), now)); // without a record only the lock moves
    };
    if let Some(there) = there {
        prepare(connection, "DELETE FROM session WHERE row = ?1")?.execute([there.row]).map_err(failure)?;
    }
    let sql = "UPDATE session SET id = ?2 WHERE row = ?1";
    prepare(connection, sql)?.execute((old.row, new.id())).map_err(failure)?;
    let (until, forget) = end_of_grace(now, grace);
    row::lead(connection, &held.key, new, now, until, forget)?;
    Ok(held.seen)
}
