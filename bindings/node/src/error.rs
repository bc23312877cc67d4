//! Errors as values: `lib/errors.js` has a class for each kind, by its code.

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use sessile_core::{Error, ErrorKind, Result};

/// A failed call.
#[napi(object)]
#[derive(Default)]
pub struct Failure {
    /// The kind.
    pub code: String,
    /// What failed where, why, and what to do.
    pub message: String,
    /// The process that holds the lock.
    pub holder_pid: Option<u32>,
    /// Its host.
    pub holder_host: Option<String>,
    /// How long the call has waited, in milliseconds.
    pub waited_ms: Option<f64>,
    /// The size of a refused payload in bytes.
    pub size: Option<f64>,
    /// The limit in bytes.
    pub limit: Option<f64>,
}

impl Failure {
    pub(crate) fn new(code: &str, message: String) -> Failure {
        Failure { code: code.to_owned(), message, ..Failure::default() }
    }

    /// What a result is in Node.
    pub(crate) fn or<T>(result: Result<T>) -> Either<T, Failure> {
        result.map_or_else(|error| Either::B(Failure::from(&error)), Either::A)
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Failure {
        let mut failure = Failure::new(error.kind().code(), format!("{error:#}"));
        match error.kind() {
            ErrorKind::LockTimeout { holder, waited } => {
                failure.holder_pid = holder.pid;
                failure.holder_host.clone_from(&holder.host);
                failure.waited_ms = Some(waited.as_secs_f64() * 1e3);
            }
            ErrorKind::TooLarge { size, limit } => {
                failure.size = Some(*size as f64);
                failure.limit = Some(*limit as f64);
            }
            _ => {}
        }
        failure
    }
}
