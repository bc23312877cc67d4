//! The registry: from a URL to an opened store.
//!
//! The stores themselves are listed in [`STORES`]. This file knows no store's inside; options that hold for
//! all stores are handled here.

use sessile_core::{Capabilities, Clock, Error, ErrorKind, Limits, Operation, Result, Sessions};

pub use crate::STORES;
use crate::hashed_ids;
use crate::store_url::{StoreUrl, shown};

/// What the registry knows of a store.
#[derive(Clone, Copy, Debug)]
pub struct StoreEntry {
    /// The registry name: what `--stores` takes and results say.
    pub name: &'static str,
    /// The URL schemes that lead here.
    pub schemes: &'static [&'static str],
    /// One sentence: what it is and whom it is for.
    pub sentence: &'static str,
    /// What it can do.
    pub capabilities: Capabilities,
    /// It is made of other stores, which its URL names: what it can do is what they can, and `capabilities` are those of
    /// its first fixture.
    pub decorates: bool,
    /// Its own URL options, besides [`COMMON_OPTIONS`].
    pub options: &'static [OptionHelp],
    /// Private instances on which the conformance suite and the benchmark run it.
    pub fixtures: &'static [Fixture],
    /// Opens it. The URL has a scheme of `schemes` and only known options.
    pub open: fn(&StoreUrl, &Context) -> Result<Sessions>,
}

/// One URL option.
#[derive(Clone, Copy, Debug)]
pub struct OptionHelp {
    /// Its name.
    pub name: &'static str,
    /// Values, unit and default.
    pub help: &'static str,
}

/// A private instance of a store, for the conformance suite and the benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Fixture {
    /// `default`, or what makes it different (`shm`, `php`): the `variant` of results.
    pub variant: &'static str,
    /// Its URL. `{disk}` and `{shm}` stand for a fresh directory on disk or in shared memory, `{control}` for one more
    /// in shared memory, `{socket}` for the unix socket of a private server (the one named in
    /// [`Capabilities::server`]).
    pub url: &'static str,
}

/// What a store needs from its surroundings.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The time.
    pub clock: Clock,
}

/// Options that every store takes.
pub const COMMON_OPTIONS: &[OptionHelp] = &[
    OptionHelp {
        name: "payload_bytes_max",
        help: "largest payload in bytes; larger saves are refused (default 67108864, or the store's own limit)",
    },
    OptionHelp { name: "ids", help: "plain (default) or hashed: store a digest, so that a stolen dump logs nobody in" },
];

/// Opens the store that a URL names.
///
/// # Errors
///
/// `InvalidUrl` for an unknown scheme or option, and whatever the store says when it cannot be opened.
pub fn open(url: &str, context: &Context) -> Result<Sessions> {
    let url = StoreUrl::parse(url)?;
    let label = url.redacted();
    let opened = entry_for(&url).and_then(|entry| {
        check_options(entry, &url)?;
        let hashed = url.word("ids", false, "plain, hashed", |word| match word {
            "plain" => Some(false),
            "hashed" => Some(true),
            _ => None,
        })?;
        let sessions = (entry.open)(&url, context)?;
        if hashed { sessions.storing_keys_as(hashed_ids::digest) } else { Ok(sessions) }
    });
    opened.map_err(|error| error.during(Operation::Open, &label, None))
}

/// The store that has this registry name.
pub fn by_name(name: &str) -> Option<&'static StoreEntry> {
    STORES.iter().find(|entry| entry.name == name)
}

/// The store that a URL names.
///
/// # Errors
///
/// `InvalidUrl`, which lists the known schemes.
pub fn entry_for(url: &StoreUrl) -> Result<&'static StoreEntry> {
    let known = STORES.iter().find(|entry| entry.schemes.contains(&url.scheme()));
    known.ok_or_else(|| {
        let schemes: Vec<&str> = STORES.iter().flat_map(|entry| entry.schemes.iter().copied()).collect();
        let why = format!("unknown store scheme {:?}", url.scheme());
        Error::new(ErrorKind::InvalidUrl, why).advice(format!("known schemes: {}", schemes.join(", ")))
    })
}

/// The limits that a URL asks for.
///
/// # Errors
///
/// `InvalidUrl` when the number is malformed.
pub fn limits(url: &StoreUrl) -> Result<Limits> {
    let default = Limits::default();
    let payload_bytes_max = url.number("payload_bytes_max", default.payload_bytes_max, 1..=u64::MAX)?;
    Ok(Limits { payload_bytes_max, ..default })
}

fn check_options(entry: &StoreEntry, url: &StoreUrl) -> Result<()> {
    let known = || COMMON_OPTIONS.iter().chain(entry.options).map(|option| option.name);
    match url.option_names().find(|name| !known().any(|known| known == *name)) {
        None => Ok(()),
        Some(name) => {
            let known: Vec<&str> = known().collect();
            let why = format!("unknown option {}", shown(name));
            Err(Error::new(ErrorKind::InvalidUrl, why).advice(format!("{} takes: {}", entry.name, known.join(", "))))
        }
    }
}
