//! The operations of the contract, and the work that they share.

mod begin;
mod commit;
mod compaction;
mod destroy;
mod details;
mod engine;
mod expiry;
mod lease;
mod list;
mod maintenance;
mod observe;
mod peek;
mod publish;
mod regenerate;
mod remove;
mod room;
mod touch;
mod verify;

pub use engine::{CAPABILITIES, CAPABILITIES_ON_DISK, Engine};
#[cfg(test)]
pub(crate) use lease::HeldEntry;
