//! `files:/dir`, sessions in plain files: fast, no server, and known to everyone.
//!
//! Two modes. The store's own ([`own`]) keeps a checked file for each session and replaces it by rename. With
//! `?php=1` it shares the directory of PHP's `files` handler, file for file and lock for lock.
//!
//! This file is the registry line and the options; docs/stores/files.md is the manual.

mod content;
mod directory;
mod frame;
mod gate;
mod holder;
mod own;
mod own_listing;
mod own_regenerate;
mod own_sweep;
mod system;
mod temporary;
mod wait;

use sessile_core::{Capabilities, Durability, Expiry, Limits, Locking, Ownership, Result, Sessions, Waiting};

use crate::registry::{self, Context, Fixture, OptionHelp, StoreEntry};
use crate::store_url::StoreUrl;

/// The registry line of this store.
pub const ENTRY: StoreEntry = StoreEntry {
    name: "files",
    schemes: &["files"],
    sentence: "One file a session, for one host: no server, fast, and can share PHP's directory",
    capabilities: CAPABILITIES,
    options: &[OptionHelp {
        name: "durability",
        help: "none, or commit: each commit is on disk before it returns (default none)",
    }],
    fixtures: &[
        Fixture { variant: "default", url: "files:{disk}/files" },
        Fixture { variant: "shm", url: "files:{shm}/files#shm" },
    ],
    open,
};

const CAPABILITIES: Capabilities = Capabilities {
    persistent: true,
    shared_by_processes: true,
    shared_by_hosts: false,
    server: None,
    locking: Locking::Native,
    waiting: Waiting::Event,
    ownership: Ownership::Process,
    expiry: Expiry::Sweep,
    value_bytes_max: 1 << 40,
    // A file name has at most 255 bytes.
    id_bytes_max: Limits::ID_BYTES_MAX - 1,
    sessions_bounded_by: "disk space and inodes",
    compare_and_set: true,
    listing: true,
    durability: &[Durability::None, Durability::Commit],
};

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let durability = url.word("durability", Durability::None, "none, commit", |word| {
        Durability::from_name(word).filter(|durability| CAPABILITIES.durability.contains(durability))
    })?;
    let store = own::Own::open(&url.path()?, context.clock.clone(), durability, CAPABILITIES)?;
    Ok(Sessions::new(url.redacted(), store, registry::limits(url)?))
}
