//! The time of a store: real, or driven by a test.
//!
//! Every decision about expiry asks a [`Clock`], never the operating system, so that a test can
//! move time to the exact millisecond of an expiry instead of sleeping. The clock is wall time
//! (UTC), because records outlive processes and reboots. It may be set back: the arithmetic of
//! [`Timestamp`] saturates, so that nothing panics or underflows.
//!
//! Deadlines of lock waits use the monotonic [`std::time::Instant`] instead.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment in milliseconds since 1970-01-01 00:00 UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The earliest moment.
    pub const ZERO: Timestamp = Timestamp(0);

    /// From milliseconds since the epoch.
    pub const fn from_ms(ms: u64) -> Timestamp {
        Timestamp(ms)
    }

    /// Milliseconds since the epoch.
    pub const fn as_ms(self) -> u64 {
        self.0
    }

    /// This moment moved into the future; saturates.
    pub fn plus(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(whole_ms(duration)))
    }

    /// This moment moved into the past; stops at the epoch.
    pub fn minus(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(whole_ms(duration)))
    }

    /// The time since `earlier`; zero if that is not earlier.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

pub(crate) fn whole_ms(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000).saturating_add(u64::from(duration.subsec_millis()))
}

/// Tells the time. Clones of a manual clock share its value.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    Shifted {
        ahead_ms: u64,
    },
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The clock of the operating system.
    pub const fn system() -> Clock {
        Clock(Source::System)
    }

    /// The system clock plus `ahead`, for test processes that must agree on a later time.
    pub fn ahead_of_system(ahead: Duration) -> Clock {
        Clock(Source::Shifted { ahead_ms: whole_ms(ahead) })
    }

    /// A clock that stands at `start` until it is moved.
    pub fn manual(start: Timestamp) -> Clock {
        Clock(Source::Manual(Arc::new(AtomicU64::new(start.0))))
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => Timestamp(system_ms()),
            Source::Shifted { ahead_ms } => Timestamp(system_ms().saturating_add(*ahead_ms)),
            // Relaxed: the value publishes no other memory.
            Source::Manual(hands) => Timestamp(hands.load(Ordering::Relaxed)),
        }
    }

    /// Moves a manual clock to `moment`, forward or back.
    ///
    /// # Panics
    ///
    /// On any other clock: an error of the calling test.
    pub fn set(&self, moment: Timestamp) {
        let Source::Manual(hands) = &self.0 else {
            assert!(matches!(self.0, Source::Manual(_)), "only a manual clock can be set");
            return;
        };
        hands.store(moment.0, Ordering::Relaxed);
    }

    /// As [`Clock::set`], forward.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().plus(by));
    }
}

fn system_ms() -> u64 {
    // A system clock before 1970 reads as 1970: sessions live too long rather than vanish.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, whole_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_of_a_manual_clock_move_together() {
        let clock = Clock::manual(Timestamp::from_ms(5));
        let twin = clock.clone();
        twin.advance(Duration::from_millis(7));
        assert_eq!(clock.now().as_ms(), 12);
    }

    #[test]
    fn a_clock_set_back_never_underflows() {
        let clock = Clock::manual(Timestamp::from_ms(1_000));
        let later = clock.now();
        clock.set(Timestamp::from_ms(10));
        assert_eq!(clock.now().since(later), Duration::ZERO);
        assert_eq!(clock.now().minus(Duration::from_secs(9)), Timestamp::ZERO);
    }
}
