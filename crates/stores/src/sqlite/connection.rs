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
//!   refuses to work, with an error that says so, instead of corrupting the database.
//!
//! It is not the place of any SQL that touches sessions.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
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
    pid: u32,
    idle: Vec<Connection>,
    in_use: usize,
    /// Connections that were in use elsewhere when this process was forked.
    stranded: bool,
}

/// Every pool of the process: SQLite's list of files is one for all of them.
static POOLS: Mutex<Vec<Weak<Mutex<State>>>> = Mutex::new(Vec::new());

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

impl Pool {
    /// A pool without connections; the file is not opened yet.
    pub fn new(path: PathBuf, durability: Durability) -> Pool {
        let state = Arc::new(Mutex::new(State { pid: std::process::id(), ..State::default() }));
        let mut pools = lock(&POOLS);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(&state));
        Pool { path, durability, state }
    }

    /// A connection of this process, new if none is idle.
    pub fn take(&self) -> Result<Pooled<'_>> {
        let pid = std::process::id();
        let mut state = lock(&self.state);
        if state.pid != pid {
            drop(state);
            after_fork(pid);
            state = lock(&self.state);
        }
        if state.stranded {
            return Err(Error::new(
                ErrorKind::Incompatible,
                "this process was forked while a thread was inside SQLite",
            )
            .advice("fork before other threads use the store, or start the worker with exec"));
        }
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

/// Closes what all pools of this child inherited. See the module documentation.
fn after_fork(pid: u32) {
    let mut stranded = false;
    let pools: Vec<_> = lock(&POOLS).iter().filter_map(Weak::upgrade).collect();
    for pool in &pools {
        let mut state = lock(pool);
        if state.pid != pid {
            state.idle.clear();
            stranded |= state.in_use > 0 || state.stranded;
            state.pid = pid;
            state.in_use = 0;
        }
    }
    if stranded {
        pools.iter().for_each(|pool| lock(pool).stranded = true);
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
