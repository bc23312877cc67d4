//! `postgres-transaction`: how today's session handlers lock on PostgreSQL.
//!
//! BEGIN, SELECT FOR UPDATE, UPDATE, COMMIT, with the transaction held over the request: four round
//! trips over one reused connection to the same kind of private server, prepared statements. The
//! messages come from our store's protocol library and cross a plain socket in one write and one
//! read each: no client is faster.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::IsNull;
use postgres_protocol::message::backend::{
    CommandCompleteBody, DataRowBody, ErrorResponseBody, Message,
};
use postgres_protocol::message::frontend::{self, BindError};
use sessile_core::{Durability, Error, ErrorKind, Result};

use super::handlers::{check_one_row, expiry_seconds, ids, lock_timeout, prefetch};
use crate::contender::Contender;
use crate::defaults::WAIT_MAX;
use crate::reference::{AfterDeath, Reference, unprepared};
use crate::worker::protocol::OpenRequest;

pub(super) const REFERENCE: Reference = Reference {
    name: "postgres-transaction",
    sentence: "PostgreSQL as today's handlers use it: a transaction with a row lock, held over the \
               request",
    server: Some("postgres"),
    durability: &[Durability::None, Durability::Second, Durability::Commit],
    after_death: AfterDeath::Freed,
    ..Reference::shared(open)
};

/// The advisory lock serialises workers: the server's IF NOT EXISTS alone is not safe against two
/// at once.
const TABLE: &str = "BEGIN; SELECT pg_advisory_xact_lock(1);
    CREATE TABLE IF NOT EXISTS sessions (id varchar(128) PRIMARY KEY, data bytea NOT NULL, expires \
    integer NOT NULL);
    CREATE INDEX IF NOT EXISTS sessions_expires ON sessions (expires); COMMIT";

/// Prepared on each connection; their names are their indexes.
const STATEMENTS: [&str; 8] = [
    "BEGIN",
    "SELECT data FROM sessions WHERE id = $1 FOR UPDATE",
    "UPDATE sessions SET data = $1, expires = $2 WHERE id = $3",
    "COMMIT",
    "ROLLBACK",
    "INSERT INTO sessions (data, expires, id) VALUES ($1, $2, $3)",
    "SELECT data FROM sessions WHERE id = $1",
    "UPDATE sessions SET expires = $1 WHERE id = $2",
];
const BEGIN: usize = 0;
const SELECT_FOR_UPDATE: usize = 1;
const UPDATE: usize = 2;
const COMMIT: usize = 3;
const ROLLBACK: usize = 4;
const INSERT: usize = 5;
const SELECT: usize = 6;
const TOUCH: usize = 7;

/// Error code when `lock_timeout` is over.
const LOCK_NOT_AVAILABLE: &[u8] = b"55P03";

struct PostgresTransaction {
    connection: PostgresConnection,
    ids: Vec<String>,
    ttl: Duration,
    /// The last row read; `begin` and `read` return its bytes.
    out: Option<DataRowBody>,
    begun: Option<usize>,
}

fn open(place: &Path, opening: &OpenRequest) -> Result<Box<dyn Contender>> {
    let mut connection = PostgresConnection::open(place)?;
    connection.execute_text(TABLE)?;
    connection.execute_text(&format!("SET lock_timeout = {}", WAIT_MAX.as_millis()))?;
    for (number, text) in STATEMENTS.iter().enumerate() {
        frontend::parse(&number.to_string(), text, [], &mut connection.request).map_err(failed)?;
    }
    frontend::sync(&mut connection.request);
    connection.exchange()?;
    let ids = ids(opening).collect();
    Ok(Box::new(PostgresTransaction { connection, ids, ttl: opening.ttl, out: None, begun: None }))
}

struct PostgresConnection {
    stream: UnixStream,
    request: BytesMut,
    received: BytesMut,
    chunk: Box<[u8; 16_384]>,
    updated: u64,
}

impl PostgresConnection {
    fn open(place: &Path) -> Result<PostgresConnection> {
        let stream = UnixStream::connect(place).map_err(failed)?;
        let (request, received) = (BytesMut::new(), BytesMut::new());
        let mut connection = PostgresConnection {
            stream,
            request,
            received,
            chunk: Box::new([0; 16_384]),
            updated: 0,
        };
        let words = [("user", "postgres"), ("database", "postgres"), ("client_encoding", "UTF8")];
        frontend::startup_message(words, &mut connection.request).map_err(failed)?;
        connection.exchange()?;
        Ok(connection)
    }

