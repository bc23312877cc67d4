//! What a signal does to a run: nothing new is begun, and what was measured may still be verified.
//!
//! Invariant: after the first signal a run ends within the length of a sample and [`VERIFY_WITHIN`]; after a second one it
//! ends at once. Either way it ends in order, so that nothing is left behind.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::monotonic::now_ns;

/// What a signal leaves.
pub const INTERRUPTION: &str = "interrupted; workers, servers and directories are removed; sessions that remain in a store \
                                that was given by URL expire within 24 minutes, those of a long run within a day";

/// Time for looking at what was measured in whole rounds, after the sample that was being taken has ended.
pub(crate) const VERIFY_WITHIN: Duration = Duration::from_secs(20);
/// `timeout` and shells send one signal to a process and to its group: the second one within this time is the same one.
const SAME_SIGNAL_NS: u64 = 1_000_000_000;

// All of them relaxed: numbers and flags that publish nothing else.
static FIRST_NS: AtomicU64 = AtomicU64::new(0);
static AGAIN: AtomicBool = AtomicBool::new(false);
static PATIENCE_NS: AtomicU64 = AtomicU64::new(0);

/// When whoever waits for a worker gives up.
pub(crate) type GivesUp = fn() -> bool;

/// Listens to signals from now on. `sample` is how long the samples of this run last.
pub(crate) fn listen(sample: Duration) {
    let patience = VERIFY_WITHIN + sample;
    PATIENCE_NS.store(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    // A second run in this process keeps the handler of the first.
    let _ = ctrlc::set_handler(heard);
}

fn heard() {
    let now = now_ns().max(1);
    if let Err(first) = FIRST_NS.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed)
        && now.saturating_sub(first) > SAME_SIGNAL_NS
    {
        AGAIN.store(true, Ordering::Relaxed);
    }
}

/// Whether a signal asked the run to end.
pub(crate) fn interrupted() -> bool {
    FIRST_NS.load(Ordering::Relaxed) != 0
}

/// Whether it is too late to verify, too: the time for that is over, or a second signal came.
pub(crate) fn out_of_time() -> bool {
    let first = FIRST_NS.load(Ordering::Relaxed);
    let late = || now_ns().saturating_sub(first) > PATIENCE_NS.load(Ordering::Relaxed);
    first != 0 && (AGAIN.load(Ordering::Relaxed) || late())
}
