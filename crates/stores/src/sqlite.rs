//! `sqlite:/file.db`, sessions in one table of a SQLite database.
//!
//! Any number of processes of one host share the file. SQLite has no lock to wait on, so the
//! session lock is a byte of the side file `file.db.locks` (`locks/byte_lock.rs`). `begin` is that
//! lock and one SELECT, `commit` one UPDATE and the unlock; no transaction stays open in between.
//!
//! Invariants:
//!
//! * the record is read after the lock was taken, in a transaction that began after it;
//! * a commit changes only the row that its lease has read (same row, version and creation), or
//!   creates one where there is still none and no tombstone, even if the lock file was lost;
//! * `due` of a row is never later than the moment from which a sweep may remove it.
//!
//! Layout, durability and repair: `crates/stores/design/sqlite.md`.

mod connection;
mod durability;
pub mod failure;
pub mod files;
mod lease;
mod list;
mod locks_held;
mod row;
mod schema;
mod sweep;
#[cfg(test)]
mod tests;
mod verify;

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use sessile_core::{
    Budget, Capabilities, Clock, Cursor, Durability, ErrorKind, Filter, Found, Head, HeldLock,
    Holder, Key, Locking, Owner, OwnerChange, Page, Result, Sessions, SessionsBound, Stat, Store,
    Stored, Swept, Ttl, Verified, destroy_aliases, follow_aliases, read_aliases,
};

use self::connection::{Pool, immediate};
use self::durability::EverySecond;
use self::files::{beside, file_error};
use self::lease::Held;
use self::list::next_rows;
use self::locks_held::{holder_of, locks_held};
use self::row::KeyRow;
use crate::file_system;
use crate::locks::byte_lock::{Acquired, ByteLock, ByteLocks, LockName, monotonic_ns};
use crate::registry::{self, Context, Fixture, StoreEntry, option};
use crate::sql::list::{page, stat};
use crate::sql::sweep::SweptTo;
use crate::store_url::StoreUrl;

pub const ENTRY: StoreEntry = StoreEntry {
    name: "sqlite",
    schemes: &["sqlite"],
    sentence: "A table in a SQLite file: all processes of one host, nothing to install",
    capabilities: CAPABILITIES,
    decorates: false,
    options: &[option(
        "durability",
        "what survives a power cut: none, 1s (all but the last second) or commit (default \
         1s)",
    )],
    server: None,
    fixtures: &[Fixture { variant: "default", url: "sqlite:{disk}/sessions.db" }],
    open,
    exists: StoreEntry::EXISTS_AT_PATH,
    drop: Err(
        "end the processes that use it, then remove the file and those beside it: -wal, -shm, \
         -journal, .locks",
    ),
};

const CAPABILITIES: Capabilities = Capabilities {
    persistent_from: Some(Durability::None),
    shared_by_processes: true,
    locking: Locking::Emulated,
    // SQLITE_MAX_LENGTH limits the whole row, key and target included.
    value_bytes_max: 1_000_000_000 - 1_000,
    sessions_bounded_by: SessionsBound::Disk { inodes: false },
    listing: true,
    owners: true,
    durability: &[Durability::None, Durability::Second, Durability::Commit],
    ..Capabilities::MINIMAL
};

/// Fences are 13 bits of boots and 50 bits of monotonic time in units of 512 ns (18 years). Two
/// holders of one session are further apart: the first has made its SELECT in between.
const FENCE_TIME_BITS: u32 = 50;
const FENCE_BOOT_MAX: u64 = (1 << (63 - FENCE_TIME_BITS)) - 1;

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let words = "none, 1s, commit";
    let durability = url.word("durability", Durability::Second, words, Durability::from_name)?;
    let limits = registry::limits(url)?;
    let path = files::real_path(&url.path()?)?;
    file_system::refuse_network(files::directory(&path)?)?;
    files::create(&path)?;
    files::check(&path)?;
    let pool = Pool::new(path.clone(), durability)?;
    let locks = ByteLocks::new(beside(&path, ".locks"), path.clone());
    let boot = schema::create_or_check(&pool, &locks)?;
    // Again, now that nothing is missing: somebody else may have been first.
    locks.create().map_err(file_error)?;
    files::check(&path)?;
    let log = (durability == Durability::Second).then(|| beside(&path, "-wal"));
    let store = Sqlite {
        clock: context.clock.clone(),
        pool,
        locks,
        boot,
        every_second: EverySecond::new(log),
        swept_to: SweptTo::default(),
    };
    Ok(Sessions::new(url.redacted(), store, limits))
}

struct Sqlite {
    clock: Clock,
    pool: Pool,
    locks: ByteLocks,
    /// The number of this boot of the host.
    boot: u64,
    every_second: EverySecond,
    swept_to: SweptTo<sweep::Position>,
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
        self.pool.with(run)
    }

    fn write<T>(&self, run: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let done = self.read(|connection| immediate(connection, || run(connection)))?;
        self.every_second.sync_if_due();
        Ok(done)
    }

    fn lock(&self, key: &Key, start: Instant, wait_max: Duration) -> Result<ByteLock> {
        let left = wait_max.saturating_sub(start.elapsed());
        match self.locks.acquire(lock_name(key), left).map_err(file_error)? {
            Acquired::Granted(lock) => Ok(lock),
            Acquired::TimedOut(holder) => {
                let holder =
                    holder.map_or_else(Holder::default, |holder| holder_of(&holder, &self.clock));
                Err(ErrorKind::LockTimeout { holder, waited: start.elapsed() }.into())
            }
        }
    }

    /// Takes the lock of an id that is to be used anew: `Exists` if another request holds it.
    fn lock_new(&self, key: &Key) -> Result<ByteLock> {
        match self.locks.acquire(lock_name(key), Duration::ZERO).map_err(file_error)? {
            Acquired::Granted(lock) => Ok(lock),
            Acquired::TimedOut(_) => Err(ErrorKind::Exists.into()),
        }
    }
}

