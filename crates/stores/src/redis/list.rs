//! Looking at many records: SCAN in bounded steps, never KEYS.
//!
//! SCAN sees every key that exists all the time at least once, perhaps twice. It works in whole
//! buckets and may return a few more names than asked for; a page keeps those in its cursor, so
//! that its bound holds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::RedisResult;
use sessile_core::{
    Bin, Cursor, Filter, Head, Key, Limits, Listed, Page, Result, Stat, Stored, Ttl,
};

use super::bounded::Bounded;
use super::cluster::Node;
use super::connection::Connection;
use super::failure::redirection;
use super::value::{HEAD_BYTES, HEADER_BYTES, decode_header, payload_from};

/// What a value begins with, and its length.
type Beginning = (Vec<u8>, u64);

const STEP: usize = 1_000;
/// A count that takes longer stops and says so. Each step blocks the server for well under a
/// millisecond.
pub const COUNT_FOR: Duration = Duration::from_secs(5);

pub fn stat(store: &Bounded<'_>) -> Result<Stat> {
    let (now, start) = (store.clock.now(), Instant::now());
    let (mut stat, mut cursor) = (Stat::default(), String::from("0"));
    while !stat.complete && start.elapsed() <= COUNT_FOR {
        let (next, keys) = store.scan(&cursor, None, STEP)?;
        for (_, head, payload_bytes) in store.heads(keys)? {
            stat.count(&head, payload_bytes, now);
        }
        stat.complete = next == "0";
        cursor = next;
    }
    Ok(stat)
}

pub fn list(store: &Bounded<'_>, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
    let (mut at, mut keys) = match cursor {
        None => (Some(String::from("0")), Vec::new()),
        Some(cursor) => cursor.parse(parse)?,
    };
    if keys.is_empty() {
        let from = at.unwrap_or_else(|| String::from("0"));
        let (next, scanned) = store.scan(&from, filter.bin.as_ref(), filter.entries_max)?;
        (at, keys) = ((next != "0").then_some(next), scanned);
    }
    let rest = keys.split_off(filter.entries_max.min(keys.len()));
    let now = store.clock.now();
    let mut entries = Vec::new();
    let heads = if filter.owner.is_some() { store.heads_behind(keys) } else { store.heads(keys) };
    for (key, head, payload_bytes) in heads? {
        if !head.expired(now) && filter.matches(&key, payload_bytes, head.owner) {
            entries.push(Listed { key, payload_bytes, head });
        }
    }
    let more = at.is_some() || !rest.is_empty();
    Ok(Page { entries, next: more.then(|| print(at.as_deref(), &rest)) })
}

