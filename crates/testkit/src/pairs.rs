//! Stores on more fixtures than the registry names: pairs of those that are made of others, sets of
//! several servers, and a store whose payloads are encrypted.
//!
//! Each pair is held to the capabilities of its home store; the cases are those of every store.

use std::sync::OnceLock;

use sessile_stores::{Fixture, StoreEntry, registry};

/// Every payload is a large one, so that each case goes through stubs.
const PARTS: &[Fixture] = &[Fixture {
    variant: "parts",
    url: "route:?home=files:{shm}/home&large=sqlite:{shm}/large.sqlite&larger_than=0",
}];
/// The same with a lock in time and an expiry of its own at home.
const MEMCACHED: &[Fixture] = &[Fixture {
    variant: "memcached",
    url: "route:?home=memcached%2Bunix:{socket}&large=files:{shm}/large&larger_than=0",
}];
/// The sessions live elsewhere, other bins at home.
const BINS: &[Fixture] = &[Fixture {
    variant: "bins",
    url: "route:?home=files:{shm}/home&bins=session&bins_in=files:{shm}/bins\
          &large=files:{shm}/large&larger_than=8",
}];

/// Encryption, which each store takes as an option.
const SEALED: &[Fixture] = &[Fixture { variant: "sealed", url: "files:{shm}/sessions?seal={key}" }];

/// Several servers, which the benchmark does not start.
const HOSTS: &[Fixture] = &[
    Fixture { variant: "cluster", url: "{cluster}" },
    Fixture { variant: "sentinel", url: "{sentinels}" },
];

/// Those whose stores this build contains.
pub(crate) fn entries() -> &'static [StoreEntry] {
    static ENTRIES: OnceLock<Vec<StoreEntry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let pair = |home: &str, other: &str, fixtures: &'static [Fixture]| {
            let (home, _) = (registry::by_name(home)?, registry::by_name(other)?);
            Some(StoreEntry {
                capabilities: home.capabilities,
                fixtures,
                ..*registry::by_name("route")?
            })
        };
        let pairs = [
            pair("files", "sqlite", PARTS),
            pair("memcached", "files", MEMCACHED),
            pair("files", "files", BINS),
        ];
        let more = |name: &str, fixtures: &'static [Fixture]| {
            registry::by_name(name).map(|entry| StoreEntry { fixtures, ..*entry })
        };
        let more = [more("files", SEALED), more("redis", HOSTS)];
        pairs.into_iter().chain(more).flatten().collect()
    })
}
