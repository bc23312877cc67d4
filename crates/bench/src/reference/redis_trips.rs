//! Sessions in Redis by plain commands: in four round trips, in two, and without a lock.
//!
//! `redis-four-trips` is what today's handlers do: SET NX PX for the lock, tried again every 20 ms;
//! GET; PSETEX (SETEX in milliseconds); a Lua compare-and-delete. `redis-two-trips` sends the first
//! two in one write, and checks the lock, writes and unlocks in one script. `redis-setex` only
//! reads and writes, as the published measurement did: updates of two at once are lost. All use one
//! reused connection to the same kind of private server, with our store's client library.

use std::path::Path;
use std::time::Duration;

use redis::cluster::ClusterClient;
use redis::{Cmd, ConnectionLike, RedisError, RedisResult, Script, Value};
use sessile_core::{Error, ErrorKind, Result};

use super::handlers::{LOCK, Locking, ids, prefetch, wait_for_lock};
use crate::cluster;
use crate::contender::Contender;
use crate::reference::unprepared;
use crate::worker::protocol::OpenRequest;

/// The default of phpredis, `redis.session.lock_wait_time = 20000`, in microseconds.
const POLL: Duration = Duration::from_millis(20);

const UNLOCK: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', \
                      KEYS[1]) else return 0 end";
/// Without a payload it moves the expiry.
const CHANGE_AND_UNLOCK: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
    if ARGV[3] then redis.call('PSETEX', KEYS[2], ARGV[2], ARGV[3])
    else redis.call('PEXPIRE', KEYS[2], ARGV[2]) end
    return redis.call('DEL', KEYS[1])";

struct RedisTrips {
    connection: Box<dyn ConnectionLike>,
    locking: Locking,
    unlock: Script,
    change_and_unlock: Script,
    keys: Vec<(String, String)>,
    random: fastrand::Rng,
    ttl: Duration,
    lock_ms: usize,
    out: Option<Vec<u8>>,
    begun: Option<(usize, String)>,
}

pub(super) fn open(
    place: &Path,
    opening: &OpenRequest,
    locking: Locking,
) -> Result<Box<dyn Contender>> {
    let key =
        |id: String| (format!("PHPREDIS_SESSION:{id}"), format!("PHPREDIS_SESSION:{id}_LOCK"));
    let lock_ms = opening.lock_ttl.unwrap_or(LOCK).as_millis();
    Ok(Box::new(RedisTrips {
        connection: connect(place).map_err(failed)?,
        locking,
        unlock: Script::new(UNLOCK),
        change_and_unlock: Script::new(CHANGE_AND_UNLOCK),
        keys: ids(opening).map(key).collect(),
        random: fastrand::Rng::new(),
        ttl: opening.ttl,
        lock_ms: usize::try_from(lock_ms).unwrap_or(usize::MAX),
        out: None,
        begun: None,
    }))
}

/// To the socket of a server, or to the hosts of a cluster.
pub(super) fn connect(place: &Path) -> RedisResult<Box<dyn ConnectionLike>> {
    let place = place.display().to_string();
    let Some(hosts) = place.strip_prefix(cluster::SCHEME) else {
        let client = redis::Client::open(format!("redis+unix:{place}"))?;
        return Ok(Box::new(client.get_connection()?));
    };
    let hosts = hosts.split(',').map(|host| format!("redis://{host}/"));
    Ok(Box::new(ClusterClient::new(hosts)?.get_connection()?))
}

pub(super) fn failed(error: RedisError) -> Error {
    Error::new(ErrorKind::Io, "the Redis server refused the operation").source(error)
}

fn unlocked(deleted: i64) -> Result<()> {
    match deleted {
        0 => Err(Error::new(ErrorKind::Stale, "the lock had lapsed")),
        _ => Ok(()),
    }
}

fn get(record: &str) -> Cmd {
    let mut get = redis::cmd("GET");
    get.arg(record);
    get
}

