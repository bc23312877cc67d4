//! The store during one operation, which ends at its deadline.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sessile_core::{Error, Key, Result, Timestamp};

use super::Memcached;
use super::failure::fault;
use super::reply::{Fault, Reply};
use super::request::Commands;
use super::turn;
use crate::connections::bounded::{self, BoundedStore};
use crate::connections::deadline::Deadline;

pub(super) type Bounded<'s> = bounded::Bounded<'s, Memcached>;

impl BoundedStore for Memcached {
    fn deadline(&self, wait: Duration) -> Deadline {
        self.servers.deadline(wait)
    }
}

impl Bounded<'_> {
    /// Sends commands to the server of a session. A refusal by the server is an answer.
    pub fn send<const ANSWERS: usize>(
        &self,
        key: &Key,
        commands: Commands,
    ) -> Result<[Reply; ANSWERS]> {
        self.servers.send(self.deadline, key, &commands)
    }

    /// As [`Bounded::send`], for commands that depend on the server's time.
    pub fn send_timed<const ANSWERS: usize>(
        &self,
        key: &Key,
        commands: impl Fn(Timestamp) -> Commands,
    ) -> Result<[Reply; ANSWERS]> {
        self.servers.send_timed(self.deadline, key, self.clock.now(), commands)
    }

    /// See [`turn::contend`].
    pub fn contend<T>(&self, attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        turn::contend(self.deadline, attempt)
    }

    /// Sums of what all servers count.
    pub fn sums<const NAMES: usize>(&self, names: [&str; NAMES]) -> Result<[u64; NAMES]> {
        self.servers.sums(self.deadline, names)
    }

    /// Whether items were pushed out since this was last asked.
    pub fn has_evicted(&self) -> bool {
        let Ok([evictions]) = self.sums(["evictions"]) else { return false };
        // Relaxed: a number that orders nothing.
        self.evictions.swap(evictions, Ordering::Relaxed) < evictions
    }

    /// Whether an item was stored; if not, there is another one. Fails when the server could not:
    /// `TooLarge`, `OutOfMemory`, `Io`.
    pub fn is_stored(&self, key: &Key, reply: Reply, payload_bytes: usize) -> Result<bool> {
        match reply {
            Reply::Done(_) => Ok(true),
            Reply::Refused | Reply::Missing => Ok(false),
            Reply::Failed(why) => Err(self.save_failed(key, why, payload_bytes)),
        }
    }

    fn save_failed(&self, key: &Key, why: Fault, payload_bytes: usize) -> Error {
        // The server may have come back with a lower limit since it was asked.
        let limit = match why {
            Fault::TooLarge => self.servers.payload_bytes_max_of(self.deadline, key).ok(),
            _ => None,
        };
        fault(why, payload_bytes, limit.unwrap_or(self.payload_bytes_max))
    }
}
