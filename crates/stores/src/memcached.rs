//! `memcached:`, sessions on one or several memcached servers, for one or many web servers.
//!
//! One locked request is two round trips: one write that adds the lock and gets the record, one
//! that replaces the record and deletes the lock. Expiry is native. A waiter queues in the lock
//! item and looks at it every few hundred microseconds. Protocol, layout and operation:
//! `crates/stores/design/memcached.md`. Why the client is our own:
//! `docs/decisions/0012-a-client-for-memcached.md`.
//!
//! Invariants: a record is replaced only by its CAS number, so that no update is lost even if a
//! server short of memory drops the lock; a session that was begun has an item, perhaps an empty
//! one, so that there is a CAS number; every request may be sent twice with the effect of once; the
//! server's clock decides no expiry, it only frees memory.
//!
//! Not here: listing (`lru_crawler metadump` shows all keys of the server or none, so a page would
//! cost as much as everything), TLS, the binary protocol and its SASL.

mod begin;
mod bounded;
mod commit;
pub mod connection;
mod data;
mod destroy;
pub mod facts;
pub mod failure;
mod lock;
pub mod options;
mod read;
mod regenerate;
mod release;
pub mod reply;
mod request;
mod servers;
mod touch;
mod turn;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use sessile_core::{
    Capabilities, Clock, Detail, Details, ErrorKind, Expiry, Found, Head, Key, Limits, OwnerChange,
    Ownership, Result, Sessions, SessionsBound, Store, Stored, Timestamp, Ttl, follow_aliases,
    read_aliases,
};

use self::data::HEADER_BYTES;
use self::read::ReadItem;
use self::reply::{Cas, Item};
use self::request::{Commands, Exptime};
use self::servers::Servers;
use crate::connections::bounded::BoundedStore;
use crate::connections::doubt::change;
use crate::connections::key_value;
use crate::locks::token::{Token, lock_ttl, mark, new_token};
use crate::registry::{self, Context, Fixture, StoreEntry};
use crate::server_kind::ServerKind;
use crate::store_url::StoreUrl;

pub const ENTRY: StoreEntry = StoreEntry {
    name: "memcached",
    schemes: &["memcached", "memcached+unix"],
    sentence: "Memcached servers: several web servers, for sessions that may be lost",
    capabilities: CAPABILITIES,
    decorates: false,
    options: options::HELP,
    server: Some(&SERVER),
    fixtures: &[Fixture { variant: "default", url: "memcached+unix:{socket}" }],
    open,
    exists: StoreEntry::ALWAYS_EXISTS,
    drop: Err(
        "end the processes that use it; `flush_all` empties the server, and on one that others use \
         as well the items expire",
    ),
};

const SERVER: ServerKind = ServerKind {
    name: "memcached",
    package: "memcached",
    programs: &["memcached"],
    refuses_root: true,
    arguments: |_, socket, _| {
        ["-s".into(), socket.into(), "-a".into(), "0777".into(), "-m".into(), "16384".into()].into()
    },
    ..ServerKind::PLAIN
};

const CAPABILITIES: Capabilities = Capabilities {
    shared_by_processes: true,
    shared_by_hosts: true,
    server: Some("memcached"),
    ownership: Ownership::Time,
    expiry: Expiry::Native,
    value_bytes_max: reply::VALUE_BYTES_MAX - HEADER_BYTES as u64,
    id_bytes_max: ID_BYTES_MAX,
    sessions_bounded_by: SessionsBound::ServerMemory { setting: "-m", evicts: true },
    ..Capabilities::MINIMAL
};

const PREFIX_BYTES_MAX: usize = 32;
/// Longest id: what the 250 bytes of a key of memcached leave beside the longest prefix and bin.
const ID_BYTES_MAX: usize =
    250 - PREFIX_BYTES_MAX - ":d:".len() - Limits::BIN_BYTES_MAX - "/".len();
