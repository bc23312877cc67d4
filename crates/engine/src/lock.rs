//! The lock of a session: one word that names its owner, and the kernel's futex to sleep on.
//!
//! Invariants: only the owner gives a living lock back, except `destroy`, which voids it; only a dead owner's lock
//! is taken over, and the new owner's word replaces the dead one's in one step. Uncontended, taking and giving back
//! are one compare-and-swap each. docs/engine.md, "Session lock", draws the states.
//!
//! Fairness: a newcomer may overtake sleepers, which keeps a short critical section fast; but who has slept for
//! [`STARVING_AFTER`] sets a bit that makes newcomers queue up behind the sleepers, whom the kernel wakes in the
//! order in which they came.

use std::time::Duration;

use crate::broken::{self, Twin};
use crate::futex;
use crate::plane::Plane;
use crate::process::{Process, recover_one, slot};
use crate::sync::{Instant, Ordering, Word};
use crate::words::Lock;

/// After so long a sleeper no longer lets newcomers pass.
const STARVING_AFTER: Duration = Duration::from_millis(1);
/// How long a sleep lasts before the sleeper looks whether the owner is dead: at first and later.
const SLEEP_FIRST: Duration = Duration::from_millis(5);
const SLEEP_MAX: Duration = Duration::from_millis(80);
/// Looks at a lock that is about to be free before going to sleep.
const SPINS: u32 = if cfg!(sessile_model) { 1 } else { 60 };

/// How a try to lock ended.
pub enum Locked {
    /// It is ours, under this word.
    Ours(Lock),
    /// The wait was over first; the owner at that moment.
    TimedOut(Lock),
    /// `goes_on` said no: what it protects has moved.
    Moved,
}

/// Takes the lock if nobody who lives has it. It overtakes sleepers, also starving ones: a waiter that gave up may have
/// left that bit on a lock that nobody wants any more.
pub fn try_lock(plane: &Plane, me: &Process, word: &Word) -> Option<Lock> {
    let seen = Lock(word.load(Ordering::Relaxed));
    match seen.owner() {
        None => take(me, word, seen, 0),
        Some(owner) if is_dead(plane, me, owner) => {
            recover_one(plane, me, owner.0);
            steal(plane, me, word, seen)
        }
        Some(_) => None,
    }
}

fn is_dead(plane: &Plane, me: &Process, owner: (u64, u64)) -> bool {
    broken::is(Twin::StealsFromTheLiving) || me.is_dead(plane, owner)
}

fn take(me: &Process, word: &Word, seen: Lock, bits: u64) -> Option<Lock> {
    let mine = me.lock();
    word.cas(seen.0, mine.0 | seen.0 & Lock::WAITING | bits).then_some(mine)
}

fn steal(plane: &Plane, me: &Process, word: &Word, seen: Lock) -> Option<Lock> {
    // Whoever slept on the dead owner's word still does.
    let stolen = take(me, word, seen, Lock::WAITING);
    if stolen.is_some() {
        me.count(plane, slot::STEALS, 1);
    }
    stolen
}

/// Takes the lock, waiting until the deadline. `goes_on` is asked before each step.
pub fn lock(plane: &Plane, me: &Process, word: &Word, wait_max: Duration, goes_on: impl Fn() -> bool) -> Locked {
    let seen = Lock(word.load(Ordering::Relaxed));
    // The usual case, without looking at a clock.
    if seen.0 == 0
        && let Some(mine) = take(me, word, seen, 0)
    {
        return Locked::Ours(mine);
    }
    let mut waiter = Waiter {
        start: Instant::now(),
        wait_max,
        sleep: SLEEP_FIRST,
        slept: wait_max.is_zero(),
        spins: 0,
        suspects: wait_max.is_zero(),
        asked: Duration::ZERO,
    };
    loop {
        if !goes_on() {
            return Locked::Moved;
        }
        let seen = Lock(word.load(Ordering::Relaxed));
        match seen.owner() {
            None if waiter.slept || !seen.has(Lock::STARVING) => {
                // Who has slept assumes that others still sleep, and so wakes one when it leaves.
                let bits = if waiter.slept && !wait_max.is_zero() { Lock::WAITING } else { 0 };
                if let Some(mine) = take(me, word, seen, bits) {
                    return Locked::Ours(mine);
                }
            }
            Some(owner) if waiter.suspects && is_dead(plane, me, owner) => {
                recover_one(plane, me, owner.0);
                if let Some(mine) = steal(plane, me, word, seen) {
                    return Locked::Ours(mine);
                }
            }
            _ => {
                waiter.suspects = false;
                let waited = waiter.start.elapsed();
                if waited >= wait_max {
                    return Locked::TimedOut(seen);
                }
                waiter.wait(word, seen, waited);
            }
        }
    }
}

struct Waiter {
    start: Instant,
    wait_max: Duration,
    sleep: Duration,
    slept: bool,
    spins: u32,
    /// It is time to ask whether the owner is dead ...
    suspects: bool,
    /// ... which was last done so long after the start.
    asked: Duration,
}

impl Waiter {
    fn wait(&mut self, word: &Word, seen: Lock, waited: Duration) {
        if self.spins < SPINS {
            self.spins += 1;
            std::hint::spin_loop();
            return;
        }
        let starving = if waited >= STARVING_AFTER { Lock::STARVING } else { 0 };
        let expected = Lock(seen.0 | Lock::WAITING | starving);
        if expected != seen && !word.cas(seen.0, expected.0) {
            return;
        }
        let sleep = self.sleep.min(self.wait_max - waited);
        // The kernel compares the low half: nonce, bits and part of the generation. Whatever ends the sleep, the
        // caller looks at the word again.
        // A signal ends the sleep too, so not the result but the clock says when to ask again.
        futex::wait(word, expected.0 as u32, sleep);
        self.slept = true;
        let now = self.start.elapsed();
        if now.saturating_sub(self.asked) >= SLEEP_FIRST {
            self.suspects = true;
            self.asked = now;
        }
        self.sleep = (self.sleep * 2).min(SLEEP_MAX);
    }
}

/// Gives a lock back. A lock that is no longer ours stays as it is.
pub fn unlock(word: &Word, mine: Lock) {
    loop {
        let seen = Lock(word.load(Ordering::Relaxed));
        if seen.bare() != mine {
            return;
        }
        // Who starves goes on starving, if there is anyone: the mark must not outlive the waiters.
        let sleepers = seen.has(Lock::WAITING);
        let left = if sleepers { seen.0 & Lock::STARVING } else { 0 };
        if word.cas(seen.0, left) {
            if broken::is(Twin::UnlocksSilently) {
                return;
            }
            if sleepers && futex::wake(word, 1) == 0 && left != 0 && !broken::is(Twin::LeavesStarving) {
                word.cas(left, 0);
            }
            return;
        }
    }
}

/// Takes a lock away from its owner, who will be told when it comes back: only for `destroy`.
pub fn void(word: &Word, seen: Lock) {
    if seen.owner().is_some() {
        unlock(word, seen.bare());
    }
}

/// Wakes everyone: what they wait for is gone.
pub fn wake_all(word: &Word) {
    let _ = futex::wake(word, u32::MAX >> 1);
}
