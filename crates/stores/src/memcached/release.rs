//! Giving up a lock or a place in its queue.
//!
//! Invariant: a lock is only touched when it bears our token, and by its CAS number. A lock with
//! waiters is not deleted but reserved for the first of them.

use sessile_core::{Key, Result};

use super::Held;
use super::bounded::Bounded;
use super::lock::Lock;
use super::reply::Cas;
use super::request::Commands;
use crate::locks::check_process;
use crate::locks::token::Token;

pub fn release(store: &Bounded<'_>, held: &Held) -> Result<()> {
    if check_process(held.pid).is_err() {
        return Ok(()); // the parent's
    }
    let name = store.lock_name(&held.key);
    let placeholder = if held.read.placeholder { held.read.cas } else { Cas::default() };
    // Before the lock: its next holder may count on what is there.
    let commands = Commands::default()
        .delete(&store.data_name(&held.key), placeholder)
        .delete(&name, held.lock_cas)
        .get(&name);
    let released = store.send(&held.key, commands).and_then(|[_, _, lock]| {
        let seen = lock.lock()?;
        store.give_up_seen(&held.key, &held.token, seen)
    });
    released.inspect_err(|_| store.servers.orphans_of(&held.key).remember(&held.key, &held.token))
}

impl Bounded<'_> {
    pub fn lock_of(&self, key: &Key) -> Result<Option<Lock>> {
        let [reply] = self.send(key, Commands::default().get(&self.lock_name(key)))?;
        reply.lock()
    }

    /// Gives up whatever a token has: the lock, a reservation, a place in the queue.
    pub fn give_up(&self, key: &Key, token: &Token) -> Result<()> {
        self.give_up_seen(key, token, self.lock_of(key)?)
    }

    /// Gives up whatever a token has in a lock that has just been seen.
    pub fn give_up_seen(&self, key: &Key, token: &Token, mut seen: Option<Lock>) -> Result<()> {
        let name = self.lock_name(key);
        self.contend(|| {
            let Some(mut lock) = seen.take() else { return Ok(Some(())) };
            let commands = Commands::default();
            let commands = match lock.handed_over() {
                _ if lock.token != *token && !lock.waiters.contains(token) => return Ok(Some(())),
                _ if lock.token != *token => {
                    lock.waiters = lock.waiters_without(token);
                    lock.put(commands, &name, Some(lock.cas))
                }
                Some(next) => next.put(commands, &name, Some(lock.cas)),
                None => commands.delete(&name, lock.cas),
            };
            let [changed, lock] = self.send(key, commands.get(&name))?;
            self.is_stored(key, changed, 0)?;
            seen = lock.lock()?;
            Ok(None)
        })
    }

    /// After a failure the next begin tries again.
    pub fn give_up_or_remember(&self, key: &Key, token: &Token) {
        if self.give_up(key, token).is_err() {
            self.servers.orphans_of(key).remember(key, token);
        }
    }
}
