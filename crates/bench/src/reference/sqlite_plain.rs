//! `sqlite-plain`: one table in SQLite, in a transaction that is held over the request.
//!
//! BEGIN IMMEDIATE, SELECT, UPDATE, COMMIT with a write-ahead log and cached statements: as SQLite
//! locks no rows, each request has the database for itself. What these statements depend on is set
//! as in our store: log, syncs, cache, and how it waits for the lock. As there, the index is on a
//! moment that commits do not move (`due`).

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use sessile_core::{Durability, Error, ErrorKind, Result};

use super::handlers::{check_one_row, expiry_seconds, ids, lock_timeout, prefetch};
use crate::contender::Contender;
use crate::defaults::WAIT_MAX;
use crate::reference::unprepared;
use crate::worker::protocol::OpenRequest;

const INSERT: &str = "INSERT INTO sessions (data, expires, due, id) VALUES (?1, ?2, ?2, ?3)";
const SELECT: &str = "SELECT data FROM sessions WHERE id = ?1";
const UPDATE: &str = "UPDATE sessions SET data = ?1, expires = ?2 WHERE id = ?3 AND due <= ?2";
const TOUCH: &str = "UPDATE sessions SET expires = ?1 WHERE id = ?2 AND due <= ?1";

struct SqlitePlain {
    connection: Connection,
    ids: Vec<String>,
    ttl: Duration,
    out: Option<Vec<u8>>,
    begun: Option<usize>,
}

pub(super) fn open(place: &Path, opening: &OpenRequest) -> Result<Box<dyn Contender>> {
    let connection = connect(place, opening.contender.durability()).map_err(failed)?;
    let ids = ids(opening).collect();
    Ok(Box::new(SqlitePlain { connection, ids, ttl: opening.ttl, out: None, begun: None }))
}

fn connect(place: &Path, durability: Durability) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open(place.join("sessions.db"))?;
    let mut first = Instant::now();
    connection.busy_handler(Some(move |calls: i32| {
        if calls == 0 {
            first = Instant::now();
        }
        let waited = first.elapsed();
        std::thread::sleep((waited / 8).clamp(Duration::from_micros(50), Duration::from_millis(2)));
        waited < WAIT_MAX
    }))?;
    let synchronous = match durability {
        Durability::None => "OFF",
        Durability::Second => "NORMAL",
        Durability::Commit => "FULL",
    };
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    connection.pragma_update(None, "cache_size", -8_192)?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, expires INTEGER NOT NULL, \
         due INTEGER NOT NULL, data BLOB NOT NULL);
         CREATE INDEX IF NOT EXISTS sessions_due ON sessions (due)",
    )?;
    Ok(connection)
}

fn failed(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy) => lock_timeout(WAIT_MAX),
        _ => Error::new(ErrorKind::Io, "SQLite refused the operation").source(error),
    }
}

impl SqlitePlain {
    fn id(&self, session: usize) -> Result<&String> {
        self.ids.get(session).ok_or_else(unprepared)
    }

    fn execute(&self, text: &str, values: impl rusqlite::Params) -> Result<usize> {
        let mut statement = self.connection.prepare_cached(text).map_err(failed)?;
        statement.execute(values).map_err(failed)
    }

    /// Ends the transaction of a change that must have one row.
    fn end(&self, changed: Result<usize>) -> Result<()> {
        let changed = changed.and_then(|rows| check_one_row(rows as u64));
        let ended = self.execute(if changed.is_ok() { "COMMIT" } else { "ROLLBACK" }, []);
        changed.and(ended).map(drop)
    }
}

impl Contender for SqlitePlain {
    fn prefetch_ids(&mut self, sessions: &[usize]) {
        prefetch(sessions.iter().filter_map(|session| self.ids.get(*session)));
    }

    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        let values = params![payload, expiry_seconds(ttl), self.id(session)?];
        self.execute(INSERT, values).map(drop)
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let mut statement = self.connection.prepare_cached(SELECT).map_err(failed)?;
        let found = statement.query_row([self.id(session)?], |row| row.get(0)).optional();
        self.out = found.map_err(failed)?;
        Ok(self.out.as_deref())
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        self.execute("BEGIN IMMEDIATE", [])?;
        self.begun = Some(session);
        self.read(session)
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let session = self.begun.take().ok_or_else(unprepared)?;
        let statement = if self.out.is_some() { UPDATE } else { INSERT };
        let values = params![payload, expiry_seconds(self.ttl), self.id(session)?];
        self.end(self.execute(statement, values))
    }

    fn touch(&mut self) -> Result<()> {
        let session = self.begun.take().ok_or_else(unprepared)?;
        let values = params![expiry_seconds(self.ttl), self.id(session)?];
        self.end(self.execute(TOUCH, values))
    }

    fn release(&mut self) -> Result<()> {
        self.begun.take().map_or(Ok(()), |_| self.execute("ROLLBACK", []).map(drop))
    }
}
