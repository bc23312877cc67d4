//! Sessions saved as phpredis saves them, for a site that goes back to it: a string with an expiry,
//! under the lock of phpredis. See decision 46.
//!
//! Invariants: nothing is written under a lock that is not ours any more. A session that was there
//! at `begin`, has not expired, and is gone, was logged out: nothing brings it back. phpredis
//! removes its lock before the session, so a request that waited for the lock may have read it.
//!
//! An id that was replaced keeps its session for the grace, and has a mark, so that nothing is
//! saved under it: it must not become a session of its own.
//!
//! Not kept, because phpredis has no place for them: owners, absolute ends, tombstones, aliases.

use std::time::Duration;

use sessile_core::{ErrorKind, Key, Result, Ttl};

use super::store::{Held, PhpRedis, is_lock, ms, verdict};

/// KEYS: session, lock. ARGV: secret, milliseconds, whether it must be there, payload.
const COMMIT: &str = "
local held = redis.call('GET', KEYS[2]) == ARGV[1]
if ARGV[3] == '1' and redis.call('EXISTS', KEYS[1]) == 0 then
    if held then
        redis.call('DEL', KEYS[2])
    end
    return -2
end
if not held then
    return -1
end
redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[2])
redis.call('DEL', KEYS[2])
return 1";
/// KEYS: session, lock, mark. ARGV: milliseconds, payload.
const CREATE: &str = "
if redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) > 0 then
    return -3
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[1])
return 1";
/// KEYS: session, lock, session and lock of the new id, mark. ARGV: secret, life of the lock,
/// whether the session must be there, grace, life of the mark. The lock of the new id tells a
/// second run that the first was done.
const REGENERATE: &str = "
if redis.call('GET', KEYS[4]) == ARGV[1] then
    return 1
end
local payload = redis.call('GET', KEYS[1])
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
    return (ARGV[3] == '1' and not payload) and -2 or -1
end
if ARGV[3] == '1' and not payload then
    redis.call('DEL', KEYS[2])
    return -2
end
if redis.call('EXISTS', KEYS[3], KEYS[4]) > 0 then
    return -3
end
redis.call('SET', KEYS[4], ARGV[1], 'PX', ARGV[2])
local left = redis.call('PTTL', KEYS[1])
if payload and left ~= 0 then
    redis.call('SET', KEYS[3], payload)
    if left > 0 then
        redis.call('PEXPIRE', KEYS[3], left)
    end
end
if left == -1 or left > tonumber(ARGV[4]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
if ARGV[4] ~= '0' then
    redis.call('SET', KEYS[5], KEYS[3], 'PX', ARGV[5])
end
redis.call('DEL', KEYS[2])
return 1";

/// How much longer than the grace a mark lives: the session under the old id must not outlive it.
const MARK_SLACK: Duration = Duration::from_secs(1);

/// How long a session lives from now on. phpredis keeps no absolute end.
pub fn left_ms(ttl: Ttl) -> u64 {
    ttl.absolute_ms().map_or(ttl.idle_ms(), |absolute| absolute.min(ttl.idle_ms()))
}

impl PhpRedis {
    pub fn create_new(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        if is_lock(key) {
            return Err(ErrorKind::InvalidId.into());
        }
        let mut create = redis::cmd("EVAL");
        create.arg(CREATE).arg(3).arg(self.names(key).as_slice()).arg(self.mark(key));
        create.arg(left_ms(ttl)).arg(payload);
        verdict(self.ask(self.soon(), key, &create)?).map(drop)
    }

    pub fn save(&self, held: &Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        let mut commit = self.script_of(COMMIT, held, &[], left_ms(ttl));
        commit.arg(payload);
        verdict(self.ask(self.soon(), &held.key, &commit)?).map(drop)
    }

    /// For the grace the old id keeps its session: phpredis leaves it for the session's whole life.
    /// The mark keeps our workers from making that a session of its own.
    pub fn give_id(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        if is_lock(new) {
            return Err(ErrorKind::InvalidId.into());
        }
        let [session, lock] = self.names(new);
        let others = [session, lock, self.mark(&held.key)];
        let mut regenerate = self.script_of(REGENERATE, held, &others, ms(self.lock_ttl));
        regenerate.arg(ms(grace)).arg(ms(grace + MARK_SLACK));
        verdict(self.ask(self.soon(), &held.key, &regenerate)?)?;
        held.key = new.clone();
        Ok(())
    }
}
