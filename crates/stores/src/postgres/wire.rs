//! Messages over one socket to the server, encrypted or not. What they say is the caller's business.
//!
//! The bytes of a message are made and understood by `postgres-protocol`, which is a part of the maintained client; why not
//! by all of that client is in `docs/decisions/0014-a-client-for-postgresql.md`.
//!
//! Invariants: every wait is bounded, by signals and by a server that says a byte now and then no less; so is what a server may
//! announce before it has let us in; dropping it closes this process's descriptor and sends nothing, no good-bye and no
//! end of TLS either: in a child that leaves the parent's connection alone, and in its owner the server sees the end of the
//! stream and frees what the session held. A wire on which anything failed is of no use any more.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use postgres_protocol::message::backend::{Header, Message};
use postgres_protocol::message::frontend;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, StreamOwned};

use super::failure::{Failure, Tried};
use super::options::{Options, Tls};
use crate::stream::Stream;

/// Read at once; a session of the usual size comes in one piece.
const READ_BYTES: usize = 16 * 1_024;
/// The server's own limit is 1 GB. What says that it is longer is no message.
const MESSAGE_BYTES_MAX: i32 = 1 << 30;
/// The same before the login is over, when it may be anybody who announces it.
const LOGIN_MESSAGE_BYTES_MAX: i32 = 64 * 1_024;
/// How a message with a row begins.
const DATA_ROW: u8 = b'D';
/// Buffers that one large payload has grown are given back to the system.
const KEPT_BYTES_MAX: usize = 1 << 20;

pub(super) struct Wire {
    stream: Either,
    /// How long reads wait, as the stream was told last. Writes wait as long as the server may say nothing.
    patience: Duration,
    /// How long the server may take for an answer, or for the next `READ_BYTES` of its rows, or to take as much from us.
    allowed: Duration,
    /// When that is over; `None` beyond the end of time.
    deadline: Option<Instant>,
    /// What came since the deadline was set.
    heard: usize,
    /// Whether a row, or a part of one, was in that.
    rows_heard: bool,
    /// What a message may have.
    message_bytes_max: i32,
    received: BytesMut,
    /// What `send` sends.
    pub out: BytesMut,
    chunk: Box<[u8; READ_BYTES]>,
    /// The server's, as 150000 for 15; 0 before it is said.
    pub version: u32,
}

enum Either {
    Plain(Stream),
    Tls(Box<StreamOwned<ClientConnection, Stream>>),
}

