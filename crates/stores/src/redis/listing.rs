//! Looking at many records: SCAN in bounded steps, never KEYS.
//!
//! SCAN sees every key that exists all the time at least once, perhaps twice. It works in whole buckets and
//! may return a few more names than asked for; a page keeps those in its cursor, so that its bound holds.

use std::time::{Duration, Instant};

use redis::Value;
use sessile_core::{Bin, Cursor, Entry, Error, ErrorKind, Filter, Key, Page, Result, Stat, Timestamp};

use super::Redis;
use super::failure::unexpected;
use super::keys::parse_tag;
use super::value::{HEADER_BYTES, Header, Kind};

/// Keys that one SCAN of a count visits.
const STEP: usize = 1_000;
/// A count that takes longer stops and says so. Each step blocks the server for well under a millisecond.
const COUNT_FOR: Duration = Duration::from_secs(5);

/// A data key, its decoded header and the size of its payload.
type Seen = (Key, Header, u64);

impl Redis {
    pub(super) fn count(&self) -> Result<Stat> {
        let (now, start) = (self.clock.now(), Instant::now());
        let mut stat = Stat { complete: true, ..Stat::default() };
        let mut cursor = String::from("0");
        loop {
            let (next, keys) = self.scan(&cursor, None, STEP)?;
            for (_, header, payload_bytes) in self.headers(keys)? {
                add(&mut stat, &header, payload_bytes, now);
            }
            cursor = next;
            if cursor == "0" {
                return Ok(stat);
            }
            if start.elapsed() > COUNT_FOR {
                return Ok(Stat { complete: false, ..stat });
            }
        }
    }

    pub(super) fn page(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let (mut at, mut keys) = match cursor {
            None => (Some(String::from("0")), Vec::new()),
            Some(cursor) => parse(cursor)
                .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "the cursor is not one of this store"))?,
        };
        if keys.is_empty() {
            let from = at.take().unwrap_or_else(|| String::from("0"));
            let (next, scanned) = self.scan(&from, filter.bin.as_ref(), filter.entries_max)?;
            keys = scanned;
            at = (next != "0").then_some(next);
        }
        let rest = keys.split_off(filter.entries_max.min(keys.len()));
        let now = self.clock.now();
        let wanted = |(key, header, payload_bytes): &Seen| {
            live(header, now)
                && *payload_bytes >= filter.payload_bytes_min
                && filter.bin.as_ref().is_none_or(|bin| bin == key.bin())
        };
        let entries = self.headers(keys)?.into_iter().filter(wanted).map(entry).collect();
        let more = at.is_some() || !rest.is_empty();
        Ok(Page { entries, next: more.then(|| Cursor(print(at.as_deref(), &rest))) })
    }

    fn scan(&self, cursor: &str, bin: Option<&Bin>, count: usize) -> Result<(String, Vec<Key>)> {
        let pattern = self.names.data_pattern(bin);
        let answer =
            self.pool.call(redis::cmd("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(count))?;
        let (next, names): (String, Vec<Vec<u8>>) = redis::from_redis_value(answer).map_err(|_| unexpected())?;
        Ok((next, names.iter().filter_map(|name| self.names.parse_data(name)).collect()))
    }

    /// The headers of some keys in one round trip. What is gone by now or is not ours is left out.
    fn headers(&self, keys: Vec<Key>) -> Result<Vec<Seen>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = redis::pipe();
        for key in &keys {
            let name = self.names.data(key);
            pipeline.cmd("GETRANGE").arg(&name).arg(0).arg(HEADER_BYTES - 1);
            pipeline.cmd("STRLEN").arg(&name);
        }
        let answers = self.pool.pipeline(&pipeline)?;
        let (pairs, _) = answers.as_chunks::<2>();
        let seen = keys.into_iter().zip(pairs).filter_map(|(key, pair)| match pair {
            [Value::BulkString(head), Value::Int(bytes)] => {
                let payload = u64::try_from(*bytes).ok()?.checked_sub(HEADER_BYTES as u64)?;
                Some((key, Header::decode(head).ok()?, payload))
            }
            _ => None,
        });
        Ok(seen.collect())
    }
}

fn live(header: &Header, now: Timestamp) -> bool {
    header.kind == Kind::Live && header.expires > now
}

fn add(stat: &mut Stat, header: &Header, payload_bytes: u64, now: Timestamp) {
    if live(header, now) {
        stat.sessions += 1;
        stat.payload_bytes += payload_bytes;
        let oldest = stat.oldest_written.get_or_insert(header.written);
        *oldest = header.written.min(*oldest);
    } else if header.kind == Kind::Live {
        stat.expired += 1;
    }
}

fn entry((key, header, payload_bytes): Seen) -> Entry {
    let Header { version, created, written, expires, .. } = header;
    Entry { key, payload_bytes, version, created, written, expires }
}

/// `SCAN cursor or -|bin/id|bin/id...`
fn print(at: Option<&str>, rest: &[Key]) -> String {
    let mut text = String::from(at.unwrap_or("-"));
    for key in rest {
        text.push('|');
        text.push_str(key.bin().name());
        text.push('/');
        text.push_str(key.id());
    }
    text
}

fn parse(cursor: &Cursor) -> Option<(Option<String>, Vec<Key>)> {
    let mut parts = cursor.0.split('|');
    let at = match parts.next()? {
        "-" => None,
        at if at.parse::<u64>().is_ok() => Some(at.to_owned()),
        _ => return None,
    };
    let rest: Vec<Key> = parts.map(parse_tag).collect::<Option<_>>()?;
    // Neither a place to go on nor keys: no page ends like that.
    (at.is_some() || !rest.is_empty()).then_some((at, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_a_foreign_one_is_refused() {
        let keys = vec![Key::session("a,b").unwrap(), Key::in_bin(Bin::new("c").unwrap(), "x:y.z").unwrap()];
        let read = |text: &str| parse(&Cursor(text.to_owned()));
        assert_eq!(read(&print(Some("17"), &keys)), Some((Some("17".into()), keys.clone())));
        assert_eq!(read(&print(None, &keys)), Some((None, keys)));
        for foreign in ["", "-", "x", "session/a", "1|", "1|session", "-1|session/a"] {
            assert_eq!(read(foreign), None, "{foreign}");
        }
    }
}
