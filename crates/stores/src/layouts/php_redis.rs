//! `php+redis:`: the sessions of the extension phpredis, `PHPREDIS_SESSION:<id>`.
//!
//! Source: redis_session.c of phpredis; the manual of Redis on SCAN, OBJECT IDLETIME and CLIENT
//! NO-TOUCH. A scan must not touch: idle sessions would look busy, and eviction would change. Redis
//! 7.2 and later have NO-TOUCH. Earlier ones touch a value when asked for its length; there the
//! size is the entry's memory, and a content that is read counts as used at that moment.
//!
//! A content is what PHP has serialised, unless `redis.session.compression` is set: then nobody
//! but phpredis can read it, and a copy is refused where the bytes tell that.

mod listing;
mod saving;
mod store;

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{ConnectionLike, Pipeline, Value};
use sessile_core::{Clock, Error, ErrorKind, OwnerChange, Result, Timestamp};

use super::{EntryName, ForeignSession, Layout, ScannedEntry, Sizes, Walk};
use crate::connections::key_value;
use crate::connections::pool::AttemptFailure;
use crate::redis::connection::{Connection, OF_CONNECTION, Settings};
use crate::redis::failure::{translate, unexpected};
use crate::registry::option;
use crate::store_url::StoreUrl;

pub const LAYOUT: Layout = Layout {
    program: "php",
    storages: &["redis", "rediss", "redis+unix"],
    reads: "the sessions of PHP's extension redis",
    example: "php+redis://host/0",
    options: &[option(
        "prefix",
        "that of session.save_path (default PHPREDIS_SESSION:; in a cluster \
         PHPREDIS_CLUSTER_SESSION:)",
    )],
    of_connection: |_| OF_CONNECTION,
    sessions_only: None,
    store: Some(store::open),
    open,
};

const PREFIX: &str = "PHPREDIS_SESSION:";
const LOCK_SUFFIX: &[u8] = b"_LOCK";
const ANSWERS_PER_KEY: usize = 3;
/// The first bytes of igbinary's formats.
const IGBINARY: [[u8; 4]; 2] = [[0, 0, 0, 1], [0, 0, 0, 2]];
/// The first bytes of what Zstandard has compressed (RFC 8878, 3.1.1).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

fn open(url: &StoreUrl, clock: &Clock) -> Result<Box<dyn Walk>> {
    let prefix = key_value::foreign_prefix(url, PREFIX)?;
    let settings = Settings::parse(url)?;
    let response = settings.timeouts.response;
    let mut connection =
        Connection::connect(&settings, Instant::now() + response).map_err(translate)?;
    let sizes = match redis::cmd("CLIENT").arg("NO-TOUCH").arg("ON").exec(&mut connection) {
        Ok(()) => Sizes::Payload,
        Err(failure) if failure.breaks_connection() => return Err(translate(failure)),
        Err(_) => Sizes::Memory,
    };
    Ok(Box::new(Keys {
        bin: "session".into(),
        clock: clock.clone(),
        connection,
        response,
        prefix,
        sizes,
        cursor: b"0".to_vec(),
    }))
}

struct Keys {
    bin: Arc<str>,
    clock: Clock,
    connection: Connection,
    /// How long a page may take.
    response: Duration,
    prefix: String,
    sizes: Sizes,
    cursor: Vec<u8>,
}

impl Walk for Keys {
    fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(ScannedEntry)) -> Result<bool> {
        self.connection.set_deadline(Instant::now() + self.response);
        let mut scan = redis::cmd("SCAN");
        scan.arg(&self.cursor).arg("MATCH").arg(beginning_with(&self.prefix));
        scan.arg("COUNT").arg(entries_max).arg("TYPE").arg("string");
        let (next, mut keys): (Vec<u8>, Vec<Vec<u8>>) =
            scan.query(&mut self.connection).map_err(translate)?;
        keys.retain(|key| !key.ends_with(LOCK_SUFFIX));
        self.look_at(&keys, show)?;
        let more = next != b"0";
        self.cursor = next;
        Ok(more)
    }

    /// With the keys of other programs in the same database, and locks.
    fn count(&mut self) -> Option<u64> {
        self.connection.set_deadline(Instant::now() + self.response);
        redis::cmd("DBSIZE").query(&mut self.connection).ok()
    }

    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn check_contents(&self) -> Result<()> {
        Ok(())
    }

    fn read(&mut self, entry: &ScannedEntry) -> Result<Option<ForeignSession>> {
        let EntryName::Secret(id) = &entry.name else { return Ok(None) };
        let key = [self.prefix.as_bytes(), id].concat();
        self.connection.set_deadline(Instant::now() + self.response);
        let mut pipeline = Pipeline::with_capacity(ANSWERS_PER_KEY);
        // The idle time first: GET may end it. The end last: what is saved in between has one.
        pipeline.cmd("OBJECT").arg("IDLETIME").arg(&key);
        pipeline.cmd("GET").arg(&key);
        pipeline.cmd("PTTL").arg(&key);
        let (packed, count) = (pipeline.get_packed_pipeline(), pipeline.len());
        let answers = self.connection.req_packed_commands(&packed, 0, count).map_err(translate)?;
        let [idle, content, ttl] =
            <[Value; ANSWERS_PER_KEY]>::try_from(answers).map_err(|_| unexpected())?;
        let now = self.clock.now();
        let payload = match content {
            Value::Nil => return Ok(None),
            Value::BulkString(bytes) => bytes,
            Value::ServerError(refused) => return Err(translate(refused.into())),
            _ => return Err(unexpected()),
        };
        check_plain(&payload)?;
        Ok(Some(ForeignSession {
            is_empty: payload.is_empty(),
            payload,
            owner: OwnerChange::Keep,
            used: used(&idle, now),
            expires: expires(&ttl, now),
        }))
    }
}