    /// Runs text without rows.
    fn execute_text(&mut self, text: &str) -> Result<()> {
        frontend::query(text, &mut self.request).map_err(failed)?;
        self.exchange().map(drop)
    }

    /// Runs a prepared statement with values in binary form, and returns its row, if any.
    fn run(&mut self, statement: usize, values: &[&[u8]]) -> Result<Option<DataRowBody>> {
        // One digit each, so no allocation.
        let digit = [b'0' + u8::try_from(statement).unwrap_or(0)];
        let name = std::str::from_utf8(&digit).unwrap_or_default();
        let value = |value: &&[u8], out: &mut BytesMut| {
            out.extend_from_slice(value);
            Ok(IsNull::No)
        };
        frontend::bind("", name, [1], values, value, [1], &mut self.request).map_err(|error| {
            match error {
                BindError::Serialization(error) => failed(error),
                BindError::Conversion(_) => unprepared(),
            }
        })?;
        frontend::execute("", 0, &mut self.request).map_err(failed)?;
        frontend::sync(&mut self.request);
        self.exchange()
    }

    fn end_transaction(&mut self, written: Result<Option<DataRowBody>>) -> Result<()> {
        let ended = self.run(if written.is_ok() { COMMIT } else { ROLLBACK }, &[]);
        written.and(ended).map(drop)
    }

    /// Sends the buffer, and reads until the server is ready.
    fn exchange(&mut self) -> Result<Option<DataRowBody>> {
        self.stream.write_all(&self.request).map_err(failed)?;
        self.request.clear();
        let (mut row, mut refused) = (None, None);
        loop {
            match Message::parse(&mut self.received).map_err(failed)? {
                Some(Message::ReadyForQuery(_)) => return refused.map_or(Ok(row), Err),
                Some(Message::DataRow(body)) => row = Some(body),
                Some(Message::ErrorResponse(body)) => refused = Some(refusal(&body)),
                Some(Message::CommandComplete(body)) => self.updated = updated(&body),
                Some(_) => {}
                None => {
                    let count = self.stream.read(self.chunk.as_mut_slice()).map_err(failed)?;
                    if count == 0 {
                        return Err(Error::new(
                            ErrorKind::Unreachable,
                            "the server ended the connection",
                        ));
                    }
                    self.received.extend_from_slice(self.chunk.get(..count).unwrap_or_default());
                }
            }
        }
    }
}

/// From `UPDATE 1`; 0 for other statements.
fn updated(body: &CommandCompleteBody) -> u64 {
    let rows = body.tag().ok().and_then(|tag| tag.strip_prefix("UPDATE ")?.parse().ok());
    rows.unwrap_or(0)
}

fn refusal(body: &ErrorResponseBody) -> Error {
    let (mut fields, mut message) = (body.fields(), String::new());
    while let Ok(Some(field)) = fields.next() {
        match field.type_() {
            b'C' if field.value_bytes() == LOCK_NOT_AVAILABLE => return lock_timeout(WAIT_MAX),
            b'M' => message = String::from_utf8_lossy(field.value_bytes()).into_owned(),
            _ => {}
        }
    }
    Error::new(ErrorKind::Io, "the server refused the operation").source(message)
}

fn failed(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "the connection to the server failed").source(error)
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
        self.connection.run(BEGIN, &[])?;
        let selected = self.connection.run(SELECT_FOR_UPDATE, &[id.as_bytes()]);
        if selected.is_err() {
            let _ = self.connection.run(ROLLBACK, &[]);
        }
        self.out = selected?;
        self.begun = Some(session);
        self.payload_column()
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let session = self.begun.take().ok_or_else(unprepared)?;
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        let statement = if self.out.is_some() { UPDATE } else { INSERT };
        let written = self.connection.run(statement, &[payload, &expiry(self.ttl), id.as_bytes()]);
        self.connection.end_transaction(written)
    }

    fn touch(&mut self) -> Result<()> {
        let session = self.begun.take().ok_or_else(unprepared)?;
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        let moved = self.connection.run(TOUCH, &[&expiry(self.ttl), id.as_bytes()]);
        let moved = moved.and_then(|row| check_one_row(self.connection.updated).map(|()| row));
        self.connection.end_transaction(moved)
    }

    fn release(&mut self) -> Result<()> {
        match self.begun.take() {
            Some(_) => self.connection.run(ROLLBACK, &[]).map(drop),
            None => Ok(()),
        }
    }
}
