//! A lease: what `begin` saw, and the changes that are allowed only if it is still so.
//!
//! Invariants: every change compares the stored row with what was seen, in the statement that makes it; nobody gets the lock
//! before what was changed under it can be seen, or the next holder could read the old row (`handed_over!` in
//! `statements.rs`); a lease whose connection was lost changes nothing, since somebody else may have had the lock since; a
//! commit is said to be refused only when the server has ended what it did for it.

use std::time::{Duration, Instant};

use sessile_core::{Error, ErrorKind, Key, Limits, Result, Timestamp, Ttl};

use postgres_types::ToSql;

use super::Postgres;
use super::answer::Answer;
use super::failure::{Failure, Tried};
use super::link::{Call, Link};
use super::lock::{halves, pooled_by_transaction};
use super::row::{Payload, Row, Text};
use super::statements::Sql;
use crate::sql::{Content, Seen, ms, new_head, not_ours, nothing_to_touch};

/// How long a commit without an answer waits for the server to end it. A server that waits for something itself looks once a
/// second whether its client is still there (`client_connection_check_interval` in `schema.rs`).
const SETTLED_WITHIN: Duration = Duration::from_millis(2_500);
/// Between two looks at it.
const SETTLING_PAUSE: Duration = Duration::from_millis(25);

/// A held session lock. Dropping it closes its connection, which frees the lock; in a forked child it only closes the child's
/// descriptor.
pub(super) struct Held {
    pub key: Key,
    pub lock: i64,
    pub fence: u64,
    pub begun: Timestamp,
    pub seen: Seen,
    /// What this lease leaves in a row that it writes, so that it recognises its own work.
    writer: i64,
    /// The process that it belongs to.
    pid: u32,
    pub link: Link,
}

impl Held {
    pub fn new(key: Key, link: Link, (lock, fence): (i64, u64), begun: Timestamp, row: Option<&Row>) -> Result<Held> {
        let seen = Seen::of(row.map(|row| &row.content), begun);
        Ok(Held { key, lock, fence, begun, seen, writer: new_writer()?, pid: std::process::id(), link })
    }

    /// A lease belongs to the process that began it: a forked child may neither use nor release it.
    pub fn check_owner(&self) -> Result<()> {
        if self.pid == std::process::id() { Ok(()) } else { Err(not_ours()) }
    }
}

/// A new random mark. From the kernel, so that parent and child never draw the same.
pub(super) fn new_writer() -> Result<i64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(ErrorKind::Io, "the kernel gives no random bytes").source(error))?;
    Ok(i64::from_le_bytes(bytes))
}

/// Whether others may have written what is there over what a lease would have written: then its mark is gone from the row.
/// The version right after the one that it has seen is either its own or a successor's that never saw it. A successor that
/// gave the session a new id took the mark along to there.
fn may_follow(seen: Seen, there: &Content) -> bool {
    match (there, seen) {
        (Content::Live(record), Seen::Live { version, created }) => {
            record.created == created && record.version > version + 1
        }
        (Content::Live(record), Seen::Nothing { .. }) => record.version > 1,
        (Content::Regenerated { .. }, _) => true,
        (Content::Destroyed { .. }, _) => false,
    }
}

/// The server may have stored it before the connection broke, and others have changed the session since.
fn in_doubt() -> Error {
    Error::new(
        ErrorKind::Unreachable,
        "the connection broke during the commit, and others have changed the session since: it may have been stored",
    )
    .advice("begin anew and look at the session")
}

/// The server is still at it, or does not know yet that nobody listens.
fn unsettled() -> Error {
    Error::new(
        ErrorKind::Unreachable,
        "the server did not answer the commit in time and may yet carry it out: it may be stored, now or later",
    )
    .advice("begin anew and look at the session; pg_stat_activity says what the server waits for")
}

/// The connection of a lease ended, and with it its lock.
fn lost(why: Failure) -> Error {
    Error::new(
        ErrorKind::Stale,
        "the connection that held the lock was lost, and another request may have had it since",
    )
    .advice("begin anew; the server's log says why it ended the connection")
    .source(why.translate())
}

/// What a lost commit has come to.
enum Settled {
    /// What the row is after it has ended, one way or the other.
    Now(Option<Row>),
    NotYet,
}

impl Postgres {
    /// One round trip: replaces the payload if the row is still what was seen, and gives up the lock with the end of that
    /// transaction. When nothing was written the lock is given up in another.
    pub(super) fn write_and_unlock(&self, mut held: Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        held.check_owner()?;
        let now = self.clock.now();
        let written = match held.seen {
            Seen::Live { version, created } => self.replace(&mut held, (version, created), payload, ttl, now),
            Seen::Nothing { mark } => self.insert(&mut held, mark, payload, ttl, now),
        };
        match written {
            // The server may have carried it out all the same.
            Err(failure) if failure.breaks_connection() => self.outcome(held, now, failure),
            written => self.written(held, written, now),
        }
    }

