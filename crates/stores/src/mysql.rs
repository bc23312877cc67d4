//! `mysql:`, sessions in one table of a MySQL or MariaDB database, for one or many web servers.
//!
//! One locked request is two round trips: `begin` takes a named lock of the server and reads the row, `commit` writes the
//! row and lets the lock go; each is one statement, prepared when a connection is used again and again, else one message of
//! two (`docs/decisions/0013-one-prepared-statement-each.md`). No transaction is open while the application works.
//! Waiters sleep on the server, in order of arrival. A lock belongs to the connection that took it, so each lease has one to
//! itself, and the lock goes when the connection goes, by whatever cause.
//!
//! Invariants:
//!
//! * the record is read after the lock was taken, or under a row lock that lasts until it is; and by a read that waits for a
//!   commit which has given its lock up and not ended yet;
//! * a commit changes only the row that its lease has read (same version and creation), or creates one where the lease found
//!   none and none has appeared since, no tombstone either: so a lock that was lost costs a refused commit and never an
//!   update;
//! * `due` of a row is never later than the moment from which a sweep may remove it.
//!
//! Table, server settings and the operator's side: `docs/stores/mysql.md`.

mod change;
mod connection;
mod failure;
pub(crate) mod foreign;
mod lease;
mod lock;
mod options;
mod row;
mod schema;
mod statement;
mod sweep;
mod tls;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use sessile_core::{
    Budget, Capabilities, Clock, Cursor, Durability, Error, ErrorKind, Expiry, Filter, Found, Key, Limits, Locked,
    Locking, Ownership, Page, Result, Sessions, SessionsBound, Stat, Store, Swept, Ttl, Waiting,
};

use self::connection::Link;
use self::failure::{Attempt, Fault, settled};
use self::lease::Held;
use self::lock::{LockNames, Taken, Wanted};
use self::options::Options;
use self::row::Statements;
use self::statement::{Message, of_key};
use self::sweep::Position;
use crate::idle::{Idle, retry};
use crate::registry::{self, Context, Fixture, StoreEntry};
use crate::sql::{ALIAS_STEPS_MAX, circle};
use crate::store_url::StoreUrl;

/// The registry line of this store.
pub const ENTRY: StoreEntry = StoreEntry {
    name: "mysql",
    schemes: &["mysql", "mariadb", "mysql+unix"],
    sentence: "A table in MySQL or MariaDB: one or several web servers, the database that is there anyway",
    capabilities: CAPABILITIES,
    decorates: false,
    options: options::HELP,
    fixtures: &[Fixture { variant: "default", url: "mysql+unix:{socket}?user=root&database=test" }],
    open,
};

const CAPABILITIES: Capabilities = Capabilities {
    persistent_from: Some(Durability::None),
    shared_by_processes: true,
    shared_by_hosts: true,
    server: Some("mariadbd"),
    // The server's own locks, but beside the row: destroying a session does not take its lock from the holder.
    locking: Locking::Emulated,
    waiting: Waiting::Event,
    ownership: Ownership::Process,
    expiry: Expiry::Sweep,
    value_bytes_max: (1 << 30) - 1_024, // the most that max_allowed_packet can be
    id_bytes_max: Limits::ID_BYTES_MAX,
    sessions_bounded_by: SessionsBound::ServerDisk,
    compare_and_set: true,
    listing: true,
    durability: &[Durability::None, Durability::Second, Durability::Commit],
};

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let options = Options::parse(url)?;
    let label = url.redacted();
    let table = format!("`{}`", options.table);
    let mut store = Mysql {
        clock: context.clock.clone(),
        locks: LockNames::new(&options.database, &options.table),
        statements: Statements::new(&table),
        table,
        options,
        idle: Idle::default(),
        swept_to: Mutex::default(),
        payload_bytes_max: 0,
    };
    store.payload_bytes_max = store.with_link(|link| {
        schema::prepare(link, &store.options.table)?;
        for warning in schema::warnings(link)? {
            log::warn!("{label}: {warning}");
        }
        Ok(link.facts.payload_bytes_max)
    })?;
    Ok(Sessions::new(label, store, registry::limits(url)?))
}

struct Mysql {
    clock: Clock,
    options: Options,
    /// As it stands in statements: in backquotes.
    table: String,
    locks: LockNames,
    statements: Statements,
    idle: Idle<Link>,
    /// Where the last sweep stopped.
    swept_to: Mutex<Option<Position>>,
    /// What the server took when the store was opened. Each connection looks again.
    payload_bytes_max: u64,
}

impl Mysql {
    fn take(&self) -> Attempt<Link> {
        match self.idle.take() {
            Some(link) => Ok(link),
            None => Link::open(&self.options, self.options.timeouts.response),
        }
    }

    fn put_back(&self, link: Link) {
        // One that was made for a long wait would wait as long for a server that is gone.
        if link.is_fit() && link.patience() <= self.options.timeouts.response {
            self.idle.put(link);
        }
    }

    /// Runs something that does no harm when it is done twice, with a connection that it may keep.
    fn trying<T>(&self, mut attempt: impl FnMut(Link) -> Attempt<T>) -> Result<T> {
        let attempt = || {
            let done = self.take().and_then(&mut attempt);
            if done.as_ref().err().is_some_and(Fault::breaks_connection) {
                self.idle.clear();
            }
            done
        };
        settled(retry(Fault::is_transient, attempt))
    }

