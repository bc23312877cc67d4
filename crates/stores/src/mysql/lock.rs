//! The lock of a session: one of the server's named locks, which sleeps who waits and dies with the connection.
//!
//! `GET_LOCK` queues its waiters in order of arrival and hands a lock from one to the next; it is the metadata lock of the
//! server under another name. Whoever has it reads the record with a row lock: a commit gives the named lock up while it
//! still has the row to itself (`lease.rs`), and what is read must be what it leaves. Who did not get it reads nothing. And no
//! row stays locked until a reader has taken a large payload: that one is read without a lock of the row.
//!
//! Names are those of the whole server, so they contain a digest of database, table, bin and id: nobody who does not know
//! the id can take the lock of a session.

use std::time::{Duration, Instant};

use mysql::Value as Got;
use sessile_core::{Clock, Holder, Key, Result};
use sha2::{Digest, Sha256};

use super::connection::{Link, PID_BITS, unexpected};
use super::failure::Attempt;
use super::row::{self, Statements, integer, text};
use super::statement::{Message, Value, of_key};
use crate::sql::Content;

/// `sessile.` and this many bytes of the digest in hexadecimal: the server takes 64 characters and ignores their case.
const DIGEST_BYTES: usize = 20;
/// Pauses between tries on a server that cannot wait for the rest of a second.
const PAUSE_MIN: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// Gives a lock up.
pub(super) const RELEASE: &str = "DO RELEASE_LOCK(?)";
/// Releases if the statement before it has changed a row.
pub(super) const RELEASE_IF_CHANGED: &str = "DO IF(ROW_COUNT() = 1, RELEASE_LOCK(?), 0)";
/// The number of a holder. It grows as long as the server runs, starts from the time when the server starts, and its highest
/// byte is the number of the server.
pub(super) const FENCE: &str = "UUID_SHORT() & 0xFFFFFFFFFFFFFF";
/// Where the connection keeps the number that it has drawn, or NULL, for the statements behind in the same message.
pub(super) const HAD: &str = "@sessile_had";
/// The name of [`Statements::prepare_read`] on the server.
pub(super) const READ: &str = "sessile_read";
/// Whether this connection has a lock.
pub(super) const IS_OURS: &str = "SELECT IFNULL(IS_USED_LOCK(?) = CONNECTION_ID(), 0)";

/// Makes the names of locks.
pub(super) struct LockNames(Sha256);

impl LockNames {
    pub fn new(database: &str, table: &str) -> LockNames {
        LockNames(Sha256::new().chain_update(database).chain_update([0]).chain_update(table).chain_update([0]))
    }

    pub fn of(&self, key: &Key) -> String {
        let digest = self.0.clone().chain_update(key.bin().name()).chain_update([0]).chain_update(key.id()).finalize();
        let mut name = String::from("sessile.");
        for byte in digest.iter().take(DIGEST_BYTES) {
            name.extend([byte >> 4, byte & 15].map(|half| char::from_digit(u32::from(half), 16).unwrap_or('0')));
        }
        name
    }
}

/// A lock that is asked for, and the session that it keeps.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub name: &'a str,
    pub key: &'a Key,
    /// How long to wait at most.
    pub wait: Duration,
    /// Another lock, to let go before.
    pub leaving: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    /// Not waited for.
    pub fn if_free(name: &'a str, key: &'a Key) -> Wanted<'a> {
        Wanted { name, key, wait: Duration::ZERO, leaving: None }
    }

    /// The begin of the message that asks for it.
    fn message(&self) -> Message {
        self.leaving.map_or_else(Message::new, releasing)
    }
}

/// A lock that was had.
pub(super) struct Taken {
    /// Grows with each holder.
    pub fence: u64,
    /// What the row says.
    pub content: Option<Content>,
}

/// Tries to take a lock, and reads all of the row under it. `None` when the lock was not free in time.
pub(super) fn acquire_and_read(link: &mut Link, wanted: Wanted<'_>, statements: &Statements) -> Attempt<Option<Taken>> {
    if link.facts.is_mariadb() && link.prepares() {
        let taken = link.if_prepared(|link| acquire_by_name(link, wanted, statements))?;
        if let Some(taken) = taken {
            return Ok(taken);
        }
        // The server may have refused when the values were worked out: taken once more, the lock would outlast its release.
        let_go(link, wanted.name)?;
    }
    acquire(link, wanted, &[&statements.settle, &statements.select_if_had])
}

