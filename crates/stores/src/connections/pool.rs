//! The connections of one opened store to one server, and retries on them.
//!
//! Invariants: an idle connection holds no lock and is in no transaction; when one is found broken,
//! the idle ones go too, because they are as old; only idempotent requests are retried, and none on
//! a server that is known to be out of order.
//!
//! Not for SQLite, whose connections a child has to close before it opens its first
//! (`sqlite/connection.rs`): [`Idle`] only drops them.

use std::time::{Duration, Instant};

use sessile_core::Error;

use super::breaker;
use super::deadline::Deadline;
use super::doubt;
use super::idle::Idle;
use super::options::Timeouts;
use super::retry::{RETRY_FOR, retry};

/// Longer than a failover takes with the usual settings of Redis sentinels (30 s until a primary
/// counts as down), of Redis clusters (15 s) and of tools that promote a standby of a database.
pub const FAILOVER_MAX: Duration = Duration::from_secs(40);

pub trait AttemptFailure {
    /// Whether the same request may succeed after a short wait, or on a new connection.
    fn is_transient(&self) -> bool;
    /// Whether the connection cannot be used any more, and with it what its session held is lost.
    fn breaks_connection(&self) -> bool;
    /// Whether the server takes no writes (any more): a primary that was demoted. A new connection
    /// may lead to its successor, so this breaks the connection, and is worth one more attempt.
    fn is_demotion(&self) -> bool {
        false
    }
    /// Whether the server may have carried the request out.
    fn leaves_doubt(&self) -> bool {
        self.breaks_connection() && !self.is_demotion()
    }
}

pub trait PooledConnection: Sized {
    type Settings;
    type Failure: AttemptFailure;

    fn timeouts(settings: &Self::Settings) -> Timeouts;
    fn open(settings: &Self::Settings, deadline: Instant) -> Result<Self, Self::Failure>;
    /// From now on its requests fail at this time.
    fn set_deadline(&mut self, deadline: Instant);
    /// Whether any other request may use it.
    fn is_reusable(&self) -> bool;
    fn translate(settings: &Self::Settings, failure: Self::Failure) -> Error;
    /// Whether an idle connection still leads where a new one would.
    fn is_current(&self, _: &Self::Settings, _: Deadline) -> bool {
        true
    }
    /// For how long another server may take over: so long a request is tried again. `None`: no
    /// other does.
    fn failover(_: &Self::Settings) -> Option<Duration> {
        None
    }
}

pub struct Pool<C: PooledConnection> {
    pub settings: C::Settings,
    idle: Idle<C>,
}

impl<C: PooledConnection> Pool<C> {
    pub fn new(settings: C::Settings) -> Pool<C> {
        Pool { settings, idle: Idle::default() }
    }

    /// For an operation that begins now, and may wait this long for a lock.
    pub fn deadline(&self, wait: Duration) -> Deadline {
        Deadline::new(wait, C::timeouts(&self.settings).response)
    }

    /// Runs an attempt on a connection, again while its failures are transient.
    pub fn with<T>(
        &self,
        deadline: Deadline,
        attempt: impl FnMut(&mut C) -> Result<T, C::Failure>,
    ) -> sessile_core::Result<T> {
        let (answer, connection) = self.with_kept(deadline, attempt)?;
        self.give_back(connection);
        Ok(answer)
    }

    /// As [`Pool::with`], and keeps the connection.
    pub fn with_kept<T>(
        &self,
        deadline: Deadline,
        mut attempt: impl FnMut(&mut C) -> Result<T, C::Failure>,
    ) -> sessile_core::Result<(T, C)> {
        self.retry(deadline, |connection| self.on(connection, &mut attempt))
    }

    pub fn once<T>(
        &self,
        deadline: Deadline,
        attempt: impl FnOnce(&mut C) -> Result<T, C::Failure>,
    ) -> Result<T, C::Failure> {
        let (answer, connection) = self.on(self.take(deadline)?, attempt)?;
        self.give_back(connection);
        Ok(answer)
    }

    /// Runs an attempt once on this connection, which is given back if it failed and is fit.
    pub fn on<T>(
        &self,
        mut connection: C,
        attempt: impl FnOnce(&mut C) -> Result<T, C::Failure>,
    ) -> Result<(T, C), C::Failure> {
        match attempt(&mut connection) {
            Ok(answer) => Ok((answer, connection)),
            Err(failure) => {
                self.note(&failure);
                if !failure.breaks_connection() {
                    self.give_back(connection);
                }
                Err(failure)
            }
        }
    }

    /// As [`Pool::with`], for an attempt that keeps or returns its connection.
    pub fn retry<T>(
        &self,
        deadline: Deadline,
        mut attempt: impl FnMut(C) -> Result<T, C::Failure>,
    ) -> sessile_core::Result<T> {
        let mut demotions = 0;
        let failover = C::failover(&self.settings);
        let may_pass = |failure: &C::Failure| {
            if breaker::outage().is_some_and(|outage| outage > failover.unwrap_or_default()) {
                return false;
            }
            if failover.is_some() && failure.is_demotion() {
                return true;
            }
            demotions += u32::from(failure.is_demotion());
            failure.is_transient() || failure.is_demotion() && demotions == 1
        };
        let attempt = || attempt(self.take(deadline)?).inspect_err(|failure| self.note(failure));
        let longest = failover.unwrap_or(RETRY_FOR);
        retry(deadline, longest, may_pass, attempt)
            .map_err(|failure| C::translate(&self.settings, failure))
    }

    /// Remembers what the failure of a request says about it and about the idle connections.
    pub fn note(&self, failure: &C::Failure) {
        doubt::note(failure);
        if failure.breaks_connection() {
            self.idle.clear();
        }
    }

    /// Takes back a connection that holds nothing.
    pub fn give_back(&self, connection: C) {
        if connection.is_reusable() {
            self.idle.put(connection);
        }
    }

    pub fn take(&self, deadline: Deadline) -> Result<C, C::Failure> {
        breaker::forget_outage();
        let answer = deadline.of_answer(Duration::ZERO);
        let Some(mut connection) = self.idle.take() else {
            return C::open(&self.settings, answer);
        };
        if !connection.is_current(&self.settings, deadline) {
            self.idle.clear();
            return C::open(&self.settings, answer);
        }
        connection.set_deadline(answer);
        Ok(connection)
    }
}
