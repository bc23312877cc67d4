//! Taking a lock, waiting for it, and reading what it guards.
//!
//! Who finds the lock taken looks at it again, first after 0.2 ms and then ever less often. For that time whoever finds it free
//! may take it: handing a lock over to one who sleeps leaves it idle until he wakes, and costs a round trip more. Who has waited
//! for [`STARVING_AFTER`] appends its token to the lock and looks more often the further in front it is. The holder that leaves
//! reserves the lock for the first of that queue (`leave`), so nobody overtakes those who are in it. Of one who died in the queue
//! the others lose [`RESERVATION`].

use std::time::{Duration, Instant};

use sessile_core::{Clock, Error, ErrorKind, Found, Key, Locked, Result, Timestamp};

use super::cas::Cas;
use super::contest::{ATTEMPTS_MAX, busy};
use super::failure::{fault, unexpected};
use super::item::{self, Header, Kind};
use super::lock::{Lock, Standing, State, WAITERS_MAX};
use super::look::{Base, Meaning, Read, looked_up, writer_of};
use super::reply::{Fault, Item, Reply};
use super::request::{Batch, Life};
use super::{Held, Memcached, taker};
use crate::key_value::{ALIAS_STEPS_MAX, circle};
use crate::owner::{Token, new_token};

/// Who has waited for so long queues. Long enough that most never do, even when eight are in a closed loop, where a turn takes a
/// quarter of a millisecond; and shorter than the 20 ms of today's handlers.
const STARVING_AFTER: Duration = Duration::from_millis(5);
/// How long the one for whom a lock is reserved has to come and take it.
const RESERVATION: Duration = Duration::from_millis(100);
/// How much later than the first of the queue each of the others takes a lapsed lock over.
const PRECEDENCE: Duration = Duration::from_millis(50);
const PAUSE_MIN: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// What a look at a lock shows.
pub(super) enum Answer {
    Granted(Grant),
    Taken(Standing),
    Free,
}

/// A lock that is ours, and what was read under it.
pub(super) struct Grant {
    /// See [`Held::lock_cas`].
    pub(super) lock_cas: Option<Cas>,
    pub(super) fence: u64,
    pub(super) data: Item,
}

/// Why a lock that others hold may be taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It is reserved for us, or for one who does not come.
    Ours,
    /// Its time is over.
    Lapsed,
}

/// What one who waits has seen so far.
#[derive(Default)]
struct Watch {
    /// Whose lock or reservation it is, and since when we see that.
    owner: Option<(State, Token, Instant)>,
    lapsed: Option<Instant>,
}

impl Watch {
    /// How long the present owner has been there, as far as we saw.
    fn owned_for(&mut self, state: State, token: Token) -> Duration {
        let known = self.owner.filter(|(known, owner, _)| (*known, *owner) == (state, token));
        let (_, _, since) = *self.owner.insert(known.unwrap_or_else(|| (state, token, Instant::now())));
        since.elapsed()
    }

    /// Whether and why the lock is to be taken now.
    fn turn(&mut self, standing: &Standing, token: &Token) -> Option<Turn> {
        let lock = standing.lock.as_ref()?;
        let place = u32::try_from(standing.place_of(token).unwrap_or(lock.waiters.len())).unwrap_or(u32::MAX);
        let owned_for = self.owned_for(lock.state, lock.token);
        if lock.state == State::Reserved {
            if lock.token == *token {
                return Some(Turn::Ours);
            }
            return (owned_for > RESERVATION.saturating_mul(place.saturating_add(1))).then_some(Turn::Ours);
        }
        if !standing.lapsed(Clock::system().now()) {
            self.lapsed = None;
            return None;
        }
        let seen = *self.lapsed.get_or_insert_with(Instant::now);
        (seen.elapsed() >= PRECEDENCE.saturating_mul(place)).then_some(Turn::Lapsed)
    }
}

