//! Waiting for what other threads, processes and servers do, on a machine that may be busy with
//! something else.

use std::time::{Duration, Instant};

/// Far beyond what a loaded machine needs.
const WITHIN: Duration = Duration::from_secs(60);

/// Polls until it is true.
#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < WITHIN, "not within {WITHIN:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A bound on time where the machine may be busy with the tests beside this one: what is slow by
/// itself is so each time.
#[track_caller]
pub fn within_once(what: &str, bound: Duration, mut measure: impl FnMut() -> Duration) {
    let mut took = Vec::new();
    for _ in 0..12 {
        took.push(measure());
        if took.last() < Some(&bound) {
            return;
        }
    }
    panic!("{what}: not once within {bound:?}: {took:?}");
}
