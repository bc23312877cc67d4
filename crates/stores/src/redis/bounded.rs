//! The store during one operation, which ends at its deadline.

use std::time::Duration;

use redis::{Cmd, FromRedisValue};
use sessile_core::{Key, Result, Ttl};

use super::begin::Held;
use super::script::{RELEASE, TOUCH, done};
use super::{EXPIRY_SLACK, Redis, ms};
use crate::connections::bounded::{self, BoundedStore};
use crate::connections::deadline::Deadline;
use crate::locks::token::Token;

pub(super) type Bounded<'s> = bounded::Bounded<'s, Redis>;

impl BoundedStore for Redis {
    fn deadline(&self, wait: Duration) -> Deadline {
        self.pool.deadline(wait)
    }
}

impl Bounded<'_> {
    pub fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        self.pool.with(self.deadline, |connection| command.query(connection))
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

    pub fn release_orphans(&self) -> Result<()> {
        self.orphans.release_all(self.lock_ttl, |key, token| self.run_release(key, token, false))
    }

    fn run_release(&self, key: &Key, token: &Token, mark: bool) -> Result<()> {
        done(self.run(&RELEASE, key, &[], (token, mark))?).map(drop)
    }
}
