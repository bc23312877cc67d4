//! The time of a store: real, or driven by a test.
//!
//! Every decision about expiry asks a [`Clock`], never the operating system, so that a test can
//! move time to the exact millisecond of an expiry instead of sleeping. The clock is wall time
//! (UTC), because records outlive processes and reboots. It may be set back: the arithmetic of
//! [`Timestamp`] saturates, so that nothing panics or underflows.
//!
//! Deadlines of lock waits use the monotonic [`std::time::Instant`] instead.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment in milliseconds since 1970-01-01 00:00 UTC.
///
/// One more than these milliseconds is kept, so that no moment is as large as a moment: heads of
/// records are copied in each request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(NonZeroU64);

impl Timestamp {
    /// The earliest moment.
    pub const ZERO: Timestamp = Timestamp::from_ms(0);

    /// From milliseconds since the epoch; [`u64::MAX`] reads as one less.
    #[inline]
    pub const fn from_ms(ms: u64) -> Timestamp {
        Timestamp(NonZeroU64::MIN.saturating_add(ms))
    }

    /// From milliseconds since the epoch, of which [`u64::MAX`] stands for no moment.
    #[inline]
    pub fn before_last(ms: u64) -> Option<Timestamp> {
        NonZeroU64::new(ms.wrapping_add(1)).map(Timestamp)
    }

    /// Milliseconds since the epoch.
    #[inline]
    pub const fn as_ms(self) -> u64 {
        self.0.get() - 1
    }

    /// This moment moved into the future; saturates.
    pub fn plus(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(whole_ms(duration)))
    }

    /// This moment moved into the past; stops at the epoch.
    pub fn minus(self, duration: Duration) -> Timestamp {
        Timestamp::from_ms(self.as_ms().saturating_sub(whole_ms(duration)))
    }

    /// The time since `earlier`; zero if that is not earlier.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.as_ms().saturating_sub(earlier.as_ms()))
    }
}

impl Default for Timestamp {
    fn default() -> Timestamp {
        Timestamp::ZERO
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.as_ms())
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
    Manual(Arc<Hands>),
}

#[derive(Debug, Default)]
struct Hands {
    now_ms: AtomicU64,
    passed_ms: AtomicU64,
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
        let now_ms = AtomicU64::new(start.as_ms());
        Clock(Source::Manual(Arc::new(Hands { now_ms, ..Hands::default() })))
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => Timestamp::from_ms(system_ms()),
            Source::Shifted { ahead_ms } => {
                Timestamp::from_ms(system_ms().saturating_add(*ahead_ms))
            }
            // Relaxed: the value publishes no other memory.
            Source::Manual(hands) => Timestamp::from_ms(hands.now_ms.load(Ordering::Relaxed)),
        }
    }

    /// Milliseconds that have passed since the kernel started, suspension included. No setting of
    /// the wall clock changes them; another time namespace adds a constant.
    pub fn passed_ms(&self) -> u64 {
        if let Source::Manual(hands) = &self.0 {
            return hands.passed_ms.load(Ordering::Relaxed);
        }
        let passed = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::try_from(passed).map_or(0, whole_ms)
    }

    /// Sets a manual clock to `moment`, forward or back, while no time passes.
    ///
    /// # Panics
    ///
    /// On any other clock: an error of the calling test.
    pub fn set(&self, moment: Timestamp) {
        let Source::Manual(hands) = &self.0 else {
            assert!(matches!(self.0, Source::Manual(_)), "only a manual clock can be set");
            return;
        };
        hands.now_ms.store(moment.as_ms(), Ordering::Relaxed);
    }

    /// Lets time pass on a manual clock.
    ///
    /// # Panics
    ///
    /// As [`Clock::set`].
    pub fn advance(&self, by: Duration) {
        self.set(self.now().plus(by));
        if let Source::Manual(hands) = &self.0 {
            hands.passed_ms.fetch_add(whole_ms(by), Ordering::Relaxed);
        }
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
    fn time_passes_when_a_clock_is_advanced_and_not_when_it_is_set() {
        let clock = Clock::manual(Timestamp::from_ms(1_000));
        clock.set(Timestamp::from_ms(9_000));
        assert_eq!(clock.passed_ms(), 0);
        clock.advance(Duration::from_millis(7));
        assert_eq!((clock.passed_ms(), clock.now().as_ms()), (7, 9_007));
        let passed = Clock::system().passed_ms();
        assert!(passed > 0 && Clock::system().passed_ms() >= passed);
    }

    #[test]
    fn no_moment_is_as_large_as_a_moment_and_the_last_ones_saturate() {
        assert_eq!(size_of::<Option<Timestamp>>(), size_of::<Timestamp>());
        assert_eq!(Timestamp::default(), Timestamp::from_ms(0));
        for ms in [0, 1, 1_800_000_000_000, u64::MAX - 1] {
            assert_eq!(Timestamp::from_ms(ms).as_ms(), ms);
            assert_eq!(Timestamp::before_last(ms), Some(Timestamp::from_ms(ms)));
        }
        let last = Timestamp::from_ms(u64::MAX);
        assert_eq!((last.as_ms(), Timestamp::before_last(u64::MAX)), (u64::MAX - 1, None));
        assert_eq!((last.plus(Duration::from_secs(1)), last.since(last)), (last, Duration::ZERO));
        assert!(last > Timestamp::from_ms(u64::MAX - 2));
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
