//! A store that connects to its server at the first call, in the thread of that call.
//!
//! For programs whose main thread must not wait, such as an event loop. It is not a pool: one
//! connection stays.

use std::sync::OnceLock;

use sessile_core::{Result, Sessions};

use crate::open_stores::{OpenStores, Settings};
use crate::registry::{self, Context};
use crate::store_url::StoreUrl;

/// A store of a URL, open or not yet.
pub struct LazyStore {
    url: String,
    settings: Settings,
    label: String,
    opened: OnceLock<Sessions>,
}

impl LazyStore {
    /// Checks the URL, and opens a store that needs no server.
    ///
    /// # Errors
    ///
    /// Those of [`StoreUrl::parse`] and of [`registry::entry_for`]; those of [`registry::open`] if
    /// the store is opened.
    pub fn new(url: &str, settings: Settings) -> Result<LazyStore> {
        let parsed = StoreUrl::parse(url)?;
        let entry = registry::entry_for(&parsed)?;
        let (url, label) = (url.to_owned(), parsed.redacted());
        let store = LazyStore { url, settings, label, opened: OnceLock::new() };
        if entry.capabilities.server.is_none() && !entry.decorates {
            store.get()?;
        }
        Ok(store)
    }

    /// The URL without secrets.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The store, if it is open.
    pub fn opened(&self) -> Option<&Sessions> {
        self.opened.get()
    }

    /// The store, which this call opens if it is not open. Of two calls that connect at the same
    /// time one connection stays.
    ///
    /// # Errors
    ///
    /// Those of [`registry::open`]. The next call tries again.
    pub fn get(&self) -> Result<&Sessions> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let mut stores = OpenStores::default();
        let context = Context::default();
        let sessions = stores.get(&self.url, &self.settings, &context, |sessions| sessions)?;
        Ok(self.opened.get_or_init(|| sessions.clone()))
    }
}

#[cfg(all(test, feature = "memory", feature = "redis"))]
mod tests {
    use super::*;

    #[test]
    fn only_a_store_on_a_server_is_opened_by_its_first_call() {
        let settings = Settings::default();
        let memory = LazyStore::new("memory:", settings).unwrap();
        assert!(memory.opened().is_some());
        let redis = LazyStore::new("redis://user:secret@[::1]:1", settings).unwrap();
        assert!(redis.opened().is_none() && !redis.label().contains("secret"));
        assert!(redis.get().is_err() && redis.opened().is_none());
        assert!(LazyStore::new("nonsense://host", settings).is_err());
    }
}
