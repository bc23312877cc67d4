//! Warnings of the libraries, on standard error. Nothing below a warning: the command's output is its own.

use std::io::Write;

use log::{Level, LevelFilter, Log, Metadata, Record};

/// What is not shown: warnings of modules with this beginning.
struct Warnings {
    but: Option<&'static str>,
}

static ALL: Warnings = Warnings { but: None };
/// A worker of the benchmark counts each operation that fails, and its row has the first error. In `faults` they fail by the dozen.
static OF_A_WORKER: Warnings = Warnings { but: Some("sessile_core") };

impl Log for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Dependencies have their own idea of what a warning is.
        let ours = metadata.target().starts_with("sessile");
        metadata.level() <= Level::Warn && ours && self.but.is_none_or(|but| !metadata.target().starts_with(but))
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            // One write: the lines of several processes do not mix. Nobody can be told when it fails.
            let line = format!("{}: {}\n", record.level().as_str().to_lowercase(), record.args());
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}

/// Installs the logger.
pub fn install(is_worker: bool) {
    // Fails only if one is installed already, which is as good.
    if log::set_logger(if is_worker { &OF_A_WORKER } else { &ALL }).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_silent_about_what_its_row_counts_and_about_nothing_else() {
        let of = |target: &'static str| Metadata::builder().level(Level::Warn).target(target).build();
        for (target, all, worker) in
            [("sessile_core::sessions", true, false), ("sessile_engine::disk", true, true), ("redis", false, false)]
        {
            assert_eq!((ALL.enabled(&of(target)), OF_A_WORKER.enabled(&of(target))), (all, worker), "{target}");
        }
        assert!(!ALL.enabled(&Metadata::builder().level(Level::Info).target("sessile_core").build()));
    }
}
