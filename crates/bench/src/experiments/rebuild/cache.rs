//! The places where a page can keep its registry, as PHP [`Handler`]s.

use sessile_results::php_handlers::SESSILE;
use sessile_results::{UsageError, naming};

use crate::php::{Handler, PHP_MEMCACHED};

#[derive(Debug)]
pub(super) struct RegistryCache {
    pub handler: Handler,
    pub arguments: &'static [&'static str],
    /// Added to the page's query.
    pub query: &'static str,
    /// It is meant to keep the registry; the others show the failure.
    pub keeps: bool,
    /// The store for a registry of this size, which `sessile analyze` reads. memcached cannot be
    /// scanned.
    pub large: Option<&'static str>,
}

const SQLITE: &str = "sqlite:{disk}/large.sqlite";
const ENGINE: &str = "sessile:{shm}/large";

/// Uses PHP's memcached extension.
const MEMCACHED: Handler = Handler {
    save_handler: "user",
    save_path: "{socket}",
    settings: &[],
    source: Some(include_str!("../../../../../bench/contenders/php/rebuild/memcached.php")),
    ..PHP_MEMCACHED
};

/// Uses our extension.
const fn sessile(variant: &'static str, save_path: &'static str) -> Handler {
    Handler {
        name: SESSILE,
        variant,
        save_handler: SESSILE,
        save_path,
        extensions: &[],
        package: "php-fpm",
        source: Some(include_str!("../../../../../bench/contenders/php/rebuild/session.php")),
        ..MEMCACHED
    }
}

/// The published failure.
const LOST: RegistryCache =
    RegistryCache { handler: MEMCACHED, arguments: &[], query: "", keeps: false, large: None };
const ROUTE: &str = "route:?home=memcached%2Bunix:{socket}&large={large}";

/// The published failure, the same with an error, and four remedies.
pub(super) const CACHES: &[RegistryCache] = &[
    LOST,
    RegistryCache { handler: sessile("memcached", "memcached+unix:{socket}"), ..LOST },
    RegistryCache {
        handler: Handler { variant: "8m", ..MEMCACHED },
        arguments: &["-I", "8m"],
        keeps: true,
        ..LOST
    },
    // Compression, with a registry that compresses well: repeated words, the same size.
    RegistryCache {
        handler: Handler { variant: "compressed", ..MEMCACHED },
        query: "&compress=1",
        keeps: true,
        ..LOST
    },
    RegistryCache { handler: sessile("sqlite", ROUTE), keeps: true, large: Some(SQLITE), ..LOST },
    RegistryCache { handler: sessile("engine", ROUTE), keeps: true, large: Some(ENGINE), ..LOST },
];

/// The entries that `--stores` names; without names, all.
pub(super) fn named(stores: &[String]) -> Result<Vec<&'static RegistryCache>, UsageError> {
    if stores.is_empty() {
        return Ok(CACHES.iter().collect());
    }
    let words = stores.iter().map(|word| word.trim());
    naming::select_entries(CACHES, words, "place of a registry", |cache| {
        (cache.handler.name, cache.handler.variant)
    })
}

pub(super) fn by_title(title: &str) -> Option<&'static RegistryCache> {
    CACHES.iter().find(|cache| cache.handler.title() == title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_all_its_variants_and_a_title_only_one() {
        let titles = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            named(&words).map(|caches| {
                caches.iter().map(|cache| cache.handler.title()).collect::<Vec<String>>()
            })
        };
        assert_eq!(
            titles(&["php-memcached#8m", "sessile#sqlite"]).unwrap(),
            ["php-memcached#8m", "sessile#sqlite"]
        );
        assert_eq!(
            titles(&["php-memcached"]).unwrap(),
            ["php-memcached", "php-memcached#8m", "php-memcached#compressed"]
        );
        assert_eq!(titles(&[]).unwrap().len(), CACHES.len());
        assert!(titles(&["redis"]).unwrap_err().0.contains("sessile#engine"));
    }
}
