//! What a case works with: the store under test, fresh keys, a clock, real workers, a server to
//! kill.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sessile_core::{
    Begun, Bin, Capabilities, Clock, Durability, Key, Ownership, Record, Result, Sessions, Ttl,
};
use sessile_fixtures::{Instance, Proxy, Server, ServerOptions, StartError};
use sessile_stores::with_option;
use sessile_stores::{Fixture, StoreEntry};

use crate::broken::{self, StoreFault};
use crate::case::{CaseResult, Isolation};
use crate::check::{Failure, SECRET, equal, refused};
use crate::worker::SuiteWorker;

pub const MINUTE: Duration = Duration::from_secs(60);
/// A wait that is never used up on a good store.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// A wait for a free lock: far less than the life of any lease, more than a busy machine takes.
pub const FREE: Duration = Duration::from_secs(3);
/// A free lock is taken within this time at least once of several times, also on a busy machine.
pub const FREE_WITHIN: Duration = Duration::from_millis(500);

pub struct Testbed {
    instance: Mutex<Instance>,
    url: String,
    label: String,
    capabilities: Capabilities,
    worker: PathBuf,
}

/// The name of a store and the variant of its fixture: `files#shm`.
pub(crate) fn fixture_name(entry: &StoreEntry, fixture: &Fixture, joint: char) -> String {
    match fixture.variant {
        "default" => entry.name.to_owned(),
        variant => format!("{}{joint}{variant}", entry.name),
    }
}

/// Starts a fixture in its least durable tier, or in its most durable one.
pub(crate) fn start_instance(
    entry: &StoreEntry,
    fixture: &Fixture,
    isolation: Isolation,
) -> std::result::Result<Instance, StartError> {
    let tiers = entry.capabilities.durability.iter();
    let tier = if isolation == Isolation::Durable { tiers.max() } else { tiers.min() };
    let durability = tier.copied().unwrap_or(Durability::None);
    Instance::start(entry, fixture, &ServerOptions { durability, ..ServerOptions::default() })
}

