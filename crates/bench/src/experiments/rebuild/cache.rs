//! Where a page can keep its registry: one entry each, from which selection, configuration and results come.
//!
//! They are ways of PHP, so each is a [`Handler`] as far as extensions, servers and places are concerned.

use sessile_core::Durability;

use crate::options::UsageError;
use crate::php::{Handler, SESSILE};

/// One way.
#[derive(Debug)]
pub(super) struct Cache {
    pub handler: Handler,
    /// Further arguments of its server.
    pub arguments: &'static [&'static str],
    /// What the page is asked for besides a size.
    pub query: &'static str,
    /// It is meant to keep the registry. The others are there to show what it is like when one does not.
    pub keeps: bool,
    /// Where the registry goes to, by its size: what `sessile scan` is given. memcached lists nothing.
    pub large: Option<&'static str>,
}

const SQLITE: &str = "sqlite:{disk}/large.sqlite";
const ENGINE: &str = "sessile:{shm}/large";

/// Over PHP's extension for memcached.
const MEMCACHED: Handler = Handler {
    name: "php-memcached",
    variant: "default",
    save_handler: "user",
    save_path: "{socket}",
    extensions: &["igbinary", "msgpack", "memcached"],
    package: "php-memcached",
    server: Some("memcached"),
    locks: false,
    durability: &[Durability::None],
    at_start: &[],
    settings: &[],
    source: Some(include_str!("../../../../../bench/contenders/php/rebuild/memcached.php")),
};

/// Over our extension.
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

/// All of them: as it was, loud, and four remedies.
pub(super) const CACHES: &[Cache] = &[
    Cache { handler: MEMCACHED, arguments: &[], query: "", keeps: false, large: None },
    Cache {
        handler: sessile("memcached", "memcached+unix:{socket}"),
        arguments: &[],
        query: "",
        keeps: false,
        large: None,
    },
    Cache {
        handler: Handler { variant: "8m", ..MEMCACHED },
        arguments: &["-I", "8m"],
        query: "",
        keeps: true,
        large: None,
    },
    // Compression and an entry that it is good for: words that come again, as in a registry of templates. Its size is the same.
    Cache {
        handler: Handler { variant: "compressed", ..MEMCACHED },
        arguments: &[],
        query: "&compress=1",
        keeps: true,
        large: None,
    },
    Cache {
        handler: sessile("sqlite", "route:?home=memcached%2Bunix:{socket}&large={large}"),
        arguments: &[],
        query: "",
        keeps: true,
        large: Some(SQLITE),
    },
    Cache {
        handler: sessile("engine", "route:?home=memcached%2Bunix:{socket}&large={large}"),
        arguments: &[],
        query: "",
        keeps: true,
        large: Some(ENGINE),
    },
];

/// Those that `--stores` names; all when it names none.
pub(super) fn named(stores: &[String]) -> Result<Vec<&'static Cache>, UsageError> {
    let mut chosen: Vec<&'static Cache> = Vec::new();
    for word in stores.iter().map(|word| word.trim()) {
        let means = |cache: &&Cache| cache.handler.name == word || cache.handler.title() == word;
        let meant: Vec<&'static Cache> = CACHES.iter().filter(means).collect();
        if meant.is_empty() {
            let known: Vec<String> = CACHES.iter().map(|cache| cache.handler.title()).collect();
            return Err(UsageError(format!("unknown place of a registry; known: {}", known.join(", "))));
        }
        for cache in meant {
            if !chosen.iter().any(|other| std::ptr::eq(*other, cache)) {
                chosen.push(cache);
            }
        }
    }
    Ok(if stores.is_empty() { CACHES.iter().collect() } else { chosen })
}

/// The entry of a contender.
pub(super) fn of(title: &str) -> Option<&'static Cache> {
    CACHES.iter().find(|cache| cache.handler.title() == title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_all_its_variants_and_a_title_only_one() {
        let titles = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            named(&words).map(|caches| caches.iter().map(|cache| cache.handler.title()).collect::<Vec<String>>())
        };
        assert_eq!(titles(&["php-memcached#8m", "sessile#sqlite"]).unwrap(), ["php-memcached#8m", "sessile#sqlite"]);
        assert_eq!(
            titles(&["php-memcached"]).unwrap(),
            ["php-memcached", "php-memcached#8m", "php-memcached#compressed"]
        );
        assert_eq!(titles(&[]).unwrap().len(), CACHES.len());
        assert!(titles(&["redis"]).unwrap_err().0.contains("sessile#engine"));
    }
}
