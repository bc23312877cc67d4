//! `sqlite:/file.db`, sessions in one table of a SQLite database.
//!
//! For one host: any number of processes share the file, nothing has to be installed or started. SQLite has
//! no lock to wait on, so the session lock is a byte of the side file `file.db.locks` (see `byte_lock.rs`) and
//! no transaction stays open while the application works: `begin` is that lock and one SELECT, `commit` one
//! UPDATE and the unlock.
//!
//! Invariants:
//!
//! * the record is read after the lock was taken, in a transaction that began after it;
//! * a commit changes only the row that its lease has read (same row, version and creation), or creates one
//!   where the lease found none and none has appeared since, no tombstone either: so neither a lock file that
//!   somebody deleted nor a destroyed session can make it overwrite what it has not seen;
//! * `due` of a row is never later than the moment from which a sweep may remove it.
//!
//! Layout, durability and repair: `docs/stores/sqlite.md`.

mod connection;
mod durability;
mod failure;
pub(crate) mod foreign;
mod lease;
mod row;
mod schema;
mod sweep;
#[cfg(test)]
mod tests;
mod verify;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use sessile_core::{
    Budget, Capabilities, Clock, Cursor, Durability, Error, ErrorKind, Expiry, Filter, Found, Holder, Key, Limits,
    Locked, Locking, Ownership, Page, Result, Sessions, SessionsBound, Stat, Store, Swept, Timestamp, Ttl, Verified,
    Waiting,
};

use self::connection::{Pool, immediate};
use self::durability::EverySecond;
use self::lease::Held;
use self::schema::file_error;
use crate::byte_lock::{ByteHolder, ByteLocks, LockName, Wait, monotonic_ns};
use crate::file_system;
use crate::registry::{self, Context, Fixture, OptionHelp, StoreEntry};
use crate::sql::{ALIAS_STEPS_MAX, circle, new_head, nothing_to_touch, taken};
use crate::store_url::StoreUrl;

/// The registry line of this store.
pub const ENTRY: StoreEntry = StoreEntry {
    name: "sqlite",
    schemes: &["sqlite"],
    sentence: "A table in a SQLite file: all processes of one host, nothing to install",
    capabilities: CAPABILITIES,
    decorates: false,
    options: &[OptionHelp {
        name: "durability",
        help: "what survives a power cut: none, 1s (all but the last second) or commit (default 1s)",
    }],
    fixtures: &[Fixture { variant: "default", url: "sqlite:{disk}/sessions.db" }],
    open,
};

const CAPABILITIES: Capabilities = Capabilities {
    persistent_from: Some(Durability::None),
    shared_by_processes: true,
    shared_by_hosts: false,
    server: None,
    locking: Locking::Emulated,
    waiting: Waiting::Retry,
    ownership: Ownership::Process,
    expiry: Expiry::Sweep,
    value_bytes_max: 1_000_000_000 - 1_000, // SQLITE_MAX_LENGTH holds for the whole row, key and target included
    id_bytes_max: Limits::ID_BYTES_MAX,
    sessions_bounded_by: SessionsBound::Disk { inodes: false },
    compare_and_set: true,
    listing: true,
    durability: &[Durability::None, Durability::Second, Durability::Commit],
};

/// Fences are 13 bits of boots and 50 bits of monotonic time in units of 512 ns (18 years). Two holders of one
/// session are further apart than that: the first has at least made its SELECT in between.
const FENCE_TIME_BITS: u32 = 50;
const FENCE_BOOT_MAX: u64 = (1 << (63 - FENCE_TIME_BITS)) - 1;

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let words = "none, 1s, commit";
    let durability = url.word("durability", Durability::Second, words, Durability::from_name)?;
    let limits = registry::limits(url)?;
    let path = schema::real_path(&url.path()?)?;
    schema::create_file(&path)?;
    let pool = Pool::new(path.clone(), durability)?;
    let locks = ByteLocks::new(beside(&path, ".locks"), path.clone());
    let boot = schema::prepare(&pool, &locks)?;
    let every_second = (durability == Durability::Second).then(|| EverySecond::new(beside(&path, "-wal")));
    let store = Sqlite { clock: context.clock.clone(), pool, locks, boot, every_second, swept_to: Mutex::default() };
    Ok(Sessions::new(url.redacted(), store, limits))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

