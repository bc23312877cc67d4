//! `redis:`, sessions on a Redis or Valkey server, for one or many web servers.
//!
//! One locked request is two round trips: one that takes the lock and reads the record, and one
//! that writes and unlocks. Both are plain commands while nobody interferes, and scripts otherwise.
//! Expiry is native. Waiters sleep in a blocking pop until they are woken, in order of arrival.
//! Protocol, key layout and operation: `crates/stores/design/redis.md`.
//!
//! Invariants: the server decides the owner of a lock, by equality of a random token; every request
//! may be sent twice with the effect of once; the server's clock decides no expiry (it only frees
//! memory).
//!
//! Not here: how to find the server: `redis/servers.rs`.

mod begin;
mod bounded;
mod cluster;
mod commit;
pub mod connection;
pub mod facts;
pub mod failure;
mod fences;
mod list;
mod locks_held;
mod names;
mod regenerate;
mod replicas;
mod script;
mod sentinel;
pub mod servers;
mod slots;
mod target;
mod value;

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use redis::{RedisResult, Value};
use sessile_core::{
    Capabilities, Clock, Cursor, Durability, ErrorKind, Expiry, Filter, Found, Head, HeldLock, Key,
    Owner, OwnerChange, Ownership, Page, Result, Sessions, SessionsBound, Stat, Store, Stored,
    Timestamp, Ttl, Waiting, destroy_aliases, follow_aliases, read_aliases,
};

use self::begin::Held;
use self::failure::CLUSTER;
use self::names::Names;
use self::script::{CREATE, DESTROY, DESTROY_OWNED};
use self::servers::Servers;
use crate::connections::bounded::BoundedStore;
use crate::connections::doubt::change;
use crate::connections::failure::error;
use crate::connections::key_value;
use crate::locks::check_process;
use crate::locks::orphans::Orphans;
use crate::locks::token::{Token, lock_ttl, mark, new_token};
use crate::registry::{self, Context, Fixture, StoreEntry};
use crate::server_kind::ServerKind;
use crate::store_url::StoreUrl;

pub const ENTRY: StoreEntry = StoreEntry {
    name: "redis",
    schemes: &[
        "redis",
        "rediss",
        "redis+unix",
        "redis+cluster",
        "rediss+cluster",
        "redis+sentinel",
        "rediss+sentinel",
    ],
    sentence: "Redis or Valkey, one server or several: many web servers, native expiry",
    capabilities: CAPABILITIES,
    decorates: false,
    options: connection::HELP,
    server: Some(&SERVER),
    fixtures: &[Fixture { variant: "default", url: "redis+unix:{socket}" }],
    open,
    exists: StoreEntry::ALWAYS_EXISTS,
    drop: Err(
        "end the processes that use it, then delete the keys that begin with its prefix (SCAN, \
         UNLINK), or all of a database of its own (FLUSHDB)",
    ),
};

const SERVER: ServerKind = ServerKind {
    name: "redis-server",
    package: "redis-server",
    programs: &["redis-server", "valkey-server"],
    arguments,
    // Its log grows by the size of all sessions in seconds here, and in hours at a site: with the
    // default of 64 MB each sample would contain a rewrite of the log.
    when_measured: &["--auto-aof-rewrite-min-size", "1gb"],
    ..ServerKind::PLAIN
};

fn arguments(dir: &Path, socket: &Path, durability: Durability) -> Vec<OsString> {
    let (append_only, append_fsync) = match durability {
        Durability::None => ("no", "no"),
        Durability::Second => ("yes", "everysec"),
        Durability::Commit => ("yes", "always"),
    };
    // Redis removes expired keys for up to a quarter of each tick of `hz`, and answers nobody
    // meanwhile: 25 ms at its default of 10, 2.5 ms here (see crates/stores/design/redis.md).
    let fixed = "--port 0 --unixsocketperm 700 --daemonize no --hz 100";
    let mut arguments: Vec<OsString> = fixed.split(' ').map(OsString::from).collect();
    arguments.extend(["--unixsocket".into(), socket.into(), "--dir".into(), dir.into()]);
    arguments.extend(["--save", "", "--appendonly", append_only].map(OsString::from));
    arguments.extend(["--appendfsync", append_fsync].map(OsString::from));
    arguments
}

