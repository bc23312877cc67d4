//! The sessions of phpredis as one of the two stores of `migrate:`. In the old one they are found,
//! locked, and ended when they have moved; nothing new is written. In the new one they are saved,
//! too (`saving.rs`).
//!
//! Source: redis_session.c of phpredis. Its lock is the key `<key>_LOCK` with a secret, set with NX
//! and an expiry, and removed by a script that compares the secret. Workers take it if
//! `redis.session.locking_enabled` is set: then none of them loses a change to a move.
//!
//! Invariant: the lock of a worker is never taken away from it, but by a log-out. No store of its
//! own: there are no owners, absolute ends, tombstones and aliases. Listings are in `listing.rs`.

use std::time::{Duration, Instant};

use redis::{Cmd, FromRedisValue, ToRedisArgs, Value};
use sessile_core::{
    Absence, Bin, Capabilities, Clock, Cursor, Detail, Details, Durability, Error, ErrorKind,
    Expiry, Filter, Found, Head, Holder, Key, Limits, OwnerChange, Ownership, Page, Record, Result,
    Sessions, SessionsBound, Stat, Store, Timestamp, Ttl, Waiting,
};

use super::listing::REFUSED_IDS;
use super::saving::left_ms;
use super::{LOCK_SUFFIX, PREFIX, check_plain};
use crate::connections::deadline::Deadline;
use crate::connections::doubt::change;
use crate::connections::key_value;
use crate::layouts::Side;
use crate::locks::byte_lock::jittered;
use crate::locks::check_process;
use crate::locks::token::new_token;
use crate::redis::servers::Servers;
use crate::registry;
use crate::store_url::{StoreUrl, invalid};

/// The lock, and what it protects. KEYS: session, lock, mark. ARGV: secret, milliseconds.
/// What cannot be read leaves no lock.
const BEGIN: &str = "
local found = {redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[1]), redis.call('GET', KEYS[3])}
if not redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2])
    and redis.call('GET', KEYS[2]) ~= ARGV[1] then
    return false
end
return found";
const RELEASE: &str = "
if redis.call('GET', KEYS[2]) == ARGV[1] then
    redis.call('DEL', KEYS[2])
end
return 0";
/// Answers -1 if the lock is another's by now, or nobody's; -2 if the session is gone, too, that
/// must be there (ARGV 3). Without milliseconds (-1) nothing changes.
const TOUCH: &str = "
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
    return (ARGV[3] == '1' and redis.call('EXISTS', KEYS[1]) == 0) and -2 or -1
end
if ARGV[2] == '-1' then
    return redis.call('EXISTS', KEYS[1])
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])";
/// KEYS: session, mark. ARGV: milliseconds.
const TOUCH_UNLOCKED: &str = "
if redis.call('EXISTS', KEYS[2]) == 1 then
    return redis.call('EXISTS', KEYS[1])
end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])";

/// Begins the names of what phpredis must not find.
const OURS: &str = "sessile:";

const PAUSE_MIN: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(5);
/// The server ends sessions by its own clock.
const CLOCKS_DIFFER: Duration = Duration::from_secs(1);

pub fn open(
    url: &StoreUrl,
    label: String,
    (side, lock_ttl): (Side, Duration),
    clock: &Clock,
) -> Result<Sessions> {
    let prefix = key_value::foreign_prefix(url, PREFIX)?;
    if side == Side::New && (OURS.starts_with(&prefix) || prefix.starts_with(OURS)) {
        let why = "sessions of phpredis under this prefix may have names that Sessile uses";
        return Err(invalid(why).advice("give phpredis a prefix in session.save_path"));
    }
    let store =
        PhpRedis { clock: clock.clone(), side, prefix, lock_ttl, servers: Servers::parse(url)? };
    store.check_server()?;
    Ok(Sessions::new(label, store, registry::limits(url)?))
}

/// What [`BEGIN`] answers: the rest of the session's life, the session, and the mark.
type Begun = (i64, Option<Vec<u8>>, Option<Vec<u8>>);

