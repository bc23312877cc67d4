//! The stores, and the [`registry`] that opens them by URL.
//!
//! Each store has a file with an `ENTRY`.

#![forbid(unsafe_code)]

pub mod ask_server;
pub mod copy;
mod encryption;
mod facts;
pub mod feature_table;
mod hashed_ids;
pub mod layouts;
mod lazy_store;
mod open_stores;
mod random;
pub mod registry;
mod server_kind;
mod store_url;

#[cfg(feature = "connections")]
mod connections;
#[cfg(feature = "sessile")]
mod counter_files;
#[cfg(any(feature = "files", feature = "sqlite"))]
mod file_system;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(feature = "locks")]
mod locks;
#[cfg(any(feature = "files", feature = "sqlite"))]
mod owner;
#[cfg(any(feature = "route", feature = "migrate"))]
mod several;
#[cfg(feature = "sql")]
mod sql;

/// Declares the module of each store and lists its `ENTRY`.
macro_rules! stores {
    ($($(#[$condition:meta])* $store:ident,)+) => {
        $($(#[$condition])* mod $store;)+

        /// The stores of this build, in the order of every table.
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
    #[cfg(feature = "migrate")] migrate,
}

pub use lazy_store::LazyStore;
pub use open_stores::{OpenStores, Settings};
pub use registry::{Context, Fixture, OptionHelp, StoreEntry, open};
pub use server_kind::ServerKind;
pub use store_url::{StoreUrl, with_option};
