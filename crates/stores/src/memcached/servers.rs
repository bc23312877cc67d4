//! The servers of one opened store: asking the right one, and what each says of itself.
//!
//! Invariant: every batch may be sent twice with the same effect as once (owners know their locks by tokens, writers
//! their records by marks), so one whose connection broke is sent again, for a bounded time.

use sessile_core::{Error, ErrorKind, Key, Result};

use super::connection::Connection;
use super::failure::{is_transient, translate, unexpected};
use super::item::HEADER_BYTES;
use super::options::Options;
use super::reply::{Failure, Reply};
use super::request::Batch;
use super::ring::Ring;
use crate::connecting::{Address, Login, Timeouts};
use crate::idle::{Idle, retry};

/// What an item needs besides header and payload: the server's own header with CAS number and flags (64), the longest
/// key (251), the end of the line, the header of a chunk (48), and the old id of a pending record (258).
const OVERHEAD_BYTES: u64 = 64 + 251 + 2 + 48 + 258;

/// What comes of one attempt.
type Outcome<T> = std::result::Result<T, Failure>;

pub(super) struct Servers {
    list: Vec<Server>,
    ring: Ring,
    login: Login,
    timeouts: Timeouts,
}

struct Server {
    address: Address,
    name: String,
    idle: Idle<Connection>,
}

/// What a server says of itself.
pub(super) struct About(Vec<(String, String)>);

impl About {
    /// A number by its name.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// A text by its name.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Servers {
    pub(super) fn new(options: &Options) -> Servers {
        let named = |address: &Address| match address {
            Address::Unix(path) => path.display().to_string(),
            Address::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Address::Tcp { host, port } => format!("{host}:{port}"),
        };
        let server =
            |address: &Address| Server { address: address.clone(), name: named(address), idle: Idle::default() };
        let list: Vec<Server> = options.addresses.iter().map(server).collect();
        let ring = Ring::new(list.iter().map(|server| server.name.as_str()));
        Servers { list, ring, login: options.login.clone(), timeouts: options.timeouts }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The number of the server that has a session.
    pub(super) fn of(&self, key: &Key) -> usize {
        self.ring.server_of(key)
    }

    /// Sends a batch to the server of a session; its answers, as many as the caller expects.
    ///
    /// # Errors
    ///
    /// `Unreachable`, `Denied`, `Incompatible`. What the server refuses is an answer.
    pub(super) fn call<const ANSWERS: usize>(&self, key: &Key, batch: &Batch) -> Result<[Reply; ANSWERS]> {
        let replies = self.call_any(key, batch)?;
        <[Reply; ANSWERS]>::try_from(replies).map_err(|_| unexpected())
    }

    /// The same for a batch whose length is not known beforehand.
    pub(super) fn call_any(&self, key: &Key, batch: &Batch) -> Result<Vec<Reply>> {
        self.ask(self.of(key), |connection| connection.run(batch))
    }

    /// `stats` of one server.
    pub(super) fn statistics(&self, server: usize) -> Result<About> {
        self.ask(server, |connection| connection.stats("stats")).map(About)
    }

    /// The largest payload that one server takes, whatever the id.
    ///
    /// # Errors
    ///
    /// `Incompatible` when the server does not do what this store needs.
    pub(super) fn payload_bytes_max(&self, server: usize) -> Result<u64> {
        let settings = self.ask(server, |connection| connection.stats("stats settings")).map(About)?;
        let name = self.list.get(server).map_or("", |server| server.name.as_str());
        if settings.text("cas_enabled") == Some("no") {
            let why = format!("the server {name} runs without CAS, and nothing else prevents lost updates");
            return Err(Error::new(ErrorKind::Incompatible, why).advice("start it without -C"));
        }
        let said = settings.number("item_size_max").filter(|bytes| *bytes > OVERHEAD_BYTES + HEADER_BYTES as u64);
        let item_bytes = said.ok_or_else(|| {
            let why = format!("the server {name} does not say how large an item may be, or takes none");
            Error::new(ErrorKind::Incompatible, why).advice("it must be memcached 1.6 or later, with -I 2k or more")
        })?;
        Ok(item_bytes - OVERHEAD_BYTES - HEADER_BYTES as u64)
    }

    fn ask<T>(&self, server: usize, mut ask: impl FnMut(&mut Connection) -> Outcome<T>) -> Result<T> {
        // The ring gives no other numbers than those of the list.
        let server = self.list.get(server).ok_or_else(unexpected)?;
        let asked = retry(is_transient, || {
            let idle = server.idle.take().map_or_else(|| self.connect(server), Ok);
            let mut connection = idle?;
            match ask(&mut connection) {
                Ok(answer) => {
                    server.idle.put(connection);
                    Ok(answer)
                }
                Err(failure) => {
                    drop(connection);
                    server.idle.clear();
                    Err(failure)
                }
            }
        });
        asked.map_err(|failure| translate(failure, &server.name))
    }

    fn connect(&self, server: &Server) -> Outcome<Connection> {
        Connection::open(&server.address, &self.login, self.timeouts)
    }
}
