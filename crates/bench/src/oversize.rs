//! Contenders for large payloads: servers with a raised limit, and routes of two stores.
//!
//! `oversize` chooses them itself; other experiments by name (`memcached#8m`, `route#sqlite`).

use std::sync::OnceLock;

use sessile_core::{Capabilities, Durability};
use sessile_stores::{Fixture, StoreEntry, registry};

use crate::selection::{Choice, ContenderSource, fixture_choice};

/// Payload sizes in bytes, 0.5 to 8 MiB.
pub(crate) const SIZES: [usize; 5] = [512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20];

/// A server's limit with its defaults, and the setting that raises it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DefaultLimit {
    /// As capabilities name it.
    server: &'static str,
    /// The largest payload in bytes.
    pub bytes: u64,
    pub setting: &'static str,
    /// The default of another server for the same store, for messages.
    pub another: Option<&'static str>,
}

/// One item, less room for the key and the store's header.
const MEMCACHED: DefaultLimit =
    DefaultLimit { server: "memcached", bytes: (1 << 20) - 1_024, setting: "-I", another: None };

/// Default limits below what the server can do.
const DEFAULT_LIMITS: [DefaultLimit; 2] = [
    MEMCACHED,
    // One packet, less room for the rest of the statement.
    DefaultLimit {
        server: "mariadbd",
        bytes: (16 << 20) - 1_024,
        setting: "max_allowed_packet",
        another: Some("MySQL: 64 MiB"),
    },
];

pub(crate) fn stock(server: Option<&str>) -> Option<DefaultLimit> {
    DEFAULT_LIMITS.into_iter().find(|stock| Some(stock.server) == server)
}

pub(crate) fn default_limit_bytes(server: Option<&str>) -> u64 {
    stock(server).map_or(u64::MAX, |stock| stock.bytes)
}

/// A store whose server runs with a raised limit.
struct RaisedLimit {
    store: &'static str,
    fixture: Fixture,
    arguments: &'static [&'static str],
    words: &'static str,
}

static RAISED: [RaisedLimit; 1] = [RaisedLimit {
    store: "memcached",
    fixture: Fixture { variant: "8m", url: "memcached+unix:{socket}" },
    arguments: &[MEMCACHED.setting, "8m"],
    words: "-I 8m",
}];

/// The arguments that raised the limit of this variant's server.
pub(crate) fn raised_setting(store: &str, variant: &str) -> Option<&'static str> {
    let raised =
        RAISED.iter().find(|raised| raised.store == store && raised.fixture.variant == variant);
    raised.map(|raised| raised.words)
}

/// Routes: payloads too large for memcached go to another store.
const ROUTES: &[Fixture] = &[
    Fixture {
        variant: "sqlite",
        url: "route:?home=memcached%2Bunix:{socket}&large=sqlite:{disk}/large.sqlite",
    },
    Fixture {
        variant: "sessile",
        url: "route:?home=memcached%2Bunix:{socket}&large=sessile:{shm}/large",
    },
];

pub(crate) fn choices(durability: Durability) -> Vec<Choice> {
    let raised = RAISED.iter().filter_map(|raised| {
        let entry = registry::by_name(raised.store)?;
        let target = ContenderSource::Fixture(entry, &raised.fixture, raised.arguments);
        Some(Choice { target, ..fixture_choice(entry, &raised.fixture, durability) })
    });
    let routes = route()
        .into_iter()
        .flat_map(|entry| ROUTES.iter().map(|fixture| fixture_choice(entry, fixture, durability)));
    raised.chain(routes).collect()
}

fn route() -> Option<&'static StoreEntry> {
    static ROUTE: OnceLock<Option<StoreEntry>> = OnceLock::new();
    let entry = ROUTE.get_or_init(|| {
        let (route, home) = (registry::by_name("route")?, registry::by_name("memcached")?);
        let capabilities = Capabilities {
            value_bytes_max: route.capabilities.value_bytes_max,
            ..home.capabilities
        };
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
        let options = ServerOptions {
            extra: arguments.iter().map(OsString::from).collect(),
            ..ServerOptions::default()
        };
        let instance = Instance::start(entry, fixture, &options).unwrap();
        instance.open(Clock::default()).unwrap().limits().payload_bytes_max
    }

    #[test]
    fn a_server_with_its_defaults_takes_what_is_said_of_it_and_a_raised_one_more() {
        for stock in DEFAULT_LIMITS {
            if ServerKind::by_name(stock.server).unwrap().find().is_none() {
                assert!(std::env::var_os("CI").is_none(), "{} is not installed", stock.server);
                println!("skipped: {} is not installed", stock.server);
                continue;
            }
            let entry = registry::STORES
                .iter()
                .find(|entry| entry.capabilities.server == Some(stock.server))
                .unwrap();
            let taken = limit(entry, &entry.fixtures[0], &[]);
            assert!(
                (stock.bytes..stock.bytes + 1_024).contains(&taken),
                "{}: {taken}",
                stock.server
            );
            for raised in RAISED.iter().filter(|raised| raised.store == entry.name) {
                assert!(
                    limit(entry, &raised.fixture, raised.arguments) > 2 * stock.bytes,
                    "{}",
                    raised.words
                );
            }
        }
    }

    #[test]
    fn who_was_told_to_take_more_is_known_by_name_and_variant_with_the_words_to_say_to_the_server()
    {
        assert_eq!(raised_setting("memcached", "8m"), Some("-I 8m"));
        assert_eq!(
            (raised_setting("memcached", "default"), raised_setting("redis", "8m")),
            (None, None)
        );
        assert!(RAISED.iter().all(|raised| raised.words == raised.arguments.join(" ")));
    }
}
