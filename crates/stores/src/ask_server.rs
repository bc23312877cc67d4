//! The facts of the server of a store URL ([`ServerFacts`]), for the stores that have a server.
//!
//! Invariant: no table, key or item is created; the login is that of the URL.

use sessile_core::{Operation, Result};

pub use crate::facts::{ServerFacts, ServerTime};
use crate::registry;
use crate::store_url::StoreUrl;

/// Asks the servers of a URL, one after the other. Empty for a store without a server.
///
/// # Errors
///
/// Those of the connection. A server that refuses a single question answers the others.
pub fn ask(url: &str) -> Result<Vec<ServerFacts>> {
    let url = StoreUrl::parse(url)?;
    let name = registry::entry_for(&url)?.name;
    let asked = match name {
        #[cfg(feature = "redis")]
        "redis" => crate::redis::facts::ask(&url),
        #[cfg(feature = "mysql")]
        "mysql" => crate::mysql::facts::ask(&url).map(|facts| vec![facts]),
        #[cfg(feature = "postgres")]
        "postgres" => crate::postgres::facts::ask(&url).map(|facts| vec![facts]),
        #[cfg(feature = "memcached")]
        "memcached" => crate::memcached::facts::ask(&url),
        _ => Ok(Vec::new()),
    };
    asked.map_err(|error| error.during(Operation::Open, &url.redacted(), None))
}
