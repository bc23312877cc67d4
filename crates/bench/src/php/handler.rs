//! The table of PHP session handlers, from which selection, configuration and results come.
//!
//! All handlers keep their connections between requests, as ours does.

use sessile_core::Durability;
use sessile_results::php_handlers::SESSILE;
use sessile_results::{UsageError, naming};

use crate::selection::{Choice, ContenderSource};

#[derive(Clone, Debug)]
pub struct Handler {
    pub name: &'static str,
    pub variant: &'static str,
    pub save_handler: &'static str,
    /// `session.save_path`. `{shm}` and `{disk}` stand for private directories, `{socket}` for the
    /// server's socket in `{socket_dir}`.
    pub save_path: &'static str,
    /// In the order of loading.
    pub extensions: &'static [&'static str],
    pub package: &'static str,
    pub server: Option<&'static str>,
    pub durability: &'static [Durability],
    /// Settings that PHP reads only at its start; `{sessions}` and `{megabytes}` suffice for the
    /// whole run.
    pub at_start: &'static [(&'static str, &'static str)],
    pub settings: &'static [(&'static str, &'static str)],
    pub source: Option<&'static str>,
}

const VOLATILE: &[Durability] = &[Durability::None];
const NONE_OR_COMMIT: &[Durability] = &[Durability::None, Durability::Commit];
const NONE_OR_SECOND: &[Durability] = &[Durability::None, Durability::Second];
const ALL: &[Durability] = &[Durability::None, Durability::Second, Durability::Commit];

/// Base of the other entries: PHP's own, without durability.
const PLAIN: Handler = Handler {
    name: "php-files",
    variant: "default",
    save_handler: "files",
    save_path: "{disk}/files",
    extensions: &[],
    package: "php-fpm",
    server: None,
    durability: VOLATILE,
    at_start: &[],
    settings: &[],
    source: None,
};

/// Our handler on a store.
const fn sessile(variant: &'static str, save_path: &'static str) -> Handler {
    Handler { name: SESSILE, variant, save_handler: SESSILE, save_path, durability: ALL, ..PLAIN }
}

/// A transaction around each request.
const fn pdo(
    name: &'static str,
    save_path: &'static str,
    extensions: &'static [&'static str],
    package: &'static str,
) -> Handler {
    let source = Some(include_str!("../../../../bench/contenders/php/handlers/pdo.php"));
    Handler { name, save_handler: "user", save_path, extensions, package, source, ..PLAIN }
}

/// Drupal's handler has no transaction around the request that holds the row of its session;
/// Symfony's has.
const fn without_lock(handler: Handler) -> Handler {
    Handler { variant: "nolock", at_start: &[("contender.lock", "0")], ..handler }
}

const PDO_MYSQL: Handler = Handler {
    server: Some("mariadbd"),
    durability: ALL,
    ..pdo(
        "pdo-mysql",
        "mysql:unix_socket={socket};dbname=test",
        &["pdo", "mysqlnd", "pdo_mysql"],
        "php-mysql",
    )
};

const PDO_POSTGRES: Handler = Handler {
    server: Some("postgres"),
    durability: ALL,
    ..pdo(
        "pdo-postgres",
        "pgsql:host={socket_dir};port=5432;dbname=postgres;user=postgres",
        &["pdo", "pdo_pgsql"],
        "php-pgsql",
    )
};

pub(crate) const PHP_MEMCACHED: Handler = Handler {
    name: "php-memcached",
    save_handler: "memcached",
    save_path: "{socket}:0",
    extensions: &["igbinary", "msgpack", "memcached"],
    package: "php-memcached",
    server: Some("memcached"),
    // Its lock is on by default.
    settings: &[("memcached.sess_persistent", "1")],
    ..PLAIN
};

const fn phpredis(
    variant: &'static str,
    settings: &'static [(&'static str, &'static str)],
) -> Handler {
    Handler {
        name: "phpredis",
        variant,
        save_handler: "redis",
        save_path: "unix://{socket}?persistent=1",
        extensions: &["igbinary", "redis"],
        package: "php-redis",
        server: Some("redis-server"),
        durability: ALL,
        // Otherwise each request first checks its connection: a superfluous round trip.
        at_start: &[("redis.pconnect.echo_check_liveness", "0")],
        settings,
        ..PLAIN
    }
}

/// Drupal 7's own session storage and ours, for pages of the user's copy of it.
pub(crate) const DRUPAL: &[Handler] = &[
    Handler { name: "drupal", save_handler: "", save_path: "", ..DRUPAL_ON_MARIADB },
    DRUPAL_ON_ENGINE,
    Handler {
        variant: "sessile-merge",
        at_start: &[("sessile.concurrency", "merge")],
        ..DRUPAL_ON_ENGINE
    },
    Handler {
        variant: "sessile-disk",
        save_path: "sessile:{disk}/sessile?control={shm}",
        durability: NONE_OR_SECOND,
        ..DRUPAL_ON_ENGINE
    },
];

const DRUPAL_ON_ENGINE: Handler = Handler {
    name: "drupal",
    variant: "sessile",
    save_handler: SESSILE,
    save_path: "sessile:{shm}/sessile",
    durability: VOLATILE,
    ..DRUPAL_ON_MARIADB
};

const DRUPAL_ON_MARIADB: Handler = Handler {
    server: Some("mariadbd"),
    durability: ALL,
    // Drupal asks for these; those that are built in are not loaded.
    extensions: &[
        "mysqlnd",
        "pdo",
        "pdo_mysql",
        "xml",
        "dom",
        "ctype",
        "mbstring",
        "posix",
        "simplexml",
        "tokenizer",
        "gd",
    ],
    package: "php-mysql, php-xml, php-mbstring, php-gd",
    ..PLAIN
};

