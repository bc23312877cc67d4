//! Sessions in memcached by plain commands, in four round trips and in two.
//!
//! `memcached-four-trips` is how PHP's memcached extension locks: `add` for the lock, tried again
//! every 150 ms; `get`; `set`; `delete`, over one connection to the same kind of private server.
//! Like that extension it deletes the lock without checking its owner, which costs nothing.
//! `memcached-two-trips` sends the first two in one write, and the last two. `memcached-unlocked`
//! only reads and writes, as that extension does with `sess_locking=0`: updates of two at once are
//! lost. `memcached-ignored` does not even look at the answer to `set`: a page lost its cache entry
//! of more than 1 MB at each save, because the server refuses the item and removes the old one, the
//! call returns false, and the program goes on. Only `oversize` has this row, which shows a loss.
//!
//! Text commands over a plain socket without allocation; that extension sends the same in the
//! binary protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use sessile_core::{Error, ErrorKind, Result};

use super::handlers::{LOCK, Locking, ids, prefetch, wait_for_lock};
use crate::contender::Contender;
use crate::reference::unprepared;
use crate::worker::protocol::OpenRequest;

/// The default of `memcached.sess_lock_wait_min` and `_max` (php_memcached.c, version 3).
const POLL_OF_HANDLER: Duration = Duration::from_millis(150);
/// The row of two trips stands for no handler: the shortest poll of any, that of phpredis.
const POLL_OF_PAIR: Duration = Duration::from_millis(20);

struct MemcachedTrips {
    locking: Locking,
    /// Takes any answer to a change for a success.
    ignores_answers: bool,
    line: MemcachedConnection,
    keys: Vec<(String, String)>,
    ttl: Duration,
    lock_s: u64,
    out: Vec<u8>,
    begun: Option<usize>,
}

pub(super) fn open(
    place: &Path,
    opening: &OpenRequest,
    locking: Locking,
    ignores_answers: bool,
) -> Result<Box<dyn Contender>> {
    let line = MemcachedConnection::connect(place)?;
    let key = |id: String| (format!("memc.sess.key.{id}"), format!("memc.sess.key.lock.{id}"));
    let keys = ids(opening).map(key).collect();
    let lock_s = opening.lock_ttl.unwrap_or(LOCK).as_secs();
    Ok(Box::new(MemcachedTrips {
        locking,
        ignores_answers,
        line,
        keys,
        ttl: opening.ttl,
        lock_s,
        out: Vec::new(),
        begun: None,
    }))
}

fn failed(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "the memcached server cannot be reached").source(error)
}

fn refused() -> Error {
    Error::new(ErrorKind::Io, "the memcached server refused the operation")
}

struct MemcachedConnection {
    stream: BufReader<UnixStream>,
    request: Vec<u8>,
    line: Vec<u8>,
}

impl MemcachedConnection {
    fn connect(place: &Path) -> Result<MemcachedConnection> {
        let stream = BufReader::new(UnixStream::connect(place).map_err(failed)?);
        Ok(MemcachedConnection { stream, request: Vec::new(), line: Vec::new() })
    }

    /// Reads a value into `out`; `false` without a value.
    fn get(&mut self, key: &str, out: &mut Vec<u8>) -> Result<bool> {
        self.queue(format_args!("get {key}"), None)?;
        self.send()?;
        self.value(out)
    }

    /// Sends a command and an optional value, and reads the first line of the answer.
    fn command(&mut self, command: std::fmt::Arguments<'_>, value: Option<&[u8]>) -> Result<&[u8]> {
        self.queue(command, value)?;
        self.send()?;
        self.answer()
    }

