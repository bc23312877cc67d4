//! Whose turn it is at a lock that others hold, and how long to sleep until the next look.
//!
//! A lock that is taken is looked at again, first after 0.2 ms and then ever less often. For that
//! time any request that finds it free may take it: handing a lock over to a sleeper leaves it idle
//! until that wakes, and costs a round trip more. After [`STARVING_AFTER`] a request appends its
//! token to the lock and looks more often the further in front it is. The release reserves the lock
//! for the first of that queue (`release`), so nobody overtakes the queue. For a waiter that died
//! in the queue the others lose [`RESERVATION`].

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use sessile_core::{Clock, Error, ErrorKind, Result};

use super::lock::{Lock, RESERVED, WAITERS_MAX};
use crate::connections::deadline::Deadline;
use crate::locks::token::Token;

/// Others may change an item between our look and our write, but not for ever.
pub const ATTEMPTS_MAX: usize = 64;
const ATTEMPTS_TIME_MAX: Duration = Duration::from_secs(5);
/// So many failures in a row are hardly chance.
const IN_STEP: usize = 8;
/// Several round trips.
const ASIDE_MAX: Duration = Duration::from_millis(2);

/// A request that has waited for so long queues: longer than most of eight requests in a closed
/// loop wait (a turn takes 0.25 ms), shorter than the 20 ms of today's handlers.
pub const STARVING_AFTER: Duration = Duration::from_millis(5);
/// How long the waiter for which a lock is reserved has to come and take it.
const RESERVATION: Duration = Duration::from_millis(100);
/// How much later than the first of the queue each of the others takes a lapsed lock over.
const PRECEDENCE: Duration = Duration::from_millis(50);
const PAUSE_MIN: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// Why a lock that others hold may be taken.
#[derive(PartialEq, Eq)]
pub enum Takeover {
    /// It is reserved for us, or for a waiter that does not come.
    Reserved,
    Lapsed,
}

/// What a waiter has seen of a lock so far.
#[derive(Default)]
pub struct OwnerHistory {
    /// Whose lock or reservation it is, and since when we see that.
    owner: Option<(u8, Token, Instant)>,
    lapsed: Option<Instant>,
}

impl OwnerHistory {
    pub fn takeover(&mut self, lock: &Lock, token: &Token) -> Option<Takeover> {
        let place = lock.place_of(token).unwrap_or(lock.waiters.len());
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        let same = |seen: &(_, _, _)| (seen.0, seen.1) == (lock.state, lock.token);
        let seen = self.owner.filter(same);
        let seen = seen.unwrap_or_else(|| (lock.state, lock.token, Instant::now()));
        let (.., since) = *self.owner.insert(seen);
        if lock.state == RESERVED {
            let patience = RESERVATION.saturating_mul(place.saturating_add(1));
            let ours = lock.token == *token || since.elapsed() > patience;
            return ours.then_some(Takeover::Reserved);
        }
        if !lock.lapsed(Clock::system().now()) {
            self.lapsed = None;
            return None;
        }
        let seen = *self.lapsed.get_or_insert_with(Instant::now);
        (seen.elapsed() >= PRECEDENCE.saturating_mul(place)).then_some(Takeover::Lapsed)
    }

    /// How long to sleep after `waited`, at a place in the queue if in one.
    pub fn pause(&self, waited: Duration, place: Option<usize>) -> Duration {
        if waited < STARVING_AFTER {
            return first_pause(waited);
        }
        queued_pause(self.owner.map_or(Duration::ZERO, |(.., since)| since.elapsed()), place)
    }
}

/// Before the queue: half of what it has waited, so that eight of them leave the processors to the
/// holder.
fn first_pause(waited: Duration) -> Duration {
    jittered((waited / 2).max(PAUSE_MIN), waited)
}

