//! From what goes wrong on a connection to errors of the contract.
//!
//! Invariant: no text of a server reaches an error: it may repeat what the server was sent.

use std::io::ErrorKind as Cause;

use sessile_core::{Error, ErrorKind};

use super::reply::{Failure, Fault};
use crate::connections::doubt::is_unsent;
use crate::connections::pool::AttemptFailure;

impl AttemptFailure for Failure {
    fn is_transient(&self) -> bool {
        matches!(self, Failure::Io(_) | Failure::Crowded)
    }

    fn breaks_connection(&self) -> bool {
        true
    }

    fn leaves_doubt(&self) -> bool {
        !matches!(self, Failure::Io(error) if is_unsent(error))
    }
}

pub fn translate(failure: Failure, server: &str) -> Error {
    let (kind, why, advice) = match &failure {
        Failure::Denied => (
            ErrorKind::Denied,
            "refuses user or password",
            "correct the user and password of the URL, or the lines of the server's -Y file",
        ),
        Failure::Crowded => (
            ErrorKind::Unreachable,
            "takes no more connections",
            "raise its -c: each worker of the application keeps a connection or two",
        ),
        Failure::Garbled(why) => (
            ErrorKind::Incompatible,
            *why,
            "it must be memcached 1.6 or later with the text protocol (not -B binary, not -S)",
        ),
        Failure::Io(error) => match error.kind() {
            Cause::PermissionDenied => (
                ErrorKind::Denied,
                "cannot be opened",
                "give this user access to the socket (memcached -a 0770)",
            ),
            Cause::ConnectionRefused | Cause::NotFound => {
                (ErrorKind::Unreachable, "is not there", "check that it runs, and where it listens")
            }
            Cause::WouldBlock | Cause::TimedOut => (
                ErrorKind::Unreachable,
                "does not answer in time",
                "check its load, or raise response_timeout_ms",
            ),
            Cause::UnexpectedEof | Cause::ConnectionReset | Cause::BrokenPipe => {
                (ErrorKind::Unreachable, "closed the connection", "check that it runs, and its log")
            }
            _ => (ErrorKind::Unreachable, "cannot be reached", "check its name and the network"),
        },
    };
    let understood = if let Failure::Garbled(_) = failure { "is not understood: " } else { "" };
    let error = Error::new(kind, format!("the server {server} {understood}{why}")).advice(advice);
    match failure {
        Failure::Io(source) => error.source(source),
        _ => error,
    }
}

/// `size` is that of the payload, `limit` what would fit.
pub fn fault(fault: Fault, size: usize, limit: u64) -> Error {
    match fault {
        Fault::TooLarge => {
            let kind = ErrorKind::TooLarge { size: size as u64, limit };
            Error::new(kind, "the payload is too large").advice("raise the server's item limit, -I")
        }
        Fault::OutOfMemory => {
            Error::new(ErrorKind::OutOfMemory, "the server has no memory left for the write")
                .advice("raise its -m; with -M it refuses writes instead of dropping sessions")
        }
        Fault::Other => Error::new(ErrorKind::Io, "the server failed").advice("look into its log"),
    }
}

pub fn unexpected() -> Error {
    Error::new(ErrorKind::Incompatible, "the server gave an answer that does not fit the question")
        .advice("it must be memcached 1.6 or later; proxies in between must pass meta commands on")
}
