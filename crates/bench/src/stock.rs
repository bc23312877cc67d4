//! Servers with those defaults that our private servers change to be faster (`bench/BIAS.md` says
//! why).
//!
//! Redis makes its snapshots. MariaDB has no binary log and enough connections all the same.
//!
//! Chosen by name (`redis#stock`, `mysql#stock`, `postgres#stock`) in any experiment.

use sessile_core::Durability;
use sessile_stores::Fixture;

use crate::selection::{Choice, ServerVariant};

pub(crate) const VARIANT: &str = "stock";

static STOCKS: [ServerVariant; 3] = [
    ServerVariant {
        store: "redis",
        fixture: Fixture { variant: VARIANT, url: "redis+unix:{socket}" },
        arguments: &[
            "--hz",
            "10",
            "--save",
            "3600 1 300 100 60 10000",
            "--auto-aof-rewrite-min-size",
            "64mb",
        ],
    },
    ServerVariant {
        store: "mysql",
        fixture: Fixture { variant: VARIANT, url: "mysql+unix:{socket}?user=root&database=test" },
        arguments: &["--innodb-buffer-pool-size=128M", "--innodb-log-file-size=96M"],
    },
    ServerVariant {
        store: "postgres",
        fixture: Fixture {
            variant: VARIANT,
            url: "postgres+unix:{socket}?user=postgres&database=postgres",
        },
        arguments: &["-c", "shared_buffers=128MB"],
    },
];

pub(crate) fn choices(durability: Durability) -> impl Iterator<Item = Choice> {
    STOCKS.iter().filter_map(move |stock| stock.choice(durability))
}

#[cfg(test)]
mod tests {
    use sessile_stores::registry;

    use super::*;
    use crate::deployment::Deployment;
    use crate::selection::fixture_choice;

    /// A row that says so and has our settings all the same would be a lie.
    #[test]
    fn a_stock_server_has_its_defaults_and_ours_has_not() {
        let settings = |choice: &Choice| {
            let stage = Deployment::start(choice, None).unwrap();
            let socket = stage.server_socket().unwrap().display().to_string();
            let mut asking = redis::Client::open(format!("redis+unix:{socket}"))
                .unwrap()
                .get_connection()
                .unwrap();
            ["hz", "save"].map(|name| {
                let answer: Vec<String> =
                    redis::cmd("CONFIG").arg("GET").arg(name).query(&mut asking).unwrap();
                answer[1].clone()
            })
        };
        let stock = choices(Durability::None).find(|choice| choice.store == "redis").unwrap();
        if sessile_fixtures::ServerKind::by_name("redis-server").unwrap().find().is_none() {
            assert!(std::env::var_os("CI").is_none(), "redis-server is not installed");
            return println!("skipped: redis-server is not installed");
        }
        let entry = registry::by_name("redis").unwrap();
        let ours = fixture_choice(entry, &entry.fixtures[0], Durability::None);
        assert_eq!(settings(&stock), ["10", "3600 1 300 100 60 10000"]);
        assert_eq!(settings(&ours), ["100", ""]);
    }
}