impl Memcached {
    pub(super) fn acquire(&self, asked: &Key, wait_max: Duration) -> Result<Locked<Held>> {
        let start = Instant::now();
        self.orphans.give_back(self.lock_ttl, |key, token| self.leave(key, token))?;
        let token = new_token()?;
        let mut key = asked.clone();
        for _ in 0..=ALIAS_STEPS_MAX {
            let since = Clock::system().now();
            let acquired = self.acquire_at(&key, &token, since, start, wait_max);
            let (grant, turn) = acquired.inspect_err(|error| {
                if !matches!(error.kind(), ErrorKind::LockTimeout { .. }) {
                    self.orphans.remember(&key, &token);
                }
            })?;
            let held = Held {
                key: key.clone(),
                token,
                fence: grant.fence,
                pid: std::process::id(),
                since,
                lock_cas: grant.lock_cas,
                read: Read::default(),
            };
            match self.read_under(held, grant.data, turn == Some(Turn::Lapsed), asked) {
                Ok(Ok(locked)) => return Ok(locked),
                Ok(Err(next)) => {
                    self.leave_or_remember(&key, &token);
                    key = next;
                }
                Err(error) => {
                    self.leave_or_remember(&key, &token);
                    return Err(error);
                }
            }
        }
        Err(circle())
    }

    /// Takes the lock of one id, in its turn.
    fn acquire_at(
        &self,
        key: &Key,
        token: &Token,
        since: Timestamp,
        start: Instant,
        wait_max: Duration,
    ) -> Result<(Grant, Option<Turn>)> {
        let mut watch = Watch::default();
        let mut turn = None;
        let mut answer = self.take(key, token, since, None)?;
        // Without a pause in between. What keeps the lock from us that often without anybody holding it is no memcached.
        let mut rounds = 0;
        loop {
            let waited = start.elapsed();
            let left = wait_max.saturating_sub(waited);
            rounds += 1;
            let standing = match answer {
                Answer::Granted(grant) => return Ok((grant, turn)),
                _ if rounds > ATTEMPTS_MAX => return Err(busy()),
                Answer::Free => {
                    turn = None;
                    answer = self.take(key, token, since, None)?;
                    continue;
                }
                Answer::Taken(standing) => standing,
            };
            turn = watch.turn(&standing, token);
            if turn.is_some() {
                answer = self.take(key, token, since, Some(&standing))?;
                continue;
            }
            let place = standing.place_of(token);
            if left.is_zero() {
                if place.is_some() {
                    self.leave_or_remember(key, token);
                }
                let kind = ErrorKind::LockTimeout { holder: standing.holder(), waited: start.elapsed() };
                return Err(Error::new(kind, "another request holds the session"));
            }
            let queues = standing.lock.is_some() && standing.waiters() < WAITERS_MAX;
            if place.is_none() && queues && waited >= STARVING_AFTER {
                answer = self.queue(key, token)?;
                continue;
            }
            let owned_for = watch.owner.map_or(Duration::ZERO, |(_, _, since)| since.elapsed());
            let pause = if waited < STARVING_AFTER { first_pause(waited) } else { pause(owned_for, place) };
            std::thread::sleep(pause.min(left));
            rounds = 0;
            answer = self.watch(key)?;
        }
    }

    /// One try to take a lock: one that is not there, or the very one that was seen. Reads the record in the same trip.
    pub(super) fn take(&self, key: &Key, token: &Token, since: Timestamp, over: Option<&Standing>) -> Result<Answer> {
        let name = self.names.lock(key);
        let waiters = over.map_or(Vec::new(), |standing| standing.waiters_without(token));
        let lock = Lock::held(*token, self.lock_ttl, since, waiters);
        let (value, life) = (lock.encode(), Life::from(lock.native_s()));
        let mut batch = Batch::default();
        match over {
            None => batch.add(&name, 0, life, &value),
            Some(standing) => batch.cas(&name, 0, life, &value, standing.cas),
        }
        batch.get(&name);
        // Under the lock, so above the fence of the holder before. A counter that was lost starts at the time in
        // microseconds, which no counter reaches by counting.
        let first_fence = Clock::system().now().as_ms().saturating_mul(1_000);
        batch.count(&self.names.fence(), first_fence, 1);
        batch.get_or_reserve(&self.names.data(key), self.life_of_nothing());
        let [stored, lock, fence, data] = self.servers.call(key, &batch)?;
        if let Reply::Failed(why) = stored {
            return Err(fault(why, 0, 0));
        }
        let Some(standing) = looked_up(lock)?.map(|item| Standing::of(&item)) else { return Ok(Answer::Free) };
        if !standing.is_held_by(token) {
            return Ok(Answer::Taken(standing));
        }
        let grant = granted(&standing, fence, data);
        // Most likely there was no room for the record: a lock without one is of no use to us, and in the way of others.
        grant.map(Answer::Granted).inspect_err(|_| self.leave_or_remember(key, token))
    }

