//! `memcached:`, sessions on one or several memcached servers, for one or many web servers.
//!
//! One locked request is two round trips: one write that adds the lock and gets the record, one that replaces the record
//! and deletes the lock. Expiry is native. Who finds the lock taken queues in the lock item and looks at it every few
//! hundred microseconds. The protocol with its interleavings, the layout and the operator's side are in
//! `docs/stores/memcached.md`; why the client is our own in `docs/decisions/0012-a-client-for-memcached.md`.
//!
//! Invariants: a record is only ever replaced by its CAS number, so that no update is lost, whatever happens to the lock
//! (a server short of memory may drop it); a session that somebody has begun has an item, if need be an empty one, so
//! that there is a CAS number to compare; every request may be sent twice with the same effect as once; no decision about
//! expiry is left to the server's clock, which only frees memory.
//!
//! This file is the way in: the registry line, and which part does what. Not here: listing (`lru_crawler metadump` shows
//! all keys of the server or none, so a page would cost as much as everything), TLS, the binary protocol and its SASL.

mod acquire;
mod cas;
mod change;
mod connection;
mod contest;
mod destroy;
mod failure;
mod item;
mod leave;
mod lock;
mod look;
mod names;
mod options;
pub(crate) mod php;
mod regenerate;
mod reply;
mod request;
mod ring;
mod servers;
mod touch;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sessile_core::{
    Budget, Capabilities, Clock, Detail, Durability, Expiry, Found, Key, Limits, Locked, Locking, Ownership, Result,
    Sessions, SessionsBound, Store, Swept, Timestamp, Ttl, Waiting,
};

use self::cas::Cas;
use self::item::{HEADER_BYTES, Writer};
use self::look::Read;
use self::names::Names;
use self::options::Options;
use self::request::Life;
use self::servers::Servers;
use crate::orphans::Orphans;
use crate::owner::Token;
use crate::registry::{self, Context, Fixture, StoreEntry};
use crate::store_url::StoreUrl;

/// The registry line of this store.
pub const ENTRY: StoreEntry = StoreEntry {
    name: "memcached",
    schemes: &["memcached", "memcached+unix"],
    sentence: "Memcached servers: several web servers, for sessions that may be lost",
    capabilities: CAPABILITIES,
    decorates: false,
    options: options::HELP,
    fixtures: &[Fixture { variant: "default", url: "memcached+unix:{socket}" }],
    open,
};

const CAPABILITIES: Capabilities = Capabilities {
    persistent_from: None,
    shared_by_processes: true,
    shared_by_hosts: true,
    server: Some("memcached"),
    locking: Locking::Native,
    waiting: Waiting::Retry,
    ownership: Ownership::Time,
    expiry: Expiry::Native,
    value_bytes_max: reply::VALUE_BYTES_MAX - HEADER_BYTES as u64,
    id_bytes_max: names::ID_BYTES_MAX,
    sessions_bounded_by: SessionsBound::ServerMemory { setting: "-m", evicts: true },
    compare_and_set: true,
    listing: false,
    durability: &[Durability::None],
};

/// Native expiry comes this much (and the time of a lock) later than the exact one, which is in the record and checked by
/// the clock of whoever reads: web servers whose clocks differ a little then never lose a session that one of them
/// thinks alive, and a record that expires under a lease is still there for its commit.
const EXPIRY_SLACK: Duration = Duration::from_secs(10);
/// Longer lives than this are taken for moments by the server.
const RELATIVE_LIFE_MAX_S: u64 = 30 * 86_400;

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let options = Options::parse(url)?;
    let mut store = Memcached {
        clock: context.clock.clone(),
        names: Names::new(options.prefix.clone()),
        servers: Servers::new(&options),
        lock_ttl: options.lock_ttl,
        payload_bytes_max: CAPABILITIES.value_bytes_max,
        evictions: AtomicU64::new(0),
        orphans: Orphans::default(),
    };
    store.check_servers(&url.redacted())?;
    Ok(Sessions::new(url.redacted(), store, registry::limits(url)?))
}

struct Memcached {
    clock: Clock,
    names: Names,
    servers: Servers,
    lock_ttl: Duration,
    /// What every server takes.
    payload_bytes_max: u64,
    /// Items that the servers had pushed out when we last asked.
    evictions: AtomicU64,
    orphans: Orphans,
}

/// What the store remembers while a lease lives.
pub(crate) struct Held {
    key: Key,
    token: Token,
    fence: u64,
    /// The process that took it: a forked child must leave it alone.
    pid: u32,
    since: Timestamp,
    /// The CAS number of the lock, if nobody waited for it when it was last seen.
    lock_cas: Option<Cas>,
    /// What was read under it.
    read: Read,
}

