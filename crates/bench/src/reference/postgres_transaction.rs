//! A transaction that holds the row of its session over the request, on PostgreSQL.
//!
//! BEGIN, SELECT FOR UPDATE, UPDATE, COMMIT in prepared statements over one reused connection to
//! the same kind of private server. `postgres-transaction` waits for each answer, as today's
//! handlers do; `postgres-two-trips` sends two statements in one write. `postgres-unlocked` reads
//! and writes by two statements without a transaction, as the handlers of Drupal and Django do:
//! updates of two at once are lost. Table and connection have what those of our store have: room on
//! each page for the next version of a row, an index on a moment that commits do not move (`due`,
//! never later than the expiry), payloads that are not compressed, and plans that are made once, go
//! by an index and are not compiled.

use std::path::Path;
use std::time::Duration;

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::DataRowBody;
use sessile_core::Result;

use super::handlers::{Locking, check_one_row, expiry_seconds, ids, prefetch};
use super::postgres_connection::{PostgresConnection, failed};
use crate::contender::Contender;
use crate::defaults::WAIT_MAX;
use crate::reference::unprepared;
use crate::worker::protocol::OpenRequest;

/// The advisory lock serialises workers: the server's IF NOT EXISTS alone is not safe against two
/// at once.
const TABLE: &str = "BEGIN; SELECT pg_advisory_xact_lock(1);
    DO $$ BEGIN IF to_regclass('sessions') IS NULL THEN
        CREATE TABLE sessions (id varchar(128) PRIMARY KEY, data bytea NOT NULL, \
            expires integer NOT NULL, due integer NOT NULL) WITH (fillfactor = 70);
        ALTER TABLE sessions ALTER COLUMN data SET STORAGE EXTERNAL;
        CREATE INDEX sessions_due ON sessions (due);
    END IF; END $$; COMMIT";

/// A plan that is made once, for an empty table, would scan it for ever.
const SETTINGS: &str = "SET plan_cache_mode = force_generic_plan; SET jit = off;
    SET enable_seqscan = off; SET enable_bitmapscan = off";

/// Prepared on each connection; their names are their indexes.
const STATEMENTS: [&str; 8] = [
    "BEGIN",
    "SELECT data FROM sessions WHERE id = $1 FOR UPDATE",
    "UPDATE sessions SET data = $1, expires = $2, due = least(due, $2) WHERE id = $3",
    "COMMIT",
    "ROLLBACK",
    "INSERT INTO sessions (data, expires, due, id) VALUES ($1, $2, $2, $3)",
    "SELECT data FROM sessions WHERE id = $1",
    "UPDATE sessions SET expires = $1, due = least(due, $1) WHERE id = $2",
];
const BEGIN: usize = 0;
const SELECT_FOR_UPDATE: usize = 1;
const UPDATE: usize = 2;
const COMMIT: usize = 3;
const ROLLBACK: usize = 4;
const INSERT: usize = 5;
const SELECT: usize = 6;
const TOUCH: usize = 7;

struct PostgresTransaction {
    connection: PostgresConnection,
    locking: Locking,
    ids: Vec<String>,
    ttl: Duration,
    /// The last row read; `begin` and `read` return its bytes.
    out: Option<DataRowBody>,
    begun: Option<usize>,
}

pub(super) fn open(
    place: &Path,
    opening: &OpenRequest,
    locking: Locking,
) -> Result<Box<dyn Contender>> {
    let mut connection = PostgresConnection::open(place)?;
    connection.execute_text(TABLE)?;
    connection.execute_text(SETTINGS)?;
    connection.execute_text(&format!("SET lock_timeout = {}", WAIT_MAX.as_millis()))?;
    connection.prepare(&STATEMENTS)?;
    let ids = ids(opening).collect();
    let (out, begun) = (None, None);
    Ok(Box::new(PostgresTransaction { connection, locking, ids, ttl: opening.ttl, out, begun }))
}

/// In the server's binary form.
fn expiry(ttl: Duration) -> [u8; 4] {
    i32::try_from(expiry_seconds(ttl)).unwrap_or(i32::MAX).to_be_bytes()
}

impl PostgresTransaction {
    fn payload_column(&self) -> Result<Option<&[u8]>> {
        let Some(row) = &self.out else { return Ok(None) };
        let column = row.ranges().next().map_err(failed)?.flatten();
        Ok(column.and_then(|column| row.buffer().get(column)))
    }
}

/// Changes the row of a session and ends the transaction, if there is one. In four trips the change
/// has its answer before COMMIT is sent.
fn change(
    connection: &mut PostgresConnection,
    locking: Locking,
    statement: usize,
    values: &[&[u8]],
) -> Result<()> {
    connection.updated = None;
    connection.queue(statement, values)?;
    let changed = match locking {
        Locking::Without => connection.exchange(),
        Locking::TwoTrips => connection.run(COMMIT, &[]),
        Locking::FourTrips => connection.exchange().and_then(|_| connection.run(COMMIT, &[])),
    };
    if changed.is_err() && locking != Locking::Without {
        let _ = connection.run(ROLLBACK, &[]); // the error above matters more
    }
    changed?;
    if statement == INSERT { Ok(()) } else { check_one_row(connection.updated.unwrap_or(0)) }
}

impl Contender for PostgresTransaction {
    fn prefetch_ids(&mut self, sessions: &[usize]) {
        prefetch(sessions.iter().filter_map(|session| self.ids.get(*session)));
    }

    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        self.connection.run(INSERT, &[payload, &expiry(ttl), id.as_bytes()]).map(drop)
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        self.out = self.connection.run(SELECT, &[id.as_bytes()])?;
        self.payload_column()
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        if self.locking == Locking::Without {
            self.out = self.connection.run(SELECT, &[id.as_bytes()])?;
        } else {
            self.connection.queue(BEGIN, &[])?;
            if self.locking == Locking::FourTrips {
                self.connection.exchange()?;
            }
            let selected = self.connection.run(SELECT_FOR_UPDATE, &[id.as_bytes()]);
            if selected.is_err() {
                let _ = self.connection.run(ROLLBACK, &[]);
            }
            self.out = selected?;
        }
        self.begun = Some(session);
        self.payload_column()
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let session = self.begun.take().ok_or_else(unprepared)?;
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        let statement = if self.out.is_some() { UPDATE } else { INSERT };
        let values = [payload, &expiry(self.ttl), id.as_bytes()];
        change(&mut self.connection, self.locking, statement, &values)
    }

    fn touch(&mut self) -> Result<()> {
        let session = self.begun.take().ok_or_else(unprepared)?;
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        let values: [&[u8]; 2] = [&expiry(self.ttl), id.as_bytes()];
        change(&mut self.connection, self.locking, TOUCH, &values)
    }

    fn release(&mut self) -> Result<()> {
        match self.begun.take() {
            Some(_) if self.locking != Locking::Without => {
                self.connection.run(ROLLBACK, &[]).map(drop)
            }
            _ => Ok(()),
        }
    }
}