    /// After a commit that the server has answered.
    fn written(&self, held: Held, written: Tried<Answer>, now: Timestamp) -> Result<()> {
        let Held { key, lock, begun, seen, mut link, .. } = held;
        match written {
            Ok(answer) if answer.count == 1 => {
                // Otherwise the link goes, and with it whatever it holds.
                if is_true(&answer) {
                    self.pool.give_back(link);
                }
                Ok(())
            }
            Ok(_) => {
                let there = self.look(&mut link, &key);
                self.free(link, lock);
                Err(refusal(seen, there.map_err(Failure::translate)?.as_ref(), begun, now))
            }
            Err(failure) => {
                self.free(link, lock);
                Err(failure.translate())
            }
        }
    }

    /// Gives up the lock of a lease that has ended, and its connection if that is fit for use.
    fn free(&self, mut link: Link, lock: i64) {
        let unlocked = self.pool.run_one(&mut link, Sql::Unlock, &[&lock]);
        if unlocked.as_ref().is_ok_and(is_true) {
            self.pool.give_back(link);
        }
    }

    fn replace(
        &self,
        held: &mut Held,
        (version, created): (u64, Timestamp),
        payload: &[u8],
        ttl: Ttl,
        now: Timestamp,
    ) -> Tried<Answer> {
        // Without the stored end, which a touch may have changed meanwhile: the statement takes it from the row.
        let (expires, ends) = ttl.deadline(now, created, None);
        let (id, bin, backend) = (Text(held.key.id()), Text(held.key.bin().name()), held.link.backend);
        let version = i64::try_from(version).unwrap_or(i64::MAX);
        let (expires, ends, written, created) = (ms(expires), ends.map(ms), ms(now), ms(created));
        let payload = Payload(payload);
        let values: &[&(dyn ToSql + Sync)] =
            &[&expires, &ends, &payload, &written, &held.writer, &id, &bin, &version, &created, &backend, &held.lock];
        self.pool.run_one(&mut held.link, Sql::Replace, values)
    }

    fn insert(&self, held: &mut Held, mark: Option<i64>, payload: &[u8], ttl: Ttl, now: Timestamp) -> Tried<Answer> {
        if now.since(held.begun) >= Limits::TOMBSTONE_TTL {
            self.still_nothing(held, now)?;
        }
        let head = new_head(ttl, now);
        let (id, bin, backend) = (Text(held.key.id()), Text(held.key.bin().name()), held.link.backend);
        let (created, expires, ends) = (ms(now), ms(head.expires), head.ends.map(ms));
        let payload = Payload(payload);
        let values: &[&(dyn ToSql + Sync)] =
            &[&id, &bin, &held.lock, &created, &expires, &ends, &held.writer, &payload, &mark, &backend];
        self.pool.run_one(&mut held.link, Sql::Insert, values)
    }

    /// A lease that is older than the memory of destroyed ids: nothing where it saw nothing proves nothing.
    fn still_nothing(&self, held: &mut Held, now: Timestamp) -> Tried<()> {
        let there = self.look(&mut held.link, &held.key)?;
        Ok(held.seen.check(there.as_ref().map(|row| &row.content), held.begun, now).map(drop)?)
    }

    /// What became of a commit whose connection was lost with the answer.
    fn outcome(&self, held: Held, now: Timestamp, why: Failure) -> Result<()> {
        let Held { key, lock, begun, seen, writer, link, .. } = held;
        let backend = link.backend;
        drop(link); // so that the server learns of it
        let start = Instant::now();
        let there = loop {
            match self.pool.with(|link| self.settled(link, &key, (lock, backend)))? {
                Settled::Now(there) => break there,
                Settled::NotYet if start.elapsed() < SETTLED_WITHIN => std::thread::sleep(SETTLING_PAUSE),
                Settled::NotYet => return Err(unsettled()),
            }
        };
        if there.as_ref().is_some_and(|row| row.writer == writer) {
            return Ok(());
        }
        if there.as_ref().is_some_and(|row| may_follow(seen, &row.content)) {
            return Err(in_doubt());
        }
        seen.check(there.as_ref().map(|row| &row.content), begun, now)?;
        Err(lost(why))
    }

