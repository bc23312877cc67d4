//! What a server answers, from the bytes.
//!
//! Invariant: bytes from the server are untrusted. Lines and values are bounded, a value takes no
//! memory before its bytes are there, and after a [`Failure`] the connection is not used again.
//!
//! A server that starts counts CAS numbers anew: a successor may be given the very numbers that a
//! lease from before knows. So a number goes with the [`Generation`] of its server, and is never
//! sent to another (`request`, `connection`).

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};
use std::str::FromStr;

/// Longest line of an answer. Meta answers have a few flags, lines of `stats` a word and a number
/// or a path.
const LINE_BYTES_MAX: u64 = 8_192;
/// Largest value that a server can have: `-I` ends at 1 GiB.
pub const VALUE_BYTES_MAX: u64 = 1 << 30;
/// Most lines of `stats`; a server has about a hundred.
const STATS_LINES_MAX: usize = 4_096;
/// Memory for a value before its first byte is there.
const RESERVED_AT_ONCE: u64 = 64 << 10;

#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done, with what was asked for.
    Done(Item),
    /// Not done: there is an item already, or it has another CAS number.
    Refused,
    Missing,
    Failed(Fault),
}

/// An item, as far as it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    pub value: Vec<u8>,
    pub cas: Cas,
    /// The client flags: we store the kind of a record there.
    pub flags: u32,
    /// Seconds that it lives on, by the server's clock; `None` for ever.
    pub life_s: Option<u32>,
    /// It was invalidated after it was stored.
    pub stale: bool,
}

/// The number that the server gave an item when it was last changed. The default fits no item: it
/// is of no generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cas {
    pub number: u64,
    pub generation: Generation,
}

/// One run of one server, from its start to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    pub pid: u64,
    /// In seconds. The server computes both its time and its uptime from this, so their difference
    /// never changes.
    pub started_s: u64,
}

/// Why a server could not carry out a command. The connection goes on.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    TooLarge,
    OutOfMemory,
    /// Whatever else; the text is the server's, and may repeat what it was sent.
    Other,
}

