//! What readers of results must know of PHP and its session handlers.

/// Our handler, in PHP and in results.
pub const SESSILE: &str = "sessile";
/// The version that says whether PHP has its cache of compiled pages.
pub const OPCACHE: &str = "php-opcache";
/// That version, if it has none.
pub const OPCACHE_MISSING: &str = "missing";
/// Handlers, by title, in which two requests may have one session at once.
const WITHOUT_LOCK: [&str; 6] = [
    "apcu",
    "drupal",
    "phpredis",
    "php-memcached#nolock",
    "pdo-mysql#nolock",
    "pdo-postgres#nolock",
];

/// Whether a request has its session exclusively until it ends.
pub fn locks(title: &str) -> bool {
    !WITHOUT_LOCK.contains(&title)
}
