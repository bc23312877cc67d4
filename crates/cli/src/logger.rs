//! Prints warnings and errors of our libraries on standard error.

use std::io::Write;

use log::{Level, LevelFilter, Log, Metadata, Record};

/// StderrLogger of targets with the prefix `but` are not shown.
struct StderrLogger {
    but: Option<&'static str>,
}

static ALL: StderrLogger = StderrLogger { but: None };
/// A benchmark worker counts failed operations, and its row has the first error. In `faults` dozens
/// fail.
static WORKER_LOGGER: StderrLogger = StderrLogger { but: Some("sessile_core") };

impl Log for StderrLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Dependencies warn of other things.
        let ours = metadata.target().starts_with("sessile");
        metadata.level() <= Level::Warn
            && ours
            && self.but.is_none_or(|but| !metadata.target().starts_with(but))
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            // One write, so that lines of several processes do not mix. A failure cannot be
            // reported.
            let line = format!("{}: {}\n", record.level().as_str().to_lowercase(), record.args());
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}

pub fn install(is_worker: bool) {
    // Fails only if a logger is installed, which is as good.
    if log::set_logger(if is_worker { &WORKER_LOGGER } else { &ALL }).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_silent_about_what_its_row_counts_and_about_nothing_else() {
        let of =
            |target: &'static str| Metadata::builder().level(Level::Warn).target(target).build();
        for (target, all, worker) in [
            ("sessile_core::sessions", true, false),
            ("sessile_engine::disk", true, true),
            ("redis", false, false),
        ] {
            assert_eq!(
                (ALL.enabled(&of(target)), WORKER_LOGGER.enabled(&of(target))),
                (all, worker),
                "{target}"
            );
        }
        assert!(
            !ALL.enabled(&Metadata::builder().level(Level::Info).target("sessile_core").build())
        );
    }
}
