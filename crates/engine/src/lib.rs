//! The embedded engine: `sessile:/dir`.
//!
//! All worker processes of a host open the same directory and share its sessions, without a server,
//! a thread, or, as long as no lock is contended, a system call. DESIGN.md has the protocol.
//! Each folder is a room with one door, its `mod.rs`; a room uses only the rooms above it in this
//! list.

#![deny(unsafe_code)]

mod memory;

mod table;

mod storage;

mod operations;

mod recovery;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod give_back_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod group_commit_tests;
#[cfg(all(test, sessile_model))]
mod models;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod power_tests;
#[cfg(test)]
mod tests;

#[cfg(feature = "failpoints")]
pub use memory::crash;
pub use memory::{CounterFile, SyncMode, spare};
pub use operations::{CAPABILITIES, CAPABILITIES_ON_DISK, Engine};
pub use recovery::{EngineOptions, drop_store, open};
