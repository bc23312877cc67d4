//! Drawing fences: a counter that follows the server's time. In a cluster each slot has its own,
//! which moves with it.
//!
//! Invariant: a fence is above all that were drawn from the same counter before, also when the
//! server has lost the last of them.
//!
//! Each connection lifts a counter before its first fence from it, because most of what loses the
//! last fences ends all connections, and again after a second, because not all does: a primary
//! that was a replica for a moment keeps them, and so may a proxy.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::Pipeline;

/// Draws a fence, and lifts the counter to the server's time in microseconds with it: an older
/// state of the server, or a replica in its place, may lack the last numbers. Nobody draws a
/// million a second. One change of the server, as without the lift. begin.lua does the same.
const LIFT: &str = "local time = redis.call('TIME')
    local us = time[1] * 1000000 + time[2]
    if tonumber(redis.call('GET', KEYS[1]) or 0) >= us then return redis.call('INCR', KEYS[1]) end
    redis.call('SET', KEYS[1], string.format('%.0f', us))
    return us";
/// How long a lift of the counter counts.
const LIFT_EACH: Duration = Duration::from_secs(1);
/// A counter below this was lost while connections went on: emptied by hand, or evicted.
const FENCE_MIN: u64 = 1_000_000_000;
/// Beyond, a connection forgets which counters it has lifted for longer than a lift counts.
const LIFTED_MAX: usize = 1_024;

/// When a connection has lifted which counters, by their slots.
#[derive(Default)]
pub struct Lifted(BTreeMap<u16, Instant>);

impl Lifted {
    /// Adds the command that draws a fence. Returns what is to be noted when it was answered.
    pub fn draw(&self, slot: u16, counter: &str, commands: &mut Pipeline) -> Option<Instant> {
        let now = Instant::now();
        let counts = |last: &Instant| now.duration_since(*last) <= LIFT_EACH;
        if self.0.get(&slot).is_some_and(counts) {
            commands.cmd("INCR").arg(counter);
            return None;
        }
        commands.cmd("EVAL").arg(LIFT).arg(1).arg(counter);
        Some(now)
    }

    pub fn note(&mut self, slot: u16, lifted: Option<Instant>) {
        let Some(now) = lifted else { return };
        if self.0.len() >= LIFTED_MAX {
            self.0.retain(|_, last| now.duration_since(*last) <= LIFT_EACH);
        }
        self.0.insert(slot, now);
    }
}

/// `None` when the counter was lost.
pub fn checked(fence: u64) -> Option<u64> {
    Some(fence).filter(|fence| *fence >= FENCE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_lifts_each_counter_once_a_second() {
        let mut lifted = Lifted::default();
        let mut draw = |slot: u16| {
            let mut commands = redis::pipe();
            let now = lifted.draw(slot, "fence", &mut commands);
            lifted.note(slot, now);
            now.is_some()
        };
        assert_eq!([3, 3, 4, 3].map(&mut draw), [true, false, true, false]);
        std::thread::sleep(LIFT_EACH + Duration::from_millis(1));
        assert_eq!([3, 3].map(&mut draw), [true, false]);
    }

    #[test]
    fn a_connection_remembers_only_lifts_that_count() {
        let mut lifted = Lifted::default();
        let old = Instant::now().checked_sub(LIFT_EACH * 2).unwrap();
        let all = u16::try_from(LIFTED_MAX).unwrap();
        (0..all).for_each(|slot| lifted.note(slot, Some(old)));
        lifted.note(all, Some(Instant::now()));
        assert_eq!(lifted.0.len(), 1);
    }
}
