//! The embedded engine: `sessile:/dir`.
//!
//! All worker processes of a host open the same directory and share its sessions, without a server, a thread, or, as
//! long as nobody competes, a system call. docs/engine.md has the protocol; the modules here are its nouns.

#![deny(unsafe_code)]

mod append;
mod bins;
mod broken;
mod change;
mod class;
mod compaction;
mod control;
mod details;
mod directory;
mod disk;
mod disklog;
mod engine;
mod entries;
mod expiry;
mod flush;
mod format;
mod futex;
mod hint;
mod home;
mod index;
mod kernel_aio;
mod lane;
mod layout;
mod listing;
mod lock;
#[cfg(sessile_model)]
mod machine;
mod maintenance;
mod map;
#[cfg(all(test, sessile_model))]
mod models;
mod notes;
mod plane;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod power;
mod process;
mod rebuild;
mod record;
mod recovery;
mod regenerate;
mod reserve;
mod salvage;
mod segment;
mod session;
mod staging;
mod sync;
mod verify;
mod words;
mod writing;

pub use directory::{Options, open};
pub use engine::{CAPABILITIES, CAPABILITIES_ON_DISK, Engine};
#[cfg(feature = "failpoints")]
pub use sync::crash;
