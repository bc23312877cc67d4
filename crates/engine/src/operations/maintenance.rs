//! Maintenance: the share of each call in keeping the store small. A few records of expiry, a few
//! of compaction, the liveness of one process. Bounded, counted, and never needed for correctness.
//! `sweep` is as much of it as a budget allows; the next one goes on where that ended.

use std::time::{Duration, Instant};

use sessile_core::{Budget, Result, Swept, Timestamp};

use super::compaction::Compaction;
use super::expiry::{Examination, Hand};
use crate::{memory::*, storage::*, table::*};

const COMPACTION_TIME_MIN: Duration = Duration::from_micros(100);
/// Calls between two idle steps of compaction.
const IDLE_CALLS: u32 = 64;
/// In a log, where each commit takes new room.
const IDLE_CALLS_LOG: u32 = 4;
/// Between two looks for segments of the log that can be sealed.
const SEAL_CALLS: u32 = 4;
/// Between two measurements of CPU time: system calls of 0.4 us each on a virtual machine.
const CPU_CALLS: u32 = 256;
const LIVENESS_CALLS: u32 = 4_096;

#[derive(Default)]
pub struct Maintenance {
    hand: Hand,
    compaction: Compaction,
    calls: u32,
    next_process: u64,
    swept_to: u64,
    /// `sweep` has been over all entries, and compacts.
    sweep_compacts: bool,
}

impl Maintenance {
    pub fn step(&mut self, plane: &Plane, me: &RecordWriter, now: Timestamp) -> Result<()> {
        self.calls = self.calls.wrapping_add(1);
        let since = self.calls.is_multiple_of(CPU_CALLS).then(thread_cpu);
        let (examined, mut worked) = self.hand.step(plane, me, now)?;
        let idle_calls = if plane.log.is_some() { IDLE_CALLS_LOG } else { IDLE_CALLS };
        if examined == 0 && (self.compaction.is_busy() || self.calls.is_multiple_of(idle_calls)) {
            let start = Instant::now();
            self.compaction.step(plane, me)?;
            worked = start.elapsed();
        }
        if plane.log.is_some() && self.calls.is_multiple_of(SEAL_CALLS) {
            plane.seal_some()?;
        }
        if self.calls.is_multiple_of(LIVENESS_CALLS) {
            self.next_process = (self.next_process + 1) % PROCESSES_MAX;
            me.recover_if_dead(plane, self.next_process);
        }
        if !worked.is_zero() {
            me.count(plane, process_word::EXAMINED, examined);
            me.count_most(plane, process_word::EXAMINED_MOST, examined);
            let worked = u64::try_from(worked.as_nanos()).unwrap_or(u64::MAX);
            me.count(plane, process_word::MAINTENANCE_NS, worked);
            if let Some(since) = since {
                me.count_cpu(plane, process_word::MAINTENANCE_NS_MOST, since);
            }
        }
        Ok(())
    }

    pub fn sweep(&mut self, plane: &Plane, me: &RecordWriter, budget: Budget) -> Result<Swept> {
        let start = Instant::now();
        let mut swept = Swept::default();
        let now = plane.now();
        while !self.sweep_compacts {
            let number = self.swept_to;
            if number >= plane.entry_count() {
                self.swept_to = 0;
                self.sweep_compacts = true;
                (0..PROCESSES_MAX).for_each(|slot| me.recover_if_dead(plane, slot));
                break;
            }
            if swept.examined >= budget.records_max || start.elapsed() >= budget.time_max {
                return Ok(swept);
            }
            let (word, bit) = plane.used_bit(number);
            let used = word.load(Relaxed);
            if used == 0 {
                self.swept_to = (number / 64 + 1) * 64;
                continue;
            }
            if used & bit != 0 && plane.is_due(number, now) {
                swept.examined += 1;
                match me.examine(plane, number, now) {
                    Ok(outcome) => swept.removed += u64::from(outcome == Examination::Removed),
                    // One damaged record must not keep all others.
                    Err(error) => log::warn!("entry {number} cannot be swept: {error:#}"),
                }
            }
            self.swept_to += 1;
        }
        let left = budget.time_max.saturating_sub(start.elapsed()).max(COMPACTION_TIME_MIN);
        if me.compact_all(plane, left)? {
            self.sweep_compacts = false;
            swept.complete = true;
        }
        Ok(swept)
    }
}