const CAPABILITIES: Capabilities = Capabilities {
    // Without its log it keeps what it has snapshots of: all but the last minutes by default, and
    // nothing without `save`.
    persistent_from: Some(Durability::Second),
    shared_by_processes: true,
    shared_by_hosts: true,
    server: Some("redis-server"),
    waiting: Waiting::Event,
    ownership: Ownership::Time,
    expiry: Expiry::Native,
    value_bytes_max: (512 << 20) - value::HEAD_BYTES as u64,
    sessions_bounded_by: SessionsBound::ServerMemory { setting: "maxmemory", evicts: false },
    listing: true,
    owners: true,
    durability: &[Durability::None, Durability::Second, Durability::Commit],
    ..Capabilities::MINIMAL
};

/// Native expiry comes this much later than the exact one in the record: web servers whose clocks
/// differ a little lose no session.
const EXPIRY_SLACK: Duration = Duration::from_secs(10);

const PREFIX_BYTES_MAX: usize = 64;

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let store = Redis {
        clock: context.clock.clone(),
        names: Names(key_value::prefix(url, PREFIX_BYTES_MAX)?),
        lock_ttl: lock_ttl(url)?,
        min_replicas: url.number("min_replicas", 0, 0..=16)?,
        servers: Servers::parse(url)?,
        orphans: Orphans::default(),
    };
    store.check_server(&url.redacted())?;
    Ok(Sessions::new(url.redacted(), store, registry::limits(url)?))
}

struct Redis {
    clock: Clock,
    names: Names,
    lock_ttl: Duration,
    min_replicas: u64,
    servers: Servers,
    orphans: Orphans,
}

impl Redis {
    /// Connects: a wrong password shows now and not in a visitor's request. Refuses a cluster that
    /// the URL does not call one: it would serve most requests and fail the others. Warns of a
    /// server that would drop sessions to make room.
    fn check_server(&self, label: &str) -> Result<()> {
        let mut ask = redis::pipe();
        ask.cmd("PING").cmd("INFO").arg("cluster").cmd("CONFIG").arg("GET").arg("maxmemory-policy");
        ask.ignore_errors();
        let deadline = self.servers.deadline(Duration::ZERO);
        let any_key = Key::session("a")?;
        let (cluster, policy) = self.servers.with(deadline, &any_key, |connection| {
            type Answers = (RedisResult<Value>, RedisResult<String>, RedisResult<(String, String)>);
            let (pong, cluster, policy): Answers = ask.query(connection)?;
            pong.map(|_| (cluster, policy))
        })?;
        if self.min_replicas > 0 {
            let mut wait = redis::cmd("WAIT");
            wait.arg(0).arg(1);
            self.servers.with(deadline, &any_key, |connection| wait.exec(connection))?;
        }
        // Hosted servers forbid INFO or CONFIG; then nothing is known.
        let is_cluster = cluster.is_ok_and(|cluster| cluster.contains("cluster_enabled:1"));
        if is_cluster && self.servers.cluster().is_none() {
            return Err(error(CLUSTER));
        }
        if let Ok((_, policy)) = policy
            && policy != "noeviction"
        {
            log::warn!(
                "{label}: maxmemory-policy is {policy}: when memory is full the server drops live \
                 sessions; \
                 set maxmemory-policy noeviction, so that saves fail loudly instead"
            );
        }
        Ok(())
    }

