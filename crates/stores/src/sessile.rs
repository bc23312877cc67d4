//! `sessile:/dir`, the embedded engine: all worker processes of a host share one directory in shared memory.
//!
//! This file is the registry line and the options; the engine is a crate of its own (`sessile-engine`), and
//! docs/engine.md has its protocol.

use sessile_core::{Result, Sessions};
use sessile_engine::{CAPABILITIES, Options};

use crate::registry::{self, Context, Fixture, OptionHelp, StoreEntry};
use crate::store_url::StoreUrl;

/// The registry line of this store.
pub const ENTRY: StoreEntry = StoreEntry {
    name: "sessile",
    schemes: &["sessile"],
    sentence: "The embedded engine: shared memory of one host, no server, the fastest",
    capabilities: CAPABILITIES,
    options: &[OptionHelp {
        name: "size_bytes_max",
        help: "most bytes of memory, for all its processes at once (default: three quarters of the file system)",
    }],
    fixtures: &[Fixture { variant: "default", url: "sessile:{shm}/sessile" }],
    open,
};

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let options = Options { size_bytes_max: url.number("size_bytes_max", 0, 1..=1 << 50)? };
    let engine = sessile_engine::open(&url.path()?, context.clock.clone(), options)?;
    Ok(Sessions::new(url.redacted(), engine, registry::limits(url)?))
}
