//! What a web request does with its session, once for all languages.
//!
//! [`Request`] is the session of one request. A language asks it to open an id, hands the payload
//! to the application, and tells it at the end what to save. No type of a language is here: ids and
//! payloads are bytes, and what only the language knows comes as an argument, for example whether
//! the headers are sent.
//!
//! ```text
//!              validate              open                loaded
//!   Closed ---------------> Validated ----> Loading -----------------> Open
//!     |  \                                     ^                        | |
//!     |   \ validate failed                    | open                   | | save, destroy, close
//!     |    '-------------> Failed --open--> an error                    | '-----> Closed
//!     |                                                                 |
//!     |                     open(new id)                leave_id        |
//!     '<--- close --- Open <------------- Leaving <---------------------'
//! ```
//!
//! * `Closed`: no session. Every state goes here on `close`.
//! * `Validated`: the id was found and its lock taken; the payload waits for `open`.
//! * `Failed`: the store failed while the id was validated; `open` reports that.
//! * `Loading`: the payload was handed out, and the application does not have it yet. A request
//!   that ends here saves nothing.
//! * `Open`: the application has the session, with the lock or without it.
//! * `Leaving`: the application asked for a new id; the lock waits for it.
//!
//! A session without its lock is never written.

#![forbid(unsafe_code)]

mod collect;
mod diverged;
mod format;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod json_format;
mod late;
mod look;
mod merge;
mod php_format;
mod request;
mod rules;
mod session;
mod words;

pub use collect::collect;
pub use look::look;
pub use request::{Closed, Loaded, Opened, Request, Save, Saved};
pub use rules::{Concurrency, Format, OnConflict, OnLockTimeout, Rules};
pub use session::Access;
pub use words::{concurrency, seconds};
