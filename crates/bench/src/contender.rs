//! The interface of a contender: a store behind the contract, or a reference row.
//!
//! A contender lives in one worker process and names sessions by number; ids are prepared before
//! the timed part. Invariant: `begin` and `read` return data that came from the store, each time.

use std::time::Duration;

use sessile_core::{Budget, Error, ErrorKind, Result, Swept};

/// One opened store in one worker. At most one session is held at a time.
pub trait Contender {
    /// Reads the ids of these sessions into the processor's cache, and nothing of the sessions. Not
    /// timed: a real request brings its id along and does not look it up in a table of all ids.
    fn prefetch_ids(&mut self, sessions: &[usize]) {
        let _ = sessions;
    }

    /// Begins a request, timed. Reconnecting contenders connect here.
    fn start_request(&mut self) -> Result<()> {
        Ok(())
    }

    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()>;

    /// Reads without a lock. `None` is a miss.
    fn read(&mut self, session: usize) -> Result<Option<&[u8]>>;

    /// Locks and reads. `None` is a miss; the lock is held either way. A contender without locks
    /// only reads.
    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        self.read(session)
    }

    /// Replaces the payload and releases the session.
    fn commit(&mut self, payload: &[u8]) -> Result<()>;

    /// Releases the begun session without writing.
    fn release(&mut self) -> Result<()> {
        Ok(())
    }

    /// Moves the expiry and releases the session. A contender without expiry only releases.
    fn touch(&mut self) -> Result<()> {
        self.release()
    }

    /// Transactions that the server aborted and that were repeated since opening; `None` if not
    /// counted.
    fn restarted(&self) -> Option<u64> {
        None
    }

    fn destroy(&mut self, session: usize) -> Result<()> {
        let _ = session;
        Err(unsupported("remove sessions"))
    }

    fn sweep(&mut self, budget: Budget) -> Result<Swept> {
        let _ = budget;
        Err(unsupported("sweep"))
    }

    /// A request that PHP's garbage collection chose: sweeps if the store needs sweeps.
    fn collect_garbage(&mut self) -> Result<()> {
        self.sweep(Budget::default()).map(drop)
    }
}

pub(crate) fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("this reference row cannot {what}"))
}
