//! `php+memcached:`: the sessions of the extension memcached, `memc.sess.key.<id>`.
//!
//! Only the crawler of memcached lists items (`lru_crawler metadump`, doc/protocol.txt): it writes
//! a line for each, without touching them. A dump cannot be resumed: it is read as it comes, a page
//! of lines at a time, and the crawler waits meanwhile. A server has one crawler, which also looks
//! for expired items by itself and then refuses dumps. So a refused dump is tried again; a crawler
//! that stays busy serves another dump.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use percent_encoding::percent_decode;
use sessile_core::{Clock, Error, ErrorKind, Result, Timestamp};

use super::{EntryName, Layout, ScannedEntry, Sizes, Walk};
use crate::connections::key_value;
use crate::connections::pool::PooledConnection;
use crate::connections::stream::Stream;
use crate::memcached::connection::Connection;
use crate::memcached::failure::translate;
use crate::memcached::options::{Endpoint, OF_CONNECTION, servers};
use crate::memcached::reply::Failure;
use crate::registry::option;
use crate::store_url::StoreUrl;

pub const LAYOUT: Layout = Layout {
    program: "php",
    storages: &["memcached", "memcached+unix"],
    reads: "the sessions of PHP's extension memcached",
    example: "php+memcached://host:11211,host2:11211",
    options: &[option("prefix", "memcached.sess_prefix (default memc.sess.key.)")],
    of_connection: |_| OF_CONNECTION,
    sessions_only: None,
    store: None,
    open,
};

const PREFIX: &str = "memc.sess.key.";
/// Between the prefix and the id in the key of a lock.
const LOCK: &[u8] = b"lock.";
/// A key has up to 250 bytes, three times as many when escaped, and is followed by numbers.
const LINE_BYTES_MAX: u64 = 2_048;
/// How long, and how often, a busy crawler is asked again.
const BUSY_MAX: Duration = Duration::from_secs(10);
const BUSY_PAUSE: Duration = Duration::from_millis(100);

fn open(url: &StoreUrl, _clock: &Clock) -> Result<Box<dyn Walk>> {
    let prefix = key_value::foreign_prefix(url, PREFIX)?;
    let dump = |server: Endpoint| {
        let response = server.timeouts.response;
        let connection = Connection::open(&server, Instant::now() + response);
        let stream = connection.map_err(|failure| translate(failure, &server.name))?.into_stream();
        Ok(Dump { stream, server: server.name, response, asked: false, busy_since: None })
    };
    let dumps = servers(url)?.into_iter().rev().map(dump).collect::<Result<_>>()?;
    Ok(Box::new(Items { bin: "session".into(), prefix, dumps }))
}

struct Items {
    bin: Arc<str>,
    prefix: String,
    /// The present one last.
    dumps: Vec<Dump>,
}

struct Dump {
    stream: BufReader<Stream>,
    server: String,
    /// How long a page may take.
    response: Duration,
    asked: bool,
    busy_since: Option<Instant>,
}

impl Walk for Items {
    fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(ScannedEntry)) -> Result<bool> {
        let Some(dump) = self.dumps.last_mut() else { return Ok(false) };
        dump.stream.get_mut().set_deadline(Instant::now() + dump.response);
        for _ in 0..entries_max {
            let line = dump.line()?;
            if line.starts_with("key=") {
                item(&line, &self.prefix, &self.bin).into_iter().for_each(&mut *show);
            } else if line == "END" {
                self.dumps.pop();
                return Ok(!self.dumps.is_empty());
            } else {
                dump.wait(&line)?;
                break; // a caller can stop between pages
            }
        }
        Ok(true)
    }

    fn sizes(&self) -> Sizes {
        Sizes::Memory
    }
}

impl Dump {
    /// Asks for the dump first, if necessary.
    fn line(&mut self) -> Result<String> {
        let server = self.server.as_str();
        let failed = |error: std::io::Error| translate(Failure::Io(error), server);
        if !self.asked {
            self.stream.get_mut().write_all(b"lru_crawler metadump all\r\n").map_err(failed)?;
            self.asked = true;
        }
        let mut line = Vec::new();
        self.stream.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(failed)?;
        let Some(line) = line.strip_suffix(b"\n") else {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        };
        // Keys are escaped.
        Ok(String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned())
    }

    /// After a refusal: waits for a busy crawler, to ask again.
    fn wait(&mut self, refusal: &str) -> Result<()> {
        let server = &self.server;
        if !refusal.starts_with("BUSY") {
            let why = format!("the server {server} does not list its items");
            return Err(Error::new(ErrorKind::Unsupported, why).advice(
                "it must be memcached 1.4.31 or later, started without -X and -o no_lru_crawler",
            ));
        }
        if self.busy_since.get_or_insert_with(Instant::now).elapsed() >= BUSY_MAX {
            let why = format!("the crawler of the server {server} is at work");
            return Err(Error::new(ErrorKind::Unreachable, why)
                .advice("somebody else has asked for a list; try again in a minute"));
        }
        std::thread::sleep(BUSY_PAUSE);
        self.asked = false;
        Ok(())
    }
}

/// Parses `key=memc.sess.key.abc exp=1700000000 la=1699990000 cas=1 fetch=yes cls=7 size=1024`.
fn item(line: &str, prefix: &str, bin: &Arc<str>) -> Option<ScannedEntry> {
    let mut words = line.split(' ').filter_map(|word| word.split_once('='));
    let (_, key) = words.next()?;
    let key: Vec<u8> = percent_decode(key.as_bytes()).collect();
    let id = key.strip_prefix(prefix.as_bytes()).filter(|id| !id.starts_with(LOCK))?;
    let (mut bytes, mut used, mut expires) = (None, None, None);
    for (name, value) in words {
        // -1, for an item that does not expire, is none.
        let number = value.parse::<u64>().ok();
        let moment = number.map(|seconds| Timestamp::from_ms(seconds.saturating_mul(1_000)));
        match name {
            "exp" => expires = moment,
            "la" => used = moment,
            "size" => bytes = number,
            _ => {}
        }
    }
    let name = EntryName::Secret(id.to_vec());
    Some(ScannedEntry { bin: Arc::clone(bin), name, bytes: bytes?, created: None, used, expires })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_session_is_read_and_any_other_is_not() {
        let bin: Arc<str> = "session".into();
        let read = |line: &str| item(line, PREFIX, &bin);
        let seen = read(
            "key=memc.sess.key.a%2Cb exp=1700000000 la=1699990000 cas=1 fetch=yes cls=7 size=1024",
        )
        .unwrap();
        assert_eq!((seen.name, seen.bytes), (EntryName::Secret(b"a,b".to_vec()), 1_024));
        assert_eq!(seen.expires, Some(Timestamp::from_ms(1_700_000_000_000)));
        assert_eq!(seen.used, Some(Timestamp::from_ms(1_699_990_000_000)));
        assert_eq!(read("key=memc.sess.key.a exp=-1 la=5 size=9").unwrap().expires, None);
        for line in [
            "key=memc.sess.key.lock.a exp=1 la=1 size=9",
            "key=other exp=1 size=9",
            "key=memc.sess.key.a",
            "",
        ] {
            assert!(read(line).is_none(), "{line}");
        }
    }
}
