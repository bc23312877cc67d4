//! A lease: what `begin` saw, the connection that holds its lock, and the changes that are allowed only if it is still so.
//!
//! Invariant: every change compares the stored row with what was seen, in the statement or transaction that makes it. The
//! named lock keeps others away; this is what makes a commit right even if the lock was lost.

use sessile_core::{Error, ErrorKind, Key, Limits, Record, Result, Timestamp, Ttl};

use super::connection::Link;
use super::failure::{Attempt, Fault};
use super::lock::{self, IS_OURS, RELEASE, RELEASE_IF_CHANGED};
use super::row::{self, Statements};
use super::statement::{Message, Value, of_key};
use crate::sql::{Content, Seen, next_head, not_ours, nothing_to_touch};

/// Tries of a transaction that others run into.
pub(super) const TRIES: usize = 8;

/// A held session lock. Dropping it closes its connection, which frees the lock; in a forked child it does nothing.
pub(super) struct Held {
    pub key: Key,
    pub lock: String,
    pub link: Link,
    pub fence: u64,
    pub begun: Timestamp,
    pub seen: Seen,
    /// The live record that was seen, without its payload.
    head: Option<Record>,
    /// Whether there was a row at all.
    pub row: bool,
}

impl Held {
    /// A lease on what was found at `begun` under a lock that `link` holds.
    pub fn new(key: Key, lock: String, link: Link, fence: u64, content: Option<&Content>, begun: Timestamp) -> Held {
        let seen = Seen::of(content, begun);
        let head = head_of(content).filter(|_| matches!(seen, Seen::Live { .. }));
        Held { key, lock, link, fence, begun, seen, head, row: content.is_some() }
    }

    /// A lease belongs to the process that began it.
    pub fn check_owner(&self) -> Result<()> {
        if self.link.is_ours() { Ok(()) } else { Err(not_ours()) }
    }

    /// Replaces the payload, if the row is still what was seen, and lets the lock go.
    pub fn commit(&mut self, statements: &Statements, payload: &[u8], ttl: Ttl, now: Timestamp) -> Attempt<()> {
        self.check_owner()?;
        check_size(&self.link, payload)?;
        for _ in 0..TRIES {
            let done = match self.try_at_once(statements, payload, ttl, now) {
                Ok(false) => self.try_with_care(statements, payload, ttl, now),
                Ok(true) => Ok(()),
                Err(fault) => Err(fault),
            };
            match done {
                Err(fault) if fault.is_collision() || fault.is_duplicate() => roll_back(&mut self.link)?,
                done => return done,
            }
        }
        Err(Fault::Moved)
    }

    /// The common cases, in one statement that is its own transaction. False when a check in it failed, or would not do.
    fn try_at_once(&mut self, statements: &Statements, payload: &[u8], ttl: Ttl, now: Timestamp) -> Attempt<bool> {
        let (statement, values) = match &self.head {
            Some(seen) => {
                let next = next_head(Some(seen.clone()), ttl, now);
                let of = (&self.key, self.lock.as_str());
                if let Some(done) = commit_and_release(&mut self.link, statements, of, payload, (&next, seen))? {
                    return Ok(done);
                }
                statements.next_version(of, payload, (&next, seen))
            }
            // A tombstone is remembered for an hour; after that its absence proves nothing.
            None if !self.row && now.since(self.begun) < Limits::TOMBSTONE_TTL => {
                statements.put(&self.key, &next_head(None, ttl, now), payload, false)
            }
            None => return Ok(false),
        };
        let changed = if self.link.takes_text(payload) {
            let message = Message::new().then(statement, &values).then(RELEASE_IF_CHANGED, &[Value::Word(&self.lock)]);
            self.link.ask(&message).map(|mut answers| answers.next().changed())
        } else {
            let changed = self.link.execute(statement, &values);
            changed.and_then(|changed| {
                if changed == 1 {
                    lock::let_go(&mut self.link, &self.lock)?;
                }
                Ok(changed)
            })
        };
        match changed {
            // Someone has left a row where there was none: most likely a tombstone.
            Err(fault) if fault.is_duplicate() => Ok(false),
            Err(fault) if fault.is_lack_of_value() => Err(lost().into()),
            changed => Ok(changed? == 1),
        }
    }

    /// In a transaction that looks before it writes, and says what is wrong.
    fn try_with_care(&mut self, statements: &Statements, payload: &[u8], ttl: Ttl, now: Timestamp) -> Attempt<()> {
        let message = Message::new()
            .then("START TRANSACTION", &[])
            .then(&statements.lock_head, &of_key(&self.key))
            .then(IS_OURS, &[Value::Word(&self.lock)]);
        let mut answers = self.link.ask(&message)?;
        let there = answers.skip(1).next().row().map(row::decode).transpose()?;
        let ours = answers.next().row().and_then(|row| row.as_ref(0).map(row::integer)).transpose()? == Some(1);
        let checked = self.seen.check(there.as_ref(), self.begun, now);
        let head = match checked.and_then(|seen| if ours { Ok(seen) } else { Err(lost()) }) {
            Ok(seen) => next_head(head_of(there.as_ref()).filter(|_| seen), ttl, now),
            Err(error) => {
                self.let_go("ROLLBACK")?;
                return Err(error.into());
            }
        };
        write_row(&mut self.link, statements, &self.key, (&head, payload), there.is_some())?;
        self.let_go("COMMIT")
    }

