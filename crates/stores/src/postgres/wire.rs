//! Messages over one socket to the server, encrypted or not.
//!
//! `postgres-protocol`, a part of the maintained client, encodes and decodes the messages. Why not
//! all of that client: `docs/decisions/0014-a-client-for-postgresql.md`.
//!
//! Invariants:
//!
//! * every wait is bounded, despite signals and a server that sends a byte now and then;
//! * before the login is over a message has a bounded length;
//! * dropping a wire closes this process's descriptor and sends nothing, no end of TLS either: that
//!   leaves a parent's connection alone, and tells the server to free what the session held.

use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use postgres_protocol::message::backend::{Header, Message};
use postgres_protocol::message::frontend;
use rustls::ClientConnection;
use rustls::pki_types::CertificateDer;

use super::failure::{Attempt, PostgresFailure};
use super::options::{Options, Tls};
use crate::connections::pool::AttemptFailure;
use crate::connections::stream::Stream;

/// Read at once; a session of the usual size comes in one piece.
const READ_BYTES: usize = 16 * 1_024;
/// The server's own limit is 1 GB.
const MESSAGE_BYTES_MAX: i32 = 1 << 30;
/// Before the login is over anybody may announce a length.
const LOGIN_MESSAGE_BYTES_MAX: i32 = 64 * 1_024;
const DATA_ROW: u8 = b'D';
/// A buffer that one large payload has grown is given back to the system.
const KEPT_BYTES_MAX: usize = 1 << 20;

pub(super) struct Wire {
    stream: Stream,
    /// Encrypts what goes over the stream.
    tls: Option<Box<ClientConnection>>,
    /// How long reads wait, as the stream was told last.
    patience: Duration,
    /// How long the server may take for an answer, for the next `READ_BYTES` of its rows, or to
    /// take as much.
    allowed: Duration,
    /// `None` beyond the end of time.
    deadline: Option<Instant>,
    /// Bytes since the deadline was set.
    heard: usize,
    /// Whether they contain a part of a row.
    rows_heard: bool,
    message_bytes_max: i32,
    received: BytesMut,
    pub out: BytesMut,
    chunk: Box<[u8; READ_BYTES]>,
    /// As 150000 for 15; 0 before the server has said it.
    pub version: u32,
}

impl Wire {
    pub fn connect(options: &Options) -> Attempt<Wire> {
        let stream = Stream::connect(&options.address, options.timeouts.connect);
        let mut stream = stream.map_err(lost)?;
        let patience = options.timeouts.response;
        stream.set_patience(patience).map_err(lost)?;
        let tls =
            options.tls.as_ref().map(|tls| encrypt(&mut stream, tls, patience)).transpose()?;
        Ok(Wire {
            stream,
            tls,
            patience,
            allowed: patience,
            deadline: None,
            heard: 0,
            rows_heard: false,
            message_bytes_max: LOGIN_MESSAGE_BYTES_MAX,
            received: BytesMut::new(),
            out: BytesMut::new(),
            chunk: Box::new([0; READ_BYTES]),
            version: 0,
        })
    }

