//! A store that an operator's verb works on: opened by URL, and its errors as exit codes.
//!
//! Invariant: it was there before. One made by a mistyped URL would look empty, and one made by root shuts the workers out.
//! Errors of stores carry no id, payload or password (see `sessile_core::Error`), so they are shown with causes.

use sessile_core::{Clock, Error, ErrorKind, Sessions};
use sessile_stores::{Context, presence};

use crate::outcome::Failure;

/// Opens the store that a URL names.
pub fn open(url: &str) -> Result<Sessions, Failure> {
    let opened = presence::check(url).and_then(|()| sessile_stores::open(url, &Context { clock: Clock::system() }));
    opened.map_err(|error| match error.kind() {
        ErrorKind::InvalidUrl => Failure::usage(format!("{error:#}")),
        _ => Failure::unavailable(format!("{error:#}")),
    })
}

/// The failure of an operation on an opened store.
pub fn failure(error: &Error) -> Failure {
    match error.kind() {
        ErrorKind::Unsupported => Failure::unsupported(format!("{error:#}")),
        ErrorKind::InvalidArgument => Failure::usage(format!("{error:#}")),
        _ => Failure::unavailable(format!("{error:#}")),
    }
}
