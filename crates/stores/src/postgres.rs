//! `postgres:`, sessions in a table on a PostgreSQL server, for one or many web servers.
//!
//! One locked request is two round trips: one that takes an advisory lock of the server and reads the row, and one that
//! changes the row and gives the lock up. No transaction is open in between. The server queues waiters and wakes them, and
//! it frees the locks of whoever loses the connection. Layout, locks, settings and the operator's side are in
//! `docs/stores/postgres.md`.
//!
//! Invariants:
//!
//! * the row is read by a statement that began after the lock was granted;
//! * a commit changes only the row that its lease has read (same id, version and creation), or creates one where the lease
//!   found none and none has appeared since, no tombstone either;
//! * a lock is free only when what was written under it can be seen;
//! * `due` of a row is never later than the moment from which a sweep may remove it.
//!
//! This file is the way in: the registry line, and which part does what.

mod answer;
mod change;
mod failure;
pub(crate) mod foreign;
mod lease;
mod link;
mod lock;
mod login;
mod options;
mod pool;
mod regenerate;
mod row;
mod schema;
mod statements;
mod sweep;
mod wire;

use std::sync::Mutex;
use std::time::Duration;

use sessile_core::{
    Budget, Capabilities, Clock, Cursor, Durability, Expiry, Filter, Found, Key, Limits, Locked, Locking, Ownership,
    Page, Result, Sessions, SessionsBound, Stat, Store, Swept, Ttl, Waiting,
};

use self::failure::Failure;
use self::lease::Held;
use self::link::Link;
use self::options::Options;
use self::pool::Pool;
use crate::idle::retry;
use crate::registry::{self, Context, Fixture, StoreEntry};
use crate::store_url::StoreUrl;

/// The registry line of this store.
pub const ENTRY: StoreEntry = StoreEntry {
    name: "postgres",
    schemes: &["postgres", "postgresql", "postgres+unix"],
    sentence: "A table on a PostgreSQL server: one or several web servers, beside the shop's own data",
    capabilities: CAPABILITIES,
    decorates: false,
    options: options::HELP,
    fixtures: &[Fixture { variant: "default", url: "postgres+unix:{socket}?user=postgres&database=postgres" }],
    open,
};

const CAPABILITIES: Capabilities = Capabilities {
    persistent_from: Some(Durability::None),
    shared_by_processes: true,
    shared_by_hosts: true,
    server: Some("postgres"),
    // The lock lies beside the row: after a destroy it is void, but occupied until its holder lets go or dies.
    locking: Locking::Emulated,
    waiting: Waiting::Event,
    ownership: Ownership::Process,
    expiry: Expiry::Sweep,
    value_bytes_max: (1 << 30) - 4_096, // a message has at most 1 GB, the other columns included
    id_bytes_max: Limits::ID_BYTES_MAX,
    sessions_bounded_by: SessionsBound::ServerDisk,
    compare_and_set: true,
    listing: true,
    durability: &[Durability::None, Durability::Second, Durability::Commit],
};

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let options = Options::parse(url)?;
    let prepared = retry(Failure::is_transient, || schema::prepare(&options));
    let (names, first) = prepared.map_err(Failure::translate)?;
    refuse_pooled_transactions(&options, &first)?;
    let pool = Pool::new(options, names, first);
    let store = Postgres { clock: context.clock.clone(), pool, swept_to: Mutex::default() };
    Ok(Sessions::new(url.redacted(), store, registry::limits(url)?))
}

/// Two connections at once that are served by one process of the server: there is a proxy in between that hands out sessions
/// for a transaction at a time. Our locks would be taken in one session and given up in another.
fn refuse_pooled_transactions(options: &Options, first: &Link) -> Result<()> {
    let second = Link::connect(options).and_then(|mut link| link.greet(options).map(|_| link));
    match second {
        Ok(second) if second.backend == first.backend => Err(lock::pooled_by_transaction()),
        // A server that has no second connection to spare is no proxy's fault; each begin looks again.
        _ => Ok(()),
    }
}

struct Postgres {
    clock: Clock,
    pool: Pool,
    /// Where the last sweep stopped: the `due` and the row.
    swept_to: Mutex<Option<(i64, i64)>>,
}

impl Store for Postgres {
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
        self.find(key)
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
        self.unlock(held);
        Ok(())
    }

    fn destroy(&self, key: &Key) -> Result<()> {
        self.bury(key)
    }

    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        self.rename(held, new, grace)
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        self.remove_expired(budget)
    }

    fn stat(&self) -> Result<Stat> {
        self.count()
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        self.page(cursor, filter)
    }
}
