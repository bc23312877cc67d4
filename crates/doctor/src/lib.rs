//! Finds what will go wrong with a store before it does, and says how to fix it.
//!
//! ```text
//! examination: URL, tier that the site needs, user of the workers, PHP
//!     -> host, place on the file system, facts of the server, the store itself, PHP's settings
//!     -> findings: severity, code, what is so, why that matters, the fix
//! ```
//!
//! Invariants: nothing is changed and no store is created (an existing store does its usual upkeep
//! when it is opened); a fact that cannot be read is no finding; no finding has a session id, a
//! payload or a password. Not here: exit codes and output (crates/cli).

#![forbid(unsafe_code)]

mod clock;
mod examination;
mod finding;
mod host;
mod memcached;
mod mysql;
mod php;
mod php_settings;
mod place;
mod postgres;
mod redis;
mod store;
mod tier;

pub use examination::{Examination, Report, examine};
pub use finding::{Finding, Severity};
pub use php_settings::PhpSource;