/// Why nothing more can be read from a connection.
#[derive(Debug)]
pub enum Failure {
    Io(io::Error),
    Garbled(&'static str),
    /// It wants a login, or another one.
    Denied,
    /// It has as many connections as it takes.
    Crowded,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

pub fn read(from: &mut impl BufRead) -> Result<Reply, Failure> {
    let line = line(from)?;
    let (word, rest) = first_word(&line);
    Ok(match word {
        "HD" => Reply::Done(flags(rest)?),
        "VA" => Reply::Done(value(from, rest)?),
        "STORED" => Reply::Done(Item::default()),
        "NS" | "EX" | "NOT_STORED" | "EXISTS" => Reply::Refused,
        "EN" | "NF" | "NOT_FOUND" => Reply::Missing,
        "SERVER_ERROR" => Reply::Failed(fault(rest)),
        _ => return Err(failure(word, rest)),
    })
}

pub type Statistics = BTreeMap<String, String>;

pub fn read_stats(from: &mut impl BufRead) -> Result<Statistics, Failure> {
    let mut stats = Statistics::new();
    for _ in 0..STATS_LINES_MAX {
        let line = line(from)?;
        match first_word(&line) {
            ("STAT", rest) => {
                let (name, value) = first_word(rest);
                stats.insert(name.to_owned(), value.to_owned());
            }
            ("END", "") => return Ok(stats),
            (word, rest) => return Err(failure(word, rest)),
        }
    }
    Err(Failure::Garbled("the statistics have no end"))
}

fn first_word(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

/// What is wrong, by a line that is no answer.
fn failure(word: &str, rest: &str) -> Failure {
    let begins = |texts: [&str; 2]| texts.iter().any(|text| rest.starts_with(text));
    match word {
        "CLIENT_ERROR" if begins(["unauthenticated", "authentication failure"]) => Failure::Denied,
        "CLIENT_ERROR" => Failure::Garbled("the server found a request malformed"),
        "ERROR" if rest.starts_with("Too many open connections") => Failure::Crowded,
        "ERROR" => Failure::Garbled("the server does not know a command"),
        _ => Failure::Garbled("an answer is none of memcached's"),
    }
}

fn line(from: &mut impl BufRead) -> Result<String, Failure> {
    let mut line = Vec::new();
    let bytes = from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    let Some(text) = line.strip_suffix(b"\r\n") else {
        return Err(if line.ends_with(b"\n") {
            Failure::Garbled("a line ends as none of memcached's does")
        } else if bytes as u64 == LINE_BYTES_MAX {
            Failure::Garbled("a line has no end")
        } else {
            Failure::Io(io::ErrorKind::UnexpectedEof.into())
        });
    };
    String::from_utf8(text.to_vec()).map_err(|_| Failure::Garbled("a line is not text"))
}

fn value(from: &mut impl BufRead, rest: &str) -> Result<Item, Failure> {
    let (size, rest) = first_word(rest);
    let size = Some(number::<u64>(size)?).filter(|size| *size <= VALUE_BYTES_MAX);
    let size = size.ok_or(Failure::Garbled("a value is larger than any"))?;
    let mut item = flags(rest)?;
    item.value.reserve(usize::try_from(size.min(RESERVED_AT_ONCE)).unwrap_or(0));
    from.by_ref().take(size).read_to_end(&mut item.value)?;
    let mut end = [0; 2];
    from.read_exact(&mut end)?; // fails after a value that was cut short, too
    match &end {
        b"\r\n" => Ok(item),
        _ => Err(Failure::Garbled("a value does not end where it should")),
    }
}

fn flags(text: &str) -> Result<Item, Failure> {
    let mut item = Item::default();
    for flag in text.split_ascii_whitespace() {
        let mut characters = flag.chars();
        let (name, rest) = (characters.next(), characters.as_str());
        match name {
            Some('c') => item.cas.number = number(rest)?,
            Some('f') => item.flags = number(rest)?,
            Some('t') if rest == "-1" => item.life_s = None,
            Some('t') => item.life_s = Some(number(rest)?),
            Some('X') => item.stale = true,
            // W and Z (who may recache) mean nothing to us; others were not asked for.
            _ => {}
        }
    }
    Ok(item)
}

fn number<N: FromStr>(text: &str) -> Result<N, Failure> {
    text.parse().map_err(|_| Failure::Garbled("a number of an answer is malformed"))
}

fn fault(text: &str) -> Fault {
    let text = text.to_ascii_lowercase();
    if text.contains("too large") {
        Fault::TooLarge
    } else if text.contains("out of memory") {
        Fault::OutOfMemory
    } else {
        Fault::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(bytes: &[u8]) -> Result<Reply, Failure> {
        read(&mut &*bytes)
    }

    #[test]
    fn the_answers_of_a_server_are_understood() {
        let item = |value: &[u8], number, life_s, stale| {
            let cas = Cas { number, ..Cas::default() };
            Item { value: value.to_vec(), cas, flags: 0, life_s, stale }
        };
        assert_eq!(
            one(b"VA 4 c7 t50 X W\r\n\r\na\n\r\n").unwrap(),
            Reply::Done(item(b"\r\na\n", 7, Some(50), true))
        );
        assert_eq!(one(b"VA 0 c7 t-1 W\r\n\r\n").unwrap(), Reply::Done(item(b"", 7, None, false)));
        assert_eq!(
            one(b"HD f76 c1\r\n").unwrap(),
            Reply::Done(Item { flags: 76, ..item(b"", 1, None, false) })
        );
        assert_eq!(one(b"HD\r\n").unwrap(), Reply::Done(Item::default()));
        assert_eq!(one(b"EXISTS\r\n").unwrap(), Reply::Refused);
        assert_eq!(one(b"EN\r\n").unwrap(), Reply::Missing);
        assert_eq!(
            one(b"SERVER_ERROR object too large for cache\r\n").unwrap(),
            Reply::Failed(Fault::TooLarge)
        );
        assert_eq!(
            one(b"SERVER_ERROR Out of memory\r\n").unwrap(),
            Reply::Failed(Fault::OutOfMemory)
        );
        assert!(matches!(one(b"CLIENT_ERROR unauthenticated.\r\n"), Err(Failure::Denied)));
        assert!(matches!(one(b"ERROR Too many open connections\r\n"), Err(Failure::Crowded)));
    }

    /// Each of these cost somebody's client an allocation of gigabytes, a hang or a panic.
    #[test]
    fn hostile_answers_are_refused_and_take_no_memory() {
        for hostile in [
            "VA 1099511627776 c1\r\n".to_owned(),
            "VA -1\r\n".to_owned(),
            "VA 99999999999999999999999999\r\n".to_owned(),
            "VA 3\r\nabcdefg\r\n".to_owned(),
            "VA\r\n".to_owned(),
            "HD c-1\r\n".to_owned(),
            "HD t99999999999999999999\r\n".to_owned(),
            "HD\n".to_owned(),
            "\r\n".to_owned(),
            "VALUE k 0 3\r\nabc\r\nEND\r\n".to_owned(),
            format!("HD {}\r\n", "x".repeat(20_000)),
        ] {
            assert!(matches!(one(hostile.as_bytes()), Err(Failure::Garbled(_))), "{:.40}", hostile);
        }
        // A gigabyte announced, ten bytes sent.
        assert!(matches!(one(b"VA 1073741824 c1\r\n0123456789"), Err(Failure::Io(_))));
        assert!(matches!(one(b"VA 4 c1\r\nab"), Err(Failure::Io(_))));
        assert!(matches!(one(b"HD"), Err(Failure::Io(_))));
    }

    #[test]
    fn no_bytes_make_it_panic_or_read_for_ever() {
        let mut random = fastrand::Rng::with_seed(7);
        let words: [&[u8]; 12] = [
            b"VA ",
            b"HD ",
            b"EN\r\n",
            b"\r\n",
            b"c1",
            b" ",
            b"99999",
            b"STAT ",
            b"END\r\n",
            b"SERVER_ERROR ",
            b"\n",
            b"\0",
        ];
        for _ in 0..20_000 {
            let mut bytes = Vec::new();
            for _ in 0..random.usize(0..12) {
                if random.bool() {
                    bytes.extend_from_slice(random.choice(words).unwrap());
                } else {
                    bytes.push(random.u8(..));
                }
            }
            let _ = one(&bytes);
            let _ = read_stats(&mut bytes.as_slice());
        }
    }

    #[test]
    fn statistics_are_pairs_and_have_an_end() {
        let stats =
            read_stats(&mut b"STAT item_size_max 1048576\r\nSTAT a b c\r\nEND\r\n".as_slice())
                .unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(stats, [pair("item_size_max", "1048576"), pair("a", "b c")].into());
        let endless = "STAT a b\r\n".repeat(STATS_LINES_MAX + 1);
        assert!(matches!(read_stats(&mut endless.as_bytes()), Err(Failure::Garbled(_))));
    }
}
