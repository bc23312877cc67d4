//! The store during one operation, which ends at its deadline.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, FromRedisValue};
use sessile_core::{Key, Result, Ttl};

use super::begin::Held;
use super::replicas::Replicas;
use super::script::{RELEASE, TOUCH, done};
use super::{EXPIRY_SLACK, Redis, ms};
use crate::connections::bounded::{self, BoundedStore};
use crate::connections::deadline::Deadline;
use crate::locks::token::Token;

pub(super) type Bounded<'s> = bounded::Bounded<'s, Redis>;

impl BoundedStore for Redis {
    fn deadline(&self, wait: Duration) -> Deadline {
        self.servers.deadline(wait)
    }
}

impl Bounded<'_> {
    /// Runs a command that reads something of a session.
    pub fn query<T: FromRedisValue>(&self, key: &Key, command: &Cmd) -> Result<T> {
        self.servers.with(self.deadline, key, |connection| command.query(connection))
    }

    /// How many replicas must have a change, if any.
    pub fn replicas(&self) -> Option<Replicas> {
        (self.min_replicas > 0).then_some(Replicas(self.min_replicas))
    }

    /// Moves an expiry. Answers the new stamp of a leased record, or where an id without a lease
    /// leads.
    pub fn run_touch(&self, key: &Key, ttl: Ttl, lease: (&[u8], &[u8])) -> Result<Option<Vec<u8>>> {
        let (token, read) = lease;
        let absolute = ttl.absolute_ms().map_or(String::new(), |ms| ms.to_string());
        let deadline = (self.clock.now().as_ms(), ttl.idle_ms(), absolute, ms(EXPIRY_SLACK));
        done(self.run(&TOUCH, key, &[], (token, deadline, read, ms(self.lock_ttl)))?)
    }

    /// `mark` leaves its mark in the record.
    pub fn unlock(&self, held: &Held, mark: bool) -> Result<()> {
        let released = self.run_release(&held.key, &held.token, mark);
        released.inspect_err(|_| self.orphans.remember(&held.key, &held.token))
    }

    /// Those on the server of this session: one that is down must not stop requests to the others.
    pub fn release_orphans(&self, of: &Key) -> Result<()> {
        let node = |key: &Key| self.servers.node_of(self.deadline, key);
        let concerns = |key: &Key| {
            self.servers.cluster().is_none()
                || matches!((node(key), node(of)), (Ok(a), Ok(b)) if Arc::ptr_eq(&a, &b))
        };
        let release = |key: &Key, token: &Token| self.run_release(key, token, false);
        self.orphans.release_all(self.lock_ttl, concerns, release)
    }

    fn run_release(&self, key: &Key, token: &Token, mark: bool) -> Result<()> {
        done(self.run(&RELEASE, key, &[], (token, mark))?).map(drop)
    }
}