impl Bounded<'_> {
    /// One step of a scan over all servers, one after the other. `at` is `cursor` or, in a cluster,
    /// `cursor@host:port`; "0" begins, and is answered at the end.
    fn scan(&self, at: &str, bin: Option<&Bin>, count: usize) -> Result<(String, Vec<Key>)> {
        let (cursor, server) = at.split_once('@').unwrap_or((at, ""));
        let mut servers = self.servers.all(self.deadline)?.into_iter().peekable();
        // A server that is no primary any more has its sessions elsewhere: the scan goes on with
        // the next one.
        while servers.next_if(|(name, _)| name.as_str() < server).is_some() {}
        let Some((name, node)) = servers.next() else { return Ok(("0".to_owned(), Vec::new())) };
        let cursor = if name == server { cursor } else { "0" };
        let mut command = redis::cmd("SCAN");
        command.arg(cursor).arg("MATCH").arg(self.names.data_pattern(bin)).arg("COUNT").arg(count);
        let ask = |connection: &mut Connection| command.query(connection);
        let (next, names): (String, Vec<Vec<u8>>) = node.with(self.deadline, ask)?;
        let next = match (next.as_str(), servers.next()) {
            ("0", None) => next,
            ("0", Some((following, _))) => format!("0@{following}"),
            _ if name.is_empty() => next,
            _ => format!("{next}@{name}"),
        };
        Ok((next, names.iter().filter_map(|name| self.names.parse_data(name)).collect()))
    }

    /// The heads of records, live or expired, and the sizes of their payloads, in one round trip to
    /// each server. Keys that are gone by now or hold no record are left out. Of damaged ones only
    /// the size is right: whoever reads the session learns why.
    fn heads(&self, keys: Vec<Key>) -> Result<Vec<(Key, Head, u64)>> {
        let (beginnings, now) = (self.beginnings(&keys, HEAD_BYTES)?, self.clock.now());
        let records = keys.into_iter().zip(beginnings).filter_map(|(key, beginning)| {
            let (header, bytes) = beginning?;
            let Ok(stored) = decode_header(&header, |_| Ok(())) as Result<Stored<()>> else {
                let ttl = Ttl::sliding(Limits::TTL_MAX).ok()?;
                return Some((key, Head::next(None, ttl, now), bytes));
            };
            let head = stored.head()?;
            Some((key, head, bytes.checked_sub(payload_from(Some(&head)) as u64)?))
        });
        Ok(records.collect())
    }

    /// [`Bounded::heads`], where a regenerated id leads to its session, also after its grace: the
    /// session may have got its id behind the scan. One more round trip for each step of aliases,
    /// in a cluster to each server.
    fn heads_behind(&self, keys: Vec<Key>) -> Result<Vec<(Key, Head, u64)>> {
        let (mut heads, mut keys) = (Vec::new(), keys);
        for step in 0..=Limits::ALIAS_STEPS_MAX + 1 {
            // The first look finds the aliases, the others read their targets, too.
            let read = if step == 0 { HEAD_BYTES } else { HEADER_BYTES + Limits::ID_BYTES_MAX };
            let beginnings = self.beginnings(&keys, read)?;
            let mut next = Vec::new();
            for (key, beginning) in keys.into_iter().zip(beginnings) {
                let Some((header, bytes)) = beginning else { continue };
                let target = |id: &[u8]| if step == 0 { Ok(key.clone()) } else { key.sibling(id) };
                let Ok(stored) = decode_header(&header, target) else { continue };
                next.extend(stored.regenerated_to().cloned());
                if let Some(head) = stored.head()
                    && let Some(bytes) = bytes.checked_sub(payload_from(Some(&head)) as u64)
                {
                    heads.push((key, head, bytes));
                }
            }
            keys = next;
        }
        Ok(heads)
    }

    /// What the values of keys begin with, and their lengths, in one round trip to each server.
    fn beginnings(&self, keys: &[Key], bytes: usize) -> Result<Vec<Option<Beginning>>> {
        let (mut beginnings, mut keys) = (Vec::with_capacity(keys.len()), keys);
        while let Some(first) = keys.first() {
            let node = self.servers.node_of(self.deadline, first)?;
            // The keys of a page come from one server, and so nearly all are there.
            let is_elsewhere = |key: &Key| {
                let other = self.servers.node_of(self.deadline, key);
                !other.is_ok_and(|other| Arc::ptr_eq(&node, &other))
            };
            let end = keys.iter().skip(1).position(is_elsewhere).map_or(keys.len(), |at| at + 1);
            let (together, rest) = keys.split_at(end);
            beginnings.extend(self.beginnings_at(&node, together, bytes)?);
            keys = rest;
        }
        Ok(beginnings)
    }

    fn beginnings_at(
        &self,
        node: &Node,
        keys: &[Key],
        bytes: usize,
    ) -> Result<Vec<Option<Beginning>>> {
        let mut pipeline = redis::pipe();
        for key in keys {
            let name = self.names.data(key);
            pipeline.cmd("GETRANGE").arg(&name).arg(0).arg(bytes - 1);
            pipeline.cmd("STRLEN").arg(&name);
        }
        pipeline.ignore_errors();
        node.with(self.deadline, |server| {
            let answers: Vec<(RedisResult<_>, RedisResult<_>)> = pipeline.query(server)?;
            answers.into_iter().map(|(header, bytes)| of_a_string(header, bytes)).collect()
        })
    }
}

/// Both answers; `None` for a key of another type, or one that has moved to another server.
fn of_a_string<A, B>(header: RedisResult<A>, bytes: RedisResult<B>) -> RedisResult<Option<(A, B)>> {
    match (header, bytes) {
        (Ok(header), Ok(bytes)) => Ok(Some((header, bytes))),
        (Err(error), _) | (_, Err(error))
            if error.code() == Some("WRONGTYPE") || redirection(&error).is_some() =>
        {
            Ok(None)
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

/// `SCAN cursor or -|bin/id|bin/id...`, where the cursor may have a server behind it.
fn print(at: Option<&str>, rest: &[Key]) -> Cursor {
    let tags = rest.iter().map(|key| Cursor::from(key).0);
    let parts: Vec<String> = [at.unwrap_or("-").to_owned()].into_iter().chain(tags).collect();
    Cursor(parts.join("|"))
}

fn parse(cursor: &str) -> Option<(Option<String>, Vec<Key>)> {
    let mut parts = cursor.split('|');
    let at = match parts.next()? {
        "-" => None,
        at => {
            let (cursor, server) = at.split_once('@').map_or((at, None), |(c, s)| (c, Some(s)));
            let cursor = cursor.parse::<u64>().ok()?.to_string();
            Some(server.map_or(cursor.clone(), |server| format!("{cursor}@{server}")))
        }
    };
    let key = |tag: &str| Key::try_from(&Cursor(tag.to_owned())).ok();
    let rest: Vec<Key> = parts.map(key).collect::<Option<_>>()?;
    // Neither a place to go on nor keys: no page ends like that.
    (at.is_some() || !rest.is_empty()).then_some((at, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_a_foreign_one_is_refused() {
        let other = Key::in_bin(Bin::new("c").unwrap(), "x:y.z").unwrap();
        let keys = vec![Key::session("a,b").unwrap(), other];
        for at in [Some("17"), Some("17@127.0.0.1:7001"), None] {
            let read = parse(&print(at, &keys).0);
            assert_eq!(read, Some((at.map(str::to_owned), keys.clone())));
        }
        for foreign in ["", "-", "x", "session/a", "1|", "1|session", "-1|session/a"] {
            assert_eq!(parse(foreign), None, "{foreign}");
        }
    }
}