    /// Joins the queue.
    fn queue(&self, key: &Key, token: &Token) -> Result<Answer> {
        let name = self.names.lock(key);
        let mut batch = Batch::default();
        batch.append(&name, token);
        batch.get(&name);
        let [appended, lock] = self.servers.call(key, &batch)?;
        if let Reply::Failed(why) = appended {
            return Err(fault(why, 0, 0));
        }
        Ok(seen(looked_up(lock)?))
    }

    fn watch(&self, key: &Key) -> Result<Answer> {
        self.standing(key).map(|standing| standing.map_or(Answer::Free, Answer::Taken))
    }

    /// The record under a fresh lock, or the key to which the id leads.
    fn read_under(
        &self,
        mut held: Held,
        data: Item,
        took_over: bool,
        asked: &Key,
    ) -> Result<std::result::Result<Locked<Held>, Key>> {
        let data = if took_over { self.mark(&held, data)? } else { data };
        held.read = Read {
            cas: data.cas,
            writer: writer_of(&data),
            base: None,
            placeholder: data.value.is_empty() && !data.stale,
        };
        let found = match self.meaning(&held.key, data)? {
            Meaning::LeadsTo(next) => return Ok(Err(next)),
            Meaning::Nothing(trace) => Found::traced(trace),
            Meaning::Live(header, _) if header.expires <= self.clock.now() => Found::nothing(),
            Meaning::Live(header, payload) => {
                held.read.base = Some(Base::of(&header));
                Found::live(header.record(payload))
            }
        };
        let moved_to = (held.key != *asked).then(|| held.key.clone());
        Ok(Ok(Locked { held, found: Found { moved_to, ..found } }))
    }

    /// Gives the item of a session whose lock was taken over a new CAS number and our mark, so that the holder before,
    /// should it still live, cannot commit any more and learns why.
    fn mark(&self, held: &Held, mut data: Item) -> Result<Item> {
        let (name, mark) = (self.names.data(&held.key), taker(&held.token));
        for _ in 0..ATTEMPTS_MAX {
            let (header, payload) = match data.value.is_empty() || data.stale {
                true => (Header::new(Kind::Tombstone, mark), Vec::new()),
                false => item::open(data.value)?,
            };
            let (header, payload, life) = match header.kind {
                // A record that expired in 1970: it reads as nothing, and is somebody's.
                Kind::Tombstone => (Header::new(Kind::Live, mark), Vec::new(), self.life_of_nothing()),
                Kind::Alias => (header, payload, self.life(header.ends.unwrap_or(header.expires))),
                Kind::Live | Kind::Pending => (header, payload, self.life(header.expires)),
            };
            let value = Header { writer: mark, ..header }.encode(&payload);
            let mut batch = Batch::default();
            batch.cas(&name, header.kind.byte(), life, &value, data.cas);
            batch.get_or_reserve(&name, self.life_of_nothing());
            let [stored, now] = self.servers.call(&held.key, &batch)?;
            if let Reply::Failed(why) = stored {
                return Err(fault(why, payload.len(), self.payload_bytes_max));
            }
            data = reserved(now)?;
            if writer_of(&data) == Some(mark) {
                return Ok(data);
            }
        }
        Err(busy())
    }
}

/// What a lock item shows to one who does not hold it.
fn seen(item: Option<Item>) -> Answer {
    item.map_or(Answer::Free, |item| Answer::Taken(Standing::of(&item)))
}

/// What was read under a lock that is ours.
fn granted(standing: &Standing, fence: Reply, data: Reply) -> Result<Grant> {
    Ok(Grant {
        lock_cas: (standing.waiters() == 0).then_some(standing.cas),
        fence: number(&looked_up(fence)?.ok_or_else(unexpected)?)?,
        data: reserved(data)?,
    })
}