impl Wire {
    /// Connects, and agrees on TLS if that is wanted.
    pub fn connect(options: &Options) -> Tried<Wire> {
        let mut stream = Stream::connect(&options.address, options.timeouts.connect)?;
        let patience = options.timeouts.response;
        stream.set_patience(patience)?;
        let stream = match &options.tls {
            None => Either::Plain(stream),
            Some(tls) => {
                ask_for_tls(&mut stream)?;
                Either::Tls(Box::new(encrypted(stream, tls, patience)?))
            }
        };
        Ok(Wire {
            stream,
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

    /// The server has let us in; from now on its messages may be as long as payloads.
    pub fn let_in(&mut self) {
        self.message_bytes_max = MESSAGE_BYTES_MAX;
    }

    /// The certificate of the server, if there is TLS.
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        match &self.stream {
            Either::Plain(_) => None,
            Either::Tls(stream) => stream.conn.peer_certificates().and_then(<[_]>::first),
        }
    }

    /// Sends what was put into `out`. From now on the server may say nothing for so long.
    pub fn send(&mut self, patience: Duration) -> Tried<()> {
        self.be_patient(patience)?;
        let sent = self.out.chunks(READ_BYTES).try_for_each(|piece| write_within(&mut self.stream, piece, patience));
        if self.out.capacity() > KEPT_BYTES_MAX {
            self.out = BytesMut::new();
        }
        self.out.clear();
        self.allowed = patience;
        self.expect_more();
        Ok(sent.map_err(timed_out)?)
    }

    fn be_patient(&mut self, patience: Duration) -> Tried<()> {
        if self.patience != patience {
            let stream = match &self.stream {
                Either::Plain(stream) => stream,
                Either::Tls(stream) => stream.get_ref(),
            };
            stream.set_read_patience(patience)?;
            self.patience = patience;
        }
        Ok(())
    }

    fn expect_more(&mut self) {
        (self.deadline, self.heard, self.rows_heard) = (Instant::now().checked_add(self.allowed), 0, false);
    }

    /// What is left until the deadline.
    ///
    /// # Errors
    ///
    /// `TimedOut` when that is nothing.
    fn left(&self) -> Tried<Duration> {
        let now = Instant::now();
        let left = self.deadline.map_or(self.allowed, |deadline| deadline.saturating_duration_since(now));
        if left.is_zero() { Err(io::Error::from(io::ErrorKind::TimedOut).into()) } else { Ok(left) }
    }

    /// The next message that answers something; what the server says on its own is passed over.
    pub fn next(&mut self) -> Tried<Message> {
        loop {
            let header = Header::parse(&self.received).map_err(Failure::garbled)?;
            if header.is_some_and(|header| header.len() > self.message_bytes_max) {
                return Err(Failure::Client("the server announces a message beyond its limit".to_owned()));
            }
            match Message::parse(&mut self.received).map_err(Failure::garbled)? {
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

    fn receive(&mut self) -> Tried<()> {
        // A payload that arrives piece by piece is no silence; what else a server may say is short. The read that begins now
        // may end after the deadline, by as much again at most: setting it a time for each piece would cost a system call each.
        self.rows_heard |= self.received.first() == Some(&DATA_ROW);
        match self.heard {
            0 => {}
            READ_BYTES.. if self.rows_heard => self.expect_more(),
            _ => drop(self.left()?),
        }
        let count = loop {
            let read = match &mut self.stream {
                Either::Plain(stream) => stream.read(self.chunk.as_mut_slice()),
                Either::Tls(stream) => stream.read(self.chunk.as_mut_slice()),
            };
            match read {
                // A signal, which would give the read the whole time once more; or the end of a read that had less after one.
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                    let left = self.left()?;
                    self.be_patient(left)?;
                }
                read => break read.map_err(timed_out)?,
            }
        };
        if count == 0 {
            return Err(Failure::gone());
        }
        self.heard += count;
        self.received.extend_from_slice(self.chunk.get(..count).unwrap_or_default());
        Ok(())
    }
}

/// Writes a piece within a time, however little of it is taken at once.
fn write_within(stream: &mut Either, piece: &[u8], longest: Duration) -> io::Result<()> {
    match stream {
        Either::Plain(stream) => Bounded::new(stream, longest).write_all(piece),
        Either::Tls(stream) => {
            stream.conn.writer().write_all(piece)?;
            let mut bounded = Bounded::new(&mut stream.sock, longest);
            while stream.conn.wants_write() {
                stream.conn.write_tls(&mut bounded)?;
            }
            Ok(())
        }
    }
}

/// A stream until a moment: the times that are set on a socket bound each call, and there may be many.
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
            Some(end) if Instant::now() >= end => Err(io::ErrorKind::TimedOut.into()),
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
        // All of it: then it does not matter when.
        if written == bytes.len() { Ok(written) } else { self.still(Ok(written)) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// What a read says that has waited for as long as it may.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

/// `15.14 (Debian 15.14-1)` as 150000; 0 when it is not said.
fn version(text: &str) -> u32 {
    let major = text.split(|c: char| !c.is_ascii_digit()).next();
    major.and_then(|major| major.parse::<u32>().ok()).map_or(0, |major| major.saturating_mul(10_000))
}

/// One byte says whether the server has TLS. Nothing more is read in clear: what came with it, from whomever, would pass for
/// the server's.
fn ask_for_tls(stream: &mut Stream) -> Tried<()> {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    let mut answer = [0];
    stream.write_all(&request).and_then(|()| stream.read_exact(&mut answer)).map_err(timed_out)?;
    if answer == *b"S" { Ok(()) } else { Err(Failure::Client("the server has no TLS".to_owned())) }
}

/// The handshake, in which the server proves its name.
fn encrypted(stream: Stream, tls: &Tls, longest: Duration) -> Tried<StreamOwned<ClientConnection, Stream>> {
    let connection = ClientConnection::new(Arc::clone(&tls.config), tls.server.clone())
        .map_err(|error| Failure::Client(format!("TLS: {error}")))?;
    let mut stream = StreamOwned::new(connection, stream);
    let mut bounded = Bounded::new(&mut stream.sock, longest);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut bounded).map_err(timed_out)?;
    }
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_server_is_that_before_the_first_dot() {
        for (text, number) in [("15.14 (Debian 15.14-1)", 150_000), ("16beta1", 160_000), ("", 0), ("x", 0)] {
            assert_eq!(version(text), number, "{text}");
        }
    }
}
