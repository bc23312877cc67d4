//! A connection to PostgreSQL for reference rows.
//!
//! Messages come from our store's protocol library and cross a plain socket in one write and one
//! read each trip: no client is faster.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::IsNull;
use postgres_protocol::message::backend::{
    CommandCompleteBody, DataRowBody, ErrorResponseBody, Message,
};
use postgres_protocol::message::frontend::{self, BindError};
use sessile_core::{Error, ErrorKind, Result};

use super::handlers::lock_timeout;
use crate::defaults::WAIT_MAX;
use crate::reference::unprepared;

/// Error code when `lock_timeout` is over.
const LOCK_NOT_AVAILABLE: &[u8] = b"55P03";

pub(super) struct PostgresConnection {
    stream: UnixStream,
    request: BytesMut,
    received: BytesMut,
    chunk: Box<[u8; 16_384]>,
    /// Rows of the last UPDATE.
    pub updated: Option<u64>,
}

impl PostgresConnection {
    pub(super) fn open(place: &Path) -> Result<PostgresConnection> {
        let stream = UnixStream::connect(place).map_err(failed)?;
        let (request, received) = (BytesMut::new(), BytesMut::new());
        let mut connection = PostgresConnection {
            stream,
            request,
            received,
            chunk: Box::new([0; 16_384]),
            updated: None,
        };
        let words = [("user", "postgres"), ("database", "postgres"), ("client_encoding", "UTF8")];
        frontend::startup_message(words, &mut connection.request).map_err(failed)?;
        connection.send()?;
        Ok(connection)
    }

    /// Runs text without rows.
    pub(super) fn execute_text(&mut self, text: &str) -> Result<()> {
        frontend::query(text, &mut self.request).map_err(failed)?;
        self.send().map(drop)
    }

    /// Prepares statements, whose names are their indexes.
    pub(super) fn prepare(&mut self, statements: &[&str]) -> Result<()> {
        for (number, text) in statements.iter().enumerate() {
            frontend::parse(&number.to_string(), text, [], &mut self.request).map_err(failed)?;
        }
        self.exchange().map(drop)
    }

    /// Runs a prepared statement with values in binary form after those that are queued, and
    /// returns the last row, if any. After a failure the server leaves out the rest.
    pub(super) fn run(
        &mut self,
        statement: usize,
        values: &[&[u8]],
    ) -> Result<Option<DataRowBody>> {
        self.queue(statement, values)?;
        self.exchange()
    }

    pub(super) fn queue(&mut self, statement: usize, values: &[&[u8]]) -> Result<()> {
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
        frontend::execute("", 0, &mut self.request).map_err(failed)
    }

    /// Sends what is queued, and reads until the server is ready.
    pub(super) fn exchange(&mut self) -> Result<Option<DataRowBody>> {
        frontend::sync(&mut self.request);
        self.send()
    }

    fn send(&mut self) -> Result<Option<DataRowBody>> {
        self.stream.write_all(&self.request).map_err(failed)?;
        self.request.clear();
        let (mut row, mut refused) = (None, None);
        loop {
            match Message::parse(&mut self.received).map_err(failed)? {
                Some(Message::ReadyForQuery(_)) => return refused.map_or(Ok(row), Err),
                Some(Message::DataRow(body)) => row = Some(body),
                Some(Message::ErrorResponse(body)) => refused = Some(refusal(&body)),
                Some(Message::CommandComplete(body)) => {
                    self.updated = updated(&body).or(self.updated);
                }
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

/// From `UPDATE 1`.
fn updated(body: &CommandCompleteBody) -> Option<u64> {
    body.tag().ok()?.strip_prefix("UPDATE ")?.parse().ok()
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

pub(super) fn failed(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "the connection to the server failed").source(error)
}