/// Native expiry comes later than the exact one in the record by this and the time of a lock: for
/// web servers whose clocks differ a little, and for the commit of a record that expires under its
/// lease.
const EXPIRY_SLACK: Duration = Duration::from_secs(10);
/// The server takes longer times for moments.
const RELATIVE_EXPTIME_MAX: u64 = 30 * 86_400;

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let mut store = Memcached {
        clock: context.clock.clone(),
        prefix: key_value::prefix(url, PREFIX_BYTES_MAX)?,
        servers: Servers::new(options::servers(url)?),
        lock_ttl: lock_ttl(url)?,
        payload_bytes_max: 0,
        evictions: AtomicU64::new(0),
    };
    store.check_servers(&url.redacted())?;
    Ok(Sessions::new(url.redacted(), store, registry::limits(url)?))
}

struct Memcached {
    clock: Clock,
    prefix: String,
    servers: Servers,
    lock_ttl: Duration,
    /// What every server takes.
    payload_bytes_max: u64,
    /// Items that the servers had pushed out at the last look.
    evictions: AtomicU64,
}

pub struct Held {
    key: Key,
    token: Token,
    fence: u64,
    /// The process that took it: a forked child must leave it alone.
    pid: u32,
    since: Timestamp,
    /// The CAS number of the lock, if nobody waited for it when it was last seen.
    lock_cas: Cas,
    read: ReadItem,
}

impl Memcached {
    /// Connects: a wrong password shows now and not in a visitor's request. Reads the limits, and
    /// warns of a server that is short of memory.
    fn check_servers(&mut self, label: &str) -> Result<()> {
        let (deadline, value_bytes_max) =
            (self.servers.deadline(Duration::ZERO), CAPABILITIES.value_bytes_max);
        self.payload_bytes_max = self.servers.payload_bytes_max(deadline)?.min(value_bytes_max);
        let [evictions] = self.servers.sums(deadline, ["evictions"])?;
        if evictions > 0 {
            log::warn!(
                "{label}: the servers have pushed out {evictions} items to make room, live \
                 sessions perhaps among them; \
                 raise -m"
            );
        }
        *self.evictions.get_mut() = evictions;
        Ok(())
    }

    fn data_name(&self, key: &Key) -> String {
        item_name(&self.prefix, 'd', key)
    }

    fn lock_name(&self, key: &Key) -> String {
        item_name(&self.prefix, 'l', key)
    }

    fn fence_name(&self) -> String {
        format!("{}:fence", self.prefix)
    }

    /// When the server drops an item that is forgotten from `due` on: when no lease that knows its
    /// CAS number is of any use.
    fn exptime(&self, due: Timestamp) -> Exptime {
        let seconds = (due.since(self.clock.now()) + self.lock_ttl + EXPIRY_SLACK).as_secs() + 1;
        if seconds <= RELATIVE_EXPTIME_MAX {
            return Exptime::try_from(seconds).unwrap_or(0);
        }
        let moment = Clock::system().now().as_ms() / 1_000 + seconds;
        // The server counts in 32 bits. It keeps what is beyond for ever; the exact end is in the
        // record.
        i32::try_from(moment).map_or(0, Exptime::from)
    }

    /// The exptime of an item that holds the place of a session, or tells of one that is gone.
    fn exptime_of_nothing(&self) -> Exptime {
        self.exptime(self.forgotten())
    }

    /// From when on nothing is known of a session that is destroyed or given up now.
    fn forgotten(&self) -> Timestamp {
        self.clock.now().plus(Limits::TOMBSTONE_TTL)
    }

    /// Replaces the data item that has this CAS number; without one, adds it.
    fn put(
        &self,
        key: &Key,
        stored: &Stored,
        writer: u64,
        payload: &[u8],
        over: Option<Cas>,
    ) -> Commands {
        let due = stored.due().unwrap_or_default();
        self.put_value(key, &data::encode(stored, writer, payload), due, over)
    }

    /// As [`Memcached::put`], with the encoded item. Nothing is known of it from `due` on.
    fn put_value(&self, key: &Key, value: &[u8], due: Timestamp, over: Option<Cas>) -> Commands {
        let (name, exptime) = (self.data_name(key), self.exptime(due));
        // The client flags repeat the kind, so that a look without the value tells it.
        Commands::default().put(&name, data::kind_of(value), exptime, value, over)
    }
}