impl Testbed {
    pub(crate) fn start(
        entry: &StoreEntry,
        fixture: &Fixture,
        fault: Option<StoreFault>,
        isolation: Isolation,
        worker: &Path,
    ) -> std::result::Result<Testbed, StartError> {
        let instance = start_instance(entry, fixture, isolation)?;
        let url = broken::url(fault, instance.url());
        let opened = broken::open(&url, Clock::system())
            .map_err(|error| StartError::Failed(format!("cannot open its fixture: {error:?}")))?;
        Ok(Testbed {
            instance: Mutex::new(instance),
            url,
            label: opened.label().to_owned(),
            capabilities: opened.capabilities(),
            worker: worker.to_owned(),
        })
    }

    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    pub fn label(&self) -> &str {
        &self.label
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn open(&self) -> Result<TestStore> {
        open(&self.url)
    }

    pub fn open_with(&self, name: &str, value: &str) -> Result<TestStore> {
        open(&with_option(&self.url, name, value))
    }

    /// Opens the store on a clock that stands still until the case moves it.
    ///
    /// Cases give records at least a minute: a server with expiry of its own sees real time.
    pub fn timed(&self) -> Result<TestStore> {
        open_at(&self.url, Clock::manual(Clock::system().now()))
    }

    /// A second opening with the same clock; a clone where only one process may open the store.
    pub fn second_handle(&self, first: &TestStore) -> Result<TestStore> {
        if self.capabilities.shared_by_processes {
            return open_at(&self.url, first.clock.clone());
        }
        Ok(first.clone())
    }

    /// The URL with a short `lock_ttl_ms` where leases end with time, unchanged elsewhere.
    pub fn impatient_url(&self, lock_ttl_ms: u64) -> String {
        match self.capabilities.ownership {
            Ownership::Process => self.url.clone(),
            Ownership::Time => with_option(&self.url, "lock_ttl_ms", &lock_ttl_ms.to_string()),
        }
    }

    fn with_server<T>(&self, act: impl FnOnce(&mut Server) -> T) -> CaseResult<T> {
        let mut instance = self.instance.lock().unwrap_or_else(PoisonError::into_inner);
        let server = instance.server();
        server.map(act).ok_or_else(|| Failure("the instance has no server".into()))
    }

    /// Whether there is a private server, and not several.
    pub(crate) fn has_one_server(&self) -> bool {
        self.with_server(|_| ()).is_ok()
    }

    /// A proxy before the server, and the URL of the store under test that leads through it, for
    /// `open`, `open_at` and `worker_on`. The store of [`Testbed::open`] goes on without it.
    pub fn proxy(&self) -> CaseResult<(Proxy, String)> {
        let proxy = self.with_server(|server| Proxy::before(server.socket()))??;
        let url = proxy.url(&self.url);
        Ok((proxy, url))
    }

    pub fn kill_server(&self) -> CaseResult {
        self.with_server(Server::kill)
    }

    pub fn restart_server(&self) -> CaseResult {
        self.with_server(Server::restart)?.map_err(|error| Failure(error.to_string()))
    }

    pub fn save_server(&self) -> CaseResult {
        self.with_server(Server::save)?.map_err(|error| Failure(error.to_string()))
    }

    /// Kills the server and starts it on the data of [`Testbed::save_server`].
    pub fn restore_server(&self) -> CaseResult {
        self.with_server(Server::restore)?.map_err(|error| Failure(error.to_string()))
    }

    /// Stops the processes of the server with SIGSTOP, or continues them.
    pub fn stop_server(&self, stopped: bool) -> CaseResult {
        self.with_server(|server| if stopped { server.freeze() } else { server.thaw() })
    }

    pub fn worker(&self) -> CaseResult<SuiteWorker> {
        self.worker_on(&self.url)
    }

    pub fn workers(&self, count: usize) -> CaseResult<Vec<SuiteWorker>> {
        (0..count).map(|_| self.worker()).collect()
    }

    pub fn worker_on(&self, url: &str) -> CaseResult<SuiteWorker> {
        SuiteWorker::start(&self.worker, url)
    }
}

/// An opened store with the operations that cases repeat: texts as payloads, lives of a minute.
#[derive(Clone)]
pub struct TestStore {
    sessions: Sessions,
    pub clock: Clock,
}

pub fn open(url: &str) -> Result<TestStore> {
    open_at(url, Clock::system())
}

fn open_at(url: &str, clock: Clock) -> Result<TestStore> {
    Ok(TestStore { sessions: broken::open(url, clock.clone())?, clock })
}

impl Deref for TestStore {
    type Target = Sessions;

    fn deref(&self) -> &Sessions {
        &self.sessions
    }
}

impl TestStore {
    pub fn create_text(&self, key: &Key, text: &str) -> Result<()> {
        self.create(key, &payload(text), minute())
    }

    pub fn stored(&self, text: &str) -> Result<Key> {
        let key = new_key();
        self.create_text(&key, text).map(|()| key)
    }

    pub fn fill(&self, count: usize, idle: Duration) -> Result<Vec<Key>> {
        let keys: Vec<Key> = (0..count).map(|_| new_key()).collect();
        keys.iter().try_for_each(|key| self.create(key, &payload("x"), ttl(idle)))?;
        Ok(keys)
    }

    pub fn lock(&self, key: &Key) -> Result<Begun> {
        self.begin(key, PATIENCE)
    }

    /// Takes a lock that is free, and says how long that took.
    pub fn lock_free(&self, key: &Key) -> Result<(Begun, Duration)> {
        let start = Instant::now();
        let begun = self.begin(key, FREE)?;
        Ok((begun, start.elapsed()))
    }