/// The message that gives a lock up.
fn releasing(name: &str) -> Message {
    Message::new().then(RELEASE, &[Value::Word(name)])
}

/// Gives up a lock that the connection has, or may have.
pub(super) fn let_go(link: &mut Link, name: &str) -> Attempt<()> {
    link.ask(&releasing(name)).map(drop)
}

/// By a statement that the server keeps under a name. MariaDB takes expressions for its values and works them out before it
/// looks at the statement: so the lock is waited for while no table is open and no snapshot taken. Without the lock there is no
/// id, thus no row to wait for.
fn acquire_by_name(link: &mut Link, wanted: Wanted<'_>, statements: &Statements) -> Attempt<Option<Taken>> {
    let Wanted { name, key, wait, leaving } = wanted;
    let mut message = wanted.message();
    if !link.knows_read {
        message.add_verbatim(&statements.prepare_read);
    }
    let execute = format!("EXECUTE {READ} USING {}, ?, IF(IS_USED_LOCK(?) = CONNECTION_ID(), ?, NULL)", waiting(wait));
    let [bin, id] = of_key(key);
    message.add(&execute, &[Value::Word(name), bin, Value::Word(name), id]);
    let mut answers = link.ask(&message)?;
    let others = usize::from(leaving.is_some()) + usize::from(!link.knows_read);
    link.knows_read = true;
    let row = answers.skip(others).next().row().ok_or_else(unexpected)?;
    let mut columns = row.unwrap().into_iter();
    let Some(fence) = fence_of(columns.next().as_ref())? else { return Ok(None) };
    let columns: Vec<Got> = columns.collect();
    let content = if row::lacks_payload(&columns) {
        let select = Message::new().then(&statements.select, &of_key(key));
        link.ask(&select)?.next().row().map(row::decode).transpose()
    } else if columns.first() == Some(&Got::NULL) {
        Ok(None) // no kind, no row
    } else {
        row::decode_columns(columns.into_iter()).map(Some)
    };
    taken_or_released(link, name, fence, content)
}

/// One after another: the number is drawn by who has the lock. Six digits behind the point: what MariaDB looks at.
fn waiting(wait: Duration) -> String {
    format!("IF(GET_LOCK(?, {}.{:06}) = 1, {FENCE}, NULL)", wait.as_secs(), wait.subsec_micros())
}

/// The same with whatever the last of `selects` reads of the row.
pub(super) fn acquire(link: &mut Link, wanted: Wanted<'_>, selects: &[&str]) -> Attempt<Option<Taken>> {
    let Wanted { name, key, wait, leaving } = wanted;
    let mut message = wanted.message();
    message.add(&format!("SET {HAD} = {}", waiting(wait)), &[Value::Word(name)]);
    message.add(&format!("SELECT {HAD}"), &[]);
    selects.iter().for_each(|select| message.add(select, &of_key(key)));
    let mut answers = link.ask(&message)?;
    let fence = answers.skip(usize::from(leaving.is_some()) + 1).next().row().ok_or_else(unexpected)?;
    let Some(fence) = fence_of(fence.as_ref(0))? else { return Ok(None) };
    let content = answers.skip(selects.len().saturating_sub(1)).next().row().map(row::decode).transpose();
    taken_or_released(link, name, fence, content)
}

/// As [`acquire_and_read`] for a session that is there, not large, and free, by one prepared statement. `None` says that it is
/// not so, and that the lock is not held.
///
/// The row is read before the lock is taken, and is what it will be when the lock is had: the read locks the row against
/// changes until its statement ends, and nothing is waited for meanwhile, neither the lock nor a row that others have
/// locked. The columns are worked out in their order, so the number is drawn by who has the lock.
pub(super) fn acquire_at_once(link: &mut Link, name: &str, begin: &str, key: &Key) -> Attempt<Option<Taken>> {
    let [bin, id] = of_key(key);
    let row = link.if_prepared(|link| link.fetch(begin, &[Value::Word(name), bin, id]))?.flatten();
    let Some(row) = row else { return Ok(None) };
    let mut columns = row.unwrap().into_iter();
    let Some(payload) = columns.next().filter(|payload| *payload != Got::NULL) else { return Ok(None) };
    let fence = fence_of(columns.next().as_ref())?.ok_or_else(unexpected)?;
    let content = row::decode_columns(columns.chain([payload])).map(Some);
    taken_or_released(link, name, fence, content)
}

