//! Log lines of the library on their way to where the host program logs.

use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

use log::{Level, LevelFilter, Log, Metadata, Record};

/// How much a line matters.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum sessile_level {
    /// Something failed, and nobody else is told.
    SESSILE_ERROR = 1,
    /// Something that an operator should look at: a failed save, an id that was given up and is used.
    SESSILE_WARNING = 2,
}

/// Takes a line: what was passed to `sessile_log_to`, the level, bytes of UTF-8 and how many. It is called within a call
/// of this library, on the thread that made it, so by several threads at a time if several make calls. It must not call
/// this library, and must return.
pub type sessile_logger =
    Option<unsafe extern "C" fn(context: *mut c_void, level: sessile_level, text: *const c_char, length: usize)>;

struct Target {
    logger: unsafe extern "C" fn(*mut c_void, sessile_level, *const c_char, usize),
    context: *mut c_void,
}

// SAFETY: the context is only passed on; that it may be, from any thread, is what `sessile_log_to` asks for.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

static TARGET: OnceLock<Target> = OnceLock::new();

impl Log for Target {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Not what the clients of databases tell their developers: who knows what is in it.
        metadata.level() <= Level::Warn && metadata.target().starts_with("sessile")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let failed = record.level() == Level::Error;
        let level = if failed { sessile_level::SESSILE_ERROR } else { sessile_level::SESSILE_WARNING };
        let text = record.args().to_string();
        // SAFETY: the text lives until the logger returns; the rest is the promise of who passed it.
        unsafe { (self.logger)(self.context, level, text.as_ptr().cast(), text.len()) };
    }

    fn flush(&self) {}
}

/// Sends the log lines of this library somewhere, from now on and for good. False when someone was there first.
///
/// # Safety
///
/// `logger` may be called as it says, with this context, until the process ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_log_to(logger: sessile_logger, context: *mut c_void) -> bool {
    let Some(logger) = logger else { return false };
    if TARGET.set(Target { logger, context }).is_err() {
        return false;
    }
    let set = TARGET.get().is_some_and(|target| log::set_logger(target).is_ok());
    if set {
        log::set_max_level(LevelFilter::Warn);
    }
    set
}
