//! Log lines of the stores, for Python's `logging`.
//!
//! A line is written while no call of ours holds a lock that a thread of Python may wait for: every
//! call into a store lets other threads run.

use log::{Level, LevelFilter, Log, Metadata, Record};
use pyo3::prelude::*;

struct PythonLogger;

impl Log for PythonLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        // At the end of the interpreter there is nobody to tell.
        let _ = Python::try_attach(|py| -> PyResult<()> {
            let method = if record.level() == Level::Error { "error" } else { "warning" };
            let logger = py.import("logging")?.call_method1("getLogger", ("sessile",))?;
            logger.call_method1(method, ("%s", record.args().to_string()))?;
            Ok(())
        });
    }

    fn flush(&self) {}
}

/// Sends log lines to the logger `sessile` of Python.
pub(crate) fn install() {
    // A second interpreter finds the logger of the first.
    if log::set_logger(&PythonLogger).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}
