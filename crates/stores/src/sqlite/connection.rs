//! The connections of this process, and what happens to them in a fork.
//!
//! Invariant: a process uses only connections that it opened itself, and SQLite in a child starts from a
//! clean slate. The second half is not obvious. SQLite keeps one list of open files in each process and
//! assumes that a file in that list is already locked; POSIX locks, however, are not inherited. So a child
//! that merely leaked its parent's connections would open "the same" file, believe that the inherited
//! entry holds the shared lock, take none, and lose its write-ahead log when the parent goes (see
//! "How To Corrupt An SQLite Database File", section 2.6, <https://www.sqlite.org/howtocorrupt.html>).
//! The inherited entry goes away only with the connections that made it. They are therefore closed in the
//! child before it opens its first. That is safe because of two things that this module upholds:
//!
//! * every connection has `SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE` and is idle (no transaction), so closing it
//!   neither reads nor writes the database, and frees memory, mappings and descriptors of the child only;
//! * a connection that another thread was using at the moment of the fork cannot be closed. The child then
//!   refuses to work, with an error that says so, instead of corrupting the database. A mutex that such a thread
//!   held stays locked in the child for ever: it is tried for a moment only, with the same outcome.
//!
//! It is not the place of any SQL that touches sessions.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use sessile_core::{Durability, Error, ErrorKind, Result};

use super::failure::failure;

/// Longest wait for SQLite's one write lock. Its holders are short transactions, never a whole request.
const BUSY_MAX: Duration = Duration::from_secs(5);
/// Pages of 4 KiB in the write-ahead log from which a commit copies them into the database. Measured with 550,000
/// rows on disk: the longest commit took 33 ms with 1,000 pages and 332 ms with 4,000, at no less throughput.
const CHECKPOINT_PAGES: u32 = 1_000;
/// The same for a sweep. It fills the log fastest, and has time: so it copies before any request must.
const CHECKPOINT_PAGES_OF_SWEEP: u32 = 500;
/// A log that grew beyond this (a long reader) is cut back.
const WAL_BYTES_MAX: u64 = 64 << 20;
const STATEMENTS_MAX: usize = 32;

/// The connections of one opened store.
pub(super) struct Pool {
    path: PathBuf,
    durability: Durability,
    /// Shared with [`POOLS`], which finds it after a fork.
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The process that the connections belong to.
    pid: u32,
    idle: Vec<Connection>,
    in_use: usize,
}

/// Every pool of the process: SQLite's list of files is one for all of them.
static POOLS: Mutex<Vec<Weak<Mutex<State>>>> = Mutex::new(Vec::new());
/// The process that has closed all it inherited. Not under a mutex, which a child may find locked for ever; and not
/// in a pool, because one that the child itself opens needs a clean slate, too.
static CLEAN_IN: AtomicU32 = AtomicU32::new(0);

/// How long a child waits for a mutex that may never be unlocked. Who is alive holds it for microseconds.
const FROZEN_AFTER: Duration = Duration::from_secs(1);

/// A connection that goes back to its pool when dropped.
pub(super) struct Pooled<'pool> {
    pool: &'pool Pool,
    connection: Option<Connection>,
    pid: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that runs under these locks can leave them half-changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same where the process may be a child: `None` when a thread that exists only in its parent has the mutex.
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
    /// A pool without connections; the file is not opened yet.
    pub fn new(path: PathBuf, durability: Durability) -> Result<Pool> {
        let state = Arc::new(Mutex::new(State { pid: std::process::id(), ..State::default() }));
        let mut pools = lock_patiently(&POOLS).ok_or_else(stranded)?;
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(&state));
        Ok(Pool { path, durability, state })
    }

    /// The file of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A connection of this process, new if none is idle.
    pub fn take(&self) -> Result<Pooled<'_>> {
        let pid = std::process::id();
        // Acquire: pairs with the end of `clean_up`, in case another thread of this process ran it.
        if CLEAN_IN.load(Ordering::Acquire) != pid {
            clean_up(pid)?;
        }
        let mut state = lock(&self.state);
        state.in_use += 1;
        let idle = state.idle.pop();
        drop(state);
        // From here on dropping `pooled` corrects the count.
        let mut pooled = Pooled { pool: self, connection: idle, pid };
        if pooled.connection.is_none() {
            pooled.connection = Some(open_connection(&self.path, self.durability)?);
        }
        Ok(pooled)
    }
}