    /// Ends a transaction and the lease.
    fn let_go(&mut self, end: &str) -> Attempt<()> {
        self.link.ask(&Message::new().then(end, &[]).then(RELEASE, &[Value::Word(&self.lock)]))?;
        Ok(())
    }

    /// Moves the expiry of the leased record.
    pub fn touch(&mut self, statements: &Statements, ttl: Ttl, now: Timestamp) -> Attempt<()> {
        self.check_owner()?;
        let touch = statements.touch(ttl, now);
        if let Seen::Live { version, created } = self.seen {
            let version = Value::Number(i64::try_from(version).unwrap_or(i64::MAX));
            let [bin, id] = of_key(&self.key);
            let values = [bin, id, Value::time(now), version, Value::time(created)];
            let guarded = format!("{touch} AND version = ? AND created = ?");
            if self.link.ask(&Message::new().then(&guarded, &values))?.next().changed() == 1 {
                if let Some(head) = &mut self.head {
                    (_, head.ends) = ttl.deadline(now, head.created, head.ends);
                }
                return Ok(());
            }
        }
        let row = self.link.ask(&Message::new().then(&statements.select_head, &of_key(&self.key)))?.next().row();
        let there = row.map(row::decode).transpose()?;
        self.seen.check(there.as_ref(), self.begun, now)?;
        Err(nothing_to_touch().into())
    }
}

/// A commit and the end of its lock in one prepared statement, with a connection that is used again and again. `None`: not
/// done, try another way. False: row or lock are not what was seen; a lock that is ours is still held.
///
/// Where the row is gone, a tombstone that nobody sees stands in its place until it is removed; if the connection breaks in
/// between, the next sweep does that.
///
/// The lock is given up while the statement has the row to itself, after the conditions were found to hold. The server lets
/// the row go when the transaction is committed, which here is the statement; and whoever gets the lock in between reads
/// the row with a lock of its own, so waits for that. A statement that fails behind that point has changed nothing, and a
/// second attempt finds that the lock is gone.
///
/// Not where commits are durable: the server lets go of a row before the log is on the disk, and the next holder would see
/// what a power cut may still undo.
fn commit_and_release(
    link: &mut Link,
    statements: &Statements,
    of: (&Key, &str),
    payload: &[u8],
    heads: (&Record, &Record),
) -> Attempt<Option<bool>> {
    if link.facts.commits_are_durable || !link.prepares() {
        return Ok(None);
    }
    let (statement, values) = statements.next_version_and_release(of, payload, heads);
    match link.if_prepared(|link| link.execute(statement, &values)) {
        Err(fault) if fault.is_lack_of_value() => Ok(Some(false)),
        Ok(Some(1)) => {
            link.ask(&Message::new().then(&statements.delete_forgotten, &of_key(of.0)))?;
            Ok(Some(false))
        }
        done => Ok(done?.map(|_| true)),
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Stale, "the lock of the session was lost")
        .advice("nobody else may release the store's locks, and no proxy may share its connections")
}

/// The record among what a row may say, without its payload, which may be large.
fn head_of(content: Option<&Content>) -> Option<Record> {
    match content {
        Some(Content::Live(record)) => {
            let Record { version, created, written, expires, ends, .. } = *record;
            Some(Record { payload: Vec::new(), version, created, written, expires, ends })
        }
        _ => None,
    }
}

/// Begins a transaction that has the row of a key to itself.
pub(super) fn lock_row(link: &mut Link, statements: &Statements, key: &Key) -> Attempt<Option<Content>> {
    let message = Message::new().then("START TRANSACTION", &[]).then(&statements.lock_head, &of_key(key));
    let row = link.ask(&message)?.skip(1).next().row();
    Ok(row.map(row::decode).transpose()?)
}

/// Writes a record within a transaction, in place of a row that it has locked or as a new one.
pub(super) fn write_row(
    link: &mut Link,
    statements: &Statements,
    key: &Key,
    (head, payload): (&Record, &[u8]),
    there: bool,
) -> Attempt<()> {
    let (statement, values) = statements.put(key, head, payload, there);
    if link.takes_text(payload) {
        link.ask(&Message::new().then(statement, &values))?;
    } else {
        link.execute(statement, &values)?;
    }
    Ok(())
}

pub(super) fn roll_back(link: &mut Link) -> Attempt<()> {
    let done = link.ask(&Message::new().then("ROLLBACK", &[]));
    if done.is_err() {
        link.give_up();
    }
    done.map(drop)
}

/// Refuses what the server would not take, before anything is sent: it would cut the connection.
pub(super) fn check_size(link: &Link, payload: &[u8]) -> Result<()> {
    let (size, limit) = (payload.len() as u64, link.facts.payload_bytes_max);
    if size <= limit {
        return Ok(());
    }
    Err(Error::new(ErrorKind::TooLarge { size, limit }, "the payload is too large for the server's packets")
        .advice("raise max_allowed_packet on the server"))
}
