//! Warnings of the libraries, on standard error. Nothing below a warning: the command's output is its own.

use log::{Level, LevelFilter, Log, Metadata, Record};

struct Warnings;

impl Log for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Dependencies have their own idea of what a warning is.
        metadata.level() <= Level::Warn && metadata.target().starts_with("sessile")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            eprintln!("{}: {}", record.level().as_str().to_lowercase(), record.args());
        }
    }

    fn flush(&self) {}
}

/// Installs the logger.
pub fn install() {
    // Fails only if one is installed already, which is as good.
    if log::set_logger(&Warnings).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}
