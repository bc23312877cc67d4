//! `php+redis:`: the sessions that the extension phpredis keeps, `PHPREDIS_SESSION:<id>`.
//!
//! Source: redis_session.c of phpredis; the manual of Redis on SCAN, OBJECT IDLETIME and CLIENT NO-TOUCH. A look must not
//! count as a use: it would make idle sessions look busy, and disturb what a server evicts first. Redis 7.2 and later can
//! be told so. Before that the length of a value cannot be asked for without touching it; so the size is then that of the
//! memory which the entry takes.

use std::sync::Arc;
use std::time::Duration;

use redis::{Connection, ConnectionLike, Pipeline, RedisResult, Value};
use sessile_core::{Clock, Result, Timestamp};

use super::failure::{translate, unexpected};
use super::options::{OF_CONNECTION, Options};
use crate::foreign::{Layout, Name, Seen, Sizes, Walk};
use crate::key_value;
use crate::registry::OptionHelp;
use crate::store_url::StoreUrl;

pub(crate) const LAYOUT: Layout = Layout {
    schemes: &["php+redis", "php+rediss", "php+redis+unix"],
    reads: "the sessions of PHP's extension redis",
    example: "php+redis://host/0",
    options: &[OptionHelp {
        name: "prefix",
        help: "that of session.save_path (default PHPREDIS_SESSION:; in a cluster PHPREDIS_CLUSTER_SESSION:)",
    }],
    of_connection: |_| OF_CONNECTION,
    open,
};

const PREFIX: &str = "PHPREDIS_SESSION:";
/// How the key of a lock differs from that of its session.
const LOCK_SUFFIX: &[u8] = b"_LOCK";
const ANSWERS_PER_KEY: usize = 3;

fn open(url: &StoreUrl, clock: &Clock) -> Result<Box<dyn Walk>> {
    let prefix = key_value::foreign_prefix(url, PREFIX)?;
    let options = Options::with_prefix(url, String::new())?;
    let mut connection = connect(&options).map_err(translate)?;
    let untouched = redis::cmd("CLIENT").arg("NO-TOUCH").arg("ON").exec(&mut connection).is_ok();
    let sizes = if untouched { Sizes::Payload } else { Sizes::Memory };
    Ok(Box::new(Keys { bin: "session".into(), clock: clock.clone(), connection, prefix, sizes, cursor: Vec::new() }))
}

fn connect(options: &Options) -> RedisResult<Connection> {
    let connection = options.client.get_connection_with_timeout(options.connect_timeout)?;
    connection.set_read_timeout(Some(options.response_timeout))?;
    connection.set_write_timeout(Some(options.response_timeout))?;
    Ok(connection)
}

struct Keys {
    bin: Arc<str>,
    clock: Clock,
    connection: Connection,
    prefix: String,
    sizes: Sizes,
    /// The server's; empty before the first page.
    cursor: Vec<u8>,
}

impl Walk for Keys {
    fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(Seen)) -> Result<bool> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(if self.cursor.is_empty() { b"0" } else { self.cursor.as_slice() });
        scan.arg("MATCH").arg(beginning_with(&self.prefix)).arg("COUNT").arg(entries_max).arg("TYPE").arg("string");
        let (next, mut keys): (Vec<u8>, Vec<Vec<u8>>) = scan.query(&mut self.connection).map_err(translate)?;
        keys.retain(|key| !key.ends_with(LOCK_SUFFIX));
        self.look_at(&keys, show)?;
        let more = next != b"0";
        self.cursor = next;
        Ok(more)
    }

    fn sizes(&self) -> Sizes {
        self.sizes
    }
}

impl Keys {
    /// All keys of a page in one round trip. A refusal of one command is no failure of the others.
    fn look_at(&mut self, keys: &[Vec<u8>], show: &mut dyn FnMut(Seen)) -> Result<()> {
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
            // -2, or no size: it has gone meanwhile.
            if let (Some(bytes), false) = (number(bytes), matches!(ttl, Value::Int(-2))) {
                let id = key.get(self.prefix.len()..).unwrap_or_default();
                show(Seen {
                    bin: Arc::clone(&self.bin),
                    name: Name::Secret(id.to_vec()),
                    bytes,
                    created: None,
                    // A server that evicts by frequency does not know it, and refuses.
                    used: number(idle).map(|seconds| now.minus(Duration::from_secs(seconds))),
                    expires: number(ttl).map(|ms| Timestamp::plus(now, Duration::from_millis(ms))),
                });
            }
        }
        Ok(())
    }
}

/// The pattern of all keys that begin so. What has a meaning in a pattern loses it.
fn beginning_with(prefix: &str) -> String {
    let mut pattern = String::with_capacity(prefix.len() + 1);
    for letter in prefix.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push('*');
    pattern
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}