pub struct PhpRedis {
    pub clock: Clock,
    side: Side,
    pub prefix: String,
    pub lock_ttl: Duration,
    pub servers: Servers,
}

pub struct Held {
    pub key: Key,
    secret: String,
    pid: u32,
    /// When the session ends that was there; `None` if there was none.
    pub expires: Option<Timestamp>,
    /// Another id has taken the session. Nothing is saved under this one.
    pub is_replaced: bool,
}

impl Held {
    /// Whether the session must be there still, if nobody has ended it.
    fn must_exist(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires > now.plus(CLOCKS_DIFFER))
    }
}

impl PhpRedis {
    pub fn soon(&self) -> Deadline {
        self.servers.deadline(Duration::ZERO)
    }

    /// The names of the session and of its lock. What belongs to another bin has a name without the
    /// prefix of phpredis: PHP takes any cookie as an id, also one with a colon.
    pub fn names(&self, key: &Key) -> [Vec<u8>; 2] {
        let (prefix, id) = (&self.prefix, key.id());
        let session = match key.bin() {
            bin if *bin == Bin::SESSION => format!("{prefix}{id}"),
            bin => format!("{OURS}{}:{prefix}{id}", bin.name()),
        };
        let session = session.into_bytes();
        let lock = [session.as_slice(), LOCK_SUFFIX].concat();
        [session, lock]
    }

    /// The name of the mark of an id that was replaced, for its grace. No bin has a `/` in it.
    pub fn mark(&self, key: &Key) -> Vec<u8> {
        let [session, _] = self.names(key);
        [OURS.as_bytes(), b"replaced/", session.as_slice()].concat()
    }

    pub fn ask<T: FromRedisValue>(
        &self,
        deadline: Deadline,
        key: &Key,
        command: &Cmd,
    ) -> Result<T> {
        self.servers.with(deadline, key, |connection| command.query(connection))
    }

    /// A script about a session and its lock. Each may run twice with the effect of once.
    fn script(&self, source: &str, key: &Key, secret: &str, ms: u64) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(source).arg(3).arg(self.names(key).as_slice()).arg(self.mark(key));
        command.arg(secret).arg(ms);
        command
    }

    /// A script that changes the session of a lease. Its first arguments are the secret, `ms`, and
    /// whether the session must be there.
    pub fn script_of(
        &self,
        source: &str,
        held: &Held,
        others: &[Vec<u8>],
        ms: impl ToRedisArgs,
    ) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(source).arg(2 + others.len()).arg(self.names(&held.key).as_slice());
        command.arg(others).arg(held.secret.as_str()).arg(ms);
        command.arg(u8::from(held.must_exist(self.clock.now())));
        command
    }

    fn record(&self, ttl: i64, payload: Option<Vec<u8>>) -> Result<Option<Record>> {
        let Some(payload) = payload else { return Ok(None) };
        check_plain(&payload)?;
        Ok(self.head(ttl).map(|head| Record { payload, head }))
    }

    /// What an id shows that may have been replaced. Its mark is the name of the session under its
    /// new id: after a log-out there the old id shows nothing. In the old store it shows nothing at
    /// all, since what moves is a session of its own.
    fn found(&self, key: &Key, record: Option<Record>, mark: Option<Vec<u8>>) -> Result<Found> {
        let Some(successor) = mark else { return Ok(Found { record, ..Found::default() }) };
        let mut exists = redis::cmd("EXISTS");
        exists.arg(successor);
        let shows = self.side == Side::New && self.ask(self.soon(), key, &exists)?;
        match record.filter(|_| shows) {
            None => Ok(Found { absence: Absence::Regenerated, ..Found::default() }),
            record => Ok(Found { record, ..Found::default() }),
        }
    }

    /// `None` for a session that has ended. One without an end gets one at its next save.
    pub fn head(&self, ttl: i64) -> Option<Head> {
        let now = self.clock.now();
        let left = match ttl {
            -1 => Limits::TTL_MAX,
            ms => Duration::from_millis(u64::try_from(ms).ok().filter(|ms| *ms > 0)?),
        };
        // phpredis keeps neither moment.
        let (created, written) = (now, now);
        Some(Head {
            version: 0,
            created,
            written,
            expires: now.plus(left),
            ends: None,
            owner: None,
        })
    }
}