    pub fn leased(&self, text: &str) -> Result<(Key, Begun)> {
        let key = self.stored(text)?;
        let begun = self.lock(&key)?;
        Ok((key, begun))
    }

    pub fn save(&self, key: &Key, text: &str) -> Result<()> {
        self.lock(key)?.commit_text(text)
    }

    pub fn text(&self, key: &Key) -> Result<Option<String>> {
        Ok(self.peek(key)?.map(|record| text_of(&record.payload)))
    }

    pub fn record(&self, key: &Key) -> CaseResult<Record> {
        self.peek(key)?.ok_or_else(|| Failure("there is no record".into()))
    }

    pub fn expect_text(&self, what: &str, key: &Key, text: &str) -> CaseResult {
        equal(what, self.text(key)?.as_deref(), Some(text))
    }

    pub fn expect_commit(&self, begun: Begun, key: &Key, text: &str) -> CaseResult {
        begun.commit_text(text)?;
        self.expect_text("after the commit", key, text)
    }

    pub fn expect_bytes(&self, what: &str, key: &Key, payload: &[u8]) -> CaseResult {
        equal(what, self.peek(key)?.map(|record| record.payload).as_deref(), Some(payload))
    }

    pub fn expect_some(&self, what: &str, key: &Key) -> CaseResult {
        equal(what, self.peek(key)?.is_some(), true)
    }

    pub fn expect_none(&self, what: &str, key: &Key) -> CaseResult {
        equal(what, self.peek(key)?.is_some(), false)
    }

    pub fn expect_locked(&self, what: &str, key: &Key) -> CaseResult {
        refused(what, self.begin(key, Duration::ZERO), "lock-timeout").map(drop)
    }
}

pub trait BegunText {
    fn commit_text(self, text: &str) -> Result<()>;
    fn expect_text(&self, what: &str, text: &str) -> CaseResult;
    fn expect_none(&self, what: &str) -> CaseResult;
}

impl BegunText for Begun {
    fn commit_text(self, text: &str) -> Result<()> {
        self.lease.commit(&payload(text), minute())
    }

    fn expect_text(&self, what: &str, text: &str) -> CaseResult {
        let read = self.record.as_ref().map(|record| text_of(&record.payload));
        equal(what, read.as_deref(), Some(text))
    }

    fn expect_none(&self, what: &str) -> CaseResult {
        equal(what, self.record.is_some(), false)
    }
}

/// A session key that nobody else uses.
pub fn new_key() -> Key {
    new_key_in(Bin::SESSION)
}

pub fn new_key_in(bin: Bin) -> Key {
    static KEYS: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only uniqueness counts.
    let number = KEYS.fetch_add(1, Ordering::Relaxed);
    let id = format!("{SECRET}{:016x}{number:04}", fastrand::u64(..));
    Key::in_bin(bin, &id).unwrap_or_else(|_| unreachable!("the id is well-formed"))
}

/// `SESSILE_STORM`: how many times longer than usual the cases with random kills run.
pub fn storm_factor() -> u64 {
    let factor = std::env::var("SESSILE_STORM").ok().and_then(|times| times.parse().ok());
    factor.unwrap_or(1).clamp(1, 1_000)
}

pub fn ttl(idle: Duration) -> Ttl {
    Ttl::sliding(idle).unwrap_or_else(|_| unreachable!("cases use well-formed ttls"))
}

pub fn minute() -> Ttl {
    ttl(MINUTE)
}

/// A text as a payload that must never show up in a message.
pub fn payload(text: &str) -> Vec<u8> {
    format!("{SECRET} {text}").into_bytes()
}

/// The text of a payload; the size of one that is no text.
pub fn text_of(payload: &[u8]) -> String {
    let text = str::from_utf8(payload).ok().and_then(|text| text.strip_prefix(SECRET));
    text.map_or_else(|| format!("#{}", payload.len()), |text| text.trim_start().to_owned())
}

pub const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}