/// For an owner that has been there for `owned_for`: an eighth of that, by its place in the queue
/// at least so many times the shortest pause, and up to a quarter more or less.
fn queued_pause(owned_for: Duration, place: Option<usize>) -> Duration {
    let before = u32::try_from(place.unwrap_or(WAITERS_MAX)).unwrap_or(u32::MAX);
    let least = PAUSE_MIN.saturating_mul(before.saturating_add(1)).min(PAUSE_MAX);
    jittered((owned_for / 8).clamp(least, PAUSE_MAX), owned_for)
}

/// Up to a quarter more or less, within the bounds of all pauses.
fn jittered(pause: Duration, seed: Duration) -> Duration {
    (pause * (768 + chance(seed) / 2) / 1_024).clamp(PAUSE_MIN, PAUSE_MAX)
}

/// A number below 1,024. Any source of chance will do: it only keeps those who came together from
/// looking together.
fn chance(seed: Duration) -> u32 {
    u32::try_from(RandomState::new().hash_one(seed) % 1_024).unwrap_or(0)
}

/// Looks and writes until nobody comes in between: `attempt` returns `None` when somebody did. Two
/// in step could go on like that: one always writes between the look and the write of the other. So
/// after some attempts each waits for a time of its own.
pub fn contend<T>(deadline: Deadline, mut attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    // The rest is for the answer to the last one.
    let (start, time_max) = (Instant::now(), ATTEMPTS_TIME_MAX.min(deadline.left() * 3 / 4));
    let mut failures = 0;
    while failures < IN_STEP || start.elapsed() < time_max {
        if failures >= IN_STEP {
            std::thread::sleep(aside());
        }
        if let Some(done) = attempt()? {
            return Ok(done);
        }
        failures += 1;
    }
    Err(busy())
}

fn aside() -> Duration {
    ASIDE_MAX * chance(Duration::ZERO) / 1_024
}

pub fn busy() -> Error {
    Error::new(ErrorKind::Io, "the record was changed by others again and again")
        .advice("try again")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sessile_core::Timestamp;

    use super::super::reply::Item;
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
            let drawn: Vec<Duration> = (0..200).map(|_| queued_pause(owned_for, place)).collect();
            assert!(
                drawn.iter().all(|pause| (least..=most).contains(pause)),
                "{owned_for:?} {place:?}: {drawn:?}"
            );
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
        assert!(
            (5..=16).contains(&looks) && waited < STARVING_AFTER * 2,
            "{looks} looks in {waited:?}"
        );
    }

    #[test]
    fn a_reservation_that_nobody_takes_falls_to_the_next() {
        let mine = [1; 16];
        let lock =
            Lock::held([9; 16], Duration::from_secs(60), Timestamp::ZERO, vec![[8; 16], mine]);
        let item = |lock: &Lock| Lock::of(&Item { value: lock.encode(), ..Item::default() });
        let reserved = item(&lock.handed_over().unwrap());
        let mut history = OwnerHistory::default();
        assert!(history.takeover(&reserved, &mine).is_none());
        history.owner =
            history.owner.map(|(state, token, since)| (state, token, since - RESERVATION * 2));
        assert!(history.takeover(&reserved, &mine) == Some(Takeover::Reserved));
        let for_us = item(&lock.handed_over().unwrap().handed_over().unwrap());
        assert!(OwnerHistory::default().takeover(&for_us, &mine) == Some(Takeover::Reserved));
    }
    #[test]
    fn two_that_are_in_step_wait_for_times_of_their_own() {
        let times: BTreeSet<Duration> = (0..100).map(|_| aside()).collect();
        assert!(times.len() > 50 && times.iter().all(|time| *time < ASIDE_MAX), "{times:?}");
        let mut attempts = 0_u32;
        let deadline = Deadline::new(Duration::ZERO, Duration::from_millis(100));
        let never = contend(deadline, || -> Result<Option<()>> {
            attempts += 1;
            Ok(None)
        });
        // Without sleeps there would be very many.
        assert!(never.is_err() && (IN_STEP as u32..1_000).contains(&attempts), "{attempts}");
    }
}