impl PhpRedis {
    /// A wrong password shows now and not in a visitor's request, and so does a cluster: there a
    /// session and its lock are on two servers, and no script has both.
    fn check_server(&self) -> Result<()> {
        let any_key = Key::session("a")?;
        let mut exist = redis::cmd("EXISTS");
        exist.arg(self.names(&any_key).as_slice());
        match self.ask::<Value>(self.soon(), &any_key, &exist) {
            Err(error) if *error.kind() == ErrorKind::Unsupported => {
                let why = "phpredis in a cluster does not move";
                Err(Error::new(ErrorKind::Unsupported, why).advice(match self.side {
                    Side::Old => {
                        "copy the sessions of each of its servers while the site stands still, \
                         without --move"
                    }
                    Side::New => "give phpredis a server that is not part of a cluster",
                }))
            }
            asked => asked.map(drop),
        }
    }

    fn check_writable(&self) -> Result<()> {
        if self.side == Side::New { Ok(()) } else { Err(read_only()) }
    }
}

/// Whether the name of a session would be that of a lock.
pub fn is_lock(key: &Key) -> bool {
    key.id().as_bytes().ends_with(LOCK_SUFFIX)
}

fn read_only() -> Error {
    Error::new(ErrorKind::Unsupported, "nothing new is written into the sessions of phpredis")
        .advice("a site that goes back has them as the new store: migrate:?from=URL&to=php+redis:")
}

/// The meaning of what a script answers about a lease: whether it was done.
pub fn verdict(answer: i64) -> Result<bool> {
    match answer {
        -1 => Err(Error::from(ErrorKind::Stale)
            .advice("raise lock_ttl_ms if requests may take longer than it")),
        -2 => Err(ErrorKind::Destroyed.into()),
        -3 => Err(ErrorKind::Exists.into()),
        done => Ok(done == 1),
    }
}