struct Sqlite {
    clock: Clock,
    pool: Pool,
    locks: ByteLocks,
    /// The number of this boot of the host.
    boot: u64,
    every_second: Option<EverySecond>,
    /// Where the last sweep stopped: the `due` and the row.
    swept_to: Mutex<Option<(i64, i64)>>,
}

fn lock_name(key: &Key) -> LockName {
    LockName::new(key.bin().name(), key.id())
}

impl Sqlite {
    fn fence_now(&self) -> Result<u64> {
        let ticks = monotonic_ns().map_err(file_error)? >> 9;
        // After 8,191 boots only the clock distinguishes; leases do not outlive a boot anyway.
        Ok(self.boot.min(FENCE_BOOT_MAX) << FENCE_TIME_BITS | ticks & ((1 << FENCE_TIME_BITS) - 1))
    }

    fn read<T>(&self, run: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.pool.take()?.with(run)
    }

    /// Runs one short transaction that has the write lock.
    fn write<T>(&self, run: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let done = self.read(|connection| immediate(connection, || run(connection)))?;
        self.sync_if_due();
        Ok(done)
    }

    fn sync_if_due(&self) {
        if let Some(every_second) = &self.every_second {
            every_second.sync_if_due();
        }
    }

    fn timed_out(&self, holder: Option<ByteHolder>, waited: Duration) -> Error {
        let holder = holder.map_or_else(Holder::default, |holder| Holder {
            pid: Some(holder.pid),
            host: None,
            since: Some(self.clock.now().minus(holder.held)),
        });
        Error::new(ErrorKind::LockTimeout { holder, waited }, "another request holds the session")
    }

    /// The keys from `asked` to where it leads, within the transaction of the caller.
    fn chain(connection: &Connection, asked: &Key, now: Timestamp) -> Result<Vec<(Key, Option<row::Row>)>> {
        let mut chain = Vec::with_capacity(1);
        let mut key = asked.clone();
        while chain.len() <= ALIAS_STEPS_MAX {
            let row = row::select(connection, &key, true)?;
            let next = row.as_ref().map_or(Ok(None), |row| row.content.leads_to(asked.bin(), now))?;
            chain.push((key, row));
            match next {
                Some(target) => key = target,
                None => return Ok(chain),
            }
        }
        Err(circle())
    }
}

impl Store for Sqlite {
    type Held = Held;

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn begin(&self, asked: &Key, wait_max: Duration) -> Result<Locked<Held>> {
        let start = Instant::now();
        let mut key = asked.clone();
        for _ in 0..=ALIAS_STEPS_MAX {
            let left = wait_max.saturating_sub(start.elapsed());
            let lock = match self.locks.acquire(lock_name(&key), left).map_err(file_error)? {
                Wait::Granted(lock) => lock,
                Wait::TimedOut(holder) => return Err(self.timed_out(holder, start.elapsed())),
            };
            // Outside of any transaction, so the SELECT has a snapshot of its own, younger than the lock.
            let row = self.read(|connection| row::select(connection, &key, false))?;
            let now = self.clock.now();
            if let Some(target) = row.as_ref().map_or(Ok(None), |row| row.content.leads_to(key.bin(), now))? {
                key = target;
                continue; // dropping the lock frees it
            }
            let held = Held::new(key.clone(), lock, self.fence_now()?, now, row.as_ref());
            let found = row.map_or_else(Found::nothing, |row| row.content.found(now));
            let moved_to = (key != *asked).then_some(key);
            return Ok(Locked { held, found: Found { moved_to, ..found } });
        }
        Err(circle())
    }

