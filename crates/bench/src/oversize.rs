//! Contenders that matter where payloads are large: a server with a raised limit, and two stores as one.
//!
//! They are chosen by `oversize` itself, and by name (`memcached#8m`, `route#sqlite`) in any experiment.

use std::sync::OnceLock;

use sessile_core::{Capabilities, Durability};
use sessile_stores::{Fixture, StoreEntry, registry};

use crate::selection::{Choice, Target, of_fixture};

/// The sizes that are saved, from half a megabyte to eight, in bytes.
pub(crate) const SIZES: [usize; 5] = [512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20];

/// What a server takes that is started with its defaults, and what is to be set for more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stock {
    /// The largest payload in bytes.
    pub bytes: u64,
    /// The server's setting that raises it.
    pub setting: &'static str,
}

/// What a memcached server takes in one item when nobody says otherwise, with room for the key and what a store puts before a payload.
const MEMCACHED: Stock = Stock { bytes: (1 << 20) - 1_024, setting: "-I" };

/// The limit of a server that is started with its defaults, where that is below what the server can do.
pub(crate) fn stock(server: Option<&str>) -> Option<Stock> {
    (server == Some("memcached")).then_some(MEMCACHED)
}

/// The largest payload that a private server takes which is started with its defaults.
pub(crate) fn stock_limit(server: Option<&str>) -> u64 {
    stock(server).map_or(u64::MAX, |stock| stock.bytes)
}

/// The server's own answer to large items.
const RAISED: (&Fixture, &[&str]) =
    (&Fixture { variant: "8m", url: "memcached+unix:{socket}" }, &[MEMCACHED.setting, "8m"]);

/// Ours: what memcached does not take goes to a store that does.
const ROUTES: &[Fixture] = &[
    Fixture { variant: "sqlite", url: "route:?home=memcached%2Bunix:{socket}&large=sqlite:{disk}/large.sqlite" },
    Fixture { variant: "sessile", url: "route:?home=memcached%2Bunix:{socket}&large=sessile:{shm}/large" },
];

/// All of them that this build contains.
pub(crate) fn choices(durability: Durability) -> Vec<Choice> {
    let raised = registry::by_name("memcached").map(|entry| Choice {
        target: Target::FixtureOn(entry, RAISED.0, RAISED.1),
        ..of_fixture(entry, RAISED.0, durability)
    });
    let routes =
        route().into_iter().flat_map(|entry| ROUTES.iter().map(|fixture| of_fixture(entry, fixture, durability)));
    raised.into_iter().chain(routes).collect()
}

/// The store `route` with a server at home.
fn route() -> Option<&'static StoreEntry> {
    static ROUTE: OnceLock<Option<StoreEntry>> = OnceLock::new();
    let entry = ROUTE.get_or_init(|| {
        let (route, home) = (registry::by_name("route")?, registry::by_name("memcached")?);
        let capabilities = Capabilities { value_bytes_max: route.capabilities.value_bytes_max, ..home.capabilities };
        Some(StoreEntry { capabilities, fixtures: ROUTES, ..*route })
    });
    entry.as_ref()
}