    /// The bytes of a data key, and for how many milliseconds the server keeps them: a record until
    /// it expires, tombstones and aliases until every lease that was alive at the time has lapsed.
    fn value(
        &self,
        stored: &Stored,
        token: &Token,
        payload: &[u8],
        now: Timestamp,
    ) -> (Vec<u8>, u64) {
        let lease = if stored.head().is_some() { Duration::ZERO } else { self.lock_ttl };
        let life = stored.due().map_or(Duration::ZERO, |due| due.since(now));
        (value::encode(stored, token, payload), ms(life + lease + EXPIRY_SLACK))
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Store for Redis {
    type Held = Held;

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn begin(&self, key: &Key, wait_max: Duration) -> Result<(Held, u64, Found)> {
        begin::begin(&self.bounded(wait_max), key, wait_max)
    }

    fn peek(&self, asked: &Key) -> Result<Found> {
        let store = self.soon();
        read_aliases(asked, &self.clock, |key| {
            let mut get = redis::cmd("GET");
            get.arg(self.names.data(key));
            value::decode(key, store.query(key, &get)?)
        })
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let (now, token) = (self.clock.now(), new_token()?);
        let record = Stored::Live(Head::next(None, ttl, now));
        let (value, px) = self.value(&record, &token, payload, now);
        let args = (&token, value, px, now.as_ms());
        change(|| self.soon().change(&CREATE, key, &[], args)).map(drop)
    }

    fn commit(&self, held: Held, payload: &[u8], ttl: Ttl, owner: OwnerChange) -> Result<()> {
        change(|| commit::commit(&self.soon(), held, (payload, ttl, owner)))
    }

    fn touch(&self, asked: &Key, ttl: Ttl) -> Result<()> {
        let store = self.soon();
        let touched = follow_aliases(asked, |key| {
            Ok(match store.run_touch(key, ttl, (b"", b""))? {
                Some(id) => ControlFlow::Continue(key.sibling(&id)?),
                None => ControlFlow::Break(()),
            })
        });
        touched.map(drop)
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        check_process(held.pid)?;
        if let Some(stamp) = self.soon().run_touch(&held.key, ttl, (&held.token, &held.read))? {
            held.touched(stamp);
        }
        Ok(())
    }

    fn release(&self, mut held: Held) -> Result<()> {
        // In a forked child both are the parent's; the connection is closed here and not used.
        if check_process(held.pid).is_err() {
            return Ok(());
        }
        if let Some(connection) = held.watching.take() {
            self.servers.give_back(connection);
        }
        self.soon().unlock(&held, true)
    }

    fn destroy(&self, asked: &Key) -> Result<()> {
        let store = self.soon();
        destroy_aliases(asked, |key, visited| {
            let (now, token) = (self.clock.now(), new_token()?);
            let tombstone = Stored::tombstone(mark(&token), now);
            let (value, px) = self.value(&tombstone, &token, b"", now);
            let visited: Vec<&str> = visited.iter().map(Key::id).collect();
            let args = (&token, value, px, now.as_ms(), visited);
            let target = store.change(&DESTROY, key, &[], args)?;
            target.map(|id| key.sibling(&id)).transpose()
        })
    }

    fn destroy_owned(&self, key: &Key, owner: Owner) -> Result<bool> {
        let (now, token) = (self.clock.now(), new_token()?);
        let tombstone = Stored::tombstone(mark(&token), now);
        let (value, px) = self.value(&tombstone, &token, b"", now);
        let owner = owner.to_bytes();
        let args = (&token, value, px, now.as_ms(), owner.as_slice());
        match self.soon().change(&DESTROY_OWNED, key, &[], args) {
            Err(error) if *error.kind() == ErrorKind::Gone => Ok(false),
            destroyed => destroyed.map(|_| true),
        }
    }

    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        check_process(held.pid)?;
        if held.key == *new {
            // The script would take our own lock for that of an answer that was lost.
            return Err(ErrorKind::Exists.into());
        }
        change(|| regenerate::regenerate(&self.soon(), held, new, grace))?;
        if let Some(connection) = held.watching.take() {
            self.servers.give_back(connection); // it watched the old id
        }
        held.key = new.clone();
        if held.head.is_none() {
            held.read.clear(); // only the lock moved
        }
        Ok(())
    }

    fn stat(&self) -> Result<Stat> {
        list::stat(&self.bounded(list::COUNT_FOR))
    }

    fn locks(&self, limit: usize) -> Result<Vec<HeldLock>> {
        locks_held::locks_held(&self.bounded(list::COUNT_FOR), limit)
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        list::list(&self.soon(), cursor, filter)
    }
}
