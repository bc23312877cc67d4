//! An old and a new store in private directories, and the two as one.

#[path = "../support/mod.rs"]
pub mod support;

use std::time::Duration;

use sessile_core::{Clock, Sessions, Timestamp};
use sessile_fixtures::PrivateDir;
use sessile_stores::Context;

pub use self::support::{key, payload_of, ttl};

pub const WAIT: Duration = Duration::from_secs(60);

pub struct Pair {
    pub dir: PrivateDir,
    pub clock: Clock,
}

impl Pair {
    pub fn new() -> Pair {
        let clock = Clock::manual(Timestamp::from_ms(1_800_000_000_000));
        Pair { dir: PrivateDir::in_shared_memory().unwrap(), clock }
    }

    pub fn url(&self, scheme: &str, name: &str) -> String {
        format!("{scheme}{}/{name}", self.dir.path().display())
    }

    /// The store of PHP's files.
    pub fn old_url(&self) -> String {
        self.url("files:", "old")
    }

    pub fn new_url(&self) -> String {
        self.url("sqlite:", "new.sqlite")
    }

    pub fn open(&self, url: &str) -> Sessions {
        sessile_stores::open(url, &Context { clock: self.clock.clone() }).unwrap()
    }

    /// The old store, the new one, and the two as one.
    pub fn stores(&self) -> [Sessions; 3] {
        let (old, new) = (self.old_url(), self.new_url());
        [&old, &new, &format!("migrate:?from={old}&to={new}")].map(|url| self.open(url))
    }
}
