//! Taking a lock, waiting for it, and reading what it guards.
//!
//! A waiter sleeps in BLPOP, which Redis serves in order of arrival and only to live connections. What it
//! pops is the token of the lock's reservation; with it, and only with it, the next try gets the lock. Each
//! sleep is bounded, as a second line against a wake-up that was lost with the one it was meant for.

use std::time::{Duration, Instant};

use redis::{Connection, Value};
use sessile_core::{Error, ErrorKind, Found, Key, Locked, Result, Timestamp, Trace};

use super::failure::unexpected;
use super::lock::{self, Base, Held};
use super::value::{self, Header, Kind};
use super::{RESERVATION, Redis, ms};
use crate::key_value::{ALIAS_STEPS_MAX, circle, sibling};
use crate::owner::{Token, holder_bytes, new_token};

/// Longest sleep of a waiter. All have the same, so that queueing again keeps their order.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// A counter below this was lost: its first number is the time in microseconds. begin.lua knows it too.
const FENCE_MIN: i64 = 1_000_000_000;

/// One try to take a lock.
struct Try<'a> {
    token: &'a Token,
    /// The reservation that was popped, or nothing.
    popped: &'a [u8],
    /// It has waited before: others may be waiting behind it.
    waited: bool,
    /// It will wait if the lock is taken, so the holder must know.
    will_wait: bool,
}

/// What a try led to.
enum Answer {
    Granted { fence: u64, data: Option<Vec<u8>>, watching: Option<Connection> },
    Taken { lock: Vec<u8>, remaining: Duration },
    LeadsTo(Key),
}

impl Redis {
    pub(super) fn acquire(&self, asked: &Key, wait_max: Duration) -> Result<Locked<Held>> {
        let start = Instant::now();
        self.release_orphans()?;
        let token = new_token()?;
        let mut key = asked.clone();
        let mut steps = 0;
        let mut popped = Vec::new();
        let mut waited = false;
        loop {
            let taken = Instant::now();
            let left = wait_max.saturating_sub(start.elapsed());
            let attempt = Try { token: &token, popped: &popped, waited, will_wait: !left.is_zero() };
            let since = self.clock.now();
            let tried = self.try_once(&key, &attempt, since);
            match tried.inspect_err(|_| self.orphans.remember(&key, &token))? {
                Answer::Granted { fence, data, watching } => {
                    let pid = std::process::id();
                    let read = data.as_deref().map(value::stamp_of).unwrap_or_default();
                    let held = Held { key, token, fence, pid, taken, since, read, base: None, watching };
                    return self.read_under(held, data, asked);
                }
                Answer::LeadsTo(next) => {
                    steps += 1;
                    if steps > ALIAS_STEPS_MAX {
                        return Err(circle());
                    }
                    key = next;
                    popped.clear();
                }
                Answer::Taken { lock, .. } if left.is_zero() => {
                    let kind = ErrorKind::LockTimeout { holder: lock::holder(&lock), waited: start.elapsed() };
                    return Err(Error::new(kind, "another request holds the session"));
                }
                Answer::Taken { remaining, .. } => {
                    popped = self.sleep(&key, left.min(SLEEP_MAX).min(remaining + spread(&token)))?;
                    waited = true;
                }
            }
        }
    }

    /// The record under a fresh lock; gives the lock back if the bytes are damaged.
    fn read_under(&self, mut held: Held, data: Option<Vec<u8>>, asked: &Key) -> Result<Locked<Held>> {
        let found = match data.map_or(Ok(Found::nothing()), |data| found(data, self.clock.now())) {
            Ok(found) => found,
            Err(error) => {
                self.unlock_unmarked(&held)?;
                return Err(error);
            }
        };
        held.base = found.record.as_ref().map(|record| Base {
            version: record.version,
            created: record.created,
            ends: record.ends,
        });
        let moved_to = (held.key != *asked).then(|| held.key.clone());
        Ok(Locked { held, found: Found { moved_to, ..found } })
    }

    fn try_once(&self, key: &Key, attempt: &Try<'_>, since: Timestamp) -> Result<Answer> {
        if !attempt.waited
            && let Some(granted) = self.try_plainly(key, attempt.token, since)?
        {
            return Ok(granted);
        }
        let [lock, data, wait] = self.lock_and_data(key);
        let now = since.as_ms();
        // Numbers of an emptied server start at its emptying, so they still grow. 1,000 a ms are enough.
        let first_fence = now.clamp(1, 1 << 42).saturating_mul(1_000).to_string();
        let answer = self.pool.run(
            &self.scripts.begin,
            &[lock, data, wait, self.names.fence()],
            &[
                attempt.token,
                &holder_bytes(since),
                ms(self.lock_ttl()).as_bytes(),
                first_fence.as_bytes(),
                now.to_string().as_bytes(),
                if attempt.waited { b"3" } else { b"0" },
                attempt.popped,
                if attempt.will_wait { b"1" } else { b"0" },
                ms(RESERVATION).as_bytes(),
            ],
        )?;
        decode(answer, key).ok_or_else(unexpected)
    }