pub fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Store for PhpRedis {
    type Held = Held;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            persistent_from: Some(Durability::Second),
            shared_by_processes: true,
            shared_by_hosts: true,
            foreign_writers: true,
            server: Some("redis-server"),
            waiting: Waiting::Retry,
            ownership: Ownership::Time,
            expiry: Expiry::Native,
            value_bytes_max: 512 << 20,
            sessions_bounded_by: SessionsBound::ServerMemory {
                setting: "maxmemory",
                evicts: false,
            },
            listing: true,
            durability: &[Durability::None, Durability::Second, Durability::Commit],
            ..Capabilities::MINIMAL
        }
    }

    fn begin(&self, key: &Key, wait_max: Duration) -> Result<(Held, u64, Found)> {
        if is_lock(key) {
            return Err(ErrorKind::InvalidId.into());
        }
        let secret =
            new_token()?.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        let command = self.script(BEGIN, key, &secret, ms(self.lock_ttl));
        let deadline = self.servers.deadline(wait_max);
        let (start, mut pause) = (Instant::now(), PAUSE_MIN);
        loop {
            let answer: Option<Begun> = self.ask(deadline, key, &command)?;
            if let Some((ttl, payload, mark)) = answer {
                let (key, pid, is_replaced) = (key.clone(), std::process::id(), mark.is_some());
                let mut held = Held { key, secret, pid, expires: None, is_replaced };
                let record = self.record(ttl, payload);
                let found = match record.and_then(|record| self.found(&held.key, record, mark)) {
                    Ok(found) => found,
                    Err(error) => return self.release(held).and(Err(error)),
                };
                held.expires = found.record.as_ref().map(|record| record.head.expires);
                return Ok((held, self.clock.now().as_ms(), found));
            }
            let waited = start.elapsed();
            if waited >= wait_max {
                return Err(ErrorKind::LockTimeout { holder: Holder::default(), waited }.into());
            }
            std::thread::sleep(jittered(pause).min(wait_max - waited));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn peek(&self, key: &Key) -> Result<Found> {
        if is_lock(key) {
            return Ok(Found::default());
        }
        let [session, lock] = self.names(key);
        let mut asked = redis::pipe();
        // A session that is saved in between has an end all the same.
        asked.cmd("GET").arg(&session).cmd("PTTL").arg(&session).cmd("EXISTS").arg(&lock);
        asked.cmd("GET").arg(self.mark(key));
        let (payload, ttl, is_locked, mark): (Option<Vec<u8>>, i64, bool, Option<Vec<u8>>) =
            self.servers.with(self.soon(), key, |connection| asked.query(connection))?;
        let mut record = self.record(ttl, payload)?;
        if record.is_none() && is_locked && self.side == Side::Old {
            // A worker has sent this id to its visitor and saves soon: whoever begins waits. In the
            // new store a session that moves has such a lock, and is in the old one.
            let left = i64::try_from(self.lock_ttl.as_millis()).unwrap_or(i64::MAX);
            record = self.head(left).map(|head| Record { payload: Vec::new(), head });
        }
        self.found(key, record, mark)
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        self.check_writable()?;
        change(|| self.create_new(key, payload, ttl))
    }

    fn commit(&self, held: Held, payload: &[u8], ttl: Ttl, _: OwnerChange) -> Result<()> {
        check_process(held.pid)?;
        if let Err(error) = self.check_writable() {
            return self.release(held).and(Err(error));
        }
        if held.is_replaced {
            return self.release(held).and(Err(ErrorKind::Destroyed.into()));
        }
        match change(|| self.save(&held, payload, ttl)) {
            // The server had no memory, or did not answer.
            Err(error) if !matches!(error.kind(), ErrorKind::Stale | ErrorKind::Destroyed) => {
                let _ = self.release(held);
                Err(error)
            }
            saved => saved,
        }
    }

    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        let [session, _] = self.names(key);
        let mut touch = redis::cmd("EVAL");
        touch.arg(TOUCH_UNLOCKED).arg(2).arg(session).arg(self.mark(key)).arg(left_ms(ttl));
        match self.ask(self.soon(), key, &touch)? {
            1 => Ok(()),
            _ => Err(ErrorKind::Gone.into()),
        }
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        check_process(held.pid)?;
        let left = left_ms(ttl);
        let touch = match held.is_replaced {
            true => self.script_of(TOUCH, held, &[], -1),
            false => self.script_of(TOUCH, held, &[], left),
        };
        if !verdict(self.ask(self.soon(), &held.key, &touch)?)? {
            return Err(ErrorKind::Gone.into());
        }
        if !held.is_replaced {
            held.expires = Some(self.clock.now().plus(Duration::from_millis(left)));
        }
        Ok(())
    }

    fn release(&self, held: Held) -> Result<()> {
        if check_process(held.pid).is_err() {
            return Ok(());
        }
        let release = self.script(RELEASE, &held.key, &held.secret, 0);
        self.ask::<Value>(self.soon(), &held.key, &release).map(drop)
    }

    /// With the lock: a worker of phpredis that knows when its lock ends saves nothing then.
    fn destroy(&self, key: &Key) -> Result<()> {
        if is_lock(key) {
            return Ok(());
        }
        let mut delete = redis::cmd("DEL");
        delete.arg(self.names(key).as_slice()).arg(self.mark(key));
        self.ask::<Value>(self.soon(), key, &delete).map(drop)
    }

    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        check_process(held.pid)?;
        self.check_writable()?;
        if held.is_replaced {
            return Err(ErrorKind::Destroyed.into());
        }
        change(|| self.give_id(held, new, grace))
    }

    fn stat(&self) -> Result<Stat> {
        self.count_sessions()
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        self.page(cursor, filter)
    }

    fn details(&self) -> Result<Details> {
        if self.side == Side::New {
            // They are not to be moved.
            return Ok(Vec::new());
        }
        let refused = self.count_refused_ids()?;
        Ok(if refused > 0 { vec![(REFUSED_IDS, Detail::Count(refused))] } else { Vec::new() })
    }
}