impl Store for Sqlite {
    type Held = Held;

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn begin(&self, asked: &Key, wait_max: Duration) -> Result<(Held, u64, Found)> {
        let start = Instant::now();
        let ((held, found), moved_to) = follow_aliases(asked, |key| -> Result<_> {
            let lock = self.lock(key, start, wait_max)?;
            // Outside of any transaction, so the SELECT has a snapshot younger than the lock.
            let (row, payload) = self.read(|connection| row::read(connection, key))?;
            let begun = self.clock.now();
            Ok(row.stored.clone().look_up(payload, begun).map_break(|found| {
                let KeyRow { stored, number, .. } = row;
                (Held { key: key.clone(), lock, begun, stored, row: number }, found)
            }))
        })?;
        Ok((held, self.fence_now()?, Found { moved_to, ..found }))
    }

    fn peek(&self, asked: &Key) -> Result<Found> {
        self.read(|connection| {
            read_aliases(asked, &self.clock, |key| {
                let (row, payload) = row::read(connection, key)?;
                Ok((row.stored, payload))
            })
        })
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        // Keeps out a `begin` that would read nothing and then commit over the record.
        let _lock = self.lock_new(key)?;
        let now = self.clock.now();
        self.write(|connection| {
            if row::read_head(connection, key)?.stored.takes_id(now) {
                return Err(ErrorKind::Exists.into());
            }
            let new = Stored::Live(Head::next(None, ttl, now));
            row::put(connection, key, &new, Some(payload), now)
        })
    }

    fn commit(&self, held: Held, payload: &[u8], ttl: Ttl, owner: OwnerChange) -> Result<()> {
        let (saved, now) = ((payload, ttl, owner), self.clock.now());
        let committed = self.read(|connection| lease::commit(connection, &held, saved, now));
        drop(held); // the lock is free before the disk is asked for anything more
        self.every_second.sync_if_due();
        committed
    }

    fn touch(&self, asked: &Key, ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        self.write(|connection| {
            let (row, _) = follow_aliases(asked, |key| -> Result<_> {
                let row = row::read_head(connection, key)?;
                let target = row.stored.leads_to(now).cloned();
                Ok(target.map_or(ControlFlow::Break(row), ControlFlow::Continue))
            })?;
            row::touch(connection, &row, ttl, now)
        })
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        self.write(|connection| {
            let (row, _) = held.check(connection, now)?;
            row::touch(connection, &row, ttl, now)
        })
    }

    fn release(&self, held: Held) -> Result<()> {
        drop(held);
        Ok(())
    }

    fn destroy(&self, asked: &Key) -> Result<()> {
        let now = self.clock.now();
        self.write(|connection| {
            let tombstone = Stored::tombstone(self.fence_now()?, now);
            destroy_aliases(asked, |key, visited| {
                let stored = row::read_head(connection, key)?.stored;
                if let Some(target) = stored.leads_to(now).filter(|key| !visited.contains(key)) {
                    return Ok(Some(target.clone()));
                }
                // Without a record and without a holder nobody could bring the session back, and
                // log-outs with invented ids must not fill the disk.
                if stored != Stored::Nothing
                    || self.locks.holder(lock_name(key)).map_err(file_error)?.is_some()
                {
                    row::put(connection, key, &tombstone, None, now)?;
                }
                Ok(None)
            })
        })
    }

    fn destroy_owned(&self, key: &Key, owner: Owner) -> Result<bool> {
        let now = self.clock.now();
        self.write(|connection| {
            let head = row::read_head(connection, key)?.stored.live(now);
            let is_owned = head.and_then(|head| head.owner) == Some(owner);
            if is_owned {
                let tombstone = Stored::tombstone(self.fence_now()?, now);
                row::put(connection, key, &tombstone, None, now)?;
            }
            Ok(is_owned)
        })
    }

    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        let lock = self.lock_new(new)?;
        let now = self.clock.now();
        let only_lock = self.write(|connection| {
            let (old, record) = held.check(connection, now)?;
            let there = row::read_head(connection, new)?;
            if there.stored.takes_id(now) {
                return Err(ErrorKind::Exists.into());
            }
            if record.is_none() {
                return Ok(Some(there)); // without a record only the lock moves
            }
            if there.stored != Stored::Nothing {
                row::execute(connection, "DELETE FROM session WHERE row = ?1", [there.number])?;
            }
            let rename = "UPDATE session SET id = ?2 WHERE row = ?1";
            row::execute(connection, rename, (old.number, new.id()))?;
            let alias = Stored::alias(new.clone(), grace, now);
            row::put(connection, &held.key, &alias, None, now)?;
            Ok(None)
        })?;
        if let Some(there) = only_lock {
            (held.stored, held.row, held.begun) = (there.stored, there.number, now);
        }
        (held.key, held.lock) = (new.clone(), lock); // frees the lock of the old id
        Ok(())
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        sweep::sweep(self, budget)
    }

    fn stat(&self) -> Result<Stat> {
        self.read(|connection| {
            stat(self.clock.now(), |after, most| next_rows(connection, after, most, None))
        })
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let rows = self
            .read(|connection| next_rows(connection, cursor, filter.entries_max, filter.owner))?;
        Ok(page(filter, self.clock.now(), rows))
    }

    fn locks(&self, limit: usize) -> Result<Vec<HeldLock>> {
        locks_held(&self.locks, &self.clock, limit, |cursor, filter| self.list(cursor, filter))
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
