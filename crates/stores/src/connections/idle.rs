//! The idle connections of one opened store to its server.
//!
//! Invariant: a process never gets a connection that another one opened. A child drops inherited
//! connections at its first request. So dropping a connection must send nothing: it may only close
//! this process's descriptors, which the server does not see while the parent has its own.
//!
//! In a child the mutex may stay locked for ever, if another thread of the parent held it at the
//! fork. So no thread waits for it: if `try_lock` fails, the caller opens a connection.

use std::sync::{Mutex, MutexGuard, TryLockError};

/// The most idle connections; beyond, each request opens and closes its own.
const IDLE_MAX: usize = 32;
/// Attempts to lock the mutex, which is held for nanoseconds.
const LOCK_ATTEMPTS: usize = 64;

pub struct Idle<C>(Mutex<ProcessConnections<C>>);

struct ProcessConnections<C> {
    pid: u32,
    connections: Vec<C>,
}

impl<C> Default for Idle<C> {
    fn default() -> Idle<C> {
        Idle(Mutex::new(ProcessConnections { pid: std::process::id(), connections: Vec::new() }))
    }
}

impl<C> Idle<C> {
    /// The connection that was put back last: the likeliest to be alive.
    pub fn take(&self) -> Option<C> {
        self.lock_connections()?.connections.pop()
    }

    pub fn put(&self, connection: C) {
        if let Some(mut idle) = self.lock_connections()
            && idle.connections.len() < IDLE_MAX
        {
            idle.connections.push(connection);
        }
    }

    /// Drops all, after one was found broken: a restart of the server must not cost one retry for
    /// each.
    pub fn clear(&self) {
        if let Some(mut idle) = self.lock_connections() {
            idle.connections.clear();
        }
    }

    /// `None` if the mutex stays locked.
    fn lock_connections(&self) -> Option<MutexGuard<'_, ProcessConnections<C>>> {
        for _ in 0..LOCK_ATTEMPTS {
            let mut idle = match self.0.try_lock() {
                Ok(idle) => idle,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    std::thread::yield_now();
                    continue;
                }
            };
            let pid = std::process::id();
            if idle.pid != pid {
                idle.connections.clear();
                idle.pid = pid;
            }
            return Some(idle);
        }
        None
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
}
