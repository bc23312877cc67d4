//! The lock of a session: a named lock of the server, which lets waiters sleep and dies with the
//! connection.
//!
//! Names are those of the whole server. They contain a digest of database, table, bin and id:
//! nobody can take the lock of a session without its id.

use std::time::Duration;

use sessile_core::{Clock, Error, ErrorKind, Holder, Key, Stored, Timestamp};
use sha2::{Digest, Sha256};

use super::connection::{Connection, PID_BITS};
use super::failure::Attempt;
use super::statement::{Message, push_hex};
use crate::sql::row::{Columns, unsigned};
use crate::sql::value::Value;

/// The server takes 64 characters and ignores their case.
pub(super) const DIGEST_BYTES: usize = 20;

/// An expression: whether the server is read-only.
pub(super) const IS_READ_ONLY: &str = "CONCAT(@@read_only) NOT IN ('0', 'OFF')";
/// The bit of a fence that says it.
pub(super) const READ_ONLY_BIT: u64 = 1 << 60;

/// The expression that draws a fence.
///
/// Of one server: it grows as long as that runs, and begins at the time when it starts, in 2^-24 s.
/// (The highest byte of UUID_SHORT, which goes, is the number of the server.) Of several: the time
/// itself, in the same unit, so that a successor that has run for longer draws no lower ones.
/// SYSDATE is the time when the lock is had, NOW that of the statement, which has waited for it.
pub(super) fn fence(of_several: bool) -> String {
    let number = if of_several {
        "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 16777216 AS UNSIGNED)"
    } else {
        "(UUID_SHORT() & 0xFFFFFFFFFFFFFF)"
    };
    format!("{number} | (({IS_READ_ONLY}) << 60)")
}
/// Where the connection keeps the fence, or NULL, for the next statements of the message.
pub(super) const SESSION_FENCE: &str = "@sessile_had";

pub(super) const RELEASE: &str = "DO RELEASE_LOCK(?)";
/// Releases if the statement before it has changed a row.
pub(super) const RELEASE_IF_CHANGED: &str = "DO IF(ROW_COUNT() = 1, RELEASE_LOCK(?), 0)";
pub(super) const IS_OURS: &str = "SELECT IFNULL(IS_USED_LOCK(?) = CONNECTION_ID(), 0)";

/// Dropping it closes its connection, which frees the lock; in a forked child it does nothing.
pub(super) struct Held {
    pub key: Key,
    pub lock: String,
    pub stored: Stored,
    /// When `stored` was read.
    pub begun: Timestamp,
    pub connection: Connection,
}

pub(super) struct LockNames(Sha256);

impl LockNames {
    pub fn new(database: &str, table: &str) -> LockNames {
        LockNames(
            Sha256::new()
                .chain_update(database)
                .chain_update([0])
                .chain_update(table)
                .chain_update([0]),
        )
    }

    pub fn name(&self, key: &Key) -> String {
        let digest = self
            .0
            .clone()
            .chain_update(key.bin().name())
            .chain_update([0])
            .chain_update(key.id())
            .finalize();
        let mut name = String::from("sessile.");
        push_hex(&mut name, digest.get(..DIGEST_BYTES).unwrap_or_default());
        name
    }
}

pub(super) fn release(connection: &mut Connection, name: &str) -> Attempt<()> {
    connection.run(&Message::of(RELEASE, &[Value::Word(name)])).map(drop)
}

pub(super) fn lost() -> Error {
    Error::new(ErrorKind::Stale, "the lock of the session was lost")
        .advice("nobody else may release the store's locks, and no proxy may share its connections")
}

/// For the holder of a lock on a server that takes no changes any more.
pub(super) fn left_behind() -> Error {
    Error::new(ErrorKind::Stale, "the server of the lock takes no more changes")
        .advice("begin anew: another server of the URL has taken over, or will")
}

/// The process from the bits that its connection has set (`connection.rs`), its host and silence
/// from the process list, where each user sees its own connections.
pub(super) fn holder(connection: &mut Connection, name: &str, clock: &Clock) -> Attempt<Holder> {
    let bits: Vec<String> = (0..PID_BITS)
        .map(|bit| {
            format!(
                "(IFNULL(IS_USED_LOCK(CONCAT('sessile.pid.', @holder, '.{bit}')) = \
                            @holder, 0) << {bit})"
            )
        })
        .collect();
    let message = Message::of("SET @holder = IS_USED_LOCK(?)", &[Value::Word(name)])
        .then(&format!("SELECT {}", bits.join(" + ")), &[])
        .then("SELECT HOST, TIME FROM information_schema.PROCESSLIST WHERE ID = @holder", &[]);
    let mut results = connection.run(&message)?;
    let silence = results.row();
    let pid = results.row().and_then(|row| row.integer(0).ok().flatten());
    let pid = pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
    let host = silence.as_ref().and_then(|row| row.text(0).ok().flatten());
    // `host:port` over TCP, `localhost` at a socket.
    let host = host.map(|host| host.rsplit_once(':').map_or(host, |(host, _)| host).to_owned());
    let seconds = silence.as_ref().and_then(|row| unsigned(row, 1).ok());
    let since = seconds.map(|seconds| clock.now().minus(Duration::from_secs(seconds)));
    Ok(Holder { pid, host: host.filter(|host| !host.is_empty()), since })
}

#[cfg(test)]
mod tests {
    use sessile_core::Bin;

    use super::*;

    #[test]
    fn a_name_fits_and_tells_databases_tables_bins_and_ids_apart() {
        let key = Key::session("abc").unwrap();
        let names = LockNames::new("shop", "session");
        let others = [
            LockNames::new("shops", "ession").name(&key),
            LockNames::new("shop", "other").name(&key),
            names.name(&Key::session("abd").unwrap()),
            names.name(&Key::in_bin(Bin::new("cache").unwrap(), "abc").unwrap()),
        ];
        assert_eq!(names.name(&key), names.name(&key));
        assert!(names.name(&key).len() <= 64 && names.name(&key).starts_with("sessile."));
        assert!(others.iter().all(|other| *other != names.name(&key)), "{others:?}");
    }
}
