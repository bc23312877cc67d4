//! What a signal does to a run: nothing new begins, and what was measured may still be verified.
//!
//! Invariant: after the first signal a run ends within a sample, [`VERIFY_WITHIN`] and
//! [`CLEAR_WITHIN`]; after a second signal at once. Both ways everything is removed, or the user is
//! told what is left.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::monotonic::now_ns;

pub const INTERRUPTION: &str = "interrupted; workers, servers and directories are removed, and so \
                                are the sessions of the run in stores that were given by URL, \
                                unless a warning above says how many remain";

/// Time to verify complete rounds, after the current sample has ended.
pub(crate) const VERIFY_WITHIN: Duration = Duration::from_secs(20);
/// Further time to remove sessions from the user's stores.
const CLEAR_WITHIN: Duration = Duration::from_secs(20);
/// `timeout` and shells signal a process and its group: two signals within this time are one.
const SAME_SIGNAL_NS: u64 = 1_000_000_000;

// All relaxed: these numbers and flags publish nothing else.
static FIRST_NS: AtomicU64 = AtomicU64::new(0);
static AGAIN: AtomicBool = AtomicBool::new(false);
static PATIENCE_NS: AtomicU64 = AtomicU64::new(0);

/// Whether to stop waiting for a worker.
pub(crate) type GiveUpCheck = fn() -> bool;

/// Handles signals from now on. `sample` is the length of this run's samples.
pub(crate) fn listen(sample: Duration) {
    let patience = VERIFY_WITHIN + sample;
    PATIENCE_NS.store(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    // A second run in this process keeps the first handler.
    let _ = ctrlc::set_handler(on_signal);
}

fn on_signal() {
    let now = now_ns().max(1);
    if let Err(first) = FIRST_NS.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed)
        && now.saturating_sub(first) > SAME_SIGNAL_NS
    {
        AGAIN.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn interrupted() -> bool {
    FIRST_NS.load(Ordering::Relaxed) != 0
}

/// Whether the time to verify is over, or a second signal came.
pub(crate) fn out_of_time() -> bool {
    is_past(Duration::ZERO)
}

pub(crate) fn out_of_time_to_clear() -> bool {
    is_past(CLEAR_WITHIN)
}

/// Whether the grace after a signal, plus `more`, is over.
fn is_past(more: Duration) -> bool {
    let first = FIRST_NS.load(Ordering::Relaxed);
    let patience = || PATIENCE_NS.load(Ordering::Relaxed).saturating_add(more.as_nanos() as u64);
    first != 0 && (AGAIN.load(Ordering::Relaxed) || now_ns().saturating_sub(first) > patience())
}
