//! The clock of all measurements: `CLOCK_MONOTONIC` as a number.
//!
//! All processes of a host share it, so the parent can set a common start and compare times of
//! workers. `std::time::Instant` cannot cross a process boundary.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds since a moment that all processes share.
#[inline]
pub(crate) fn now_ns() -> u64 {
    // Cannot fail for this clock; 0 would show as an absurd latency.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| u64::try_from(time.num_nanoseconds()).unwrap_or(0))
}

/// User and system time of this process, in microseconds.
pub(crate) fn cpu_us() -> u64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| {
        let total = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        u64::try_from(total).unwrap_or(0)
    })
}

/// Returns at `moment`, not before. Sleeps most of the time and spins through the rest, because a
/// late wake-up would count as latency.
pub(crate) fn wait_until(moment: u64) {
    const SPIN_NS: u64 = 60_000;
    loop {
        let left = moment.saturating_sub(now_ns());
        if left == 0 {
            return;
        }
        if left > SPIN_NS {
            std::thread::sleep(Duration::from_nanos(left - SPIN_NS));
        } else {
            std::hint::spin_loop();
        }
    }
}
