//! Two stores in private directories, opened as one and each by itself.

#[path = "../support/mod.rs"]
pub mod support;

use std::time::Duration;

use sessile_core::{Bin, Clock, Filter, Key, Sessions, Ttl};
use sessile_fixtures::{PrivateDir, Server, ServerOptions};
use sessile_stores::Context;

use self::support::server;
pub use self::support::{key, payload_of};

pub const WAIT: Duration = Duration::from_secs(60);
/// Larger than [`SMALL`], smaller than what any store takes.
pub const LARGER_THAN: usize = 1_000;
pub const SMALL: &[u8] = b"small";

/// A home store and a store of large payloads, in files.
pub struct Pair {
    pub dir: PrivateDir,
}

impl Pair {
    pub fn new() -> Pair {
        Pair { dir: PrivateDir::in_shared_memory().unwrap() }
    }

    pub fn home_url(&self) -> String {
        format!("files:{}/home", self.dir.path().display())
    }

    pub fn large_url(&self) -> String {
        format!("files:{}/large", self.dir.path().display())
    }

    pub fn url(&self) -> String {
        route(&self.home_url(), &self.large_url())
    }

    pub fn open(&self) -> Sessions {
        open(&self.url())
    }

    pub fn open_at(&self, clock: &Clock) -> Sessions {
        sessile_stores::open(&self.url(), &Context { clock: clock.clone() }).unwrap()
    }

    /// The home store as somebody would see it who knows of no stubs.
    pub fn home(&self) -> Sessions {
        open(&self.home_url())
    }

    pub fn large(&self) -> Sessions {
        open(&self.large_url())
    }

    /// The keys of all large payloads.
    pub fn parts(&self) -> Vec<Key> {
        parts_in(&self.large())
    }
}

pub fn route(home: &str, large: &str) -> String {
    format!("route:?home={home}&large={large}&larger_than={LARGER_THAN}")
}

pub fn open(url: &str) -> Sessions {
    sessile_stores::open(url, &Context::default()).unwrap()
}

pub fn parts_in(store: &Sessions) -> Vec<Key> {
    let filter = Filter { bin: Some(Bin::new("route_large").unwrap()), ..Filter::default() };
    store.list(None, &filter).unwrap().entries.into_iter().map(|entry| entry.key).collect()
}

/// A private memcached; `None`, said on stderr, when it is not installed. Under CI that is a
/// failure.
pub fn memcached(extra: &[&str]) -> Option<(Server, PrivateDir, String)> {
    let dir = PrivateDir::on_disk().unwrap();
    let extra = extra.iter().map(std::ffi::OsString::from).collect();
    let server = server::start("memcached", &dir, &ServerOptions { extra, ..Default::default() })?;
    let url = format!("memcached%2Bunix:{}", server.socket().display());
    Some((server, dir, url))
}

pub fn ttl(seconds: u64) -> Ttl {
    Ttl::sliding(Duration::from_secs(seconds)).unwrap()
}

pub fn hour() -> Ttl {
    ttl(3_600)
}

/// A payload that is too large for the home store, and different for each mark.
pub fn large(mark: u8) -> Vec<u8> {
    vec![mark; LARGER_THAN + 1 + usize::from(mark)]
}

pub fn commit(store: &Sessions, id: &str, payload: &[u8]) {
    store.begin(&key(id), WAIT).unwrap().lease.commit(payload, hour()).unwrap();
}
