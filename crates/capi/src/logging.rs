//! Log messages of the library, passed on to the host program.

use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

use log::{Level, LevelFilter, Log, Metadata, Record};

/// The level of a log message.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum sessile_level {
    /// A failure that no caller gets.
    SESSILE_ERROR = 1,
    /// A condition for an operator: a failed save, use of a spent id.
    SESSILE_WARNING = 2,
}

/// Receives a message: the context of `sessile_log_to`, the level, UTF-8 text, its length. Runs
/// during a call of this library, on the calling thread, possibly on several threads at once. It
/// must not call this library, and must return.
pub type sessile_logger = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        level: sessile_level,
        text: *const c_char,
        length: usize,
    ),
>;

struct LogSink {
    logger: unsafe extern "C" fn(*mut c_void, sessile_level, *const c_char, usize),
    context: *mut c_void,
}

// SAFETY: the context is only passed on; `sessile_log_to` requires that any thread may do so.
unsafe impl Send for LogSink {}
// SAFETY: as above.
unsafe impl Sync for LogSink {}

static LOG_SINK: OnceLock<LogSink> = OnceLock::new();

impl Log for LogSink {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Only our messages: those of database clients may contain secrets.
        metadata.level() <= Level::Warn && metadata.target().starts_with("sessile")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let failed = record.level() == Level::Error;
        let level =
            if failed { sessile_level::SESSILE_ERROR } else { sessile_level::SESSILE_WARNING };
        let text = record.args().to_string();
        // SAFETY: the text lives until the logger returns; the rest is the promise of
        // `sessile_log_to`'s caller.
        unsafe { (self.logger)(self.context, level, text.as_ptr().cast(), text.len()) };
    }

    fn flush(&self) {}
}

/// Sends the log messages of this library to `logger` until the process ends. Returns false if the
/// process has a logger already.
///
/// # Safety
///
/// `logger` may be called as documented, with this context, until the process ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_log_to(logger: sessile_logger, context: *mut c_void) -> bool {
    let Some(logger) = logger else { return false };
    if LOG_SINK.set(LogSink { logger, context }).is_err() {
        return false;
    }
    let set = LOG_SINK.get().is_some_and(|sink| log::set_logger(sink).is_ok());
    if set {
        log::set_max_level(LevelFilter::Warn);
    }
    set
}
