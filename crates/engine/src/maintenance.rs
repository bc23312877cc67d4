//! What every call does for the store besides its own work: a few records of expiry, a few of compaction, one look
//! at another process. Bounded, counted, and never needed for correctness.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use sessile_core::{Budget, Result, Swept, Timestamp};

use crate::compaction::{Compaction, compact};
use crate::expiry::{Examined, Hand, examine, is_due};
use crate::layout::PROCESSES_MAX;
use crate::plane::Plane;
use crate::process::{Process, recover_one, slot};
use crate::sync::Ordering;

/// Calls between two steps of compaction that found nothing to do.
const IDLE_CALLS: u32 = 64;
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
    }

    /// The share of a sweep.
    pub fn sweep(plane: &Plane, me: &Process, budget: Budget, start: Instant) -> Result<Swept> {
        let mut state = me.maintenance.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.sweep(plane, me, budget, start)
    }
}

impl State {
    fn step(&mut self, plane: &Plane, me: &Process, now: Timestamp) -> Result<()> {
        self.calls = self.calls.wrapping_add(1);
        let (examined, elapsed) = self.hand.step(plane, me, now)?;
        let mut worked = elapsed;
        if examined == 0 && (self.compaction.is_busy() || self.calls.is_multiple_of(IDLE_CALLS)) {
            let start = Instant::now();
            self.compaction.step(plane, me, &me.rotations)?;
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
            me.count_most(plane, slot::MAINTENANCE_NS_MOST, worked);
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
        if compact(plane, me, &me.rotations, Instant::now(), left)? {
            self.compacting = false;
            swept.complete = true;
        }
        Ok(swept)
    }
}