/// The item of an answer to a get that makes one if there is none. The server says that there is none when it has no room
/// for that.
fn reserved(reply: Reply) -> Result<Item> {
    looked_up(reply)?.ok_or_else(|| fault(Fault::OutOfMemory, 0, 0))
}

/// The number that a counter shows.
fn number(counter: &Item) -> Result<u64> {
    let text = std::str::from_utf8(&counter.value).ok();
    text.and_then(|text| text.trim().parse().ok()).ok_or_else(unexpected)
}

/// How long one sleeps who does not queue yet: half of what it has waited, so that eight of them leave the processors to the
/// holder.
fn first_pause(waited: Duration) -> Duration {
    jittered((waited / 2).max(PAUSE_MIN), waited)
}

/// How long one sleeps who waits for an owner that has been there for `owned_for`: an eighth of that, by its place in the
/// queue at least so many times the shortest pause, and up to a quarter more or less.
fn pause(owned_for: Duration, place: Option<usize>) -> Duration {
    let before = u32::try_from(place.unwrap_or(WAITERS_MAX)).unwrap_or(u32::MAX);
    let least = PAUSE_MIN.saturating_mul(before.saturating_add(1)).min(PAUSE_MAX);
    jittered((owned_for / 8).clamp(least, PAUSE_MAX), owned_for)
}

/// Up to a quarter more or less, within the bounds of all pauses.
fn jittered(pause: Duration, seed: Duration) -> Duration {
    // Any source of chance will do: it only keeps those who came together from looking together.
    let chance = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), seed.as_nanos()) % 512;
    let share = 768 + u32::try_from(chance).unwrap_or(0);
    (pause * share / 1_024).clamp(PAUSE_MIN, PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_short_at_first_and_never_beyond_their_bounds() {
        let ms = Duration::from_millis;
        for (owned_for, place, least, most) in [
            (Duration::ZERO, Some(0), PAUSE_MIN, PAUSE_MIN * 5 / 4),
            (ms(8), Some(0), PAUSE_MIN * 3, PAUSE_MIN * 7),
            (Duration::ZERO, Some(4), PAUSE_MIN * 3, PAUSE_MIN * 7),
            (ms(60_000), Some(0), PAUSE_MAX * 3 / 4, PAUSE_MAX),
            (Duration::ZERO, None, PAUSE_MAX * 3 / 4, PAUSE_MAX),
        ] {
            let drawn: Vec<Duration> = (0..200).map(|_| pause(owned_for, place)).collect();
            assert!(drawn.iter().all(|pause| (least..=most).contains(pause)), "{owned_for:?} {place:?}: {drawn:?}");
            assert!(drawn.windows(2).any(|two| two[0] != two[1]), "no jitter");
        }
    }

    #[test]
    fn who_does_not_queue_yet_looks_ever_less_often_and_soon_queues() {
        let (mut waited, mut looks) = (Duration::ZERO, 0);
        while waited < STARVING_AFTER {
            let pause = first_pause(waited);
            assert!((PAUSE_MIN..=PAUSE_MAX).contains(&pause), "{waited:?}: {pause:?}");
            (waited, looks) = (waited + pause, looks + 1);
        }
        assert!((5..=16).contains(&looks) && waited < STARVING_AFTER * 2, "{looks} looks in {waited:?}");
    }

    #[test]
    fn a_reservation_that_nobody_takes_falls_to_the_next() {
        let mine = [1; 16];
        let lock = Lock::held([9; 16], Duration::from_secs(60), Timestamp::ZERO, vec![[8; 16], mine]);
        let standing = |lock: &Lock| Standing::of(&Item { value: lock.encode(), ..Item::default() });
        let reserved = standing(&lock.handed_over().unwrap());
        let mut watch = Watch::default();
        assert!(watch.turn(&reserved, &mine).is_none());
        watch.owner = watch.owner.map(|(state, token, since)| (state, token, since - RESERVATION * 2));
        assert!(watch.turn(&reserved, &mine) == Some(Turn::Ours));
        let for_us = standing(&lock.handed_over().unwrap().handed_over().unwrap());
        assert!(Watch::default().turn(&for_us, &mine) == Some(Turn::Ours));
    }
}
