//! The lock of a session: one word that names its owner, and the kernel's futex to sleep on.
//!
//! Invariants: only the owner gives a living lock back, except `destroy`, which voids it; only a
//! dead owner's lock is taken over, in one step. DESIGN.md, "Session lock", has the states and
//! the fairness.

use std::time::Duration;

use super::process::AttachedProcess;
use crate::memory::*;

/// After this time a sleeper no longer lets newcomers pass.
const STARVING_AFTER: Duration = Duration::from_millis(1);
/// How long a sleeper sleeps, at first and later, before it asks whether the owner is dead.
const SLEEP_FIRST: Duration = Duration::from_millis(5);
const SLEEP_MAX: Duration = Duration::from_millis(80);
/// Reads of a lock that is about to be free before the first sleep.
const SPINS: u32 = if cfg!(sessile_model) { 1 } else { 60 };

pub enum LockAttempt {
    Acquired(LockWord),
    /// The wait ended first; the owner at that moment.
    TimedOut(LockWord),
    /// `goes_on` said no: what the lock protects has moved.
    Moved,
}

pub struct LockGuard<'a> {
    word: &'a Word,
    mine: LockWord,
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        self.word.unlock(self.mine);
    }
}

impl AttachedProcess {
    /// Takes the lock if no living process has it. It overtakes sleepers: a waiter that gave up may
    /// have left the starving bit on a lock that nobody wants.
    pub fn try_lock(&self, plane: &Plane, word: &Word) -> Option<LockWord> {
        let seen = LockWord(word.load(Relaxed));
        match seen.owner() {
            None => self.take(word, seen, 0),
            Some(owner) if self.takes_for_dead(plane, owner) => {
                self.steal(plane, word, seen, owner)
            }
            Some(_) => None,
        }
    }

    /// `try_lock` until the end of the scope.
    pub fn try_hold<'a>(&self, plane: &Plane, word: &'a Word) -> Option<LockGuard<'a>> {
        self.try_lock(plane, word).map(|mine| LockGuard { word, mine })
    }

    /// `lock_within`, until the end of the scope.
    pub fn hold<'a>(
        &self,
        plane: &Plane,
        word: &'a Word,
        wait_max: Duration,
    ) -> Option<LockGuard<'a>> {
        match self.lock_within(plane, word, wait_max, || true) {
            LockAttempt::Acquired(mine) => Some(LockGuard { word, mine }),
            _ => None,
        }
    }

    fn takes_for_dead(&self, plane: &Plane, owner: Owner) -> bool {
        mutated(Mutation::StealsFromTheLiving) || self.is_dead(plane, owner)
    }

    fn take(&self, word: &Word, seen: LockWord, bits: u64) -> Option<LockWord> {
        let mine = self.new_lock_word();
        word.cas(seen.0, mine.0 | seen.0 & LockWord::WAITING | bits).then_some(mine)
    }

    fn steal(&self, plane: &Plane, word: &Word, seen: LockWord, owner: Owner) -> Option<LockWord> {
        self.recover_if_dead(plane, owner.0);
        // Sleepers on the dead owner's word still sleep.
        let stolen = self.take(word, seen, LockWord::WAITING);
        if stolen.is_some() {
            self.count(plane, process_word::STEALS, 1);
        }
        stolen
    }

    /// Takes the lock, waiting for at most `wait_max`. `goes_on` is asked before each step.
    pub fn lock_within(
        &self,
        plane: &Plane,
        word: &Word,
        wait_max: Duration,
        goes_on: impl Fn() -> bool,
    ) -> LockAttempt {
        let seen = LockWord(word.load(Relaxed));
        // The usual case, without reading a clock.
        if seen.0 == 0
            && let Some(mine) = self.take(word, seen, 0)
        {
            return LockAttempt::Acquired(mine);
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
                return LockAttempt::Moved;
            }
            let seen = LockWord(word.load(Relaxed));
            let taken = match seen.owner() {
                None if waiter.slept || !seen.has(LockWord::STARVING) => {
                    // A waiter that has slept assumes that others still sleep, and wakes one at
                    // unlock.
                    let slept = waiter.slept && !wait_max.is_zero();
                    self.take(word, seen, if slept { LockWord::WAITING } else { 0 })
                }
                Some(owner) if waiter.suspects && self.takes_for_dead(plane, owner) => {
                    self.steal(plane, word, seen, owner)
                }
                _ => {
                    waiter.suspects = false;
                    let waited = waiter.start.elapsed();
                    if waited >= wait_max {
                        return LockAttempt::TimedOut(seen);
                    }
                    waiter.wait(word, seen, waited);
                    None
                }
            };
            if let Some(mine) = taken {
                return LockAttempt::Acquired(mine);
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
    /// It is time to ask whether the owner is dead.
    suspects: bool,
    /// When that was last asked.
    asked: Duration,
}

impl Waiter {
    fn wait(&mut self, word: &Word, seen: LockWord, waited: Duration) {
        if self.spins < SPINS {
            self.spins += 1;
            std::hint::spin_loop();
            return;
        }
        let starving = if waited >= STARVING_AFTER { LockWord::STARVING } else { 0 };
        let expected = LockWord(seen.0 | LockWord::WAITING | starving);
        if expected != seen && !word.cas(seen.0, expected.0) {
            return;
        }
        let sleep = self.sleep.min(self.wait_max - waited);
        // The kernel compares the low half: nonce, bits and part of the generation. A signal ends
        // the sleep too, so not its result but the clock says when to ask again.
        futex_wait(word, expected.0 as u32, sleep);
        self.slept = true;
        let now = self.start.elapsed();
        if now.saturating_sub(self.asked) >= SLEEP_FIRST {
            self.suspects = true;
            self.asked = now;
        }
        self.sleep = (self.sleep * 2).min(SLEEP_MAX);
    }
}

impl Word {
    /// Gives a lock back. A lock that is no longer ours stays as it is.
    pub fn unlock(&self, mine: LockWord) {
        loop {
            let seen = LockWord(self.load(Relaxed));
            if seen.bare() != mine {
                return;
            }
            // The starving bit stays while there are sleepers: it must not outlive the waiters.
            let sleepers = seen.has(LockWord::WAITING);
            let left = if sleepers { seen.0 & LockWord::STARVING } else { 0 };
            if self.cas(seen.0, left) {
                if mutated(Mutation::UnlocksSilently) {
                    return;
                }
                if sleepers
                    && futex_wake(self, 1) == 0
                    && left != 0
                    && !mutated(Mutation::LeavesStarving)
                {
                    self.cas(left, 0);
                }
                return;
            }
        }
    }

    /// Takes a lock away from its owner, which learns it when it comes back: only for `destroy`.
    pub fn void_lock(&self, seen: LockWord) {
        if seen.owner().is_some() {
            self.unlock(seen.bare());
        }
    }

    /// What they wait for is gone.
    pub fn wake_all(&self) {
        let _ = futex_wake(self, u32::MAX >> 1);
    }
}
