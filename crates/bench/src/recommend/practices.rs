//! What sites have already: session handlers of PHP and of frameworks.
//!
//! Each is judged by the reference row that does what it does on the wire or on the disk, never by
//! our store for the same system, and has what that system can do. In a result a handler under a
//! web server has the practice's name (`lifecycle`, `make php-gc-bench`).

use sessile_core::{Capabilities, Durability};
use sessile_stores::registry;

/// A session handler in use.
#[derive(Debug)]
pub(super) struct Practice {
    pub store: &'static str,
    pub variant: &'static str,
    /// How it is chosen.
    pub setting: &'static str,
    /// Its reference row.
    pub row: &'static str,
    /// The store with the same system beneath.
    system: &'static str,
    durability: Option<&'static [Durability]>,
}

pub(super) const PRACTICES: &[Practice] = &[
    Practice {
        store: "php-files",
        variant: "default",
        setting: "session.save_handler = files",
        row: "files-flock",
        system: "files",
        durability: Some(&[Durability::None]),
    },
    practice(
        "phpredis",
        "lock",
        "session.save_handler = redis, redis.session.locking_enabled = 1",
        "redis-four-trips",
        "redis",
    ),
    practice(
        "php-memcached",
        "default",
        "session.save_handler = memcached",
        "memcached-four-trips",
        "memcached",
    ),
    practice(
        "pdo-mysql",
        "default",
        "the database handler of Drupal, Symfony or Django",
        "mysql-transaction",
        "mysql",
    ),
    practice(
        "pdo-postgres",
        "default",
        "the database handler of Drupal, Symfony or Django",
        "postgres-transaction",
        "postgres",
    ),
];

const fn practice(
    store: &'static str,
    variant: &'static str,
    setting: &'static str,
    row: &'static str,
    system: &'static str,
) -> Practice {
    Practice { store, variant, setting, row, system, durability: None }
}

impl Practice {
    pub(super) fn capabilities(&self) -> Option<Capabilities> {
        let mut capabilities = registry::by_name(self.system)?.capabilities;
        capabilities.durability = self.durability.unwrap_or(capabilities.durability);
        Some(capabilities)
    }
}
