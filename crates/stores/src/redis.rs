//! `redis:`, sessions on a Redis or Valkey server, for one or many web servers.
//!
//! One locked request is two round trips: one that takes the lock and reads the record, and one that writes and
//! unlocks. Both are plain commands while nobody interferes, and scripts otherwise. Expiry is native. Waiters sleep in a blocking pop until they are woken, in order of
//! arrival. The protocol with its interleavings, the key layout and the operator's side are in
//! `docs/stores/redis.md`.
//!
//! Invariants: who owns a lock is decided by comparing a random token for equality, on the server; every
//! request may be sent twice with the same effect as once; no decision about expiry is left to the server's
//! clock (it only frees memory).
//!
//! This file is the way in: the registry line, and which part does what. Not here: Redis Cluster, which
//! needs a client that follows slots, a fence counter in each slot, and a `regenerate` over two of them.

mod acquire;
mod change;
mod failure;
mod keys;
mod listing;
mod lock;
mod options;
pub(crate) mod php;
mod pool;
mod script;
mod value;

use std::time::Duration;

use sessile_core::{
    Budget, Capabilities, Clock, Cursor, Durability, Expiry, Filter, Found, Key, Limits, Locked, Locking, Ownership,
    Page, Result, Sessions, SessionsBound, Stat, Store, Swept, Ttl, Waiting,
};

use self::keys::Names;
use self::lock::Held;
use self::options::Options;
use self::pool::Pool;
use self::script::Scripts;
use crate::orphans::Orphans;
use crate::registry::{self, Context, Fixture, StoreEntry};
use crate::store_url::StoreUrl;

/// The registry line of this store.
pub const ENTRY: StoreEntry = StoreEntry {
    name: "redis",
    schemes: &["redis", "rediss", "redis+unix"],
    sentence: "A Redis or Valkey server: one or several web servers, expiry by itself",
    capabilities: CAPABILITIES,
    decorates: false,
    options: options::HELP,
    fixtures: &[Fixture { variant: "default", url: "redis+unix:{socket}" }],
    open,
};

const CAPABILITIES: Capabilities = Capabilities {
    // Without its log it keeps what it has snapshots of: all but the last minutes by default, and nothing without `save`.
    persistent_from: Some(Durability::Second),
    shared_by_processes: true,
    shared_by_hosts: true,
    server: Some("redis-server"),
    locking: Locking::Native,
    waiting: Waiting::Event,
    ownership: Ownership::Time,
    expiry: Expiry::Native,
    value_bytes_max: (512 << 20) - value::HEADER_BYTES as u64,
    id_bytes_max: Limits::ID_BYTES_MAX,
    sessions_bounded_by: SessionsBound::ServerMemory { setting: "maxmemory", evicts: false },
    compare_and_set: true,
    listing: true,
    durability: &[Durability::None, Durability::Second, Durability::Commit],
};

/// Native expiry comes this much later than the exact one, which is in the record and checked by the clock of
/// whoever reads: web servers whose clocks differ a little then never lose a session that one of them thinks alive.
const EXPIRY_SLACK: Duration = Duration::from_secs(10);

/// How long a freed lock stays reserved for the waiter that was woken for it. It takes a round trip; if the
/// waiter died, the others lose this much.
const RESERVATION: Duration = Duration::from_millis(200);

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let options = Options::parse(url)?;
    let store = Redis {
        clock: context.clock.clone(),
        names: Names::new(options.prefix.clone()),
        scripts: Scripts::new(),
        pool: Pool::new(options),
        orphans: Orphans::default(),
    };
    store.check_server(&url.redacted())?;
    Ok(Sessions::new(url.redacted(), store, registry::limits(url)?))
}

struct Redis {
    clock: Clock,
    names: Names,
    scripts: Scripts,
    pool: Pool,
    orphans: Orphans,
}

impl Redis {
    /// Connects, so that a wrong password shows now and not in a visitor's request, and warns of a server
    /// that would drop sessions to make room.
    fn check_server(&self, label: &str) -> Result<()> {
        self.pool.call(&redis::cmd("PING"))?;
        let asked = self.pool.call(redis::cmd("CONFIG").arg("GET").arg("maxmemory-policy"));
        // Hosted servers forbid CONFIG; then nothing is known and nothing said.
        if let Ok(answer) = asked
            && let Ok((_, policy)) = redis::from_redis_value::<(String, String)>(answer)
            && policy != "noeviction"
        {
            log::warn!(
                "{label}: maxmemory-policy is {policy}: when memory is full the server drops live sessions; \
                 set maxmemory-policy noeviction, so that saves fail loudly instead"
            );
        }
        Ok(())
    }

    /// How long a destroyed or spent id is told to have been one.
    fn remembered(&self) -> Duration {
        Limits::TOMBSTONE_TTL.max(self.lock_ttl())
    }

    /// How long the server keeps a tombstone: every lease that was alive at the time has lapsed by then.
    fn tombstone_kept(&self) -> Duration {
        self.remembered() + self.lock_ttl() + EXPIRY_SLACK
    }

    fn lock_ttl(&self) -> Duration {
        self.pool.options().lock_ttl
    }

    fn lock_and_data(&self, key: &Key) -> [String; 3] {
        [self.names.lock(key), self.names.data(key), self.names.wait(key)]
    }
}

/// A duration as the milliseconds that a command takes.
fn ms(duration: Duration) -> String {
    duration.as_millis().to_string()
}

impl Store for Redis {
    type Held = Held;

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
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
        self.end(held)
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

    fn stat(&self) -> Result<Stat> {
        self.count()
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        self.page(cursor, filter)
    }
}
