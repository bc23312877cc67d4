//! The stores, and the registry that opens them by URL.
//!
//! One file a store; each ends in an `ENTRY` that the [`registry`] lists. Everything that works on stores
//! (the command, the conformance suite, the benchmark, the feature table) iterates the registry.

#![forbid(unsafe_code)]

pub mod feature_table;
mod hashed_ids;
pub mod registry;
mod store_url;

#[cfg(feature = "sqlite")]
mod byte_lock;
#[cfg(feature = "files")]
mod files;
#[cfg(feature = "memory")]
mod memory;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use registry::{Context, Fixture, OptionHelp, StoreEntry, open};
pub use store_url::StoreUrl;
