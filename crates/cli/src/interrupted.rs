//! Ctrl-C and SIGTERM for the verbs that run until they are told to end.

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on the signals only raise a flag.
pub fn watch() {
    // If this fails, the signals end the process at once, which loses nothing.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
}

pub fn is_so() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
