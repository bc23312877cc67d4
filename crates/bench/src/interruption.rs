//! What a signal does to a run: nothing new is begun, and what was measured may still be verified.
//!
//! Invariant: after the first signal a run ends within the length of a sample, [`VERIFY_WITHIN`] and [`CLEAR_WITHIN`]; after a
//! second one it ends at once. Either way it ends in order, so that nothing is left behind, or what is left is told.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::monotonic::now_ns;

/// What a signal leaves.
pub const INTERRUPTION: &str = "interrupted; workers, servers and directories are removed, and so are the sessions of the run in \
                                stores that were given by URL, unless a warning above says how many remain";

/// Time for looking at what was measured in whole rounds, after the sample that was being taken has ended.
pub(crate) const VERIFY_WITHIN: Duration = Duration::from_secs(20);
/// Time after that for removing what was put into stores of the user's.
const CLEAR_WITHIN: Duration = Duration::from_secs(20);
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
    is_over(Duration::ZERO)
}

/// Whether it is too late to remove anything from a store of the user's, too.
pub(crate) fn clears_no_more() -> bool {
    is_over(CLEAR_WITHIN)
}

/// Whether the patience after a signal, and this much more, is over.
fn is_over(more: Duration) -> bool {
    let first = FIRST_NS.load(Ordering::Relaxed);
    let patience = || PATIENCE_NS.load(Ordering::Relaxed).saturating_add(more.as_nanos() as u64);
    first != 0 && (AGAIN.load(Ordering::Relaxed) || now_ns().saturating_sub(first) > patience())
}