/// Names the user's copy of Magento's handler, which is no part of this project.
pub(crate) const MAGENTO_VARIABLE: &str = "SESSILE_MAGENTO";

/// In display order.
pub const HANDLERS: &[Handler] = &[
    PLAIN,
    Handler { variant: "shm", save_path: "{shm}/files", ..PLAIN },
    Handler {
        name: "apcu",
        save_handler: "user",
        save_path: "",
        extensions: &["apcu"],
        package: "php-apcu",
        // The defaults hold 7,000 sessions, in a hash table for half as many.
        at_start: &[("apc.shm_size", "{megabytes}M"), ("apc.entries_hint", "{sessions}")],
        source: Some(include_str!("../../../../bench/contenders/php/handlers/apcu.php")),
        ..PLAIN
    },
    phpredis("default", &[]),
    phpredis("lock", &[("redis.session.locking_enabled", "1")]),
    Handler {
        name: "magento-redis",
        save_handler: "user",
        save_path: "{magento}:{socket}",
        source: Some(include_str!("../../../../bench/contenders/php/handlers/magento.php")),
        ..phpredis("default", &[])
    },
    PHP_MEMCACHED,
    Handler {
        variant: "nolock",
        settings: &[("memcached.sess_persistent", "1"), ("memcached.sess_locking", "0")],
        ..PHP_MEMCACHED
    },
    PDO_MYSQL,
    without_lock(PDO_MYSQL),
    PDO_POSTGRES,
    without_lock(PDO_POSTGRES),
    pdo("pdo-sqlite", "sqlite:{disk}/sessions.db", &["pdo", "pdo_sqlite"], "php-sqlite3"),
    Handler { durability: VOLATILE, ..sessile("default", "sessile:{shm}/sessile") },
    Handler {
        durability: NONE_OR_SECOND,
        ..sessile("disk", "sessile:{disk}/sessile?control={shm}")
    },
    Handler { durability: NONE_OR_COMMIT, ..sessile("files", "files:{disk}/files") },
    Handler { durability: NONE_OR_COMMIT, ..sessile("files-shm", "files:{shm}/files") },
    Handler { server: Some("redis-server"), ..sessile("redis", "redis+unix:{socket}") },
    Handler {
        server: Some("mariadbd"),
        ..sessile("mysql", "mysql+unix:{socket}?user=root&database=test")
    },
    Handler {
        server: Some("postgres"),
        ..sessile("postgres", "postgres+unix:{socket}?user=postgres&database=postgres")
    },
    Handler {
        server: Some("memcached"),
        durability: VOLATILE,
        ..sessile("memcached", "memcached+unix:{socket}")
    },
];

/// The handlers that `--stores` names; without names, all.
pub(crate) fn named(
    table: &'static [Handler],
    stores: &[String],
) -> Result<Vec<&'static Handler>, UsageError> {
    if stores.is_empty() {
        return Ok(table.iter().collect());
    }
    let words = stores.iter().map(|word| word.trim());
    naming::select_entries(table, words, "session handler of PHP", |handler| {
        (handler.name, handler.variant)
    })
}

impl Handler {
    pub(crate) fn needs_copy(&self) -> bool {
        self.save_path.contains("{magento}")
    }

    pub fn title(&self) -> String {
        naming::title(self.name, self.variant)
    }

    /// What is measured.
    pub fn choice(&'static self, durability: Durability) -> Choice {
        let shown_url = self.save_path.replace('{', "<").replace('}', ">");
        let (target, tier) = (ContenderSource::Handler(self), durability.name());
        Choice {
            server: self.server,
            over_socket: self.server.is_some(),
            ..Choice::new(self.name, self.variant, shown_url, target, tier)
        }
    }
}

#[cfg(test)]
mod tests {
    use sessile_results::php_handlers::locks;

    use super::*;

    #[test]
    fn only_a_handler_of_others_needs_a_copy_and_its_row_names_no_directory() {
        let needing: Vec<&Handler> = HANDLERS.iter().filter(|it| it.needs_copy()).collect();
        let [magento] = needing.as_slice() else { panic!("{needing:?}") };
        let choice = magento.choice(Durability::None);
        assert_eq!((choice.title().as_str(), choice.over_socket), ("magento-redis", true));
        assert_eq!(choice.shown_url, "<magento>:<socket>");
    }

    fn titles(words: &[&str]) -> Result<Vec<String>, UsageError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Ok(named(HANDLERS, &words)?.into_iter().map(Handler::title).collect())
    }

    #[test]
    fn a_name_means_all_its_variants_and_one_with_a_variant_only_that() {
        assert_eq!(titles(&["phpredis"]).unwrap(), ["phpredis", "phpredis#lock"]);
        assert_eq!(
            titles(&["sessile#disk", "php-files#default"]).unwrap(),
            ["sessile#disk", "php-files"]
        );
        assert_eq!(titles(&[]).unwrap().len(), HANDLERS.len());
        assert!(titles(&["phpredis", "phpredis#lock"]).unwrap_err().0.contains("twice"));
        assert!(titles(&["memory"]).unwrap_err().0.contains("php-files#shm"));
        assert!(!titles(&["redis://:secret@host"]).unwrap_err().0.contains("secret"));
    }

    #[test]
    fn what_is_told_of_locks_is_told_of_handlers_that_exist() {
        let unlocked = titles(&[]).unwrap();
        let unlocked: Vec<_> = unlocked.iter().filter(|title| !locks(title)).collect();
        assert_eq!(unlocked.len(), 5, "{unlocked:?}");
    }

    #[test]
    fn no_two_handlers_have_the_same_title() {
        let mut titles = titles(&[]).unwrap();
        titles.sort();
        titles.dedup();
        assert_eq!(titles.len(), HANDLERS.len());
    }
}