fn milliseconds(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis().max(1)).unwrap_or(u64::MAX)
}

impl RedisTrips {
    fn unlock(&mut self, session: usize, token: &str) -> Result<()> {
        if self.locking == Locking::Without {
            return Ok(());
        }
        let (_, lock) = self.keys.get(session).ok_or_else(unprepared)?;
        let deleted = self.unlock.key(lock).arg(token).invoke(self.connection.as_mut());
        unlocked(deleted.map_err(failed)?)
    }

    fn change_and_unlock(
        &mut self,
        session: usize,
        token: &str,
        payload: Option<&[u8]>,
    ) -> Result<()> {
        let (record, lock) = self.keys.get(session).ok_or_else(unprepared)?;
        let mut change = self.change_and_unlock.key(lock);
        change.key(record).arg(token).arg(milliseconds(self.ttl)).arg(payload);
        unlocked(change.invoke(self.connection.as_mut()).map_err(failed)?)
    }
}

impl Contender for RedisTrips {
    fn prefetch_ids(&mut self, sessions: &[usize]) {
        let keys = sessions.iter().filter_map(|session| self.keys.get(*session));
        prefetch(keys.flat_map(|(record, lock)| [record, lock]));
    }

    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        let (record, _) = self.keys.get(session).ok_or_else(unprepared)?;
        let mut write = redis::cmd("PSETEX");
        write.arg(record).arg(milliseconds(ttl)).arg(payload);
        write.exec(self.connection.as_mut()).map_err(failed)
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let (record, _) = self.keys.get(session).ok_or_else(unprepared)?;
        self.out = get(record).query(self.connection.as_mut()).map_err(failed)?;
        Ok(self.out.as_deref())
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        if self.locking == Locking::Without {
            self.begun = Some((session, String::new()));
            return self.read(session);
        }
        let token = format!("{:032x}", self.random.u128(..));
        let (record, lock) = self.keys.get(session).ok_or_else(unprepared)?;
        let mut set = redis::cmd("SET");
        set.arg(lock).arg(&token).arg("NX").arg("PX").arg(self.lock_ms);
        let both = (self.locking == Locking::TwoTrips).then(|| {
            let mut both = redis::pipe();
            both.add_command(set.clone()).add_command(get(record));
            both
        });
        let connection = self.connection.as_mut();
        let mut out = None;
        wait_for_lock(POLL, || {
            let answer: Value = match &both {
                Some(both) => {
                    let answers: (Value, Option<Vec<u8>>) =
                        both.query(connection).map_err(failed)?;
                    out = answers.1;
                    answers.0
                }
                None => set.query(connection).map_err(failed)?,
            };
            Ok(answer != Value::Nil)
        })?;
        self.begun = Some((session, token));
        if self.locking == Locking::FourTrips {
            return self.read(session);
        }
        self.out = out;
        Ok(self.out.as_deref())
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let (session, token) = self.begun.take().ok_or_else(unprepared)?;
        if self.locking != Locking::TwoTrips {
            let written = self.create(session, payload, self.ttl);
            self.unlock(session, &token)?;
            return written;
        }
        self.change_and_unlock(session, &token, Some(payload))
    }

    fn touch(&mut self) -> Result<()> {
        let (session, token) = self.begun.take().ok_or_else(unprepared)?;
        if self.locking == Locking::TwoTrips {
            return self.change_and_unlock(session, &token, None);
        }
        let (record, _) = self.keys.get(session).ok_or_else(unprepared)?;
        let mut expire = redis::cmd("PEXPIRE");
        expire.arg(record).arg(milliseconds(self.ttl));
        let moved = expire.exec(self.connection.as_mut());
        self.unlock(session, &token)?;
        moved.map_err(failed)
    }

    fn release(&mut self) -> Result<()> {
        let Some((session, token)) = self.begun.take() else { return Ok(()) };
        self.unlock(session, &token)
    }
}
