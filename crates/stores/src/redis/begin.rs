//! Taking a lock, waiting for it, and reading what it guards.
//!
//! A waiter sleeps in BLPOP, which Redis serves in order of arrival and only to live connections.
//! What it pops is the token of the lock's reservation; with it, and only with it, the next try
//! gets the lock. Each sleep is bounded, in case a wake-up was lost with the waiter that got it.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use redis::Value;
use sessile_core::{ErrorKind, Found, Head, Key, Result, Timestamp, follow_aliases};

use super::bounded::Bounded;
use super::connection::Connection;
use super::failure::{redirection, translate, unexpected};
use super::names::Names;
use super::slots::slot_of;
use super::value::{self, held_value};
use super::{fences, ms, script};
use crate::connections::pool::AttemptFailure;
use crate::locks::token::{Token, holder_bytes, mark, new_token};

/// All waiters have the same, so that queueing again keeps their order.
const SLEEP_MAX: Duration = Duration::from_secs(1);

pub struct Held {
    pub key: Key,
    pub token: Token,
    /// The process that took it: a forked child must leave it alone.
    pub pid: u32,
    pub since: Timestamp,
    /// The stamp of what was stored at begin, empty for nothing.
    pub read: Vec<u8>,
    /// What the next version goes on from; `None` when there was no live record.
    pub head: Option<Head>,
    pub fence: u64,
    /// The connection that has watched lock and record since before they were read, if the lock
    /// was free.
    pub watching: Option<Connection>,
}

impl Held {
    /// The record was touched without changing the writer.
    pub fn touched(&mut self, stamp: Vec<u8>) {
        let ends = value::ends_of_stamp(&stamp);
        self.head = self.head.map(|head| Head { ends, ..head });
        self.read = stamp;
    }
}

#[expect(clippy::large_enum_variant, reason = "the large one is the usual one")]
enum Tried {
    Granted(Granted),
    Taken { lock: Vec<u8>, remaining: Duration },
    LeadsTo(Key),
}

/// The fence, the bytes of the data key, and the connection that watches it and the lock.
type Granted = (u64, Option<Vec<u8>>, Option<Connection>);

pub fn begin(store: &Bounded<'_>, asked: &Key, wait_max: Duration) -> Result<(Held, u64, Found)> {
    let start = Instant::now();
    let token = new_token()?;
    // The reservation that was popped, once it has waited.
    let mut popped = None;
    let ((granted, since), moved_to) = follow_aliases(asked, |key| -> Result<_> {
        store.release_orphans(key)?;
        loop {
            let left = wait_max.saturating_sub(start.elapsed());
            let since = store.clock.now();
            let tried = store.try_lock(key, &token, since, popped.as_deref(), !left.is_zero());
            match tried.inspect_err(|_| store.orphans.remember(key, &token))? {
                Tried::Granted(granted) => return Ok(ControlFlow::Break((granted, since))),
                Tried::LeadsTo(next) => {
                    popped.iter_mut().for_each(Vec::clear);
                    return Ok(ControlFlow::Continue(next));
                }
                Tried::Taken { lock, .. } if left.is_zero() => {
                    let holder = value::holder(&lock);
                    return Err(ErrorKind::LockTimeout { holder, waited: start.elapsed() }.into());
                }
                Tried::Taken { remaining, .. } => {
                    // Not all waiters come at once after the end of a lock's time.
                    let spread = Duration::from_millis(1 + mark(&token) % 8);
                    popped = Some(store.sleep(key, left.min(SLEEP_MAX).min(remaining + spread))?);
                }
            }
        }
    })?;
    let (fence, data, watching) = granted;
    let (key, now) = (moved_to.clone().unwrap_or_else(|| asked.clone()), store.clock.now());
    let read = value::stamp(data.as_deref());
    let mut held =
        Held { key, token, pid: std::process::id(), since, read, head: None, fence, watching };
    let decoded = value::decode(&held.key, data);
    if decoded.is_err() {
        store.unlock(&held, false)?;
    }
    let (stored, payload) = decoded?;
    held.head = stored.live(now);
    let found = stored.look_up(payload, now).break_value().unwrap_or_default();
    Ok((held, fence, Found { moved_to, ..found }))
}

