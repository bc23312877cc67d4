//! `files:/dir`: sessions in plain files. This file has the registry line and the options.
//!
//! [`own`] is the store's own mode: a checked file for each session. [`php`] (`?php=1`) shares the
//! directory of PHP's `files` handler, file for file and lock for lock. Layout and locks:
//! `crates/stores/design/files.md`.

mod claim;
mod content;
mod directory;
mod frame;
mod gate;
mod holder;
mod list;
mod lock;
mod locks_held;
mod mode;
mod own;
mod php;
mod queue;
mod store;
mod sweep;
mod system;
mod temporary;
mod walk;
mod words;

use std::time::Duration;

use sessile_core::{Capabilities, Durability, Limits, Result, Sessions, SessionsBound, Waiting};

use self::own::OwnMode;
use self::php::PhpMode;
use self::php::directory::PREFIX;
use self::store::Files;
use crate::registry::{self, Context, Fixture, StoreEntry, option};
use crate::store_url::{StoreUrl, invalid};

pub const ENTRY: StoreEntry = StoreEntry {
    name: "files",
    schemes: &["files"],
    sentence: "One file a session, for one host: no server, fast, and can share PHP's directory",
    capabilities: CAPABILITIES,
    decorates: false,
    options: &[
        option(
            "durability",
            "none, or commit: each commit is on disk before it returns (default none)",
        ),
        option("php", "1: share the directory with PHP's files handler (default 0)"),
        option("depth", "with php=1, the N of session.save_path = \"N;/dir\": 0 to 5 (default 0)"),
        option(
            "maxlifetime",
            "with php=1, session.gc_maxlifetime in seconds: 1 to 315360000 (default 1440)",
        ),
    ],
    server: None,
    fixtures: &[
        Fixture { variant: "default", url: "files:{disk}/files" },
        Fixture { variant: "shm", url: "files:{shm}/files#shm" },
        Fixture { variant: "php", url: "files:{disk}/php?php=1#php" },
    ],
    open,
    exists,
    drop: Err(
        "end the processes that use it, then remove the directory; with php=1 it is PHP's as well",
    ),
};

const CAPABILITIES: Capabilities = Capabilities {
    persistent_from: Some(Durability::None),
    shared_by_processes: true,
    waiting: Waiting::Event,
    value_bytes_max: 1 << 40,
    // A file name has at most 255 bytes.
    id_bytes_max: Limits::ID_BYTES_MAX - 1,
    sessions_bounded_by: SessionsBound::Disk { inodes: true },
    listing: true,
    owners: true,
    durability: &[Durability::None, Durability::Commit],
    ..Capabilities::MINIMAL
};

/// An empty directory of PHP exists, although it has no sessions.
fn exists(url: &StoreUrl) -> Result<bool> {
    if url.text("php").is_some() { Ok(true) } else { (StoreEntry::EXISTS_AT_PATH)(url) }
}

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let durability = url.word("durability", Durability::None, "none, commit", |word| {
        Durability::from_name(word)
            .filter(|durability| CAPABILITIES.durability.contains(durability))
    })?;
    let (path, clock, limits) = (url.path()?, context.clock.clone(), registry::limits(url)?);
    let durable = durability == Durability::Commit;
    if !url.switch("php")? {
        if let Some(name) =
            ["depth", "maxlifetime"].into_iter().find(|name| url.text(name).is_some())
        {
            return Err(invalid(format!("option {name} is for a directory shared with PHP"))
                .advice("add php=1"));
        }
        let store = Files::new(OwnMode::open(&path, clock, durable)?, CAPABILITIES)?;
        return Ok(Sessions::new(url.redacted(), store, limits));
    }
    if url.text("ids") == Some("hashed") {
        return Err(invalid("php=1 and ids=hashed contradict each other")
            .advice("PHP names its files by the plain ids: leave one of the two out"));
    }
    let depth = url.number("depth", 0, 0..=5)? as usize;
    let maxlifetime = url.number("maxlifetime", 1_440, 1..=Limits::TTL_MAX.as_secs())?;
    let lifetime = Duration::from_secs(maxlifetime);
    // A session over the limit for saves can still be read, so that the application can shrink it.
    let most = limits.payload_bytes_max.max(Limits::PAYLOAD_BYTES_MAX_DEFAULT);
    let mode = PhpMode::open(&path, depth, lifetime, most, clock, durable)?;
    let id_bytes_max = CAPABILITIES.id_bytes_max - PREFIX.len();
    let capabilities =
        Capabilities { id_bytes_max, foreign_writers: true, owners: false, ..CAPABILITIES };
    let store = Files::new(mode, capabilities)?;
    Ok(Sessions::new(url.redacted(), store, limits))
}