impl Memcached {
    /// Connects, so that a wrong password shows now and not in a visitor's request, reads the limits, and warns of a
    /// server that is short of memory.
    fn check_servers(&mut self, label: &str) -> Result<()> {
        for server in 0..self.servers.len() {
            self.payload_bytes_max = self.payload_bytes_max.min(self.servers.payload_bytes_max(server)?);
        }
        let evictions = self.count_evictions()?;
        if evictions > 0 {
            log::warn!(
                "{label}: the servers have pushed out {evictions} items to make room, live sessions perhaps among them; \
                 raise -m"
            );
        }
        *self.evictions.get_mut() = evictions;
        Ok(())
    }

    /// The items that the servers have pushed out since they started.
    fn count_evictions(&self) -> Result<u64> {
        (0..self.servers.len())
            .map(|server| Ok(self.servers.statistics(server)?.number("evictions").unwrap_or(0)))
            .sum()
    }

    /// Whether items were pushed out since this was last asked.
    fn has_evicted(&self) -> bool {
        let Ok(evictions) = self.count_evictions() else { return false };
        // Relaxed: a number that orders nothing.
        self.evictions.swap(evictions, Ordering::Relaxed) < evictions
    }

    /// The native life of an item whose exact end is `expires`.
    fn life(&self, expires: Timestamp) -> Life {
        self.life_of(expires.since(self.clock.now()) + self.lock_ttl + EXPIRY_SLACK)
    }

    /// The native life of an item that is to stay for so long.
    fn life_of(&self, stays: Duration) -> Life {
        let seconds = stays.as_secs() + 1;
        if seconds <= RELATIVE_LIFE_MAX_S {
            return Life::try_from(seconds).unwrap_or(0);
        }
        let moment = Clock::system().now().as_ms() / 1_000 + seconds;
        // The server counts in 32 bits. What is beyond lives for ever; its exact end is in the record.
        i32::try_from(moment).map_or(0, Life::from)
    }

    /// How long a destroyed or spent id is told to have been one.
    fn remembered(&self) -> Duration {
        Limits::TOMBSTONE_TTL.max(self.lock_ttl)
    }

    /// The life of an item that holds the place of a session, or tells of one that is gone: no lease that knows its CAS
    /// number is of any use after that.
    fn life_of_nothing(&self) -> Life {
        self.life_of(self.remembered() + self.lock_ttl + EXPIRY_SLACK)
    }
}

/// The mark of a token in the record that its lease commits.
fn writer(token: &Token) -> Writer {
    let [a, b, c, d, e, f, g, h, ..] = *token;
    [a, b, c, d, e, f, g, h]
}

/// The mark of a token in the record whose lock it took over.
fn taker(token: &Token) -> Writer {
    let [.., a, b, c, d, e, f, g, h] = *token;
    [a, b, c, d, e, f, g, h]
}

impl Store for Memcached {
    type Held = Held;

    fn capabilities(&self) -> Capabilities {
        Capabilities { value_bytes_max: self.payload_bytes_max, ..CAPABILITIES }
    }

    fn begin(&self, key: &Key, wait_max: Duration) -> Result<Locked<Held>> {
        self.acquire(key, wait_max)
    }

    fn fence(&self, held: &Held) -> u64 {
        held.fence
    }

    fn peek(&self, key: &Key) -> Result<Found> {
        self.look(key)
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        self.store_new(key, payload, ttl)
    }

    fn commit(&self, held: Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        self.write_and_unlock(held, payload, ttl)
    }

    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        self.slide(key, ttl)
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        self.slide_held(held, ttl)
    }

    fn release(&self, held: Held) -> Result<()> {
        self.end(&held)
    }

    fn destroy(&self, key: &Key) -> Result<()> {
        self.bury(key)
    }

    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        self.rename(held, new, grace)
    }

    fn sweep(&self, _budget: Budget) -> Result<Swept> {
        Ok(Swept { complete: true, ..Swept::default() })
    }

    fn details(&self) -> Result<Vec<Detail>> {
        let names = ["curr_items", "bytes", "limit_maxbytes", "evictions", "curr_connections"];
        let mut sums = [0_u64; 5];
        for server in 0..self.servers.len() {
            let about = self.servers.statistics(server)?;
            sums.iter_mut().zip(names).for_each(|(sum, name)| *sum += about.number(name).unwrap_or(0));
        }
        let [items, used, room, evictions, connections] = sums;
        Ok(vec![
            Detail::count("servers", self.servers.len() as u64),
            Detail::count("items", items),
            Detail::bytes("used", used),
            Detail::bytes("room", room),
            Detail::count("evictions", evictions),
            Detail::count("connections", connections),
            Detail::bytes("payload_max", self.payload_bytes_max),
        ])
    }
}
