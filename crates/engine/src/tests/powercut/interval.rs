//! The tier of an interval: nothing acknowledged stays off the disk while changes go on. A sync is
//! begun when the interval is over, and waited for when it has no known end an interval later.
//!
//! Invariant: time counts only where changes are made, because nothing else begins a sync.

use sessile_core::Timestamp;

use super::history::History;
use crate::SyncMode;

/// Intervals, each of which a later change has seen the end of. A change waits one for its sync to
/// begin, and one for that to end, which another process may begin anew once.
const INTERVALS_MAX: u32 = 3;

/// A change that is not known to be on the disk.
pub struct UnsyncedChange {
    moment: u64,
    intervals: u32,
    since: Timestamp,
}

impl History {
    /// After a call that changes something.
    pub fn check_interval(&self, is_done: bool) {
        let SyncMode::Interval(interval) = self.plan.tier else { return };
        if self.plan.faults > 0 {
            return;
        }
        let (now, floor, moment) = (self.clock.now(), self.floor(), self.moment());
        let mut changes = self.unsynced.borrow_mut();
        changes.retain(|change| change.moment > floor);
        for change in changes.iter_mut() {
            if change.since.plus(interval) <= now {
                (change.intervals, change.since) = (change.intervals + 1, now);
            }
            if change.intervals >= INTERVALS_MAX {
                let since = change.moment;
                self.wrong(format!("a change of moment {since} is not on the disk at {now:?}"));
            }
        }
        if is_done && changes.last().is_none_or(|last| last.since < now) {
            changes.push(UnsyncedChange { moment, intervals: 0, since: now });
        }
    }
}
