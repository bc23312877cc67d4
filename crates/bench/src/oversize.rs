//! Contenders for large payloads: servers with a raised limit, and routes of two stores.
//!
//! `oversize` chooses them itself; other experiments by name (`memcached#8m`, `route#sqlite`).

use std::sync::OnceLock;

use sessile_core::{Capabilities, Durability};
use sessile_results::server_limits::MEMCACHED;
use sessile_stores::{Fixture, StoreEntry, registry};

use crate::selection::{Choice, ServerVariant, fixture_choice};

/// Payload sizes in bytes, 0.5 to 8 MiB.
pub(crate) const SIZES: [usize; 5] = [512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20];

/// A server with a raised limit.
static RAISED: [ServerVariant; 1] = [ServerVariant {
    store: "memcached",
    fixture: Fixture { variant: "8m", url: "memcached+unix:{socket}" },
    arguments: &[MEMCACHED.setting, "8m"],
}];

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
    let raised = RAISED.iter().filter_map(|raised| raised.choice(durability));
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

    use sessile_results::server_limits::{DEFAULT_LIMITS, raised_setting};

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
                    raised.fixture.variant
                );
            }
        }
    }

    #[test]
    fn who_was_told_to_take_more_is_known_by_name_and_variant_with_the_words_to_say_to_the_server()
    {
        for raised in &RAISED {
            let words = raised_setting(raised.store, raised.fixture.variant);
            assert_eq!(words, Some(raised.arguments.join(" ").as_str()));
        }
        assert_eq!(
            (raised_setting("memcached", "default"), raised_setting("redis", "8m")),
            (None, None)
        );
    }
}
