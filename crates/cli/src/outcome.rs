//! How a verb ends, and the exit codes.

use std::process::ExitCode;

/// Why a verb did not succeed: one message for people, one code for scripts.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
}

/// The exit code of what a signal has stopped.
pub const INTERRUPTED: u8 = 130;

/// How a verb ends.
pub type Outcome = Result<(), Failure>;

/// The exit codes, for the help.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    something that was measured failed (errors, misses, lost updates, a worker that died),
       verify found problems, compare found a slower row, or a figure is beyond --fail-if
  2    usage: unknown store, malformed URL, flags that contradict each other, results that
       cannot be compared, nothing to measure that is installed
  3    a store cannot be opened or fails, an experiment cannot be measured to its end, or a
       result cannot be written
  4    the store cannot do this by its nature
  130  interrupted";

impl Failure {
    /// Something that was measured failed.
    pub fn measured(message: impl Into<String>) -> Failure {
        Failure { code: 1, message: message.into() }
    }

    /// A check found what it looked for.
    pub fn found(message: impl Into<String>) -> Failure {
        Failure { code: 1, message: message.into() }
    }

    /// The call makes no sense.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { code: 2, message: message.into() }
    }

    /// Something cannot be opened, read or written.
    pub fn unavailable(message: impl Into<String>) -> Failure {
        Failure { code: 3, message: message.into() }
    }

    /// The store does not have this operation.
    pub fn unsupported(message: impl Into<String>) -> Failure {
        Failure { code: 4, message: message.into() }
    }

    /// Stopped by a signal.
    pub fn interrupted(message: impl Into<String>) -> Failure {
        Failure { code: INTERRUPTED, message: message.into() }
    }

    /// The first failure gives the exit code, and the message tells all of them.
    pub fn of_all(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
        let mut failures = outcomes.into_iter().filter_map(Result::err);
        let Some(first) = failures.next() else { return Ok(()) };
        let join =
            |all: Failure, next: Failure| Failure { message: format!("{}; {}", all.message, next.message), ..all };
        Err(failures.fold(first, join))
    }

    /// What went wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Prints the message and gives the exit code.
    pub fn tell(&self) -> ExitCode {
        eprintln!("sessile: {}", self.message);
        ExitCode::from(self.code)
    }
}