impl Keys {
    /// All keys of a page in one round trip. A refused command is no failure of the others.
    fn look_at(&mut self, keys: &[Vec<u8>], show: &mut dyn FnMut(ScannedEntry)) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut pipeline = Pipeline::with_capacity(keys.len() * ANSWERS_PER_KEY);
        for key in keys {
            pipeline.cmd("OBJECT").arg("IDLETIME").arg(key);
            pipeline.cmd("PTTL").arg(key);
            match self.sizes {
                Sizes::Payload => pipeline.cmd("STRLEN").arg(key),
                Sizes::Memory => pipeline.cmd("MEMORY").arg("USAGE").arg(key),
            };
        }
        let (packed, count) = (pipeline.get_packed_pipeline(), pipeline.len());
        let answers = self.connection.req_packed_commands(&packed, 0, count).map_err(translate)?;
        let (answers, _) = answers.as_chunks::<ANSWERS_PER_KEY>();
        if answers.len() != keys.len() {
            return Err(unexpected());
        }
        let now = self.clock.now();
        for (key, [idle, ttl, bytes]) in keys.iter().zip(answers) {
            if let Value::ServerError(refused) = bytes {
                return Err(translate(refused.clone().into()));
            }
            // -2, or no size: the entry was removed meanwhile.
            if let (Some(bytes), false) = (number(bytes), matches!(ttl, Value::Int(-2))) {
                let id = key.get(self.prefix.len()..).unwrap_or_default();
                show(ScannedEntry {
                    bin: Arc::clone(&self.bin),
                    name: EntryName::Secret(id.to_vec()),
                    bytes,
                    created: None,
                    used: used(idle, now),
                    expires: expires(ttl, now),
                });
            }
        }
        Ok(())
    }
}

fn beginning_with(prefix: &str) -> String {
    let special = |letter| matches!(letter, '*' | '?' | '[' | ']' | '\\');
    let escaped = |letter| special(letter).then_some('\\').into_iter().chain([letter]);
    prefix.chars().flat_map(escaped).chain(['*']).collect()
}

/// A server that evicts by frequency refuses the idle time.
fn used(idle: &Value, now: Timestamp) -> Option<Timestamp> {
    number(idle).map(|seconds| now.minus(Duration::from_secs(seconds)))
}

fn expires(ttl: &Value, now: Timestamp) -> Option<Timestamp> {
    number(ttl).map(|ms| now.plus(Duration::from_millis(ms)))
}

/// Whether it begins as PHP's serialisers write, and not as what phpredis has compressed.
fn is_plain(content: &[u8]) -> bool {
    let Some((&first, rest)) = content.split_first() else { return true };
    if IGBINARY.iter().any(|head| content.starts_with(head)) {
        return true;
    }
    if first < b' ' {
        // php_binary: the length of a name, the name, a value. LZF: a length, and the beginning.
        let value = rest.get(usize::from(first)..).unwrap_or_default();
        return matches!(
            value,
            [b'N', b';', ..] | [b'b' | b'i' | b'd' | b's' | b'a' | b'O' | b'C' | b'E', b':', ..]
        );
    }
    // LZ4: a checksum and the length before, which the bytes after it can reach.
    let length = content.get(1..5).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    let reach = 255 * content.len().saturating_sub(5) as u64;
    let is_lz4 = length.is_some_and(|length| u64::from(length) <= reach);
    !content.starts_with(&ZSTD_MAGIC) && !is_lz4
}

fn check_plain(content: &[u8]) -> Result<()> {
    if is_plain(content) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Corrupt, "phpredis has compressed the content").advice(
        "set redis.session.compression = none some time before; sessions that are used in the \
         meantime are saved without it",
    ))
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moved as they are, they were sessions that PHP destroys.
    #[test]
    fn what_phpredis_has_compressed_is_told_from_what_php_serialises() {
        let lzf = [&[31_u8][..], b"cart|a:1:{i:0;s:5:\"books\";}user|i", b"\x20\x01"].concat();
        let lz4 = [&[0xa7_u8, 0x2c, 0x01, 0, 0, 0xf1][..], b"cart|a:1:{"].concat();
        let zstd = [&ZSTD_MAGIC[..], &[0x20, 0x1c]].concat();
        for compressed in [&lzf, &lz4, &zstd] {
            assert!(!is_plain(compressed), "{compressed:?}");
        }
        for plain in [
            &b""[..],
            b"cart|a:1:{i:0;s:5:\"books\";}",
            b"a:1:{s:4:\"cart\";N;}",
            b"\x04carta:0:{}",
            b"\x01nN;",
            b"\0\0\0\x02\x14\x01",
            b"\x81\xa4cart\x01",
            b"\x81\xa1n\0",
            b"\x81\xa2id\0",
            b"\xde\0\x10\xa1n\x01",
        ] {
            assert!(is_plain(plain), "{plain:?}");
        }
    }
}
