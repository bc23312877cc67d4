//! Opens the existing store of an operator's verb.
//!
//! Invariant: no store is created. One made by a mistyped URL would look empty, and one made by
//! root would exclude the workers.

use sessile_core::{Clock, ErrorKind, Sessions};
use sessile_stores::{Context, registry};

use crate::command_result::CommandFailure;

pub fn open(url: &str) -> Result<Sessions, CommandFailure> {
    opened(url, sessile_stores::open)
}

/// For a verb that changes nothing: a limit in the URL is not set.
pub fn open_to_look(url: &str) -> Result<Sessions, CommandFailure> {
    opened(url, registry::open_to_look)
}

fn opened(
    url: &str,
    open: fn(&str, &Context) -> sessile_core::Result<Sessions>,
) -> Result<Sessions, CommandFailure> {
    let opened =
        registry::check_exists(url).and_then(|()| open(url, &Context { clock: Clock::system() }));
    opened.map_err(|error| match error.kind() {
        ErrorKind::InvalidUrl => CommandFailure::usage(format!("{error:#}")),
        _ => CommandFailure::unavailable(format!("{error:#}")),
    })
}
