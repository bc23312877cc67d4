//! Room for the sessions that samples make, beside those that were filled in.
//!
//! How many they will be only the store itself shows: ids are prepared for one that is very fast, and one that is slow uses few of
//! them. So nobody is asked for room for all of them; a sample gets as many ids as there is room for when it begins. Invariant: what
//! was to stay free before the first sample stays free, however many samples and contenders there are, as far as a session takes what
//! those before it took. Who needs more is not decided here.

use crate::capacity::{Filling, Room, need, session_bytes};
use crate::medium::Medium;
use crate::options::Settings;
use crate::selection::Choice;

/// How many more sessions a contender may hold.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    medium: Medium,
    /// What one of them takes.
    session: Room,
    /// What stays free.
    spare: Room,
}

impl Growth {
    /// When all contenders are filled in, and before the first sample. `seen` is how many bytes a session of it takes, where that
    /// was weighed.
    pub(crate) fn from_now(choice: &Choice, settings: &Settings, seen: Option<u64>) -> Growth {
        let medium = Medium::of(choice);
        let (bytes, free) = (session_bytes(choice, &medium, settings.payload_bytes, seen), Room::free(&medium));
        Growth::new(medium, bytes, free)
    }

    fn new(medium: Medium, bytes: u64, free: Room) -> Growth {
        let session = need(&medium, Filling { sessions: 1, ids: 0, workers: 0 }, bytes);
        let usable = free.usable();
        let spare = Room {
            memory: free.memory.saturating_sub(usable.memory),
            medium: free.medium.saturating_sub(usable.medium),
        };
        Growth { medium, session, spare }
    }

    /// So many may be made now.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions_in(Room::free(&self.medium))
    }

    fn sessions_in(&self, free: Room) -> usize {
        // What takes no room may be made without end.
        let fit = |free: u64, spare: u64, each: u64| free.saturating_sub(spare).checked_div(each).unwrap_or(u64::MAX);
        let in_memory = fit(free.memory, self.spare.memory, self.session.memory);
        let on_medium = fit(free.medium, self.spare.medium, self.session.medium);
        usize::try_from(in_memory.min(on_medium)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: u64 = u64::MAX;

    fn left(medium: &Medium, before: Room, now: Room) -> usize {
        Growth::new(medium.clone(), 2_500, before).sessions_in(now)
    }

    #[test]
    fn a_fifth_of_what_was_free_before_the_first_sample_stays_free() {
        let room = |memory| Room { memory, medium: UNKNOWN };
        let after = |now| left(&Medium::Memory, room(10_000_000), room(now));
        assert_eq!([after(10_000_000), after(4_500_000), after(2_002_000), after(0)], [3_200, 1_000, 0, 0]);
    }

    #[test]
    fn on_a_disk_the_scarcer_one_decides_and_elsewhere_nothing_does() {
        // The kernel's cache of a file system is memory, too.
        let disk = Medium::FileSystem("/var/tmp".into());
        let before = Room { memory: 10_000_000, medium: 5_000_000 };
        let after = |memory, medium| left(&disk, before, Room { memory, medium });
        assert_eq!([after(10_000_000, 1_250_000), after(2_250_000, 5_000_000)], [100, 100]);
        let none = Room { memory: 0, medium: UNKNOWN };
        assert_eq!(left(&Medium::Elsewhere, Room { memory: 1_000, medium: UNKNOWN }, none), usize::MAX);
    }
}
