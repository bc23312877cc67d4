//! A sample of a store, and the sampler that takes samples without becoming a load.
//!
//! Invariant: a costly question rests for a hundred times its duration. Not here: how a sample is
//! shown.

use std::time::{Duration, Instant};

use sessile_core::{
    Clock, Detail, Details, HeldLock, Key, Sessions, SharedCounts, Stat, Timestamp,
};
use sessile_stores::layouts::EntryName;

use crate::units::{bytes, seconds, short};

/// A costly question rests for this many times its duration.
const REST_TIMES: u32 = 100;
/// A store that answers with an error is asked again after this at the latest.
const RETRY_MAX: Duration = Duration::from_secs(2);
/// The locks that are asked for. A store with so many has perhaps more.
pub const LOCKS_MAX: usize = 1_000;
/// The locks that a terminal or a page shows.
pub const LOCKS_SHOWN_MAX: usize = 20;

/// A store at one moment. `None`: the store cannot tell.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The redacted URL.
    pub label: String,
    /// The moment.
    pub at: Timestamp,
    /// The events that all processes have counted.
    pub counts: Option<SharedCounts>,
    /// Sizes and ages, perhaps of an earlier sample.
    pub stat: Option<Stat>,
    /// The locks that were held at `locks_at`, the longest held first.
    pub locks: Option<Vec<HeldLock>>,
    /// The moment of the locks, perhaps of an earlier sample: an age is the one of then.
    pub locks_at: Timestamp,
    /// Facts that only this kind of store has.
    pub details: Details,
    /// The error of the store.
    pub error: Option<String>,
}

/// Takes samples of one store.
pub struct Sampler {
    sessions: Sessions,
    clock: Clock,
    stat: Costly<Stat>,
    locks: Costly<(Timestamp, Vec<HeldLock>)>,
    details: Costly<Details>,
}

/// The last answer to a costly question.
struct Costly<T> {
    last: Option<T>,
    next: Option<Instant>,
    error: Option<String>,
}

impl<T: Clone> Costly<T> {
    const fn new() -> Costly<T> {
        Costly { last: None, next: None, error: None }
    }

    fn get(&mut self, ask: impl FnOnce() -> sessile_core::Result<T>) -> Option<T> {
        let start = Instant::now();
        if self.next.is_none_or(|next| start >= next) {
            let asked = ask();
            self.error = match &asked {
                Err(error) if *error.kind() != sessile_core::ErrorKind::Unsupported => {
                    Some(format!("{error:#}"))
                }
                _ => None,
            };
            let rest = start.elapsed() * REST_TIMES;
            let rest = if self.error.is_some() { rest.min(RETRY_MAX) } else { rest };
            self.next = Some(Instant::now() + rest);
            self.last = asked.ok();
        }
        self.last.clone()
    }
}

impl Sampler {
    /// Takes samples of an opened store.
    pub fn new(sessions: Sessions, clock: Clock) -> Sampler {
        Sampler {
            sessions,
            clock,
            stat: Costly::new(),
            locks: Costly::new(),
            details: Costly::new(),
        }
    }

    /// Takes a sample.
    pub fn sample(&mut self) -> Sample {
        let Sampler { sessions, clock, stat, locks, details } = self;
        let held = locks.get(|| Ok((clock.now(), locks_of(sessions)?)));
        let sample = Sample {
            label: sessions.label().to_owned(),
            at: clock.now(),
            counts: sessions.shared_counts(),
            stat: stat.get(|| sessions.stat()),
            locks_at: held.as_ref().map_or(Timestamp::default(), |(at, _)| *at),
            locks: held.map(|(_, locks)| locks),
            details: details.get(|| sessions.details()).unwrap_or_default(),
            error: None,
        };
        let error = stat.error.clone().or(locks.error.clone()).or(details.error.clone());
        Sample { error, ..sample }
    }
}

/// The locks that are held, the longest held first.
pub fn locks_of(sessions: &Sessions) -> sessile_core::Result<Vec<HeldLock>> {
    let mut locks = sessions.locks(LOCKS_MAX)?;
    locks.sort_by_key(|lock| (lock.holder.since.is_none(), lock.holder.since));
    Ok(locks)
}

/// The number of locks in words.
pub fn how_many(locks: &[HeldLock]) -> String {
    match locks.len() {
        LOCKS_MAX.. => format!("{LOCKS_MAX} or more"),
        number => number.to_string(),
    }
}

/// A session as `sessile analyze` shows it: the first digits of the SHA-256 of its id.
pub fn session_digest(key: Option<&Key>) -> String {
    let digest = key.and_then(|key| EntryName::Tagged(key.clone()).digest());
    digest.unwrap_or_else(|| "unknown".to_owned())
}

/// A lock in words: session, holder, since when.
pub fn lock_line(lock: &HeldLock, now: Timestamp) -> String {
    let mut line = format!("{:<12}", session_digest(lock.key.as_ref()));
    match lock.holder.pid {
        Some(pid) => line.push_str(&format!("  pid {pid}")),
        None => line.push_str("  pid unknown"),
    }
    if let Some(host) = &lock.holder.host {
        line.push_str(&format!(" on {host}"));
    }
    if let Some(since) = lock.holder.since {
        let held: Duration = now.since(since);
        line.push_str(&format!("  for {:.1} s", held.as_secs_f64()));
    }
    if lock.has_waiters == Some(true) {
        line.push_str("  others wait");
    }
    line
}

/// A detail for people.
pub fn detail_text(detail: &Detail) -> String {
    match detail {
        Detail::Count(number) => short(*number as f64),
        Detail::Bytes(size) => bytes(*size as f64),
        Detail::Milliseconds(ms) => seconds(*ms as f64 / 1e3),
        Detail::Text(text) => text.clone(),
    }
}

/// The number of a detail, in the base unit of Prometheus, and the end of its name.
pub fn number_of(detail: &Detail) -> Option<(f64, &'static str)> {
    match detail {
        Detail::Count(number) => Some((*number as f64, "")),
        Detail::Bytes(bytes) => Some((*bytes as f64, "_bytes")),
        Detail::Milliseconds(ms) => Some((*ms as f64 / 1_000.0, "_seconds")),
        Detail::Text(_) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use sessile_core::Error;

    /// A server that was gone for a moment was shown as gone for a hundred times its time-out.
    #[test]
    fn an_error_is_not_shown_for_longer_than_the_store_has_it() {
        let mut costly = Costly::new();
        let slow = |result: sessile_core::Result<u64>| {
            std::thread::sleep(Duration::from_millis(100));
            result
        };
        let unreachable = || Err(Error::new(sessile_core::ErrorKind::Unreachable, "gone"));
        assert_eq!(costly.get(|| slow(unreachable())), None);
        assert!(costly.error.is_some());
        assert!(costly.next.unwrap() <= Instant::now() + RETRY_MAX);
        costly.next = None;
        assert_eq!(costly.get(|| slow(Ok(7))), Some(7));
        assert_eq!(costly.error, None);
        assert!(costly.next.unwrap() > Instant::now() + 2 * RETRY_MAX, "a count rests");
    }
}
