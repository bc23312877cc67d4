//! The result of a verb, and the exit codes.

use std::process::ExitCode;

use sessile_core::{Error, ErrorKind};

/// The failure of a verb: a message and an exit code.
#[derive(Debug)]
pub struct CommandFailure {
    code: u8,
    message: String,
}

pub const INTERRUPTED: u8 = 130;

pub type CommandResult = Result<(), CommandFailure>;

pub const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    a measured operation failed, a check found problems, or copy left sessions
  2    usage, or results that cannot be compared
  3    a store fails, an experiment does not reach its end, or a result cannot be written
  4    the store cannot do this by its nature
  130  interrupted";

/// Errors of stores contain no id, payload or password, so they are shown with causes.
impl From<Error> for CommandFailure {
    fn from(error: Error) -> CommandFailure {
        let code = match error.kind() {
            ErrorKind::Unsupported => 4,
            ErrorKind::InvalidArgument | ErrorKind::InvalidUrl => 2,
            _ => 3,
        };
        CommandFailure { code, message: format!("{error:#}") }
    }
}

impl CommandFailure {
    /// A measured operation failed.
    pub fn measured(message: impl Into<String>) -> CommandFailure {
        CommandFailure { code: 1, message: message.into() }
    }

    /// A check found a problem.
    pub fn found(message: impl Into<String>) -> CommandFailure {
        CommandFailure { code: 1, message: message.into() }
    }

    /// A check found something that costs sessions now. The code of monitoring programs.
    pub fn critical(message: impl Into<String>) -> CommandFailure {
        CommandFailure { code: 2, message: message.into() }
    }

    /// Nothing could be found out. The code of monitoring programs.
    pub fn unknown(message: impl Into<String>) -> CommandFailure {
        CommandFailure { code: 3, message: message.into() }
    }

    /// The command line makes no sense.
    pub fn usage(message: impl Into<String>) -> CommandFailure {
        CommandFailure { code: 2, message: message.into() }
    }

    /// A store or file cannot be opened, read or written.
    pub fn unavailable(message: impl Into<String>) -> CommandFailure {
        CommandFailure { code: 3, message: message.into() }
    }

    /// A signal ended the verb.
    pub fn interrupted(message: impl Into<String>) -> CommandFailure {
        CommandFailure { code: INTERRUPTED, message: message.into() }
    }

    /// Joins the messages; the exit code is that of the first failure.
    pub fn join(results: impl IntoIterator<Item = CommandResult>) -> CommandResult {
        let mut failures = results.into_iter().filter_map(Result::err);
        let Some(first) = failures.next() else { return Ok(()) };
        let join = |all: CommandFailure, next: CommandFailure| CommandFailure {
            message: format!("{}; {}", all.message, next.message),
            ..all
        };
        Err(failures.fold(first, join))
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// Prints the message and returns the exit code.
    pub fn report(&self) -> ExitCode {
        eprintln!("sessile: {}", self.message);
        ExitCode::from(self.code)
    }
}
