//! Log messages of the library, kept until the host program takes them.
//!
//! The library logs with its locks held, and a host program may allocate or end its request by a
//! jump in its log. So a message waits in its thread until the call has returned.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, Ordering};

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::error::{SESSILE_MESSAGE_BYTES, sessile_code, sessile_error};

/// Messages of a thread that are kept; further ones are counted.
const MESSAGES_MAX: usize = 4;

/// The level of a log message.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum sessile_level {
    /// A failure that no caller gets.
    SESSILE_ERROR = 1,
    /// A condition for an operator: a failed save, use of a spent id.
    SESSILE_WARNING = 2,
}

/// A log message.
#[repr(C)]
pub struct sessile_message {
    /// The level.
    pub level: sessile_level,
    /// UTF-8 text with a zero byte at the end; truncated to fit.
    pub text: [c_char; SESSILE_MESSAGE_BYTES],
}

#[derive(Default)]
struct Messages {
    kept: VecDeque<(sessile_level, String)>,
    lost: usize,
}

impl Messages {
    fn push(&mut self, level: sessile_level, text: String) {
        if self.kept.len() < MESSAGES_MAX {
            self.kept.push_back((level, text));
        } else {
            self.lost += 1;
        }
    }

    fn next(&mut self) -> Option<(sessile_level, String)> {
        self.kept.pop_front().or_else(|| {
            let lost = std::mem::take(&mut self.lost);
            (lost > 0).then(|| (sessile_level::SESSILE_WARNING, format!("{lost} more messages")))
        })
    }
}

thread_local! {
    static MESSAGES: RefCell<Messages> = RefCell::default();
}

/// Whether there ever was a message. The usual answer of `sessile_log_next` is this fast.
static LOGGED: AtomicBool = AtomicBool::new(false);

/// Nothing while the thread ends.
fn with_messages<T>(run: impl FnOnce(&mut Messages) -> Option<T>) -> Option<T> {
    // Relaxed: a thread sees what it has stored itself.
    if !LOGGED.load(Ordering::Relaxed) {
        return None;
    }
    MESSAGES.try_with(|messages| run(&mut *messages.try_borrow_mut().ok()?)).ok()?
}

struct LogSink;

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
        LOGGED.store(true, Ordering::Relaxed);
        with_messages(|messages| {
            messages.push(level, text);
            Some(())
        });
    }

    fn flush(&self) {}
}

/// Keeps log messages from now on, also what a panic says. Returns false if the process has a
/// logger already.
#[unsafe(no_mangle)]
pub extern "C" fn sessile_log_start() -> bool {
    if log::set_logger(&LogSink).is_err() {
        return false;
    }
    log::set_max_level(LevelFilter::Warn);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        log::error!("a defect: {}", panic.to_string().replace('\n', " "));
        before(panic);
    }));
    true
}

/// Takes the oldest message that the calls of this thread have left. Returns false if there is
/// none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_log_next(message: *mut sessile_message) -> bool {
    let Some((level, text)) = with_messages(Messages::next).filter(|_| !message.is_null()) else {
        return false;
    };
    let text = sessile_error::new(sessile_code::SESSILE_OK, &text).message;
    // SAFETY: the caller's promise; not null.
    unsafe { message.write(sessile_message { level, text }) };
    true
}

/// Drops the newest message of this thread if it says the same as an error, which the host program
/// has logged itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_log_drop(error: *const sessile_error) {
    // SAFETY: the caller's promise.
    let Some(error) = (unsafe { error.as_ref() }) else { return };
    with_messages(|messages| {
        let (_, newest) = messages.kept.back()?;
        let same = sessile_error::new(error.code, newest).message == error.message;
        if same { messages.kept.pop_back() } else { None }
    });
}
