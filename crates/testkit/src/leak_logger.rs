//! A logger for the whole suite: no log line may contain an id or a payload.
//!
//! Lines are not printed; a store that fails a save says so in its error as well.

use std::sync::{Mutex, PoisonError};

use crate::check::{SECRET, redacted};

static LEAKED_LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct LeakLogger;

impl log::Log for LeakLogger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = record.args().to_string();
        if line.contains(SECRET) {
            LEAKED_LINES.lock().unwrap_or_else(PoisonError::into_inner).push(redacted(&line));
        }
    }

    fn flush(&self) {}
}

pub(crate) fn install() {
    if log::set_logger(&LeakLogger).is_ok() {
        log::set_max_level(log::LevelFilter::Trace);
    }
}

/// A line about the store with this label that gave a secret away since the last call.
pub(crate) fn leaked_line(label: &str) -> Option<String> {
    let mut lines = LEAKED_LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let position = lines.iter().position(|line| line.contains(label))?;
    Some(lines.remove(position))
}
