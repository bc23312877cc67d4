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
    /// The server, as capabilities name it.
    server: &'static str,
    /// The largest payload in bytes.
    pub bytes: u64,
    /// The server's setting that raises it.
    pub setting: &'static str,
    /// What another server takes on which the same store keeps its sessions.
    pub another: Option<&'static str>,
}

/// One item, with room for the key and what a store puts before a payload.
const MEMCACHED: Stock = Stock { server: "memcached", bytes: (1 << 20) - 1_024, setting: "-I", another: None };

/// The limits of servers that are started with their defaults, where that is below what the server can do.
const STOCKS: [Stock; 2] = [
    MEMCACHED,
    // One packet, with room for the rest of the statement.
    Stock {
        server: "mariadbd",
        bytes: (16 << 20) - 1_024,
        setting: "max_allowed_packet",
        another: Some("MySQL: 64 MiB"),
    },
];

/// The limit of a server that is started with its defaults, where that is below what the server can do.
pub(crate) fn stock(server: Option<&str>) -> Option<Stock> {
    STOCKS.into_iter().find(|stock| Some(stock.server) == server)
}

/// The largest payload that a private server takes which is started with its defaults.
pub(crate) fn stock_limit(server: Option<&str>) -> u64 {
    stock(server).map_or(u64::MAX, |stock| stock.bytes)
}

/// A store whose server was told to take more.
struct Raised {
    store: &'static str,
    fixture: Fixture,
    arguments: &'static [&'static str],
    /// The arguments as one writes them.
    words: &'static str,
}

/// The server's own answer to large items.
static RAISED: [Raised; 1] = [Raised {
    store: "memcached",
    fixture: Fixture { variant: "8m", url: "memcached+unix:{socket}" },
    arguments: &[MEMCACHED.setting, "8m"],
    words: "-I 8m",
}];

/// What the server of this variant was told, so that it takes more than by its defaults.
pub(crate) fn raised_by(store: &str, variant: &str) -> Option<&'static str> {
    let raised = RAISED.iter().find(|raised| raised.store == store && raised.fixture.variant == variant);
    raised.map(|raised| raised.words)
}

/// Ours: what memcached does not take goes to a store that does.
const ROUTES: &[Fixture] = &[
    Fixture { variant: "sqlite", url: "route:?home=memcached%2Bunix:{socket}&large=sqlite:{disk}/large.sqlite" },
    Fixture { variant: "sessile", url: "route:?home=memcached%2Bunix:{socket}&large=sessile:{shm}/large" },
];

/// All of them that this build contains.
pub(crate) fn choices(durability: Durability) -> Vec<Choice> {
    let raised = RAISED.iter().filter_map(|raised| {
        let entry = registry::by_name(raised.store)?;
        let target = Target::FixtureOn(entry, &raised.fixture, raised.arguments);
        Some(Choice { target, ..of_fixture(entry, &raised.fixture, durability) })
    });
    let routes =
        route().into_iter().flat_map(|entry| ROUTES.iter().map(|fixture| of_fixture(entry, fixture, durability)));
    raised.chain(routes).collect()
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

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use sessile_core::Clock;
    use sessile_fixtures::{Instance, ServerKind, ServerOptions};

    use super::*;

    /// What a store says that its server takes, which it has asked.
    fn limit(entry: &StoreEntry, fixture: &Fixture, arguments: &[&str]) -> u64 {
        let options =
            ServerOptions { extra: arguments.iter().map(OsString::from).collect(), ..ServerOptions::default() };
        let instance = Instance::start(entry, fixture, &options).unwrap();
        instance.open(Clock::default()).unwrap().limits().payload_bytes_max
    }

    #[test]
    fn a_server_with_its_defaults_takes_what_is_said_of_it_and_a_raised_one_more() {
        for stock in STOCKS {
            if ServerKind::by_name(stock.server).unwrap().find().is_none() {
                assert!(std::env::var_os("CI").is_none(), "{} is not installed", stock.server);
                println!("skipped: {} is not installed", stock.server);
                continue;
            }
            let entry = registry::STORES.iter().find(|entry| entry.capabilities.server == Some(stock.server)).unwrap();
            let taken = limit(entry, &entry.fixtures[0], &[]);
            assert!((stock.bytes..stock.bytes + 1_024).contains(&taken), "{}: {taken}", stock.server);
            for raised in RAISED.iter().filter(|raised| raised.store == entry.name) {
                assert!(limit(entry, &raised.fixture, raised.arguments) > 2 * stock.bytes, "{}", raised.words);
            }
        }
    }

    #[test]
    fn who_was_told_to_take_more_is_known_by_name_and_variant_with_the_words_to_say_to_the_server() {
        assert_eq!(raised_by("memcached", "8m"), Some("-I 8m"));
        assert_eq!((raised_by("memcached", "default"), raised_by("redis", "8m")), (None, None));
        assert!(RAISED.iter().all(|raised| raised.words == raised.arguments.join(" ")));
    }
}
