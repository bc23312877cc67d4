//! Messages over one socket to the server, encrypted or not.
//!
//! `postgres-protocol`, a part of the maintained client, encodes and decodes the messages.
//! The client itself is not used, see `docs/decisions/0014-a-client-for-postgresql.md`.
//!
//! Invariants:
//!
//! * before the login is over a message has a bounded length;
//! * dropping a wire closes this process's descriptor and sends nothing, no end of TLS either: that
//!   leaves a parent's connection alone, and tells the server to free what the session held.

use std::io::{Read, Write};
use std::time::Instant;

use bytes::BytesMut;
use postgres_protocol::message::backend::{Header, Message};
use postgres_protocol::message::frontend;
use rustls::pki_types::CertificateDer;

use super::failure::{Attempt, PostgresFailure};
use crate::connections::options::Timeouts;
use crate::connections::pool::AttemptFailure;
use crate::connections::stream::Stream;
use crate::connections::tls::{Channel, Host, Tls};

/// Read at once; a session of the usual size comes in one piece.
const READ_BYTES: usize = 16 * 1_024;
/// The server's own limit is 1 GB.
const MESSAGE_BYTES_MAX: i32 = 1 << 30;
/// Before the login is over anybody may announce a length.
const LOGIN_MESSAGE_BYTES_MAX: i32 = 64 * 1_024;
/// A buffer that one large payload has grown is given back to the system.
const KEPT_BYTES_MAX: usize = 1 << 20;

pub(super) struct Wire {
    channel: Channel,
    message_bytes_max: i32,
    received: BytesMut,
    pub out: BytesMut,
    chunk: Box<[u8; READ_BYTES]>,
    /// As 150000 for 15; 0 before the server has said it.
    pub version: u32,
}

impl Wire {
    pub fn connect(host: &Host, timeouts: &Timeouts, deadline: Instant) -> Attempt<Wire> {
        let stream = Stream::connect(&host.address, timeouts, deadline)
            .map_err(PostgresFailure::Connection)?;
        let mut channel = Channel::from(stream);
        if let Some(tls) = &host.tls {
            encrypt(&mut channel, tls)?;
        }
        Ok(Wire {
            channel,
            message_bytes_max: LOGIN_MESSAGE_BYTES_MAX,
            received: BytesMut::new(),
            out: BytesMut::new(),
            chunk: Box::new([0; READ_BYTES]),
            version: 0,
        })
    }

    /// From now on messages may be as long as payloads.
    pub fn allow_payloads(&mut self) {
        self.message_bytes_max = MESSAGE_BYTES_MAX;
    }

    pub fn set_deadline(&mut self, deadline: Instant) {
        self.channel.set_deadline(deadline);
    }

    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.channel.certificate()
    }

    /// Sends `out`.
    pub fn send(&mut self) -> Attempt<()> {
        let sent = self.channel.write_all(&self.out).and_then(|()| self.channel.flush());
        if self.out.capacity() > KEPT_BYTES_MAX {
            self.out = BytesMut::new();
        }
        self.out.clear();
        sent.map_err(PostgresFailure::Connection)
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
                    let bytes = header.map_or(0, |header| header.len());
                    if usize::try_from(bytes).is_ok_and(|bytes| bytes > KEPT_BYTES_MAX) {
                        // Some of the next message may be there, at most one chunk.
                        self.received = BytesMut::from(&*self.received);
                    }
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
        let count =
            self.channel.read(self.chunk.as_mut_slice()).map_err(PostgresFailure::Connection)?;
        if count == 0 {
            return Err(PostgresFailure::gone());
        }
        self.received.extend_from_slice(self.chunk.get(..count).unwrap_or_default());
        Ok(())
    }
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
fn encrypt(channel: &mut Channel, tls: &Tls) -> Attempt<()> {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    let mut answer = [0];
    channel
        .write_all(&request)
        .and_then(|()| channel.read_exact(&mut answer))
        .map_err(PostgresFailure::Connection)?;
    if answer != *b"S" {
        return Err(PostgresFailure::no_tls("the server has no TLS"));
    }
    channel.encrypt(tls).map_err(PostgresFailure::Connection)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    use super::*;
    use crate::postgres::options::Options;
    use crate::store_url::StoreUrl;

    /// Each idle connection kept as much as its largest session had.
    #[test]
    fn a_large_message_leaves_no_large_buffer_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let url = format!("postgres+unix:{}?user=u&database=d", path.display());
        let options = Options::parse(&StoreUrl::parse(&url).unwrap()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let connect = |host: &Host, end| Wire::connect(host, &options.timeouts, end);
        let mut wire = options.hosts.connect(deadline, connect).ok().unwrap();
        wire.allow_payloads();
        std::thread::spawn(move || {
            let large = [&b"d\0\x20\0\x04"[..], &vec![b'x'; 2 << 20]].concat();
            listener
                .accept()
                .unwrap()
                .0
                .write_all(&[&large[..], b"Z\0\0\0\x05I"].concat())
                .unwrap();
        });
        assert!(matches!(wire.next(), Ok(Message::CopyData(data)) if data.data().len() == 2 << 20));
        assert!(matches!(wire.next(), Ok(Message::ReadyForQuery(_))), "its beginning was there");
        assert!(!wire.received.try_reclaim(KEPT_BYTES_MAX));
    }

    #[test]
    fn the_version_of_a_server_is_that_before_the_first_dot() {
        for (text, number) in
            [("15.14 (Debian 15.14-1)", 150_000), ("16beta1", 160_000), ("", 0), ("x", 0)]
        {
            assert_eq!(version(text), number, "{text}");
        }
    }
}
