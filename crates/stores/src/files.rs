//! `files:/dir`, sessions in plain files: fast, no server, and known to everyone.
//!
//! Two modes. The store's own ([`own`]) keeps a checked file for each session and overwrites or replaces it. With
//! `?php=1` it shares the directory of PHP's `files` handler, file for file and lock for lock.
//!
//! This file is the registry line and the options; docs/stores/files.md is the manual.

mod alias;
mod content;
mod directory;
mod frame;
mod gate;
mod holder;
mod own;
mod own_commit;
mod own_listing;
mod own_regenerate;
mod own_sweep;
mod own_verify;
mod php;
mod php_directory;
mod php_note;
mod php_redo;
mod php_store;
mod php_turns;
mod php_walk;
mod queue;
mod system;
mod temporary;
mod wait;

use std::time::Duration;

use sessile_core::{
    Capabilities, Durability, Expiry, Limits, Locking, Ownership, Result, Sessions, SessionsBound, Waiting,
};

use crate::registry::{self, Context, Fixture, OptionHelp, StoreEntry};
use crate::store_url::{StoreUrl, invalid};

/// The registry line of this store.
pub const ENTRY: StoreEntry = StoreEntry {
    name: "files",
    schemes: &["files"],
    sentence: "One file a session, for one host: no server, fast, and can share PHP's directory",
    capabilities: CAPABILITIES,
    decorates: false,
    options: &[
        OptionHelp {
            name: "durability",
            help: "none, or commit: each commit is on disk before it returns (default none)",
        },
        OptionHelp { name: "php", help: "1: share the directory with PHP's files handler (default 0)" },
        OptionHelp { name: "depth", help: "with php=1, the N of session.save_path = \"N;/dir\": 0 to 5 (default 0)" },
        OptionHelp {
            name: "maxlifetime",
            help: "with php=1, session.gc_maxlifetime in seconds: 1 to 315360000 (default 1440)",
        },
    ],
    fixtures: &[
        Fixture { variant: "default", url: "files:{disk}/files" },
        Fixture { variant: "shm", url: "files:{shm}/files#shm" },
        Fixture { variant: "php", url: "files:{disk}/php?php=1#php" },
    ],
    open,
};

const CAPABILITIES: Capabilities = Capabilities {
    persistent_from: Some(Durability::None),
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
    sessions_bounded_by: SessionsBound::Disk { inodes: true },
    compare_and_set: true,
    listing: true,
    durability: &[Durability::None, Durability::Commit],
};

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let durability = url.word("durability", Durability::None, "none, commit", |word| {
        Durability::from_name(word).filter(|durability| CAPABILITIES.durability.contains(durability))
    })?;
    let (path, clock, limits) = (url.path()?, context.clock.clone(), registry::limits(url)?);
    if !url.switch("php")? {
        if let Some(name) = ["depth", "maxlifetime"].into_iter().find(|name| url.text(name).is_some()) {
            return Err(invalid(format!("option {name} is for a directory shared with PHP")).advice("add php=1"));
        }
        let store = own::Own::open(&path, clock, durability, CAPABILITIES)?;
        return Ok(Sessions::new(url.redacted(), store, limits));
    }
    if url.text("ids") == Some("hashed") {
        return Err(invalid("php=1 and ids=hashed contradict each other")
            .advice("PHP names its files by the plain ids: leave one of the two out"));
    }
    let options = php::PhpOptions {
        depth: usize::try_from(url.number("depth", 0, 0..=5)?).unwrap_or(0),
        maxlifetime: Duration::from_secs(url.number("maxlifetime", 1_440, 1..=Limits::TTL_MAX.as_secs())?),
        durability,
    };
    let capabilities =
        Capabilities { id_bytes_max: CAPABILITIES.id_bytes_max - php_directory::PREFIX.len(), ..CAPABILITIES };
    let store = php::Php::open(&path, &options, clock, capabilities)?;
    Ok(Sessions::new(url.redacted(), store, limits))
}