fn item_name(prefix: &str, what: char, key: &Key) -> String {
    format!("{prefix}:{what}:{}/{}", key.bin().name(), key.id())
}

/// The mark of a token in the record whose lock it took over: its last bytes.
fn taker(token: &Token) -> u64 {
    (u128::from_le_bytes(*token) >> 64) as u64
}

impl Store for Memcached {
    type Held = Held;

    fn capabilities(&self) -> Capabilities {
        Capabilities { value_bytes_max: self.payload_bytes_max, ..CAPABILITIES }
    }

    fn begin(&self, key: &Key, wait_max: Duration) -> Result<(Held, u64, Found)> {
        begin::begin(&self.bounded(wait_max), key, wait_max)
    }

    fn peek(&self, asked: &Key) -> Result<Found> {
        let store = self.soon();
        read_aliases(asked, &self.clock, |key| {
            store.decode(key, store.data_of(key)?.unwrap_or_default())
        })
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let (store, now, mark) = (self.soon(), self.clock.now(), mark(&new_token()?));
        let record = Stored::Live(Head::next(None, ttl, now));
        let (mut refused, mut replaced) = (false, None);
        let attempt = || {
            if refused {
                // Something is there: perhaps only what is left of a session.
                let names = [self.lock_name(key), self.data_name(key)];
                let commands = names.iter().fold(Commands::default(), |all, name| all.get(name));
                let [lock, item] = store.send(key, commands)?;
                let (lock, item) = (lock.lock()?, item.item()?);
                if item.as_ref().and_then(Item::writer) == Some(mark) {
                    return Ok(Some(())); // created before; the answer was lost
                }
                replaced = item.as_ref().map(|item| item.cas);
                let held = lock.is_some_and(|lock| !lock.lapsed(Clock::system().now()));
                if held || store.decode(key, item.unwrap_or_default())?.0.takes_id(now) {
                    return Err(ErrorKind::Exists.into());
                }
            }
            let commands = self.put(key, &record, mark, payload, replaced);
            let [stored] = store.send(key, commands)?;
            refused = !store.is_stored(key, stored, payload.len())?;
            Ok((!refused).then_some(()))
        };
        change(|| store.contend(attempt))
    }

    /// This store declares no owners: none is ever set.
    fn commit(&self, held: Held, payload: &[u8], ttl: Ttl, _: OwnerChange) -> Result<()> {
        change(|| commit::commit(&self.soon(), held, payload, ttl))
    }

    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        touch::touch(&self.soon(), key, ttl)
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        touch::touch_held(&self.soon(), held, ttl)
    }

    fn release(&self, held: Held) -> Result<()> {
        release::release(&self.soon(), &held)
    }

    fn destroy(&self, key: &Key) -> Result<()> {
        // From the first id to the last: an alias that was destroyed stays readable for the next
        // call, should this one be cut short.
        let store = self.soon();
        follow_aliases(key, |key| destroy::destroy(&store, key)).map(drop)
    }

    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        change(|| regenerate::regenerate(&self.soon(), held, new, grace))
    }

    fn details(&self) -> Result<Details> {
        let names = ["curr_items", "bytes", "limit_maxbytes", "evictions", "curr_connections"];
        let [items, used, room, evictions, connections] = self.soon().sums(names)?;
        Ok(vec![
            ("servers", Detail::Count(self.servers.len() as u64)),
            ("items", Detail::Count(items)),
            ("used", Detail::Bytes(used)),
            ("room", Detail::Bytes(room)),
            ("evictions", Detail::Count(evictions)),
            ("connections", Detail::Count(connections)),
            ("payload_max", Detail::Bytes(self.payload_bytes_max)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_key_has_250_bytes() {
        let bin = sessile_core::Bin::new(&"b".repeat(Limits::BIN_BYTES_MAX)).unwrap();
        let key = Key::in_bin(bin, &"i".repeat(ID_BYTES_MAX)).unwrap();
        assert_eq!(item_name(&"p".repeat(PREFIX_BYTES_MAX), 'd', &key).len(), 250);
    }
}
