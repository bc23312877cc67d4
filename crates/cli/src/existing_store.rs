//! Opens the existing store of an operator's verb, and maps its errors to exit codes.
//!
//! Invariant: no store is created. One made by a mistyped URL would look empty, and one made by
//! root would exclude the workers. Errors of stores contain no id, payload or password (see
//! `sessile_core::Error`), so they are shown with causes.

use sessile_core::{Clock, Error, ErrorKind, Sessions};
use sessile_stores::{Context, registry};

use crate::command_result::CommandFailure;

pub fn open(url: &str) -> Result<Sessions, CommandFailure> {
    let opened = registry::check_exists(url)
        .and_then(|()| sessile_stores::open(url, &Context { clock: Clock::system() }));
    opened.map_err(|error| match error.kind() {
        ErrorKind::InvalidUrl => CommandFailure::usage(format!("{error:#}")),
        _ => CommandFailure::unavailable(format!("{error:#}")),
    })
}

pub fn failure(error: &Error) -> CommandFailure {
    match error.kind() {
        ErrorKind::Unsupported => CommandFailure::unsupported(format!("{error:#}")),
        ErrorKind::InvalidArgument | ErrorKind::InvalidUrl => {
            CommandFailure::usage(format!("{error:#}"))
        }
        _ => CommandFailure::unavailable(format!("{error:#}")),
    }
}