    fn fence(&self, held: &Held) -> u64 {
        held.fence
    }

    fn peek(&self, asked: &Key) -> Result<Found> {
        let now = self.clock.now();
        self.read(|connection| {
            let mut key = asked.clone();
            for _ in 0..=ALIAS_STEPS_MAX {
                let Some(row) = row::select(connection, &key, false)? else { break };
                match row.content.leads_to(asked.bin(), now)? {
                    Some(target) => key = target,
                    None => {
                        let moved_to = (key != *asked).then_some(key);
                        return Ok(Found { moved_to, ..row.content.found(now) });
                    }
                }
            }
            Ok(Found { moved_to: (key != *asked).then_some(key), ..Found::nothing() })
        })
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        // Holding the lock meanwhile keeps out a `begin` that would read nothing and then commit over it.
        let Wait::Granted(_lock) = self.locks.acquire(lock_name(key), Duration::ZERO).map_err(file_error)? else {
            return Err(taken());
        };
        let now = self.clock.now();
        self.write(|connection| {
            if row::select(connection, key, true)?.is_some_and(|row| row.content.takes_id(now)) {
                return Err(taken());
            }
            row::put(connection, key, &new_head(ttl, now), payload)
        })
    }

    fn commit(&self, held: Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        let committed = self.read(|connection| held.commit(connection, payload, ttl, now));
        drop(held); // the lock is free before the disk is asked for anything more
        self.sync_if_due();
        committed
    }

    fn touch(&self, asked: &Key, ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        self.write(|connection| match Self::chain(connection, asked, now)?.pop() {
            Some((_, Some(row))) => lease::touch(connection, &row, ttl, now),
            _ => Err(nothing_to_touch()),
        })
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        self.write(|connection| match held.check(connection, now)? {
            Some(row) => lease::touch(connection, &row, ttl, now),
            None => Err(nothing_to_touch()),
        })
    }

    fn release(&self, held: Held) -> Result<()> {
        drop(held);
        Ok(())
    }

    fn destroy(&self, asked: &Key) -> Result<()> {
        let now = self.clock.now();
        let forget = now.plus(Limits::TOMBSTONE_TTL);
        self.write(|connection| {
            let mark = self.fence_now()?.cast_signed();
            for (key, row) in Self::chain(connection, asked, now)? {
                // Without a record and without a holder there is nobody who could bring the session back, and
                // no row is written: log-outs with invented ids must not fill the disk.
                if row.is_some() || self.locks.holder(lock_name(&key)).map_err(file_error)?.is_some() {
                    row::bury(connection, &key, mark, now, forget)?;
                }
            }
            Ok(())
        })
    }

    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        let Wait::Granted(lock) = self.locks.acquire(lock_name(new), Duration::ZERO).map_err(file_error)? else {
            return Err(taken());
        };
        let now = self.clock.now();
        let seen = self.write(|connection| {
            let old = held.check(connection, now)?;
            let there = row::select(connection, new, true)?;
            if there.as_ref().is_some_and(|row| row.content.takes_id(now)) {
                return Err(taken());
            }
            lease::move_record(connection, held, old, new, there, (now, grace))
        })?;
        held.moved(new.clone(), lock, seen); // frees the old id's lock
        Ok(())
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        sweep::sweep(self, budget)
    }

    fn stat(&self) -> Result<Stat> {
        self.read(|connection| sweep::stat(connection, self.clock.now()))
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        self.read(|connection| sweep::list(connection, cursor, filter, self.clock.now()))
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        self.read(|connection| verify::verify(connection, progress))
    }

    /// The log lies beside the database, and so does all that a checkpoint has moved between them.
    fn sync(&self) -> Result<()> {
        let directory = self.pool.path().parent().unwrap_or(Path::new("/"));
        file_system::sync(std::fs::File::open(directory).map_err(file_error)?)
    }
}