    /// Takes a free lock with plain commands in one write; a script would cost the server many times as much.
    ///
    /// The order carries the argument. Lock and record are watched after the lock was taken and before both are
    /// read: if the lock then bears our token, whatever happens to lock or record from here on (a destroy, a
    /// touch, a waiter's mark, the end of the lock's time and a successor) makes the EXEC of the commit fail. The
    /// fence is drawn under the lock, so it is above that of the holder before, although others are served in
    /// between.
    ///
    /// `None` when the lock is taken, when the id leads on, when the counter of fences was lost, or when the
    /// server refuses these commands: begin.lua sorts that out. It knows this token, should the lock be ours.
    fn try_plainly(&self, key: &Key, token: &Token, since: Timestamp) -> Result<Option<Answer>> {
        let [lock, data, _] = self.lock_and_data(key);
        let value = lock::held_value(token, &holder_bytes(since));
        let mut commands = redis::pipe();
        commands.cmd("UNWATCH"); // what this connection watched for a lease that ended otherwise
        commands.cmd("SET").arg(&lock).arg(&value).arg("NX").arg("PX").arg(ms(self.lock_ttl()));
        commands.cmd("WATCH").arg(&lock).arg(&data);
        commands.cmd("GET").arg(&lock).cmd("INCR").arg(self.names.fence()).cmd("GET").arg(&data);
        let (answers, connection) = match self.pool.pin(&commands) {
            Ok(pinned) => pinned,
            Err(error) if *error.kind() == ErrorKind::Unreachable => return Err(error),
            Err(_) => return Ok(None),
        };
        let Ok([_, _, _, Value::BulkString(stored), Value::Int(fence), data]) = <[Value; 6]>::try_from(answers) else {
            return Ok(None);
        };
        let data = match data {
            Value::BulkString(data) => Some(data),
            _ => None,
        };
        let leads_on = data.as_deref().is_some_and(|data| leads_to(data, key, since).is_some());
        if stored != value || leads_on || fence < FENCE_MIN {
            self.pool.unpin(connection);
            return Ok(None);
        }
        Ok(Some(Answer::Granted { fence: fence.unsigned_abs(), data, watching: Some(connection) }))
    }

    /// Sleeps until woken, at most `longest`. Returns what was popped, empty when the time was over.
    fn sleep(&self, key: &Key, longest: Duration) -> Result<Vec<u8>> {
        let longest = longest.max(Duration::from_millis(1)); // zero would mean for ever
        let seconds = format!("{:.3}", longest.as_secs_f64());
        let answer = self.pool.block(redis::cmd("BLPOP").arg(self.names.wait(key)).arg(seconds), longest)?;
        Ok(match answer {
            Value::Array(parts) => match <[Value; 2]>::try_from(parts) {
                Ok([_, Value::BulkString(popped)]) => popped,
                _ => Vec::new(),
            },
            _ => Vec::new(),
        })
    }

    pub(super) fn look(&self, asked: &Key) -> Result<Found> {
        let mut key = asked.clone();
        for _ in 0..=ALIAS_STEPS_MAX {
            let now = self.clock.now();
            let data = match self.pool.call(redis::cmd("GET").arg(self.names.data(&key)))? {
                Value::Nil => None,
                Value::BulkString(data) => Some(data),
                _ => return Err(unexpected()),
            };
            match data.as_deref().and_then(|data| leads_to(data, &key, now)) {
                Some(next) => key = next,
                None => {
                    let found = data.map_or(Ok(Found::nothing()), |data| found(data, now))?;
                    return Ok(Found { moved_to: (key != *asked).then_some(key), ..found });
                }
            }
        }
        Err(circle())
    }
}

/// What a value means at `now`, apart from where it leads.
fn found(data: Vec<u8>, now: Timestamp) -> Result<Found> {
    let (header, payload) = value::open(data)?;
    let trace = |trace| if header.ends.is_some_and(|forget| forget > now) { trace } else { Trace::Unknown };
    Ok(match header.kind {
        Kind::Live if header.expires > now => Found::live(value::record(&header, payload)),
        Kind::Live => Found::nothing(),
        Kind::Tombstone => Found::traced(trace(Trace::Destroyed)),
        Kind::Alias => Found::traced(trace(Trace::Regenerated)),
    })
}

/// The key to which an alias leads while its grace runs.
fn leads_to(data: &[u8], from: &Key, now: Timestamp) -> Option<Key> {
    let header = Header::decode(data).ok()?;
    if header.kind != Kind::Alias || header.expires <= now {
        return None;
    }
    sibling(from, data.get(value::HEADER_BYTES..)?)
}

fn decode(answer: Value, key: &Key) -> Option<Answer> {
    let Value::Array(parts) = answer else { return None };
    let mut parts = parts.into_iter();
    match (parts.next()?, parts.next()?, parts.next()) {
        (Value::Int(0), Value::BulkString(fence), data) => {
            let data = match data {
                Some(Value::BulkString(data)) => Some(data),
                _ => None,
            };
            let fence = std::str::from_utf8(&fence).ok()?.parse().ok()?;
            Some(Answer::Granted { fence, data, watching: None })
        }
        (Value::Int(1), Value::BulkString(lock), Some(Value::Int(remaining))) => {
            // Negative: made by hand without a time limit. Then only the sleep's own bound counts.
            let remaining = u64::try_from(remaining).map_or(SLEEP_MAX, Duration::from_millis);
            Some(Answer::Taken { lock, remaining })
        }
        (Value::Int(2), Value::BulkString(id), _) => sibling(key, &id).map(Answer::LeadsTo),
        _ => None,
    }
}

/// 1 to 8 ms after the end of a lock's time, so that not all its waiters come at once.
fn spread(token: &Token) -> Duration {
    let [first, ..] = *token;
    Duration::from_millis(1 + u64::from(first % 8))
}
