//! What can be measured: a store behind the contract, or a reference row.
//!
//! A contender lives in one worker process and knows sessions by number; ids are made before the timed part.
//! It owns one invariant: what it returns from `begin` and `read` came from the store, every time.

use std::time::Duration;

use sessile_core::{Budget, Error, ErrorKind, Result, Swept};

/// One opened store as one worker sees it. At most one session is held at a time.
pub trait Contender {
    /// Reads the ids of these sessions, so that they lie in the processor's cache, and nothing of the sessions. Called
    /// between two requests and not timed: a request brings its id along, it does not look for it in a table of
    /// all ids. Without ids in memory there is nothing to do.
    fn announce(&mut self, sessions: &[usize]) {
        let _ = sessions;
    }

    /// A request begins. Timed with what it does: who connects anew for each request does so here.
    ///
    /// # Errors
    ///
    /// Whatever the store says; so for all methods.
    fn arrive(&mut self) -> Result<()> {
        Ok(())
    }

    /// Stores a new session.
    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()>;

    /// Reads without a lock. `None` is a miss.
    fn read(&mut self, session: usize) -> Result<Option<&[u8]>>;

    /// Takes the lock and reads. `None` is a miss; the lock is held in either case. Without locks it is a read.
    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        self.read(session)
    }

    /// Replaces the payload of the session that was begun, and releases it.
    fn commit(&mut self, payload: &[u8]) -> Result<()>;

    /// Releases the session that was begun without writing. Without locks there is nothing to release.
    fn release(&mut self) -> Result<()> {
        Ok(())
    }

    /// Moves the expiry of the session that was begun, keeps its payload, and releases it. Who keeps no expiry only releases it.
    fn touch(&mut self) -> Result<()> {
        self.release()
    }

    /// How many transactions the server has given up in favour of others, and were done again, since this was opened; `None`
    /// where nobody counts them.
    fn restarted(&self) -> Option<u64> {
        None
    }

    /// Removes a session.
    fn destroy(&mut self, session: usize) -> Result<()> {
        let _ = session;
        Err(unsupported("remove sessions"))
    }

    /// Removes expired sessions within a budget.
    fn sweep(&mut self, budget: Budget) -> Result<Swept> {
        let _ = budget;
        Err(unsupported("sweep"))
    }

    /// What a session handler does when the dice of PHP's garbage collection have chosen its request: a sweep where
    /// expired sessions wait for one, and nothing where they go by themselves.
    fn collect_garbage(&mut self) -> Result<()> {
        self.sweep(Budget::default()).map(drop)
    }
}

/// What a reference row answers when it lacks an operation.
pub(crate) fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("this reference row cannot {what}"))
}
