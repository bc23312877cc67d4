//! The stores, and the registry that opens them by URL.
//!
//! One file a store; each ends in an `ENTRY` that the [`registry`] lists. Everything that works on stores
//! (the command, the conformance suite, the benchmark, the feature table) iterates the registry.

#![forbid(unsafe_code)]

pub mod feature_table;
pub mod foreign;
mod hashed_ids;
pub mod presence;
pub mod registry;
mod store_url;

#[cfg(feature = "sqlite")]
mod byte_lock;
#[cfg(any(feature = "memcached", feature = "mysql", feature = "postgres", feature = "redis"))]
mod connecting;
#[cfg(any(feature = "files", feature = "sqlite"))]
mod file_system;
#[cfg(any(feature = "memcached", feature = "postgres", feature = "redis"))]
mod host;
#[cfg(any(feature = "memcached", feature = "mysql", feature = "postgres", feature = "redis"))]
mod idle;
#[cfg(any(feature = "memcached", feature = "redis"))]
mod key_value;
#[cfg(any(feature = "memcached", feature = "redis"))]
mod orphans;
#[cfg(any(feature = "memcached", feature = "redis"))]
mod owner;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(any(feature = "memcached", feature = "postgres"))]
mod stream;

/// Declares the file of each store and lists its `ENTRY`, so that a store is one file and one line.
macro_rules! stores {
    ($($(#[$condition:meta])* $store:ident,)+) => {
        $($(#[$condition])* mod $store;)+

        /// Every store that this build contains, in the order of every table.
        pub const STORES: &[StoreEntry] = &[$($(#[$condition])* $store::ENTRY),+];
    };
}

// To add a store, write crates/stores/src/NAME.rs with an `ENTRY`, and its NAME here.
stores! {
    #[cfg(feature = "sessile")] sessile,
    #[cfg(feature = "memory")] memory,
    #[cfg(feature = "files")] files,
    #[cfg(feature = "sqlite")] sqlite,
    #[cfg(feature = "mysql")] mysql,
    #[cfg(feature = "postgres")] postgres,
    #[cfg(feature = "redis")] redis,
    #[cfg(feature = "memcached")] memcached,
    #[cfg(feature = "route")] route,
}

pub use registry::{Context, Fixture, OptionHelp, StoreEntry, open};
pub use store_url::StoreUrl;