fn stranded() -> Error {
    Error::new(ErrorKind::Incompatible, "this process was forked while a thread was inside SQLite")
        .advice("fork before other threads use the store, or start the worker with exec")
}

/// Closes what all pools of this child inherited. See the module documentation.
///
/// # Errors
///
/// `Incompatible` when that is impossible, because a thread of the parent was inside SQLite or in the middle of
/// taking or returning a connection. Nothing is changed then, so that every later call finds the same.
fn clean_up(pid: u32) -> Result<()> {
    // Held to the end, so that another thread of this child does not do the same or see one half of it.
    let listed = lock_patiently(&POOLS).ok_or_else(stranded)?;
    let pools: Vec<_> = listed.iter().filter_map(Weak::upgrade).collect();
    let states: Option<Vec<_>> = pools.iter().map(|pool| lock_patiently(pool)).collect();
    let mut states = states.ok_or_else(stranded)?;
    states.retain(|state| state.pid != pid);
    // SQLite's own mutexes may be frozen, too: then even closing would hang.
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
            // Inherited and never used here. It stays in the list, so that `clean_up` sees it whole.
            std::mem::forget(Arc::clone(&self.state));
        }
    }
}

impl Pooled<'_> {
    /// Runs something on the connection.
    pub fn with<T>(&self, run: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        match &self.connection {
            Some(connection) => run(connection),
            None => Err(Error::new(ErrorKind::Io, "the connection is closed")),
        }
    }
}

impl Drop for Pooled<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else {
            lock(&self.pool.state).in_use -= 1;
            return;
        };
        if self.pid != std::process::id() {
            std::mem::forget(connection);
            return;
        }
        let mut state = lock(&self.pool.state);
        state.in_use = state.in_use.saturating_sub(1);
        // A transaction that could not even be rolled back must not meet the next user.
        if connection.is_autocommit() {
            state.idle.push(connection);
        }
    }
}

fn open_connection(path: &Path, durability: Durability) -> Result<Connection> {
    // One thread at a time uses a connection, so SQLite's own mutexes are not needed. The file exists: see
    // schema.rs, which creates it with the right permissions.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    configure(path, flags, durability).map_err(failure)
}

fn configure(path: &Path, flags: OpenFlags, durability: Durability) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    let first = Cell::new(Instant::now());
    connection.busy_handler(Some(move |calls: i32| {
        if calls == 0 {
            first.set(Instant::now());
        }
        // SQLite's own handler sleeps up to 100 ms at a time, which becomes the latency of a commit. The lock is
        // held for well under a millisecond, so we look again soon, and seldom enough to leave the processor.
        let waited = first.get().elapsed();
        std::thread::sleep((waited / 8).clamp(Duration::from_micros(50), Duration::from_millis(2)));
        waited < BUSY_MAX
    }))?;
    connection.pragma_update(None, "synchronous", synchronous(durability))?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES_MAX)?;
    connection.pragma_update(None, "cache_size", -8_192)?; // KiB, for each connection
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

/// Lets the commits of a sweep copy the log earlier than those of requests, while `run` runs.
pub(super) fn as_sweep<T>(connection: &Connection, run: impl FnOnce() -> Result<T>) -> Result<T> {
    let set = |pages: u32| connection.pragma_update(None, "wal_autocheckpoint", pages).map_err(failure);
    set(CHECKPOINT_PAGES_OF_SWEEP)?;
    let done = run();
    set(CHECKPOINT_PAGES)?;
    done
}

/// <https://www.sqlite.org/pragma.html#pragma_synchronous>
fn synchronous(durability: Durability) -> &'static str {
    match durability {
        Durability::None => "OFF",
        Durability::Second => "NORMAL",
        Durability::Commit => "FULL",
    }
}

/// Runs a transaction that has the write lock from its start, so that what it reads is what it changes.
pub(super) fn immediate<T>(connection: &Connection, run: impl FnOnce() -> Result<T>) -> Result<T> {
    let execute = |sql: &str| connection.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
    execute("BEGIN IMMEDIATE").map_err(failure)?;
    let done = run().and_then(|value| execute("COMMIT").map(|_| value).map_err(failure));
    if done.is_err() && !connection.is_autocommit() {
        // If even this fails, the connection is not put back into the pool.
        let _ = execute("ROLLBACK");
    }
    done
}
