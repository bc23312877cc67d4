//! What a case stands on: a store, fresh keys, a clock, second openers, real workers, a server to kill.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sessile_core::{Begun, Bin, Capabilities, Clock, Key, Ownership, Sessions, Timestamp, Ttl};
use sessile_fixtures::Instance;

use crate::check::{Failure, SECRET};
use crate::opener;
use crate::worker::Worker;

/// The ttl that cases use when it does not matter.
pub const MINUTE: Duration = Duration::from_secs(60);
/// A wait that is never used up on a good store.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// A wait for a lock that is free: far less than the life of any lease, more than a busy machine takes to answer.
pub const FREE: Duration = Duration::from_secs(3);
/// What that takes at most once of several times: no busy machine is slow each time.
pub const FREE_WITHIN: Duration = Duration::from_millis(500);

/// The surroundings of one case on one store.
pub struct Ground {
    pub(crate) instance: Arc<Mutex<Instance>>,
    pub(crate) url: String,
    pub(crate) label: String,
    pub(crate) capabilities: Capabilities,
    pub(crate) worker: PathBuf,
    pub(crate) keys: AtomicU64,
}

impl Ground {
    /// What the store declares.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// The URL of the store.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL with one more option.
    pub fn url_with(&self, name: &str, value: &str) -> String {
        let (base, variant) = self.url.split_once('#').map_or((self.url.as_str(), None), |(base, v)| (base, Some(v)));
        let joint = if base.contains('?') { '&' } else { '?' };
        let variant = variant.map_or(String::new(), |variant| format!("#{variant}"));
        format!("{base}{joint}{name}={value}{variant}")
    }

    /// Opens the store.
    pub fn open(&self) -> Result<Sessions, Failure> {
        self.open_at(Clock::system())
    }

    /// Opens the store with a clock.
    pub fn open_at(&self, clock: Clock) -> Result<Sessions, Failure> {
        Ok(opener::open(&self.url, clock)?)
    }

    /// Opens the store with one more URL option.
    pub fn open_with(&self, name: &str, value: &str) -> Result<Sessions, Failure> {
        Ok(opener::open(&self.url_with(name, value), Clock::system())?)
    }

    /// Opens a URL of this store.
    pub fn open_url(&self, url: &str) -> Result<Sessions, Failure> {
        Ok(opener::open(url, Clock::system())?)
    }

    /// Opens the store and hands its error over, for cases that expect one.
    pub fn open_raw(&self) -> sessile_core::Result<Sessions> {
        opener::open(&self.url, Clock::system())
    }

    /// The URL with a short `lock_ttl_ms` where leases end with time, unchanged elsewhere.
    pub fn impatient_url(&self, lock_ttl_ms: u64) -> String {
        match self.capabilities.ownership {
            Ownership::Process => self.url.clone(),
            Ownership::Time => self.url_with("lock_ttl_ms", &lock_ttl_ms.to_string()),
        }
    }

    /// The store on a clock that stands still at the present moment until the case moves it.
    ///
    /// Cases that use it give records at least a minute: a server with expiry of its own sees real time.
    pub fn timed(&self) -> Result<(Sessions, Clock), Failure> {
        let clock = Clock::manual(Clock::system().now());
        Ok((self.open_at(clock.clone())?, clock))
    }

    /// A session key that nobody else uses.
    pub fn key(&self) -> Key {
        self.key_in(Bin::SESSION)
    }

    /// The same in another bin.
    pub fn key_in(&self, bin: Bin) -> Key {
        let id = format!("{SECRET}{:016x}{:04}", fastrand::u64(..), self.keys.fetch_add(1, Ordering::Relaxed));
        // Well-formed by construction; the fallback keeps this function free of errors.
        Key::in_bin(bin, &id).unwrap_or_else(|_| unreachable!("the id is well-formed"))
    }

    /// The server of this store, if it has one. Hold the guard only while killing or restarting it.
    pub fn instance(&self) -> MutexGuard<'_, Instance> {
        self.instance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the server with SIGKILL.
    pub fn kill_server(&self) -> Result<(), Failure> {
        let mut instance = self.instance();
        let server = instance.server().ok_or_else(|| Failure("the instance has no server".into()))?;
        server.kill();
        Ok(())
    }

    /// Starts the server again.
    pub fn restart_server(&self) -> Result<(), Failure> {
        let mut instance = self.instance();
        let server = instance.server().ok_or_else(|| Failure("the instance has no server".into()))?;
        server.restart().map_err(|error| Failure(error.to_string()))
    }

    /// Starts a process that opens the same store.
    pub fn worker(&self) -> Result<Worker, Failure> {
        self.worker_on(&self.url)
    }

    /// Starts a process that opens this URL.
    pub fn worker_on(&self, url: &str) -> Result<Worker, Failure> {
        Worker::start(self.worker_program(), url)
    }

    fn worker_program(&self) -> &Path {
        &self.worker
    }
}

/// Begins a session whose lock is free, and says how long that took.
pub fn begin_free(store: &Sessions, key: &Key) -> Result<(Begun, Duration), Failure> {
    let start = Instant::now();
    let begun = store.begin(key, FREE)?;
    Ok((begun, start.elapsed()))
}

/// The payload that a store has under a key.
pub fn payload_of(store: &Sessions, key: &Key) -> Result<Option<Vec<u8>>, Failure> {
    Ok(store.peek(key)?.map(|record| record.payload))
}

/// How many times longer than usual the cases with random kills run: `SESSILE_STORM`, 1 by default.
pub fn storm() -> u64 {
    std::env::var("SESSILE_STORM").ok().and_then(|times| times.parse().ok()).unwrap_or(1).clamp(1, 1_000)
}

/// A sliding ttl.
pub fn ttl(idle: Duration) -> Ttl {
    Ttl::sliding(idle).unwrap_or_else(|_| unreachable!("cases use well-formed ttls"))
}

/// A sliding ttl of one minute.
pub fn minute() -> Ttl {
    ttl(MINUTE)
}

/// A text payload that must never show up in a message.
pub fn payload(text: &str) -> Vec<u8> {
    format!("{SECRET} {text}").into_bytes()
}

/// A moment later.
pub fn later(moment: Timestamp, by_ms: u64) -> Timestamp {
    moment.plus(Duration::from_millis(by_ms))
}
