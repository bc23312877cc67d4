//! `redis-four-trips`: how today's session handlers lock on Redis.
//!
//! SET NX PX for the lock, tried again every 20 ms; GET; SETEX; a Lua compare-and-delete: four
//! round trips over one reused connection to the same kind of private server, with our store's
//! client library.

use std::path::Path;
use std::time::Duration;

use redis::{Connection, RedisError, Script, Value};
use sessile_core::{Durability, Error, ErrorKind, Result};

use super::handlers::{LOCK, ids, prefetch, wait_for_lock};
use crate::contender::Contender;
use crate::reference::{AfterDeath, Reference, unprepared};
use crate::worker::protocol::OpenRequest;

pub(super) const REFERENCE: Reference = Reference {
    name: "redis-four-trips",
    sentence: "Redis as today's handlers use it: lock, read, write and unlock in four round trips",
    server: Some("redis-server"),
    durability: &[Durability::None, Durability::Second, Durability::Commit],
    after_death: AfterDeath::Lapses,
    ..Reference::shared(open)
};

const UNLOCK: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', \
                      KEYS[1]) else return 0 end";

struct RedisFourTrips {
    connection: Connection,
    unlock: Script,
    keys: Vec<(String, String)>,
    random: fastrand::Rng,
    ttl: Duration,
    lock_ms: usize,
    out: Option<Vec<u8>>,
    begun: Option<(usize, String)>,
}

fn open(place: &Path, opening: &OpenRequest) -> Result<Box<dyn Contender>> {
    let client = redis::Client::open(format!("redis+unix:{}", place.display())).map_err(failed)?;
    let connection = client.get_connection().map_err(failed)?;
    let key =
        |id: String| (format!("PHPREDIS_SESSION:{id}"), format!("PHPREDIS_SESSION:{id}_LOCK"));
    let keys = ids(opening).map(key).collect();
    let (unlock, random, ttl) = (Script::new(UNLOCK), fastrand::Rng::new(), opening.ttl);
    let lock_ms =
        usize::try_from(opening.lock_ttl.unwrap_or(LOCK).as_millis()).unwrap_or(usize::MAX);
    Ok(Box::new(RedisFourTrips {
        connection,
        unlock,
        keys,
        random,
        ttl,
        lock_ms,
        out: None,
        begun: None,
    }))
}

fn failed(error: RedisError) -> Error {
    Error::new(ErrorKind::Io, "the Redis server refused the operation").source(error)
}

impl RedisFourTrips {
    fn unlock(&mut self, session: usize, token: &str) -> Result<()> {
        let (_, lock) = self.keys.get(session).ok_or_else(unprepared)?;
        let deleted: i64 =
            self.unlock.key(lock).arg(token).invoke(&mut self.connection).map_err(failed)?;
        match deleted {
            0 => Err(Error::new(ErrorKind::Stale, "the lock had lapsed")),
            _ => Ok(()),
        }
    }
}

impl Contender for RedisFourTrips {
    fn prefetch_ids(&mut self, sessions: &[usize]) {
        let keys = sessions.iter().filter_map(|session| self.keys.get(*session));
        prefetch(keys.flat_map(|(record, lock)| [record, lock]));
    }

    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        let (record, _) = self.keys.get(session).ok_or_else(unprepared)?;
        let ms = ttl.as_millis().max(1) as u64;
        redis::cmd("PSETEX")
            .arg(record)
            .arg(ms)
            .arg(payload)
            .exec(&mut self.connection)
            .map_err(failed)
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let (record, _) = self.keys.get(session).ok_or_else(unprepared)?;
        self.out = redis::cmd("GET").arg(record).query(&mut self.connection).map_err(failed)?;
        Ok(self.out.as_deref())
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let token = format!("{:032x}", self.random.u128(..));
        let (_, lock) = self.keys.get(session).ok_or_else(unprepared)?;
        let mut set = redis::cmd("SET");
        set.arg(lock).arg(&token).arg("NX").arg("PX").arg(self.lock_ms);
        wait_for_lock(|| {
            Ok(!matches!(set.query(&mut self.connection).map_err(failed)?, Value::Nil))
        })?;
        self.begun = Some((session, token));
        self.read(session)
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let (session, token) = self.begun.take().ok_or_else(unprepared)?;
        let (record, _) = self.keys.get(session).ok_or_else(unprepared)?;
        let seconds = self.ttl.as_secs();
        let written =
            redis::cmd("SETEX").arg(record).arg(seconds).arg(payload).exec(&mut self.connection);
        self.unlock(session, &token)?;
        written.map_err(failed)
    }

    fn touch(&mut self) -> Result<()> {
        let (session, token) = self.begun.take().ok_or_else(unprepared)?;
        let (record, _) = self.keys.get(session).ok_or_else(unprepared)?;
        let moved =
            redis::cmd("EXPIRE").arg(record).arg(self.ttl.as_secs()).exec(&mut self.connection);
        self.unlock(session, &token)?;
        moved.map_err(failed)
    }

    fn release(&mut self) -> Result<()> {
        let Some((session, token)) = self.begun.take() else { return Ok(()) };
        self.unlock(session, &token)
    }
}
