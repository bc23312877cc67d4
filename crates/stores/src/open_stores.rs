//! The stores that a worker keeps open, with the settings of its application.
//!
//! Invariant: at most [`STORES_MAX`], the last used one first. Virtual hosts with URLs of their own
//! share the workers of a pool, and opening a store costs more than a request.

use std::time::Duration;

use sessile_core::{Limits, Result, Sessions};

use crate::registry::{self, Context};
use crate::store_url::StoreUrl;

/// Each has a few files, mappings or connections.
pub const STORES_MAX: usize = 8;

/// The server keeps a lock for so long after the longest request, for which waits may not count.
const LOCK_MARGIN: Duration = Duration::from_secs(30);
const LOCK_TTL: &str = "lock_ttl_ms";

/// Settings of an application. An option in the URL overrides each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `payload_bytes_max`.
    pub payload_bytes_max: Option<u64>,
    /// `ids=hashed`.
    pub hashed_ids: bool,
    /// How long a request may run. Its lock lives longer by 30 s (`lock_ttl_ms`).
    pub request_time_max: Option<Duration>,
}

impl Settings {
    fn options(&self) -> Vec<(&'static str, String)> {
        let payload = self.payload_bytes_max.map(|bytes| ("payload_bytes_max", bytes.to_string()));
        let ids = self.hashed_ids.then(|| ("ids", "hashed".to_owned()));
        let lock_ttl = self.request_time_max.map(|time| {
            let ttl = time.saturating_add(LOCK_MARGIN).min(Limits::TOMBSTONE_TTL);
            (LOCK_TTL, ttl.as_millis().to_string())
        });
        [payload, ids, lock_ttl].into_iter().flatten().collect()
    }
}

struct OpenStore<S> {
    url: String,
    settings: Settings,
    /// Whether another `request_time_max` makes another store of it.
    follows_requests: bool,
    store: S,
}

impl<S> OpenStore<S> {
    #[inline]
    fn is(&self, url: &[u8], settings: &Settings) -> bool {
        let same_time = || self.settings.request_time_max == settings.request_time_max;
        self.url.as_bytes() == url
            && self.settings.payload_bytes_max == settings.payload_bytes_max
            && self.settings.hashed_ids == settings.hashed_ids
            && (!self.follows_requests || same_time())
    }
}

/// Open stores, each as the caller's `S`.
pub struct OpenStores<S>(Vec<OpenStore<S>>);

impl<S> Default for OpenStores<S> {
    fn default() -> OpenStores<S> {
        OpenStores(Vec::new())
    }
}

impl<S> OpenStores<S> {
    /// The store that was used last, if it is that of a URL: the usual case.
    #[inline]
    pub fn last(&self, url: &[u8], settings: &Settings) -> Option<&S> {
        self.0.first().filter(|open| open.is(url, settings)).map(|open| &open.store)
    }

    /// The store of a URL. Opens it if it is not open; closes the one that was used longest ago if
    /// there are too many.
    ///
    /// # Errors
    ///
    /// Those of [`registry::open`]. Then all stores stay open.
    pub fn get(
        &mut self,
        url: &str,
        settings: &Settings,
        context: &Context,
        make: impl FnOnce(Sessions) -> S,
    ) -> Result<&S> {
        match self.0.iter().position(|open| open.is(url.as_bytes(), settings)) {
            Some(0) => {}
            Some(number) => {
                if let Some(before) = self.0.get_mut(..=number) {
                    before.rotate_right(1);
                }
            }
            None => {
                let sessions = registry::open_with_defaults(url, &settings.options(), context)?;
                let open = OpenStore {
                    url: url.to_owned(),
                    settings: *settings,
                    follows_requests: follows_requests(url),
                    store: make(sessions),
                };
                self.0.truncate(STORES_MAX - 1);
                self.0.insert(0, open);
            }
        }
        match self.0.first() {
            Some(open) => Ok(&open.store),
            None => unreachable!("it is the first one now"),
        }
    }
}

/// Whether the time to live of its locks is that of the settings.
fn follows_requests(url: &str) -> bool {
    let takes =
        |url: &StoreUrl| registry::entry_for(url).is_ok_and(|entry| entry.takes_option(LOCK_TTL));
    StoreUrl::parse(url).is_ok_and(|url| url.text(LOCK_TTL).is_none() && takes(&url))
}

#[cfg(all(test, feature = "memory", feature = "redis", feature = "route"))]
mod tests {
    use super::*;

    fn option(settings: Settings, name: &str) -> Option<String> {
        settings.options().into_iter().find(|option| option.0 == name).map(|(_, value)| value)
    }

    fn running(seconds: u64) -> Settings {
        Settings { request_time_max: Some(Duration::from_secs(seconds)), ..Settings::default() }
    }

    #[test]
    fn a_lock_lives_longer_than_the_request_and_at_most_an_hour() {
        assert_eq!(option(running(300), LOCK_TTL).as_deref(), Some("330000"));
        assert_eq!(option(running(u64::MAX), LOCK_TTL).as_deref(), Some("3600000"));
        assert_eq!(option(Settings::default(), LOCK_TTL), None);
    }

    #[test]
    fn only_a_store_whose_locks_end_with_time_is_opened_again_for_another_time() {
        let mut stores = OpenStores::default();
        let mut opened = 0;
        for (settings, number) in [
            (running(30), 1),
            (running(90), 1),
            (Settings { hashed_ids: true, ..running(30) }, 2),
            (Settings { payload_bytes_max: Some(9), ..running(30) }, 3),
            (running(30), 1),
        ] {
            let make = |_| {
                opened += 1;
                opened
            };
            let found = stores.get("memory:", &settings, &Context::default(), make).unwrap();
            assert_eq!(*found, number, "{settings:?}");
        }
        assert!(follows_requests("redis://host/") && follows_requests("memcached://host"));
        assert!(
            !follows_requests("redis://host/?lock_ttl_ms=9000") && !follows_requests("memory:")
        );
        let (url, settings) = ("redis://host/".to_owned(), running(30));
        let open = OpenStore { url, settings, follows_requests: true, store: () };
        assert!(
            open.is(b"redis://host/", &running(30)) && !open.is(b"redis://host/", &running(90))
        );
    }

    #[test]
    fn an_option_of_the_url_wins_and_a_store_without_it_opens_all_the_same() {
        let mut stores = OpenStores::default();
        let settings = Settings { payload_bytes_max: Some(10), hashed_ids: true, ..running(30) };
        for (url, limit) in [
            ("memory:", 10),
            ("memory:?payload_bytes_max=20", 20),
            ("route:?home=memory:&large=memory:", 10),
        ] {
            let sessions = stores.get(url, &settings, &Context::default(), |sessions| sessions);
            assert_eq!(sessions.unwrap().limits().payload_bytes_max, limit, "{url}");
        }
    }
}
