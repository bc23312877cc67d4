//! What every call does for the store besides its own work: a few records of expiry, a few of compaction, one look
//! at another process. Bounded, counted, and never needed for correctness.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use sessile_core::{Budget, Result, Swept, Timestamp};

use crate::compaction::{Compaction, compact};
use crate::disklog::Log;
use crate::expiry::{Examined, Hand, examine, is_due};
use crate::flush;
use crate::layout::{PROCESSES_MAX, header};
use crate::lock::{Locked, lock, try_lock, unlock};
use crate::plane::Plane;
use crate::process::{Process, recover_one, slot, thread_cpu};
use crate::reserve::{self, For, ROOM_TIME_MAX};
use crate::sync::Ordering;

/// Calls between two steps of compaction that found nothing to do.
const IDLE_CALLS: u32 = 64;
/// The same in a log, where each commit takes new room.
const IDLE_CALLS_LOG: u32 = 4;
/// In one of so many calls the CPU time is looked at: two system calls, of 0.4 us each on a virtual machine.
const CPU_CALLS: u32 = 256;
/// Calls between two looks at another process.
const LOOK_CALLS: u32 = 4_096;

/// Where the maintenance of this process stands.
#[derive(Default)]
pub struct Maintenance(Mutex<State>);

#[derive(Default)]
struct State {
    hand: Hand,
    compaction: Compaction,
    calls: u32,
    next_process: u64,
    /// Where `sweep` goes on.
    swept_to: u64,
    compacting: bool,
}

impl Maintenance {
    /// The share of one call.
    pub fn step(plane: &Plane, me: &Process, now: Timestamp) {
        // Another thread is at it: that is enough. A lock inherited over fork is not: a child has a Process of its own.
        let Ok(mut state) = me.maintenance.0.try_lock() else { return };
        if let Err(error) = state.step(plane, me, now) {
            log::debug!("maintenance was put off: {error:#}");
        }
        drop(state);
        flush::sync_if_due(plane, me, now);
    }

    /// Makes room in a full log for a moment, so that the call that met it can go on. One at a time: several would use up
    /// what there is to move to, and find each other's segments half emptied. False when that has gained nothing.
    pub fn make_room(plane: &Plane, me: &Process, log: &Log, purpose: For, one_in: u64) -> bool {
        let word = plane.header(header::ROOM_LOCK);
        let Some(mine) = try_lock(plane, me, word) else {
            if let Locked::Ours(mine) = lock(plane, me, word, purpose.room_time_max(), || true) {
                unlock(word, mine);
            }
            return true;
        };
        let gained = State::compact_for(plane, me, log, purpose, one_in);
        me.appender.share(plane, me);
        unlock(word, mine);
        gained
    }

    /// The share of a sweep.
    pub fn sweep(plane: &Plane, me: &Process, budget: Budget, start: Instant) -> Result<Swept> {
        let mut state = me.maintenance.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.sweep(plane, me, budget, start)
    }
}

impl State {
    /// Compacts until there is room for a purpose.
    fn compact_for(plane: &Plane, me: &Process, log: &Log, purpose: For, one_in: u64) -> bool {
        let (start, mut compaction, mut ends) = (Instant::now(), Compaction::of_full(one_in), 0);
        loop {
            let (round, before, mut stuck) = (Instant::now(), compaction.closed(), false);
            // Without anywhere to move to there may still be some with nothing in them.
            while !(stuck && compaction.closed() > before)
                && round.elapsed() < ROOM_TIME_MAX
                && ends < plane.segment_count()
            {
                let ended = compaction.step(plane, me);
                stuck |= ended.is_err();
                ends += u64::from(ended.unwrap_or(true));
            }
            // What was emptied counts when what replaced it is on the disk; then there is somewhere to move to again.
            if let Err(error) = flush::sync(plane, me) {
                log::error!("a full log cannot be synced: {error:#}");
                break;
            }
            let over = ends >= plane.segment_count() || start.elapsed() >= purpose.room_time_max();
            if over || reserve::has_room(plane, me, log, purpose).unwrap_or(true) {
                break;
            }
        }
        compaction.closed() > 0
    }

    fn step(&mut self, plane: &Plane, me: &Process, now: Timestamp) -> Result<()> {
        self.calls = self.calls.wrapping_add(1);
        let since = self.calls.is_multiple_of(CPU_CALLS).then(thread_cpu);
        let (examined, elapsed) = self.hand.step(plane, me, now)?;
        let mut worked = elapsed;
        let idle_calls = if plane.log.is_some() { IDLE_CALLS_LOG } else { IDLE_CALLS };
        if examined == 0 && (self.compaction.is_busy() || self.calls.is_multiple_of(idle_calls)) {
            let start = Instant::now();
            self.compaction.step(plane, me)?;
            worked = start.elapsed();
        }
        if self.calls.is_multiple_of(LOOK_CALLS) {
            self.next_process = (self.next_process + 1) % PROCESSES_MAX;
            recover_one(plane, me, self.next_process);
        }
        if !worked.is_zero() {
            me.count(plane, slot::EXAMINED, examined);
            me.count_most(plane, slot::EXAMINED_MOST, examined);
            let worked = u64::try_from(worked.as_nanos()).unwrap_or(u64::MAX);
            me.count(plane, slot::MAINTENANCE_NS, worked);
            if let Some(since) = since {
                me.count_cpu(plane, slot::MAINTENANCE_NS_MOST, since);
            }
        }
        Ok(())
    }

    fn sweep(&mut self, plane: &Plane, me: &Process, budget: Budget, start: Instant) -> Result<Swept> {
        let mut swept = Swept::default();
        let now = plane.now();
        while !self.compacting {
            if self.swept_to >= plane.entry_count() {
                self.swept_to = 0;
                self.compacting = true;
                (0..PROCESSES_MAX).for_each(|slot| {
                    recover_one(plane, me, slot);
                });
                break;
            }
            if swept.examined >= budget.records_max || start.elapsed() >= budget.time_max {
                return Ok(swept);
            }
            let (number, (word, bit)) = (self.swept_to, plane.used_bit(self.swept_to));
            let used = word.load(Ordering::Relaxed);
            if used == 0 {
                self.swept_to = (number / 64 + 1) * 64;
                continue;
            }
            if used & bit != 0 && is_due(plane, number, now) {
                swept.examined += 1;
                match examine(plane, me, number, now) {
                    Ok(outcome) => swept.removed += u64::from(outcome == Examined::Removed),
                    // One damaged record must not keep all others.
                    Err(error) => log::warn!("entry {number} cannot be swept: {error:#}"),
                }
            }
            self.swept_to += 1;
        }
        let left = budget.time_max.saturating_sub(start.elapsed()).max(Duration::from_micros(100));
        if compact(plane, me, Instant::now(), left)? {
            self.compacting = false;
            swept.complete = true;
        }
        Ok(swept)
    }
}
