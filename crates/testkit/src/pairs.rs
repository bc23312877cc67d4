//! Stores that are made of others, on more pairs than the one that the registry names; and a store
//! whose payloads are encrypted.
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

/// The pairs whose stores this build contains.
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
        let sealed =
            registry::by_name("files").map(|files| StoreEntry { fixtures: SEALED, ..*files });
        pairs.into_iter().flatten().chain(sealed).collect()
    })
}
