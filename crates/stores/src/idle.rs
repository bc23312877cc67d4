//! The idle connections of one opened store to its server, and the patience with a server that comes back.
//!
//! Invariant: a process is never given a connection that another one opened. A child drops those that it inherited when it
//! first asks. So dropping a connection must send nothing: it may only close this process's descriptors, which the
//! server does not see while the parent has its own.
//!
//! A mutex may be frozen in a child if another thread of the parent held it at the fork. So nobody waits for it: who
//! does not get it at once opens a connection of its own. Not here: how to connect, and what a connection says.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// A server restart on the same host takes about this long; a longer outage is told, not hidden.
const RETRY_FOR: Duration = Duration::from_millis(1_500);
const FIRST_PAUSE: Duration = Duration::from_millis(25);
/// Connections kept when idle; more threads than this get theirs opened and closed.
const IDLE_MAX: usize = 32;
/// Attempts to get the mutex, which is held for nanoseconds.
const LOCK_ATTEMPTS: usize = 64;

/// Connections that nobody uses at the moment.
pub(crate) struct Idle<C>(Mutex<Owned<C>>);

struct Owned<C> {
    pid: u32,
    connections: Vec<C>,
}

impl<C> Default for Idle<C> {
    fn default() -> Idle<C> {
        Idle(Mutex::new(Owned { pid: std::process::id(), connections: Vec::new() }))
    }
}

impl<C> Idle<C> {
    /// The connection that was put back last: the likeliest to be alive.
    pub fn take(&self) -> Option<C> {
        self.own()?.connections.pop()
    }

    /// Puts back a connection that the calling process opened and that is fit for use.
    pub fn put(&self, connection: C) {
        if let Some(mut own) = self.own()
            && own.connections.len() < IDLE_MAX
        {
            own.connections.push(connection);
        }
    }

    /// Drops them all. For when one was found broken: the others are as old and most likely as dead, and a restart of the
    /// server must not cost one retry for each.
    pub fn clear(&self) {
        if let Some(mut own) = self.own() {
            own.connections.clear();
        }
    }

    /// Those of this very process. `None` when the mutex cannot be had.
    fn own(&self) -> Option<MutexGuard<'_, Owned<C>>> {
        for _ in 0..LOCK_ATTEMPTS {
            let mut own = match self.0.try_lock() {
                Ok(own) => own,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    std::thread::yield_now();
                    continue;
                }
            };
            let pid = std::process::id();
            if own.pid != pid {
                own.connections.clear();
                own.pid = pid;
            }
            return Some(own);
        }
        None
    }
}

/// Repeats an attempt that is idempotent while its failure is transient, with growing pauses, for a bounded time.
///
/// # Errors
///
/// The last failure.
pub(crate) fn retry<T, E>(
    is_transient: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match attempt() {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if !is_transient(&error) || start.elapsed() + pause > RETRY_FOR {
            return Err(error);
        }
        std::thread::sleep(pause);
        pause *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_process_opened_is_dropped_and_never_given_out() {
        let idle = Idle::default();
        idle.put("of the parent");
        idle.0.lock().unwrap().pid += 1; // as if this were a child
        assert_eq!(idle.take(), None);
        idle.put("of the child");
        assert_eq!(idle.take(), Some("of the child"));
    }

    #[test]
    fn a_frozen_mutex_stops_nobody() {
        let idle = Idle::default();
        idle.put(1);
        let _frozen = idle.0.lock().unwrap();
        idle.put(2);
        idle.clear();
        assert_eq!(idle.take(), None);
    }

    #[test]
    fn no_more_than_a_bounded_number_is_kept() {
        let idle = Idle::default();
        (0..1_000).for_each(|number| idle.put(number));
        assert_eq!(std::iter::from_fn(|| idle.take()).count(), IDLE_MAX);
    }

    #[test]
    fn only_transient_failures_are_retried_and_not_for_ever() {
        let mut attempts = 0;
        let third = retry(
            |_: &&str| true,
            || {
                attempts += 1;
                if attempts < 3 { Err("not yet") } else { Ok(attempts) }
            },
        );
        assert_eq!(third, Ok(3));
        let once = retry(
            |_| false,
            || {
                attempts += 1;
                Err::<(), _>("no")
            },
        );
        assert_eq!((once, attempts), (Err("no"), 4));
        let start = Instant::now();
        assert_eq!(retry(|_| true, || Err::<(), _>("never")), Err("never"));
        assert!((RETRY_FOR / 2..RETRY_FOR * 10).contains(&start.elapsed()), "{:?}", start.elapsed());
    }
}