    /// The process that served a lease has the lock until its session ends, or until what it committed can be seen. So when it
    /// does not have it any more, the statement after that sees what has become of it. Not whether the lock is free: somebody
    /// else may have it by then.
    fn settled(&self, link: &mut Link, key: &Key, (lock, backend): (i64, i32)) -> Tried<Settled> {
        let ((high, low), id, bin) = (halves(lock), Text(key.id()), Text(key.bin().name()));
        let calls = [Call(Sql::HeldBy, &[&high, &low, &backend]), Call(Sql::ReadHead, &[&id, &bin])];
        let [held, there] = self.pool.run(link, calls)?;
        let (held, there) = (held?, there?);
        if held.row().ok_or_else(Failure::unexpected)?.try_get(0)? {
            return Ok(Settled::NotYet);
        }
        Ok(Settled::Now(there.row().map_or(Ok(None), |row| super::row::decode(row, true))?))
    }

    /// The row of a key without its payload.
    pub(super) fn look(&self, link: &mut Link, key: &Key) -> Tried<Option<Row>> {
        let (id, bin) = (Text(key.id()), Text(key.bin().name()));
        let answer = self.pool.run_one(link, Sql::ReadHead, &[&id, &bin])?;
        answer.row().map_or(Ok(None), |row| super::row::decode(row, true)).map_err(Failure::from)
    }

    pub(super) fn unlock(&self, held: Held) {
        // In a child it is only dropped: that closes the child's descriptor, and the parent keeps its lock.
        if held.check_owner().is_ok() {
            self.free(held.link, held.lock);
        }
    }

    pub(super) fn slide_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        held.check_owner()?;
        let now = self.clock.now();
        let Seen::Live { version, created } = held.seen else {
            let there = self.pool.with(|link| self.look(link, &held.key))?;
            held.seen.check(there.as_ref().map(|row| &row.content), held.begun, now)?;
            return Err(nothing_to_touch());
        };
        let (sliding, absolute) = life(ttl, now);
        let (id, bin, now_ms) = (Text(held.key.id()), Text(held.key.bin().name()), ms(now));
        let (version, created) = (i64::try_from(version).unwrap_or(i64::MAX), ms(created));
        // On another connection than the lease's: when that one ran its last statement tells others since when the lock is
        // held.
        let touched = self.pool.with(|link| {
            let values: &[&(dyn ToSql + Sync)] = &[&sliding, &absolute, &id, &bin, &now_ms, &version, &created];
            if self.pool.run_one(link, Sql::TouchHeld, values)?.count == 1 {
                return Ok(None);
            }
            self.look(link, &held.key).map(Some)
        })?;
        let Some(there) = touched else { return Ok(()) };
        held.seen.check(there.as_ref().map(|row| &row.content), held.begun, now)?;
        Err(nothing_to_touch())
    }
}

/// What the statements of a touch make an expiry of: the end of the idle time, and the absolute lifetime.
pub(super) fn life(ttl: Ttl, now: Timestamp) -> (i64, Option<i64>) {
    // The longest lifetime is ten years, so that adding it to a time cannot overflow.
    let absolute = ttl.absolute_ms().map(|ms| i64::try_from(ms).unwrap_or(i64::MAX / 2));
    (ms(now.plus(Duration::from_millis(ttl.idle_ms()))), absolute)
}

/// Why a change that matched nothing was refused.
pub(super) fn refusal(seen: Seen, there: Option<&Row>, begun: Timestamp, now: Timestamp) -> Error {
    match seen.check(there.map(|row| &row.content), begun, now) {
        Err(refusal) => refusal,
        // The row is as it should be, so it was the process that served us which was not.
        Ok(_) => pooled_by_transaction(),
    }
}

/// Whether a statement said yes.
pub(super) fn is_true(answer: &Answer) -> bool {
    answer.row().is_some_and(|row| row.try_get(0).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessile_core::Record;

    #[test]
    fn only_a_version_that_could_stand_on_a_lost_commit_leaves_it_in_doubt() {
        let ms = Timestamp::from_ms;
        let there = |version, created| {
            let (created, expires) = (ms(created), ms(9));
            Content::Live(Record { payload: Vec::new(), version, created, written: created, expires, ends: None })
        };
        let seen = Seen::Live { version: 3, created: ms(1) };
        for (version, created, expected) in [(3, 1, false), (4, 1, false), (5, 1, true), (5, 2, false)] {
            assert_eq!(may_follow(seen, &there(version, created)), expected, "{version} {created}");
        }
        let nothing = Seen::Nothing { mark: None };
        assert!(!may_follow(nothing, &there(1, 1)) && may_follow(nothing, &there(2, 1)));
        assert!(!may_follow(seen, &Content::Destroyed { mark: 1, forget: ms(9) }));
        let moved = Content::Regenerated { target: "new".into(), until: ms(5), forget: ms(9) };
        assert!(may_follow(seen, &moved) && may_follow(nothing, &moved), "its mark went with it");
    }
}
