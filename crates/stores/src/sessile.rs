//! `sessile:/dir`, the embedded engine: all worker processes of a host share one directory, in
//! memory or on a disk.
//!
//! The engine is the crate `sessile-engine`; crates/engine/DESIGN.md has its protocol.

use std::path::PathBuf;
use std::time::Duration;

use sessile_core::{Durability, Error, ErrorKind, Result, Sessions};
use sessile_engine::{CAPABILITIES_ON_DISK, EngineOptions, SyncMode};

use crate::registry::{self, Context, Fixture, StoreEntry, option};
use crate::store_url::StoreUrl;

pub const ENTRY: StoreEntry = StoreEntry {
    name: "sessile",
    schemes: &["sessile"],
    sentence: "The embedded engine: memory or a disk of one host, no server, the fastest",
    capabilities: CAPABILITIES_ON_DISK,
    decorates: false,
    options: &[
        option(
            "size_bytes_max",
            "most bytes, for all its processes at once (default: three quarters of the file \
             system)",
        ),
        option(
            "durability",
            "on a disk: none, 1s or 250ms (all but so much of the end survives a power cut), or \
             commit (default 1s)",
        ),
        option(
            "control",
            "on a disk: the directory in memory for locks and index (default /dev/shm)",
        ),
    ],
    server: None,
    fixtures: &[
        Fixture { variant: "default", url: "sessile:{shm}/sessile" },
        Fixture { variant: "disk", url: "sessile:{disk}/sessile?control={control}" },
    ],
    open,
    exists: StoreEntry::EXISTS_AT_PATH,
    drop: Ok(|url| sessile_engine::drop_store(&url.path()?)),
};

const INTERVAL_MAX_MS: u64 = 3_600_000;

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let control = url.text("control").map(PathBuf::from);
    if control.as_ref().is_some_and(|path| !path.is_absolute()) {
        let why = "the option `control` is not an absolute path";
        return Err(Error::new(ErrorKind::InvalidUrl, why).advice("write it as control=/dev/shm"));
    }
    let sync = url.text("durability").map(sync_mode).transpose()?;
    let size_bytes_max = url.number("size_bytes_max", 0, 1..=1 << 50)?;
    let options = EngineOptions { size_bytes_max, sync, control };
    let engine = sessile_engine::open(&url.path()?, context.clock.clone(), &options)?;
    Ok(Sessions::new(url.redacted(), engine, registry::limits(url)?))
}

fn sync_mode(word: &str) -> Result<SyncMode> {
    let number = |suffix| word.strip_suffix(suffix).and_then(|digits| digits.parse::<u64>().ok());
    let mode = match Durability::from_name(word) {
        Some(Durability::None) => Some(SyncMode::Never),
        Some(Durability::Second) => Some(SyncMode::Interval(Duration::from_secs(1))),
        Some(Durability::Commit) => Some(SyncMode::EachChange),
        None => number("ms")
            .or_else(|| number("s").map(|seconds| seconds.saturating_mul(1_000)))
            .filter(|ms| (1..=INTERVAL_MAX_MS).contains(ms))
            .map(|ms| SyncMode::Interval(Duration::from_millis(ms))),
    };
    mode.ok_or_else(|| {
        Error::new(ErrorKind::InvalidUrl, "the option `durability` is not one that the engine has")
            .advice("write none, commit, or a time of at most an hour such as 1s or 250ms")
    })
}
