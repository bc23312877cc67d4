//! Giving a lock or a place in its queue up.
//!
//! Invariant: nobody's lock is touched but one that bears our token, and that by its CAS number. A lock for which others
//! wait is not deleted but reserved for the first of them.

use sessile_core::{Key, Result};

use super::contest::{ATTEMPTS_MAX, busy};
use super::failure::fault;
use super::lock::Standing;
use super::look::looked_up;
use super::reply::Reply;
use super::request::{Batch, Life};
use super::{Held, Memcached};
use crate::owner::{Token, check_process};

impl Memcached {
    /// The lock of a session as it is now.
    pub(super) fn standing(&self, key: &Key) -> Result<Option<Standing>> {
        let mut batch = Batch::default();
        batch.get(&self.names.lock(key));
        let [reply] = self.servers.call(key, &batch)?;
        Ok(looked_up(reply)?.map(|item| Standing::of(&item)))
    }

    /// Gives up whatever a token has: the lock, a reservation, a place in the queue.
    pub(super) fn leave(&self, key: &Key, token: &Token) -> Result<()> {
        let standing = self.standing(key)?;
        self.leave_as_seen(key, token, standing)
    }

    /// The same, when the lock has just been seen.
    pub(super) fn leave_as_seen(&self, key: &Key, token: &Token, mut seen: Option<Standing>) -> Result<()> {
        let name = self.names.lock(key);
        // Each turn that fails is somebody else who came or left.
        for _ in 0..ATTEMPTS_MAX {
            let Some(standing) = &seen else { return Ok(()) };
            let Some(lock) = &standing.lock else { return Ok(()) };
            let mut batch = Batch::default();
            if lock.token == *token {
                match lock.handed_over() {
                    Some(next) => {
                        batch.cas(&name, 0, Life::from(next.native_s()), &next.encode(), standing.cas);
                    }
                    None => batch.delete(&name, standing.cas),
                }
            } else if lock.waiters.contains(token) {
                batch.cas(&name, 0, standing.life(), &lock.without(token).encode(), standing.cas);
            } else {
                return Ok(());
            }
            batch.get(&name);
            let [changed, now] = self.servers.call(key, &batch)?;
            if let Reply::Failed(why) = changed {
                return Err(fault(why, 0, 0));
            }
            seen = looked_up(now)?.map(|item| Standing::of(&item));
        }
        Err(busy())
    }

    /// The same for those who can do nothing about a failure: the next begin tries again.
    pub(super) fn leave_or_remember(&self, key: &Key, token: &Token) {
        if self.leave(key, token).is_err() {
            self.orphans.remember(key, token);
        }
    }

    /// Ends a lease without writing.
    pub(super) fn end(&self, held: &Held) -> Result<()> {
        if check_process(held.pid).is_err() {
            return Ok(()); // the parent's
        }
        let name = self.names.lock(&held.key);
        let mut batch = Batch::default();
        if held.read.placeholder {
            // Before the lock: whoever takes that next may count on what is there.
            batch.delete(&self.names.data(&held.key), held.read.cas);
        }
        if let Some(cas) = held.lock_cas {
            batch.delete(&name, cas);
        }
        batch.get(&name);
        let left = self.servers.call_any(&held.key, &batch).and_then(|mut replies| {
            let seen = replies.pop().map(looked_up).transpose()?.flatten();
            self.leave_as_seen(&held.key, &held.token, seen.map(|item| Standing::of(&item)))
        });
        left.inspect_err(|_| self.orphans.remember(&held.key, &held.token))
    }
}
