//! The connections of this process, and what a fork does to them.
//!
//! Invariant: a process uses only connections that it opened itself, and SQLite in a child starts
//! without any inherited connection. SQLite keeps one list of open files in each process and
//! assumes that a listed file is locked, but POSIX locks are not inherited. A child that leaked its
//! parent's connections would find "the same" file listed, take no lock, and lose its write-ahead
//! log when the parent ends (<https://www.sqlite.org/howtocorrupt.html>, section 2.6). So a child
//! closes the inherited connections before it opens its first. That is safe because:
//!
//! * every connection has `SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE` and is in no transaction, so closing
//!   it neither reads nor writes the database;
//! * a connection that another thread used at the moment of the fork cannot be closed, and a mutex
//!   that such a thread held stays locked in the child for ever. The child tries for a moment, and
//!   then refuses to work.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use sessile_core::{Durability, Error, ErrorKind, Result};

use super::failure::failure;
use crate::locks::lock;

/// Longest wait for SQLite's one write lock. Its holders are short transactions.
const BUSY_MAX: Duration = Duration::from_secs(5);
/// Pages of 4 KiB in the log from which a commit copies them into the database. Measured with
/// 550,000 rows: the longest commit took 33 ms with 1,000 pages, 332 ms with 4,000, at no less
/// throughput.
const CHECKPOINT_PAGES: u32 = 1_000;
/// For a sweep, which fills the log fastest and has time: it copies before any request must.
const CHECKPOINT_PAGES_OF_SWEEP: u32 = 500;
/// A log that grew beyond this during a long read is cut back.
const WAL_BYTES_MAX: u64 = 64 << 20;
const STATEMENTS_MAX: usize = 32;

pub(super) struct Pool {
    path: PathBuf,
    durability: Durability,
    /// Shared with [`POOLS`], which finds it after a fork.
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    pid: u32,
    idle: Vec<Connection>,
    in_use: usize,
}

/// All pools of the process, because SQLite's list of files is one for all of them.
static POOLS: Mutex<Vec<Weak<Mutex<State>>>> = Mutex::new(Vec::new());
/// The process that has closed what it inherited. Not in a pool: one that the child opens needs the
/// others clean, too.
static CLEAN_IN: AtomicU32 = AtomicU32::new(0);

/// How long a child waits for a mutex that may never be unlocked. A live owner holds it for
/// microseconds.
const FROZEN_AFTER: Duration = Duration::from_secs(1);

/// Locks a mutex in what may be a child. `None` when a thread of the parent has it.
fn lock_patiently<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let start = Instant::now();
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if start.elapsed() >= FROZEN_AFTER => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}

impl Pool {
    pub fn new(path: PathBuf, durability: Durability) -> Result<Pool> {
        let state = Arc::new(Mutex::new(State { pid: std::process::id(), ..State::default() }));
        let mut pools = lock_patiently(&POOLS).ok_or_else(stranded)?;
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(&state));
        Ok(Pool { path, durability, state })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs with a connection of this process, new if none is idle. After a panic it counts as in
    /// use for ever, and children refuse to work.
    pub fn with<T>(&self, run: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let pid = std::process::id();
        // Acquire: pairs with the Release in `clean_up`, which another thread may have run.
        if CLEAN_IN.load(Ordering::Acquire) != pid {
            clean_up(pid)?;
        }
        let mut state = lock(&self.state);
        state.in_use += 1;
        let idle = state.idle.pop();
        drop(state);
        let open = || connect(&self.path, self.durability).map_err(failure);
        let opened = idle.map_or_else(open, Ok);
        let done = opened.map(|connection| (run(&connection), connection));
        let mut state = lock(&self.state);
        state.in_use -= 1;
        let (done, connection) = done?;
        // A transaction that could not be rolled back must not meet the next user.
        if connection.is_autocommit() {
            state.idle.push(connection);
        }
        done
    }
}

fn stranded() -> Error {
    Error::new(ErrorKind::Incompatible, "this process was forked while a thread was inside SQLite")
        .advice("fork before other threads use the store, or start the worker with exec")
}

fn clean_up(pid: u32) -> Result<()> {
    // Held to the end: no other thread of this child sees one half of it.
    let listed = lock_patiently(&POOLS).ok_or_else(stranded)?;
    let pools: Vec<_> = listed.iter().filter_map(Weak::upgrade).collect();
    let states: Option<Vec<_>> = pools.iter().map(|pool| lock_patiently(pool)).collect();
    let mut states = states.ok_or_else(stranded)?;
    states.retain(|state| state.pid != pid);
    // SQLite's own mutexes may be frozen, too: even closing would hang.
    if states.iter().any(|state| state.in_use > 0) {
        return Err(stranded());
    }
    for state in &mut states {
        state.idle.clear();
        state.pid = pid;
    }
    CLEAN_IN.store(pid, Ordering::Release);
    Ok(())
}

impl Drop for Pool {
    fn drop(&mut self) {
        if CLEAN_IN.load(Ordering::Acquire) != std::process::id() {
            // Inherited and not cleaned up yet. It stays in the list for `clean_up`.
            std::mem::forget(Arc::clone(&self.state));
        }
    }
}

fn connect(path: &Path, durability: Durability) -> rusqlite::Result<Connection> {
    // One thread at a time uses a connection, so SQLite's own mutexes are not needed.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    let first = Cell::new(Instant::now());
    connection.busy_handler(Some(move |calls: i32| {
        if calls == 0 {
            first.set(Instant::now());
        }
        // SQLite's own handler sleeps up to 100 ms at a time. The lock is held for well under a
        // millisecond.
        let waited = first.get().elapsed();
        std::thread::sleep((waited / 8).clamp(Duration::from_micros(50), Duration::from_millis(2)));
        waited < BUSY_MAX
    }))?;
    // <https://www.sqlite.org/pragma.html#pragma_synchronous>
    let synchronous = match durability {
        Durability::None => "OFF",
        Durability::Second => "NORMAL",
        Durability::Commit => "FULL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES_MAX)?;
    connection.pragma_update(None, "cache_size", -8_192)?; // KiB, for each connection
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

/// Lets the commits of `run` copy the log earlier than those of requests.
pub(super) fn as_sweep<T>(connection: &Connection, run: impl FnOnce() -> Result<T>) -> Result<T> {
    let set =
        |pages: u32| connection.pragma_update(None, "wal_autocheckpoint", pages).map_err(failure);
    set(CHECKPOINT_PAGES_OF_SWEEP)?;
    let done = run();
    set(CHECKPOINT_PAGES)?;
    done
}

/// Runs a transaction that has the write lock from its start, so that what it reads is what it
/// changes.
pub(super) fn immediate<T>(connection: &Connection, run: impl FnOnce() -> Result<T>) -> Result<T> {
    let execute =
        |sql: &str| connection.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
    execute("BEGIN IMMEDIATE").map_err(failure)?;
    let done = run().and_then(|value| execute("COMMIT").map(|_| value).map_err(failure));
    if done.is_err() && !connection.is_autocommit() {
        // If even this fails, the connection is not put back into the pool.
        let _ = execute("ROLLBACK");
    }
    done
}
