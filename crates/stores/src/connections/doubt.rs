//! Changes that were sent and not answered: the server may have made them or not.
//!
//! Invariant: a change that may have been made is never told as refused. Its caller would make it
//! once more. Where a store recognises its own writing, the change is told as done; otherwise, what
//! the server says to a later attempt is about the work of others, or about that of the first.

use std::cell::Cell;
use std::io;

use sessile_core::{Error, ErrorKind, Result};

use super::pool::AttemptFailure;

thread_local! {
    /// Of the change that this thread makes. An operation of a store stays on one thread.
    static UNANSWERED: Cell<bool> = const { Cell::new(false) };
}

/// Remembers an attempt that the server may have carried out.
pub fn note(failure: &impl AttemptFailure) {
    if failure.leaves_doubt() {
        UNANSWERED.set(true);
    }
}

/// Whether a request that failed so was not taken as a whole: the server had closed the connection
/// before.
pub fn is_unsent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Makes a change. A refusal after an attempt that was not answered is in doubt.
pub fn change<T>(make: impl FnOnce() -> Result<T>) -> Result<T> {
    use ErrorKind::{Destroyed, Exists, Gone, Stale};
    UNANSWERED.set(false);
    make().map_err(|error| match error.kind() {
        Destroyed | Exists | Gone | Stale if UNANSWERED.get() => in_doubt(error),
        _ => error,
    })
}

/// Whether an attempt of the change that is being made was sent and not answered.
pub fn is_unanswered() -> bool {
    UNANSWERED.get()
}

pub fn in_doubt(refusal: Error) -> Error {
    let why = "the connection broke before the answer, and the session was changed since: this \
               change may have been made";
    Error::new(ErrorKind::Unreachable, why)
        .advice("begin anew and look at the session")
        .source(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_refusal_of_a_change_that_was_not_answered_is_in_doubt() {
        let refused = |unanswered: bool, kind: ErrorKind| {
            let make = || {
                UNANSWERED.set(UNANSWERED.get() || unanswered);
                Err::<(), _>(kind.into())
            };
            change(make).unwrap_err().kind().code()
        };
        assert_eq!(refused(true, ErrorKind::Stale), "unreachable");
        assert_eq!(refused(false, ErrorKind::Stale), "stale", "the change before is another one");
        assert_eq!(refused(true, ErrorKind::Full), "full", "nothing was written");
    }
}
