//! Log lines of the stores, for a callback of Node.

use std::sync::Mutex;

use log::{Level, LevelFilter, Log, Metadata, Record};
use napi::Status;
use napi::bindgen_prelude::{FnArgs, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;

type Callback = ThreadsafeFunction<String, (), FnArgs<(String,)>, Status, false, true>;

/// That of the first environment of the process that lives.
static CALLBACK: Mutex<Option<Callback>> = Mutex::new(None);

struct NodeLogger;

impl Log for NodeLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Only our messages: those of database clients may contain secrets.
        metadata.level() <= Level::Warn && metadata.target().starts_with("sessile")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata())
            && let Ok(callback) = CALLBACK.lock()
            && let Some(callback) = callback.as_ref()
        {
            // The line comes to the event loop later, when no lock of ours is held.
            callback.call(record.args().to_string(), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }

    fn flush(&self) {}
}

/// Sends log lines to a callback, unless a living environment gets them.
#[napi]
pub fn log_to(callback: Function<'_, FnArgs<(String,)>, ()>) -> napi::Result<()> {
    let Ok(mut place) = CALLBACK.lock() else { return Ok(()) };
    if place.as_ref().is_none_or(Callback::aborted) {
        let weak = callback.build_threadsafe_function::<String>().weak::<true>();
        *place = Some(weak.build_callback(|line| Ok(FnArgs::from((line.value,))))?);
    }
    // The second environment finds the logger of the first.
    if log::set_logger(&NodeLogger).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
    Ok(())
}
