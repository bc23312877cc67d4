//! `php+redis:`: the sessions of the extension phpredis, `PHPREDIS_SESSION:<id>`.
//!
//! Source: redis_session.c of phpredis; the manual of Redis on SCAN, OBJECT IDLETIME and CLIENT
//! NO-TOUCH. A scan must not touch: idle sessions would look busy, and eviction would change. Redis
//! 7.2 and later have NO-TOUCH. Earlier ones touch a value when asked for its length; there the
//! size is the entry's memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{ConnectionLike, Pipeline, Value};
use sessile_core::{Clock, Result, Timestamp};

use super::{EntryName, Layout, ScannedEntry, Sizes, Walk};
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
    open,
};

const PREFIX: &str = "PHPREDIS_SESSION:";
const LOCK_SUFFIX: &[u8] = b"_LOCK";
const ANSWERS_PER_KEY: usize = 3;

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

    fn sizes(&self) -> Sizes {
        self.sizes
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
                    // A server that evicts by frequency refuses the idle time.
                    used: number(idle).map(|seconds| now.minus(Duration::from_secs(seconds))),
                    expires: number(ttl).map(|ms| Timestamp::plus(now, Duration::from_millis(ms))),
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

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}