    fn queue(&mut self, command: std::fmt::Arguments<'_>, value: Option<&[u8]>) -> Result<()> {
        self.request.write_fmt(command).map_err(failed)?;
        self.request.extend_from_slice(b"\r\n");
        if let Some(value) = value {
            self.request.extend_from_slice(value);
            self.request.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        let sent = self.stream.get_mut().write_all(&self.request).map_err(failed);
        self.request.clear();
        sent
    }

    fn answer(&mut self) -> Result<&[u8]> {
        self.line.clear();
        self.stream.read_until(b'\n', &mut self.line).map_err(failed)?;
        self.line.strip_suffix(b"\r\n").ok_or_else(refused)
    }

    /// The answer to `get`.
    fn value(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let line = self.answer()?;
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
}

impl MemcachedTrips {
    /// Queues a change of the record and the removal of the lock. In four trips the change has its
    /// answer before the removal is sent.
    fn change_and_unlock(
        &mut self,
        session: usize,
        payload: Option<&[u8]>,
        expected: &[u8],
    ) -> Result<()> {
        let (record, lock) = self.keys.get(session).ok_or_else(unprepared)?;
        let (seconds, pipelined) = (self.ttl.as_secs().max(1), self.locking == Locking::TwoTrips);
        match payload.map(<[u8]>::len) {
            Some(size) => {
                self.line.queue(format_args!("set {record} 0 {seconds} {size}"), payload)?;
            }
            None => self.line.queue(format_args!("touch {record} {seconds}"), None)?,
        }
        let mut changed = None;
        if !pipelined {
            self.line.send()?;
            changed = Some(self.line.answer()? == expected);
        }
        if self.locking == Locking::Without {
            let is_right = self.ignores_answers || changed == Some(true);
            return if is_right { Ok(()) } else { Err(refused()) };
        }
        self.line.queue(format_args!("delete {lock}"), None)?;
        self.line.send()?;
        let changed = match changed {
            Some(changed) => changed,
            None => self.line.answer()? == expected,
        };
        match self.line.answer()? {
            b"DELETED" if changed => Ok(()),
            b"DELETED" => Err(refused()),
            _ => Err(Error::new(ErrorKind::Stale, "the lock had lapsed")),
        }
    }
}

impl Contender for MemcachedTrips {
    fn prefetch_ids(&mut self, sessions: &[usize]) {
        let keys = sessions.iter().filter_map(|session| self.keys.get(*session));
        prefetch(keys.flat_map(|(record, lock)| [record, lock]));
    }

    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        let (record, _) = self.keys.get(session).ok_or_else(unprepared)?;
        let (seconds, size) = (ttl.as_secs().max(1), payload.len());
        match self.line.command(format_args!("set {record} 0 {seconds} {size}"), Some(payload))? {
            b"STORED" => Ok(()),
            _ if self.ignores_answers => Ok(()),
            _ => Err(refused()),
        }
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let (record, _) = self.keys.get(session).ok_or_else(unprepared)?;
        let there = self.line.get(record, &mut self.out)?;
        Ok(there.then_some(self.out.as_slice()))
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        if self.locking == Locking::Without {
            self.begun = Some(session);
            return self.read(session);
        }
        let (record, lock) = self.keys.get(session).ok_or_else(unprepared)?;
        let pipelined = self.locking == Locking::TwoTrips;
        let (line, out, lock_s) = (&mut self.line, &mut self.out, self.lock_s);
        let poll = if pipelined { POLL_OF_PAIR } else { POLL_OF_HANDLER };
        let mut there = false;
        wait_for_lock(poll, || {
            line.queue(format_args!("add {lock} 0 {lock_s} 1"), Some(b"1"))?;
            if pipelined {
                line.queue(format_args!("get {record}"), None)?;
            }
            line.send()?;
            let locked = line.answer()? == b"STORED";
            if pipelined {
                there = line.value(out)?;
            }
            Ok(locked)
        })?;
        self.begun = Some(session);
        if pipelined {
            return Ok(there.then_some(self.out.as_slice()));
        }
        self.read(session)
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let session = self.begun.take().ok_or_else(unprepared)?;
        self.change_and_unlock(session, Some(payload), b"STORED")
    }

    fn touch(&mut self) -> Result<()> {
        let session = self.begun.take().ok_or_else(unprepared)?;
        self.change_and_unlock(session, None, b"TOUCHED")
    }

    fn release(&mut self) -> Result<()> {
        let Some(session) = self.begun.take().filter(|_| self.locking != Locking::Without) else {
            return Ok(());
        };
        let (_, lock) = self.keys.get(session).ok_or_else(unprepared)?;
        match self.line.command(format_args!("delete {lock}"), None)? {
            b"DELETED" => Ok(()),
            _ => Err(Error::new(ErrorKind::Stale, "the lock had lapsed")),
        }
    }
}
