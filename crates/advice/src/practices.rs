//! What sites have already: session handlers of PHP and of frameworks.
//!
//! Each is judged by the reference row that does what it does on the wire or on the disk, never by
//! our store for the same system. It shares with that store what the system decides; of what a
//! client decides (waiting, the end of a lock) it has what its own row shows, or nothing is said.
//! In a result of `lifecycle` a handler has the practice's name. A product has some of them, which
//! its `Site` names.

use sessile_core::{Capabilities, Durability, Expiry, SessionsBound, Waiting};
use sessile_results::naming;
use sessile_results::reference::{self, AfterDeath};
use sessile_stores::StoreEntry;

/// A session handler in use.
#[derive(Debug)]
pub(crate) struct Practice {
    pub store: &'static str,
    pub variant: &'static str,
    /// How it is chosen.
    pub setting: &'static str,
    /// Its reference row; empty if it lives inside PHP only.
    pub row: &'static str,
    /// Whether it belongs to one product, and other sites do not have it.
    pub of_one_product: bool,
    system: System,
}

#[derive(Debug)]
enum System {
    /// That of our store of this name.
    Of(&'static str),
    Files,
    /// Memory of the processes of one host, which a full one is emptied of.
    Apcu,
}

pub(crate) const PRACTICES: &[Practice] = &[
    practice("php-files", "default", "files-flock", System::Files, "session.save_handler = files"),
    practice("apcu", "default", "", System::Apcu, "the APCu handler of a framework"),
    practice(
        "phpredis",
        "lock",
        "redis-four-trips",
        System::Of("redis"),
        "session.save_handler = redis, redis.session.locking_enabled = 1",
    ),
    practice(
        "phpredis",
        "default",
        "redis-setex",
        System::Of("redis"),
        "session.save_handler = redis, whose lock is off by default",
    ),
    Practice {
        of_one_product: true,
        ..practice(
            "magento-redis",
            "default",
            "redis-magento",
            System::Of("redis"),
            "session of env.php: save = redis, Magento's own handler",
        )
    },
    practice(
        "php-memcached",
        "default",
        "memcached-four-trips",
        System::Of("memcached"),
        "session.save_handler = memcached",
    ),
    practice(
        "php-memcached",
        "nolock",
        "memcached-unlocked",
        System::Of("memcached"),
        "session.save_handler = memcached, memcached.sess_locking = 0",
    ),
    practice(
        "pdo-mysql",
        "nolock",
        "mysql-unlocked",
        System::Of("mysql"),
        "the database handlers of Drupal, Django and Magento, which take no lock",
    ),
    practice(
        "pdo-mysql",
        "default",
        "mysql-transaction",
        System::Of("mysql"),
        "Symfony's PdoSessionHandler with LOCK_TRANSACTIONAL, its default",
    ),
    practice(
        "pdo-postgres",
        "nolock",
        "postgres-unlocked",
        System::Of("postgres"),
        "the database handlers of Drupal and Django, which take no lock",
    ),
    practice(
        "pdo-postgres",
        "default",
        "postgres-transaction",
        System::Of("postgres"),
        "Symfony's PdoSessionHandler with LOCK_TRANSACTIONAL, its default",
    ),
];

const fn practice(
    store: &'static str,
    variant: &'static str,
    row: &'static str,
    system: System,
    setting: &'static str,
) -> Practice {
    Practice { store, variant, setting, row, of_one_product: false, system }
}

/// The handler that a reference row stands for, by the name of the row.
pub fn handler_of_row(row: &str) -> Option<String> {
    let practice = PRACTICES.iter().find(|it| !row.is_empty() && it.row == row)?;
    Some(practice.title())
}

/// Handlers that live inside PHP only and have no reference row.
pub fn handlers_without_row() -> impl Iterator<Item = &'static str> {
    PRACTICES.iter().filter(|it| it.row.is_empty()).map(|it| it.store)
}

impl Practice {
    pub(crate) fn title(&self) -> String {
        naming::title(self.store, self.variant)
    }

    pub(crate) fn capabilities(&self, known: &[StoreEntry]) -> Option<Capabilities> {
        let (durability, value_bytes_max) = (&[Durability::None], u64::MAX);
        // A row lock and flock wake the waiter; with other locks the waiter asks again.
        let waiting = match self.after_death() {
            AfterDeath::Freed => Waiting::Event,
            AfterDeath::Lapses | AfterDeath::Stuck | AfterDeath::NoLock => Waiting::Retry,
        };
        Some(match self.system {
            System::Of(name) => {
                let ours = known.iter().find(|entry| entry.name == name)?.capabilities;
                Capabilities { waiting, ..ours }
            }
            System::Files => Capabilities {
                waiting,
                persistent_from: Some(Durability::None),
                shared_by_processes: true,
                sessions_bounded_by: SessionsBound::Disk { inodes: true },
                durability,
                value_bytes_max,
                ..Capabilities::MINIMAL
            },
            System::Apcu => Capabilities {
                shared_by_processes: true,
                expiry: Expiry::Native,
                sessions_bounded_by: SessionsBound::ServerMemory {
                    setting: "apc.shm_size",
                    evicts: true,
                },
                durability,
                value_bytes_max,
                ..Capabilities::MINIMAL
            },
        })
    }

    pub(crate) fn after_death(&self) -> AfterDeath {
        reference::by_name(self.row).map_or(AfterDeath::NoLock, |row| row.after_death)
    }
}
