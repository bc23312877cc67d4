//! Making room in a full log, so that the call that met it can go on.

use std::time::{Duration, Instant};

use sessile_core::{ErrorKind, Result};

use super::compaction::Compaction;
use crate::{memory::*, storage::*};

/// How often room is made for one change that gains some; and how long for a log-out.
const ROOM_TRIES: u32 = 4;
const TOMBSTONE_TIME_MAX: Duration = Duration::from_secs(20);
/// The free part of a segment that is emptied: as usual, then less.
const ONE_IN: [u64; 3] = [2, 8, 64];

fn is_full<T>(done: &Result<T>) -> bool {
    done.as_ref().is_err_and(|error| *error.kind() == ErrorKind::Full)
}

impl RecordWriter {
    /// Repeats work after making room in a full log, as long as that gains segments, which other
    /// processes may take; a tombstone for longer.
    pub fn with_room<T>(
        &self,
        plane: &Plane,
        purpose: ClaimPurpose,
        work: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let mut done = work();
        let (Some(log), true) = (&plane.log, is_full(&done)) else { return done };
        let (start, mut parts) = (Instant::now(), ONE_IN.into_iter());
        let (mut one_in, mut tries) = (parts.next().unwrap_or(2), 0);
        loop {
            let gained = self.make_room(plane, log, purpose, one_in);
            done = work();
            tries += 1;
            let again = match purpose {
                ClaimPurpose::Tombstone => start.elapsed() < TOMBSTONE_TIME_MAX,
                _ => gained && tries < ROOM_TRIES,
            };
            if !is_full(&done) || !again {
                return done;
            }
            if !gained {
                one_in = parts.next().unwrap_or(one_in);
            }
        }
    }

    /// Makes room. One process at a time: several would use up the room to move to. False when that
    /// has gained nothing.
    fn make_room(&self, plane: &Plane, log: &DiskLog, purpose: ClaimPurpose, one_in: u64) -> bool {
        let word = plane.header(header::ROOM_LOCK);
        let Some(_held) = self.try_hold(plane, word) else {
            let _ = self.hold(plane, word, purpose.room_time_max());
            return true;
        };
        let gained = self.compact_for(plane, log, purpose, one_in);
        self.appender.share_segment(plane);
        gained
    }

    fn compact_for(
        &self,
        plane: &Plane,
        log: &DiskLog,
        purpose: ClaimPurpose,
        one_in: u64,
    ) -> bool {
        let (start, mut compaction, mut ends) = (Instant::now(), Compaction::of_full(one_in), 0);
        loop {
            let (round, before, mut stuck) = (Instant::now(), compaction.closed, false);
            // Without room to move to, there may still be segments with nothing in them.
            while !(stuck && compaction.closed > before)
                && round.elapsed() < ROOM_TIME_MAX
                && ends < plane.segment_count()
            {
                let ended = compaction.step(plane, self);
                stuck |= ended.is_err();
                ends += u64::from(ended.unwrap_or(true));
            }
            // Emptied segments count when their successors are on the disk.
            if let Err(error) = self.sync_log(plane) {
                log::error!("a full log cannot be synced: {error:#}");
                break;
            }
            let over = ends >= plane.segment_count() || start.elapsed() >= purpose.room_time_max();
            if over || self.has_room(plane, log, purpose).unwrap_or(true) {
                break;
            }
        }
        compaction.closed > 0
    }
}