    /// The same with a connection that it gives back.
    fn with_link<T>(&self, mut attempt: impl FnMut(&mut Link) -> Attempt<T>) -> Result<T> {
        self.trying(|mut link| {
            let done = attempt(&mut link);
            // After a collision a transaction may be open; closing the connection ends it.
            if !done.as_ref().err().is_some_and(Fault::is_collision) {
                self.put_back(link);
            }
            done
        })
    }

    fn acquire(&self, mut link: Link, asked: &Key, start: Instant, wait_max: Duration) -> Attempt<Locked<Held>> {
        let mut key = asked.clone();
        let mut leaving: Option<String> = None;
        for _ in 0..=ALIAS_STEPS_MAX {
            let lock = self.locks.of(&key);
            let mut at_once = None;
            if leaving.is_none() && link.expects_to_find() {
                at_once = lock::acquire_at_once(&mut link, &lock, &self.statements.begin, &key)?;
                if at_once.is_none() {
                    link.has_begun(false);
                }
            }
            let Taken { fence, content } = loop {
                if let Some(taken) = at_once.take() {
                    break taken;
                }
                let left = wait_max.saturating_sub(start.elapsed());
                let slice = lock::slice(&link, left);
                let before = leaving.take();
                let wanted = Wanted { name: &lock, key: &key, wait: slice, leaving: before.as_deref() };
                match lock::acquire_and_read(&mut link, wanted, &self.statements) {
                    Ok(Some(taken)) => break taken,
                    Ok(None) => {}
                    // The lock was had, but another transaction keeps the row: as good as a lock that is not free.
                    Err(fault) if fault.is_long_wait() => lock::let_go(&mut link, &lock)?,
                    Err(fault) => return Err(fault),
                }
                let left = wait_max.saturating_sub(start.elapsed());
                if left.is_zero() {
                    return Err(self.timed_out(link, &lock, start).into());
                }
                if slice.is_zero() {
                    lock::pause(start, left);
                } else if link.patience() < left {
                    // A connection that may be silent for as long as it takes: from here on this waiter keeps its place.
                    self.put_back(link);
                    link = Link::open(&self.options, 2 * left + self.options.timeouts.response)?;
                }
            };
            link.has_begun(content.is_some());
            let now = self.clock.now();
            if let Some(target) = content.as_ref().map_or(Ok(None), |content| content.leads_to(key.bin(), now))? {
                (key, leaving) = (target, Some(lock));
                continue;
            }
            let held = Held::new(key.clone(), lock, link, fence, content.as_ref(), now);
            let found = content.map_or_else(Found::nothing, |content| content.found(now));
            let moved_to = (key != *asked).then_some(key);
            return Ok(Locked { held, found: Found { moved_to, ..found } });
        }
        Err(circle().into())
    }

    fn timed_out(&self, mut link: Link, lock: &str, start: Instant) -> Error {
        let waited = start.elapsed();
        let holder = lock::holder(&mut link, lock, &self.clock).unwrap_or_default();
        self.put_back(link);
        Error::new(ErrorKind::LockTimeout { holder, waited }, "another request holds the session")
    }

    fn look(&self, link: &mut Link, asked: &Key) -> Attempt<Found> {
        let now = self.clock.now();
        let mut key = asked.clone();
        for _ in 0..=ALIAS_STEPS_MAX {
            let row = link.ask(&Message::new().then(&self.statements.select, &of_key(&key)))?.next().row();
            let content = row.map(row::decode).transpose()?;
            match content.as_ref().map_or(Ok(None), |content| content.leads_to(asked.bin(), now))? {
                Some(target) => key = target,
                None => {
                    let found = content.map_or_else(Found::nothing, |content| content.found(now));
                    return Ok(Found { moved_to: (key != *asked).then_some(key), ..found });
                }
            }
        }
        Err(circle().into())
    }
}

impl Store for Mysql {
    type Held = Held;

    fn capabilities(&self) -> Capabilities {
        Capabilities { value_bytes_max: CAPABILITIES.value_bytes_max.min(self.payload_bytes_max), ..CAPABILITIES }
    }

    fn begin(&self, key: &Key, wait_max: Duration) -> Result<Locked<Held>> {
        let start = Instant::now();
        self.trying(|link| self.acquire(link, key, start, wait_max))
    }

    fn fence(&self, held: &Held) -> u64 {
        held.fence
    }

    fn peek(&self, key: &Key) -> Result<Found> {
        self.with_link(|link| self.look(link, key))
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        self.store_new(key, payload, ttl)
    }

    /// What fails is not tried again on another connection: the lock went with this one, and whether the server has
    /// carried it out is not known.
    fn commit(&self, mut held: Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        let committed = held.commit(&self.statements, payload, ttl, self.clock.now());
        if committed.is_ok() {
            self.put_back(held.link);
        }
        settled(committed) // otherwise the connection closes, which frees the lock
    }

    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        self.slide(key, ttl)
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        settled(held.touch(&self.statements, ttl, now))
    }

    fn release(&self, mut held: Held) -> Result<()> {
        // If it fails, the connection closes with the lease, which frees the lock, too.
        if held.link.is_fit() && lock::let_go(&mut held.link, &held.lock).is_ok() {
            self.put_back(held.link);
        }
        Ok(())
    }

    fn destroy(&self, key: &Key) -> Result<()> {
        self.with_link(|link| self.bury(link, key))
    }

    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        settled(self.rename(held, new, grace))
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        self.sweep_within(budget)
    }

    fn stat(&self) -> Result<Stat> {
        self.count()
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        self.page(cursor, filter)
    }
}