    /// From now on messages may be as long as payloads.
    pub fn let_in(&mut self) {
        self.message_bytes_max = MESSAGE_BYTES_MAX;
    }

    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.as_ref()?.peer_certificates()?.first()
    }

    /// Sends `out`. From now on the server may say nothing for so long.
    pub fn send(&mut self, patience: Duration) -> Attempt<()> {
        self.be_patient(patience)?;
        let sent = self
            .out
            .chunks(READ_BYTES)
            .try_for_each(|piece| write_within(&mut self.stream, &mut self.tls, piece, patience));
        if self.out.capacity() > KEPT_BYTES_MAX {
            self.out = BytesMut::new();
        }
        self.out.clear();
        self.allowed = patience;
        self.expect_more();
        sent.map_err(lost)
    }

    fn be_patient(&mut self, patience: Duration) -> Attempt<()> {
        if self.patience != patience {
            self.stream.set_read_patience(patience).map_err(lost)?;
            self.patience = patience;
        }
        Ok(())
    }

    fn expect_more(&mut self) {
        (self.deadline, self.heard, self.rows_heard) =
            (Instant::now().checked_add(self.allowed), 0, false);
    }

    fn left(&self) -> Attempt<Duration> {
        let now = Instant::now();
        let left =
            self.deadline.map_or(self.allowed, |deadline| deadline.saturating_duration_since(now));
        if left.is_zero() { Err(lost(TimedOut.into())) } else { Ok(left) }
    }

    pub fn next(&mut self) -> Attempt<Message> {
        loop {
            let header = Header::parse(&self.received)?;
            if header.is_some_and(|header| header.len() > self.message_bytes_max) {
                return Err(PostgresFailure::Client(
                    "the server announces a message beyond its limit".to_owned(),
                ));
            }
            match Message::parse(&mut self.received)? {
                Some(Message::NoticeResponse(_) | Message::NotificationResponse(_)) => {}
                Some(Message::ParameterStatus(status)) => {
                    if status.name().is_ok_and(|name| name == "server_version") {
                        self.version = status.value().map_or(0, version);
                    }
                }
                Some(message) => {
                    self.rows_heard |= matches!(message, Message::DataRow(_));
                    return Ok(message);
                }
                None => self.receive()?,
            }
        }
    }

    /// Until the server is ready for more. What it has refused is the error.
    pub fn until_ready(&mut self, mut hear: impl FnMut(Message) -> Attempt<()>) -> Attempt<()> {
        let mut refused: Option<PostgresFailure> = None;
        loop {
            match self.next() {
                Ok(Message::ErrorResponse(refusal)) => {
                    refused = Some(PostgresFailure::said(&refusal));
                }
                Ok(Message::ReadyForQuery(_)) => return refused.map_or(Ok(()), Err),
                Ok(message) => hear(message)?,
                // The server says why it ends the session, and then ends it.
                Err(ended) => {
                    let why = refused.filter(PostgresFailure::breaks_connection);
                    return Err(why.unwrap_or(ended));
                }
            }
        }
    }

    fn receive(&mut self) -> Attempt<()> {
        // A payload that arrives piece by piece is no silence; other messages are short. The read
        // that begins now may end after the deadline, by as much again at most: a time for each
        // piece would cost a system call each.
        self.rows_heard |= self.received.first() == Some(&DATA_ROW);
        match self.heard {
            0 => {}
            READ_BYTES.. if self.rows_heard => self.expect_more(),
            _ => drop(self.left()?),
        }
        let count = loop {
            let (stream, chunk) = (&mut self.stream, self.chunk.as_mut_slice());
            let read = match &mut self.tls {
                None => stream.read(chunk),
                Some(tls) => rustls::Stream::new(&mut **tls, stream).read(chunk),
            };
            match read {
                // A signal would give the read the whole time once more; or a shortened read has
                // ended.
                Err(error) if matches!(error.kind(), Interrupted | WouldBlock) => {
                    let left = self.left()?;
                    self.be_patient(left)?;
                }
                read => break read.map_err(lost)?,
            }
        };
        if count == 0 {
            return Err(PostgresFailure::gone());
        }
        self.heard += count;
        self.received.extend_from_slice(self.chunk.get(..count).unwrap_or_default());
        Ok(())
    }
}

/// Writes a piece within a time, however little of it is taken at once.
fn write_within(
    stream: &mut Stream,
    tls: &mut Option<Box<ClientConnection>>,
    piece: &[u8],
    longest: Duration,
) -> io::Result<()> {
    let mut bounded = Bounded::new(stream, longest);
    let Some(tls) = tls else { return bounded.write_all(piece) };
    tls.writer().write_all(piece)?;
    while tls.wants_write() {
        tls.write_tls(&mut bounded)?;
    }
    Ok(())
}

/// A stream until a moment: the times of a socket bound each call, and there may be many.
struct Bounded<'s> {
    stream: &'s mut Stream,
    end: Option<Instant>,
}

impl Bounded<'_> {
    fn new(stream: &mut Stream, longest: Duration) -> Bounded<'_> {
        Bounded { stream, end: Instant::now().checked_add(longest) }
    }

    fn still<T>(&self, done: io::Result<T>) -> io::Result<T> {
        match self.end {
            Some(end) if Instant::now() >= end => Err(TimedOut.into()),
            _ => done,
        }
    }
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer);
        self.still(read)
    }
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stream.write(bytes)?;
        // All was written: then it does not matter when.
        if written == bytes.len() { Ok(written) } else { self.still(Ok(written)) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// The failure of a stream. A read that has waited for as long as it may says `WouldBlock`.
fn lost(error: io::Error) -> PostgresFailure {
    let timed_out = error.kind() == WouldBlock;
    PostgresFailure::Connection(if timed_out { TimedOut.into() } else { error })
}

/// `15.14 (Debian 15.14-1)` as 150000; 0 when it is not said.
fn version(text: &str) -> u32 {
    let major = text.split(|c: char| !c.is_ascii_digit()).next();
    major
        .and_then(|major| major.parse::<u32>().ok())
        .map_or(0, |major| major.saturating_mul(10_000))
}

/// One byte says whether the server has TLS. Nothing more is read in clear: it would pass for the
/// server's.
fn encrypt(stream: &mut Stream, tls: &Tls, longest: Duration) -> Attempt<Box<ClientConnection>> {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    let mut answer = [0];
    stream.write_all(&request).and_then(|()| stream.read_exact(&mut answer)).map_err(lost)?;
    if answer != *b"S" {
        return Err(PostgresFailure::no_tls("the server has no TLS"));
    }
    let connection = ClientConnection::new(Arc::clone(&tls.config), tls.server.clone());
    let mut connection = connection.map_err(PostgresFailure::no_tls)?;
    let mut bounded = Bounded::new(stream, longest);
    while connection.is_handshaking() {
        connection.complete_io(&mut bounded).map_err(lost)?;
    }
    Ok(Box::new(connection))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_server_is_that_before_the_first_dot() {
        for (text, number) in
            [("15.14 (Debian 15.14-1)", 150_000), ("16beta1", 160_000), ("", 0), ("x", 0)]
        {
            assert_eq!(version(text), number, "{text}");
        }
    }
}
