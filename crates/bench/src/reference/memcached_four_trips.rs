//! `memcached-four-trips`: how today's session handlers lock on memcached.
//!
//! `add` for the lock, tried again every 20 ms; `get`; `set`; `delete`: four round trips over one
//! connection to the same kind of private server. PHP's memcached extension retries after 150 ms by
//! default; 20 ms is the shortest fixed poll of such handlers, and kinder to this row. Like that
//! extension it deletes the lock without checking its owner, which costs nothing. Plain commands
//! over a plain socket without allocation: no client is faster.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use sessile_core::{Error, ErrorKind, Result};

use super::handlers::{LOCK, ids, prefetch, wait_for_lock};
use crate::contender::Contender;
use crate::reference::{AfterDeath, Reference, unprepared};
use crate::worker::protocol::OpenRequest;

pub(super) const REFERENCE: Reference = Reference {
    name: "memcached-four-trips",
    sentence: "Memcached as today's handlers use it: lock, read, write and unlock in four round \
               trips",
    server: Some("memcached"),
    after_death: AfterDeath::Lapses,
    ..Reference::shared(open)
};

struct MemcachedFourTrips {
    line: MemcachedConnection,
    keys: Vec<(String, String)>,
    ttl: Duration,
    lock_s: u64,
    out: Vec<u8>,
    begun: Option<usize>,
}

fn open(place: &Path, opening: &OpenRequest) -> Result<Box<dyn Contender>> {
    let line = MemcachedConnection::connect(place)?;
    let key = |id: String| (format!("memc.sess.key.{id}"), format!("memc.sess.key.lock.{id}"));
    let keys = ids(opening).map(key).collect();
    let lock_s = opening.lock_ttl.unwrap_or(LOCK).as_secs();
    Ok(Box::new(MemcachedFourTrips {
        line,
        keys,
        ttl: opening.ttl,
        lock_s,
        out: Vec::new(),
        begun: None,
    }))
}

pub(super) fn failed(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "the memcached server cannot be reached").source(error)
}

pub(super) fn refused() -> Error {
    Error::new(ErrorKind::Io, "the memcached server refused the operation")
}

pub(super) struct MemcachedConnection {
    stream: BufReader<UnixStream>,
    request: Vec<u8>,
    line: Vec<u8>,
}

impl MemcachedConnection {
    pub(super) fn connect(place: &Path) -> Result<MemcachedConnection> {
        let stream = BufReader::new(UnixStream::connect(place).map_err(failed)?);
        Ok(MemcachedConnection { stream, request: Vec::new(), line: Vec::new() })
    }

    /// Reads a value into `out`; `false` without a value.
    pub(super) fn get(&mut self, key: &str, out: &mut Vec<u8>) -> Result<bool> {
        let line = self.command(format_args!("get {key}"), None)?;
        if line == b"END" {
            return Ok(false);
        }
        // VALUE key flags size
        let size = line
            .rsplit(|byte| *byte == b' ')
            .next()
            .and_then(|size| std::str::from_utf8(size).ok());
        let size: usize = size.and_then(|size| size.parse().ok()).ok_or_else(refused)?;
        out.resize(size + b"\r\nEND\r\n".len(), 0);
        self.stream.read_exact(out).map_err(failed)?;
        out.truncate(size);
        Ok(true)
    }

    /// Sends a command and an optional value, and reads the first line of the answer.
    pub(super) fn command(
        &mut self,
        command: std::fmt::Arguments<'_>,
        value: Option<&[u8]>,
    ) -> Result<&[u8]> {
        self.request.clear();
        self.request.write_fmt(command).map_err(failed)?;
        self.request.extend_from_slice(b"\r\n");
        if let Some(value) = value {
            self.request.extend_from_slice(value);
            self.request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&self.request).map_err(failed)?;
        self.line.clear();
        self.stream.read_until(b'\n', &mut self.line).map_err(failed)?;
        self.line.strip_suffix(b"\r\n").ok_or_else(refused)
    }
}

impl MemcachedFourTrips {
    fn store(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        let (record, _) = self.keys.get(session).ok_or_else(unprepared)?;
        let (seconds, size) = (ttl.as_secs().max(1), payload.len());
        match self.line.command(format_args!("set {record} 0 {seconds} {size}"), Some(payload))? {
            b"STORED" => Ok(()),
            _ => Err(refused()),
        }
    }

    fn unlock(&mut self, session: usize) -> Result<()> {
        let (_, lock) = self.keys.get(session).ok_or_else(unprepared)?;
        match self.line.command(format_args!("delete {lock}"), None)? {
            b"DELETED" => Ok(()),
            _ => Err(Error::new(ErrorKind::Stale, "the lock had lapsed")),
        }
    }
}

impl Contender for MemcachedFourTrips {
    fn prefetch_ids(&mut self, sessions: &[usize]) {
        let keys = sessions.iter().filter_map(|session| self.keys.get(*session));
        prefetch(keys.flat_map(|(record, lock)| [record, lock]));
    }

    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        self.store(session, payload, ttl)
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let (record, _) = self.keys.get(session).ok_or_else(unprepared)?;
        let there = self.line.get(record, &mut self.out)?;
        Ok(there.then_some(self.out.as_slice()))
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let (_, lock) = self.keys.get(session).ok_or_else(unprepared)?;
        let lock_s = self.lock_s;
        wait_for_lock(|| {
            Ok(self.line.command(format_args!("add {lock} 0 {lock_s} 1"), Some(b"1"))? == b"STORED")
        })?;
        self.begun = Some(session);
        self.read(session)
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let session = self.begun.take().ok_or_else(unprepared)?;
        let written = self.store(session, payload, self.ttl);
        self.unlock(session)?;
        written
    }

    fn touch(&mut self) -> Result<()> {
        let session = self.begun.take().ok_or_else(unprepared)?;
        let (record, _) = self.keys.get(session).ok_or_else(unprepared)?;
        let seconds = self.ttl.as_secs().max(1);
        let moved =
            self.line.command(format_args!("touch {record} {seconds}"), None)? == b"TOUCHED";
        self.unlock(session)?;
        if moved { Ok(()) } else { Err(refused()) }
    }

    fn release(&mut self) -> Result<()> {
        self.begun.take().map_or(Ok(()), |session| self.unlock(session))
    }
}