fn fence_of(column: Option<&Got>) -> Attempt<Option<u64>> {
    match column {
        Some(Got::NULL) => Ok(None),
        Some(number) => Ok(Some(integer(number)?.unsigned_abs())),
        None => Err(unexpected().into()),
    }
}

/// A lock over a row that cannot be read is not kept.
fn taken_or_released(
    link: &mut Link,
    name: &str,
    fence: u64,
    content: Result<Option<Content>>,
) -> Attempt<Option<Taken>> {
    match content {
        Ok(content) => Ok(Some(Taken { fence, content })),
        Err(error) => {
            let_go(link, name)?;
            Err(error.into())
        }
    }
}

/// How long to ask for at a time, of what is left. Zero: once.
///
/// An answer must come within the connection's time for answers. And MySQL takes whole seconds only.
pub(super) fn slice(link: &Link, left: Duration) -> Duration {
    let slice = left.min(link.patience());
    if link.facts.is_mariadb() { slice } else { Duration::from_secs(slice.as_secs()) }
}

/// Between two tries of a lock that cannot be waited for.
pub(super) fn pause(start: Instant, left: Duration) {
    // What has been waited so far is the best guess of what is still to wait; its low bits are the jitter.
    let waited = start.elapsed();
    let jitter = PAUSE_MIN * (waited.subsec_nanos() % 8) / 8;
    std::thread::sleep((waited / 8 + jitter).clamp(PAUSE_MIN, PAUSE_MAX).min(left));
}

/// Who holds a lock, as far as the server tells: the process from the bits that its connection has set (`connection.rs`),
/// its host and since when it is silent from the process list, where each user sees its own connections.
pub(super) fn holder(link: &mut Link, name: &str, clock: &Clock) -> Attempt<Holder> {
    let bits: Vec<String> = (0..PID_BITS)
        .map(|bit| format!("(IFNULL(IS_USED_LOCK(CONCAT('sessile.pid.', @holder, '.{bit}')) = @holder, 0) << {bit})"))
        .collect();
    let message = Message::new()
        .then("SET @holder = IS_USED_LOCK(?)", &[Value::Word(name)])
        .then(&format!("SELECT {}", bits.join(" + ")), &[])
        .then("SELECT HOST, TIME FROM information_schema.PROCESSLIST WHERE ID = @holder", &[]);
    let mut answers = link.ask(&message)?;
    let pid = answers.skip(1).next().row().and_then(|row| integer(row.as_ref(0)?).ok());
    let pid = pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
    let Some(row) = answers.next().row() else { return Ok(Holder { pid, ..Holder::default() }) };
    let mut columns = row.unwrap().into_iter();
    let host = columns.next().and_then(text);
    // `host:port` over TCP, `localhost` at a socket.
    let host = host.map(|host| host.rsplit_once(':').map_or(host.clone(), |(host, _)| host.to_owned()));
    let silent =
        columns.next().and_then(|seconds| integer(&seconds).ok()).and_then(|seconds| u64::try_from(seconds).ok());
    let since = silent.map(|seconds| clock.now().minus(Duration::from_secs(seconds)));
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
            LockNames::new("shops", "ession").of(&key),
            LockNames::new("shop", "other").of(&key),
            names.of(&Key::session("abd").unwrap()),
            names.of(&Key::in_bin(Bin::new("cache").unwrap(), "abc").unwrap()),
        ];
        assert_eq!(names.of(&key), names.of(&key));
        assert!(names.of(&key).len() <= 64 && names.of(&key).starts_with("sessile."));
        assert!(others.iter().all(|other| *other != names.of(&key)), "{others:?}");
    }
}
