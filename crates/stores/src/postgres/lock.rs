//! Taking a lock, waiting for it, and reading what it guards.
//!
//! The lock of a session is an advisory lock of the server, held by the connection ("session level" in the server's words):
//! it ends when it is given up or when the connection ends, not with a transaction. The server queues waiters in order of
//! arrival and wakes them.
//!
//! Invariants: the row is read by a statement that began after the lock was granted, so it sees what the holder before has
//! written; a link on which a begin failed is not used again, unless the server has said that it holds nothing.

use std::time::{Duration, Instant};

use postgres_types::ToSql;
use sessile_core::{Error, ErrorKind, Found, Holder, Key, Locked, Result};

use super::Postgres;
use super::answer::{Answer, Row as SqlRow};
use super::failure::{Failure, Tried, code};
use super::lease::{Held, is_true};
use super::link::{Call, Link};
use super::row::{self, Row, Text};
use super::schema::lock_number;
use super::statements::Sql;
use crate::sql::{ALIAS_STEPS_MAX, circle, corrupt};

/// What came of waiting for a lock.
enum Outcome {
    Granted(Granted),
    /// The lock that was not free in time. The link holds nothing.
    TimedOut(i64),
}

/// A lock, and what was read under it.
struct Granted {
    key: Key,
    lock: i64,
    row: Option<Row>,
    fence: u64,
}

