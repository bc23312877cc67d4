//! A lease: the byte lock, and what `begin` has read under it. Its commit writes the next version
//! of that record, or a new one.

use rusqlite::Connection;
use sessile_core::{Head, Key, OwnerChange, Result, Stored, Timestamp, Ttl};

use super::connection::immediate;
use super::row::{self, KeyRow};
use crate::locks::byte_lock::ByteLock;
use crate::sql::{ms, signed};

/// Dropping it frees the lock, except in a forked child.
pub(super) struct Held {
    pub key: Key,
    pub lock: ByteLock,
    /// When `stored` was read.
    pub begun: Timestamp,
    pub stored: Stored,
    /// The number of the row, if there was one.
    pub row: i64,
}

impl Held {
    /// Reads the leased row anew, within a transaction of the caller. Otherwise as
    /// [`Stored::check_lease`].
    pub fn check(&self, connection: &Connection, now: Timestamp) -> Result<(KeyRow, Option<Head>)> {
        self.lock.check_owner()?;
        let row = row::read_head(connection, &self.key)?;
        let head = self.stored.check_lease(&row.stored, self.begun, now)?;
        Ok((row, head))
    }
}

pub(super) fn commit(
    connection: &Connection,
    held: &Held,
    (payload, ttl, set): (&[u8], Ttl, OwnerChange),
    now: Timestamp,
) -> Result<()> {
    held.lock.check_owner()?;
    if set == OwnerChange::Keep
        && let Some(head) = held.stored.live(held.begun)
        && replace(connection, held, head, payload, ttl, now)?
    {
        return Ok(());
    }
    immediate(connection, || {
        let (_, old) = held.check(connection, now)?;
        let next = Stored::Live(Head::next(old, ttl, now).with_owner(set));
        row::put(connection, &held.key, &next, Some(payload), now)
    })
}

/// The common case in one statement, which is its own transaction. `due` may stay earlier than the
/// expiry, so no index changes. False when the row is not as it must be.
fn replace(
    connection: &Connection,
    held: &Held,
    head: Head,
    payload: &[u8],
    ttl: Ttl,
    now: Timestamp,
) -> Result<bool> {
    // Without the stored end, which the statement takes from the row: a touch may have changed it.
    let (expires, ends) = ttl.deadline(now, head.created, None);
    let sql = "UPDATE session SET payload = ?1, version = version + 1, written = ?2,
            expires = min(?3, coalesce(?4, ends, ?3)), ends = coalesce(?4, ends)
        WHERE row = ?5 AND bin = ?6 AND id = ?7 AND kind = 0 AND version = ?8 AND created = ?9
            AND due <= min(?3, coalesce(?4, ends, ?3))";
    let (bin, id) = (held.key.bin().name(), held.key.id());
    let (version, created) = (signed(head.version), ms(head.created));
    let values = (payload, ms(now), ms(expires), ends.map(ms), held.row, bin, id, version, created);
    Ok(row::execute(connection, sql, values)? == 1)
}