impl Bounded<'_> {
    /// One try. `popped` is what a waiter has popped, `waits` whether the holder of a taken lock
    /// must know of a waiter.
    fn try_lock(
        &self,
        key: &Key,
        token: &Token,
        since: Timestamp,
        popped: Option<&[u8]>,
        waits: bool,
    ) -> Result<Tried> {
        if popped.is_none()
            && let Some(granted) = self.try_plainly(key, token, since)?
        {
            return Ok(Tried::Granted(granted));
        }
        // After a wait, others may be waiting behind.
        let marks = if popped.is_some() { 3 } else { 0 };
        let lock = (token, holder_bytes(since), ms(self.lock_ttl), since.as_ms());
        let (_, counter) = self.counter_of_fences(key);
        let args = (lock, marks, popped.unwrap_or_default(), waits);
        match self.run(&script::BEGIN, key, &[counter], args)? {
            (0, Value::Int(fence), data) => {
                let data = redis::from_redis_value(data).map_err(|_| unexpected())?;
                let fence = u64::try_from(fence).map_err(|_| unexpected())?;
                Ok(Tried::Granted((fence, data, None)))
            }
            (1, Value::BulkString(lock), Value::Int(remaining)) => {
                // Negative: made by hand without a time limit. Then only the sleep's own bound
                // counts.
                let remaining = u64::try_from(remaining).map_or(SLEEP_MAX, Duration::from_millis);
                Ok(Tried::Taken { lock, remaining })
            }
            (2, Value::BulkString(id), _) => key.sibling(&id).map(Tried::LeadsTo),
            _ => Err(unexpected()),
        }
    }

    /// Takes a free lock with plain commands in one write; a script would cost the server many
    /// times as much.
    ///
    /// The order carries the argument. Lock and record are watched after the lock was taken and
    /// before both are read: if the lock then bears our token, any later change of lock or record
    /// (a destroy, a touch, a waiter's mark, the end of the lock's time and a successor) makes the
    /// EXEC of the commit fail. The fence is drawn under the lock, so it is above that of the
    /// holder before, although others are served in between.
    ///
    /// `None` when the lock is taken, when the id leads on, when the counter of fences was lost, or
    /// when the server refuses these commands: begin.lua sorts that out. It knows this token,
    /// should the lock be ours.
    fn try_plainly(&self, key: &Key, token: &Token, since: Timestamp) -> Result<Option<Granted>> {
        let [lock, data, _] = &self.names.of(key);
        let value = held_value(token, since);
        let ((slot, counter), lock_ttl) = (self.counter_of_fences(key), ms(self.lock_ttl));
        let pinned = self.servers.with_kept(self.deadline, key, |connection| {
            let mut commands = redis::pipe();
            commands.cmd("UNWATCH").ignore(); // for a lease that ended without a commit
            commands.cmd("SET").arg(lock).arg(&value).arg("NX").arg("PX").arg(lock_ttl).ignore();
            commands.cmd("WATCH").arg(lock).arg(data).ignore();
            commands.cmd("GET").arg(lock);
            let lifted = connection.lifted.draw(slot, &counter, &mut commands);
            commands.cmd("GET").arg(data);
            let answers = commands.query::<(Vec<u8>, u64, Option<Vec<u8>>)>(connection)?;
            connection.lifted.note(slot, lifted);
            Ok(answers)
        });
        let ((stored, fence, data), connection) = match pinned {
            Ok(pinned) => pinned,
            Err(error) if *error.kind() == ErrorKind::Unreachable => return Err(error),
            Err(_) => return Ok(None),
        };
        match fences::checked(fence) {
            Some(fence) if stored == value && !value::leads_on(data.as_deref(), since) => {
                Ok(Some((fence, data, Some(connection))))
            }
            _ => {
                self.servers.give_back(connection);
                Ok(None)
            }
        }
    }

    /// The slot and the name of the counter. One server has one.
    fn counter_of_fences(&self, key: &Key) -> (u16, String) {
        match self.servers.cluster() {
            None => (0, self.names.fence()),
            Some(_) => (slot_of(&Names::tag(key)), self.names.fence_of_slot(key)),
        }
    }

    /// Sleeps until woken, at most `longest`. Returns what was popped, empty when the time was over
    /// or the connection broke: the next try finds out.
    fn sleep(&self, key: &Key, longest: Duration) -> Result<Vec<u8>> {
        let longest = longest.max(Duration::from_millis(1)); // zero would mean for ever
        let [_, _, wait] = self.names.of(key);
        let mut command = redis::cmd("BLPOP");
        command.arg(wait).arg(format!("{:.3}", longest.as_secs_f64()));
        let slept = self.servers.once(self.deadline, key, |connection| {
            connection.set_deadline(self.deadline.of_answer(longest));
            command.query::<Option<(Vec<u8>, Vec<u8>)>>(connection)
        });
        match slept? {
            Ok(answer) => Ok(answer.map(|(_, popped)| popped).unwrap_or_default()),
            Err(error) if error.is_transient() || redirection(&error).is_some() => Ok(Vec::new()),
            Err(error) => Err(translate(error)),
        }
    }
}