/// The two halves of a lock's number, as the server's list of locks has them.
pub(super) fn halves(lock: i64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = lock.to_be_bytes();
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

impl Postgres {
    /// The number of a key's lock.
    pub(super) fn lock_of(&self, key: &Key) -> i64 {
        lock_number(&self.pool.names.lock_space, key.bin().name(), key.id()).cast_signed()
    }

    pub(super) fn acquire(&self, asked: &Key, wait_max: Duration) -> Result<Locked<Held>> {
        let start = Instant::now();
        self.pool.retry(|| {
            let mut link = self.pool.take()?;
            match self.acquire_on(&mut link, asked, start, wait_max) {
                Ok(Outcome::Granted(granted)) => self.grant(link, asked, granted),
                Ok(Outcome::TimedOut(lock)) => {
                    let named = self.timed_out(&mut link, lock, start.elapsed());
                    self.pool.put_away(link, &named);
                    Err(named?.into())
                }
                Err(failure) => {
                    // It may hold a lock, whatever went wrong after it was granted.
                    let freed = if failure.breaks_connection() {
                        Err(Failure::gone())
                    } else {
                        self.pool.run_one(&mut link, Sql::UnlockAll, &[])
                    };
                    if freed.is_err() {
                        link.retire();
                    }
                    self.pool.put_away(link, &freed);
                    Err(failure)
                }
            }
        })
    }

    /// Follows an id within its grace to where it leads, from lock to lock.
    fn acquire_on(&self, link: &mut Link, asked: &Key, start: Instant, wait_max: Duration) -> Tried<Outcome> {
        let (mut key, mut given_up) = (asked.clone(), None);
        for _ in 0..=ALIAS_STEPS_MAX {
            let lock = self.lock_of(&key);
            let left = wait_max.saturating_sub(start.elapsed());
            let Some((row, fence)) = self.lock_and_read(link, given_up, lock, &key, left)? else {
                return Ok(Outcome::TimedOut(lock));
            };
            match row.as_ref().map_or(Ok(None), |row| row.content.leads_to(key.bin(), self.clock.now()))? {
                None => return Ok(Outcome::Granted(Granted { key, lock, row, fence })),
                Some(target) => (key, given_up) = (target, Some(lock)),
            }
        }
        Err(circle().into())
    }

    /// One round trip: takes the lock, and reads the row in a statement of its own. `None` when the time was over.
    ///
    /// Both are one transaction, so that the server answers once. Under READ COMMITTED, which each connection asks for, the
    /// second statement has a snapshot of its own, taken when it is bound, which is after the first was carried out.
    fn lock_and_read(
        &self,
        link: &mut Link,
        given_up: Option<i64>,
        lock: i64,
        key: &Key,
        left: Duration,
    ) -> Tried<Option<(Option<Row>, u64)>> {
        let milliseconds = left.as_millis().to_string();
        let (id, bin) = (Text(key.id()), Text(key.bin().name()));
        let waiting: &[&(dyn ToSql + Sync)] = &[&lock, &milliseconds];
        let (take, read) = (Call(Sql::Lock, waiting), Call(Sql::Read, &[&id, &bin]));
        let patience = left + self.pool.options.timeouts.response;
        let statements = &self.pool.statements;
        let [taken, read] = match given_up {
            None => link.run_as_one(statements, [take, read], patience)?,
            Some(old) => {
                let [freed, taken, read] =
                    link.run_as_one(statements, [Call(Sql::Unlock, &[&old]), take, read], patience)?;
                if !is_true(&freed?) {
                    link.retire();
                }
                [taken, read]
            }
        };
        let taken = match taken {
            // The second when the role's statement_timeout is shorter than our wait.
            Err(failure) if failure.is(code::LOCK_NOT_AVAILABLE) || failure.is(code::QUERY_CANCELED) => {
                return Ok(None);
            }
            taken => taken?,
        };
        let Some(fence) = fence(&taken, link.backend)? else { return Ok(None) };
        let row = read?.row().map_or(Ok(None), |row| row::decode(row, false))?;
        Ok(Some((row, fence)))
    }

    fn grant(&self, link: Link, asked: &Key, granted: Granted) -> Tried<Locked<Held>> {
        let now = self.clock.now();
        let Granted { key, lock, row, fence } = granted;
        let moved_to = (key != *asked).then(|| key.clone());
        let held = Held::new(key, link, (lock, fence), now, row.as_ref())?;
        let found = row.map_or_else(Found::nothing, |row| row.content.found(now));
        Ok(Locked { held, found: Found { moved_to, ..found } })
    }

    /// The error that names the holder, as far as the server tells.
    fn timed_out(&self, link: &mut Link, lock: i64, waited: Duration) -> Tried<Error> {
        let (high, low) = halves(lock);
        // The lock may have been granted at the very moment at which the wait was over: the server keeps it then.
        let calls = [Call(Sql::UnlockAll, &[]), Call(Sql::Holder, &[&high, &low])];
        let [freed, answer] = self.pool.run(link, calls)?;
        if freed.is_err() || answer.as_ref().is_err_and(Failure::breaks_connection) {
            link.retire();
        }
        // Whoever it is, the time is over.
        let holder = answer.ok().as_ref().and_then(Answer::row).map_or_else(Holder::default, |row| self.holder(row));
        Ok(Error::new(ErrorKind::LockTimeout { holder, waited }, "another request holds the session"))
    }

    fn holder(&self, row: &SqlRow) -> Holder {
        let name = row.try_get::<Option<&str>>(0).ok().flatten().unwrap_or_default();
        let mut words = name.split(' ');
        let ours = words.next() == Some("sessile");
        let pid = words.next().and_then(|pid| pid.parse().ok()).filter(|_| ours);
        let host = words.next().filter(|host| ours && !host.is_empty()).map(str::to_owned);
        // The holder's last statement was its begin. By the server's clock, as ours may be a test's.
        let held = row.try_get::<Option<i64>>(1).ok().flatten().map(|ms| ms.max(0).unsigned_abs());
        Holder { pid, host, since: held.map(|ms| self.clock.now().minus(Duration::from_millis(ms))) }
    }
}

/// What was drawn under a lock; `None` when it was not to be had.
fn fence(answer: &Answer, backend: i32) -> Tried<Option<u64>> {
    let row = answer.row().ok_or_else(Failure::unexpected)?;
    let served_by: i32 = row.try_get(1)?;
    if served_by != backend {
        return Err(pooled_by_transaction().into());
    }
    let Some(fence) = row.try_get::<Option<i64>>(0)? else { return Ok(None) };
    Ok(Some(u64::try_from(fence).map_err(|_| corrupt("the sequence of fences is negative"))?))
}

/// A session lock of the server means nothing where each transaction runs in another session.
pub(super) fn pooled_by_transaction() -> Error {
    Error::new(ErrorKind::Incompatible, "a proxy in between gives each transaction another session of the server")
        .advice("connect to the server itself, or let the proxy pool sessions (pool_mode = session)")
}
