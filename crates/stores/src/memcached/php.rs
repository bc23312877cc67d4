//! `php+memcached:`: the sessions that the extension memcached keeps, `memc.sess.key.<id>`.
//!
//! memcached lists its items in one way only: its crawler writes a line for each to whoever asks (`lru_crawler metadump`,
//! doc/protocol.txt), without touching them. One dump is one answer, so there is no going on where another has ended: it
//! is read as it comes, a page of lines at a time, and the crawler waits while nobody reads. A server has one crawler. It
//! looks for expired items by itself, too, and refuses everybody else then: a refusal is answered with another try, which the
//! server makes room for; who has the crawler for long is somebody else who lists.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use percent_encoding::percent_decode;
use sessile_core::{Clock, Error, ErrorKind, Result, Timestamp};

use super::connection::Connection;
use super::failure::translate;
use super::options::{OF_CONNECTION, Options};
use super::reply::Failure;
use crate::connecting::Address;
use crate::foreign::{Layout, Name, Seen, Sizes, Walk};
use crate::key_value;
use crate::registry::OptionHelp;
use crate::store_url::StoreUrl;
use crate::stream::Stream;

pub(crate) const LAYOUT: Layout = Layout {
    schemes: &["php+memcached", "php+memcached+unix"],
    reads: "the sessions of PHP's extension memcached",
    example: "php+memcached://host:11211,host2:11211",
    options: &[OptionHelp { name: "prefix", help: "memcached.sess_prefix (default memc.sess.key.)" }],
    of_connection: |_| OF_CONNECTION,
    open,
};

const PREFIX: &str = "memc.sess.key.";
/// What stands between the prefix and the id in the key of a lock.
const LOCK: &[u8] = b"lock.";
/// A key has up to 250 bytes, three times as many when each is escaped, and the numbers behind it.
const LINE_BYTES_MAX: u64 = 2_048;
/// How long a crawler that is at work is asked again, and how often.
const BUSY_MAX: Duration = Duration::from_secs(10);
const BUSY_PAUSE: Duration = Duration::from_millis(100);

fn open(url: &StoreUrl, _clock: &Clock) -> Result<Box<dyn Walk>> {
    let prefix = key_value::foreign_prefix(url, PREFIX)?;
    let options = Options::with_prefix(url, String::new())?;
    let mut dumps = Vec::new();
    for address in &options.addresses {
        let server = name_of(address);
        let connection = Connection::open(address, &options.login, options.timeouts);
        let stream = connection.map_err(|failure| translate(failure, &server))?.into_stream();
        dumps.push(Dump { stream, server, asked: false, busy_since: None });
    }
    dumps.reverse();
    Ok(Box::new(Items { bin: "session".into(), prefix, dumps }))
}

fn name_of(address: &Address) -> String {
    match address {
        Address::Unix(path) => path.display().to_string(),
        Address::Tcp { host, port } => format!("{host}:{port}"),
    }
}

struct Items {
    bin: Arc<str>,
    prefix: String,
    /// Of the servers whose items were not all seen, the present one last.
    dumps: Vec<Dump>,
}

struct Dump {
    stream: BufReader<Stream>,
    server: String,
    asked: bool,
    /// When the server first said that its crawler is at work.
    busy_since: Option<Instant>,
}

/// What a server says next.
enum Line {
    /// Of an item.
    Item(Vec<u8>),
    /// There are no more.
    End,
    /// Its crawler is at work, and there is time to ask again.
    Busy,
}

impl Walk for Items {
    fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(Seen)) -> Result<bool> {
        let Some(dump) = self.dumps.last_mut() else { return Ok(false) };
        for _ in 0..entries_max {
            match dump.next_line()? {
                Line::Item(line) => {
                    if let Some(seen) = item(&line, &self.prefix, &self.bin) {
                        show(seen);
                    }
                }
                Line::End => {
                    self.dumps.pop();
                    return Ok(!self.dumps.is_empty());
                }
                // Whoever walks may want to end it between pages.
                Line::Busy => return Ok(true),
            }
        }
        Ok(true)
    }

    fn sizes(&self) -> Sizes {
        Sizes::Memory
    }
}

impl Dump {
    /// Asks for the dump if need be, and reads a line of it.
    fn next_line(&mut self) -> Result<Line> {
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
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.starts_with(b"key=") {
            return Ok(Line::Item(line.to_vec()));
        }
        match line {
            b"END" => Ok(Line::End),
            _ if line.starts_with(b"BUSY") => self.wait(),
            _ => Err(Error::new(ErrorKind::Unsupported, format!("the server {server} does not list its items"))
                .advice("it must be memcached 1.4.31 or later, started without -X and -o no_lru_crawler")),
        }
    }

    /// Waits a little for the crawler.
    fn wait(&mut self) -> Result<Line> {
        if self.busy_since.get_or_insert_with(Instant::now).elapsed() >= BUSY_MAX {
            let why = format!("the crawler of the server {} is at work", self.server);
            return Err(Error::new(ErrorKind::Unreachable, why)
                .advice("somebody else has asked for a list; try again in a minute"));
        }
        std::thread::sleep(BUSY_PAUSE);
        self.asked = false;
        Ok(Line::Busy)
    }
}

/// What a line says: `key=memc.sess.key.abc exp=1700000000 la=1699990000 cas=1 fetch=yes cls=7 size=1024`.
fn item(line: &[u8], prefix: &str, bin: &Arc<str>) -> Option<Seen> {
    let text = std::str::from_utf8(line).ok()?;
    let mut words = text.split(' ').filter_map(|word| word.split_once('='));
    let (_, key) = words.next()?;
    let key: Vec<u8> = percent_decode(key.as_bytes()).collect();
    let id = key.strip_prefix(prefix.as_bytes()).filter(|id| !id.starts_with(LOCK))?;
    let (mut bytes, mut used, mut expires) = (None, None, None);
    for (name, value) in words {
        // -1 of an item that does not expire is no number here.
        let number = value.parse::<u64>().ok();
        let moment = number.map(|seconds| Timestamp::from_ms(seconds.saturating_mul(1_000)));
        match name {
            "exp" => expires = moment,
            "la" => used = moment,
            "size" => bytes = number,
            _ => {}
        }
    }
    let name = Name::Secret(id.to_vec());
    Some(Seen { bin: Arc::clone(bin), name, bytes: bytes?, created: None, used, expires })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_session_is_read_and_any_other_is_not() {
        let bin: Arc<str> = "session".into();
        let read = |line: &str| item(line.as_bytes(), PREFIX, &bin);
        let seen =
            read("key=memc.sess.key.a%2Cb exp=1700000000 la=1699990000 cas=1 fetch=yes cls=7 size=1024").unwrap();
        assert_eq!((seen.name, seen.bytes), (Name::Secret(b"a,b".to_vec()), 1_024));
        assert_eq!(seen.expires, Some(Timestamp::from_ms(1_700_000_000_000)));
        assert_eq!(seen.used, Some(Timestamp::from_ms(1_699_990_000_000)));
        assert_eq!(read("key=memc.sess.key.a exp=-1 la=5 size=9").unwrap().expires, None);
        for line in ["key=memc.sess.key.lock.a exp=1 la=1 size=9", "key=other exp=1 size=9", "key=memc.sess.key.a", ""]
        {
            assert!(read(line).is_none(), "{line}");
        }
    }
}
