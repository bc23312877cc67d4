//! Limits the sessions that samples create.
//!
//! Their number depends on the store: ids are prepared for a very fast one, and a slow one uses
//! few. So a sample gets as many ids as there is space for when it begins. Invariant: the reserve
//! that was free before the first sample stays free, as far as a session takes what earlier ones
//! took.

use crate::capacity::{PlannedFill, SpaceBytes, required_space, session_bytes};
use crate::options::Settings;
use crate::selection::Choice;
use crate::storage_location::StorageLocation;

#[derive(Clone, Debug)]
pub(crate) struct GrowthLimit {
    medium: StorageLocation,
    session: SpaceBytes,
    spare: SpaceBytes,
}

impl GrowthLimit {
    /// Call when all contenders are filled and before the first sample. `seen`: measured bytes of a
    /// session.
    pub(crate) fn from_now(choice: &Choice, settings: &Settings, seen: Option<u64>) -> GrowthLimit {
        let medium = StorageLocation::of(choice);
        let (bytes, free) = (
            session_bytes(choice, &medium, settings.payload_bytes, seen),
            SpaceBytes::free(&medium),
        );
        GrowthLimit::new(medium, bytes, free)
    }

    fn new(medium: StorageLocation, bytes: u64, free: SpaceBytes) -> GrowthLimit {
        let session =
            required_space(&medium, PlannedFill { sessions: 1, ids: 0, workers: 0 }, bytes);
        let usable = free.usable();
        let spare = SpaceBytes {
            memory: free.memory.saturating_sub(usable.memory),
            medium: free.medium.saturating_sub(usable.medium),
        };
        GrowthLimit { medium, session, spare }
    }

    pub(crate) fn sessions(&self) -> usize {
        self.sessions_in(SpaceBytes::free(&self.medium))
    }

    fn sessions_in(&self, free: SpaceBytes) -> usize {
        // What takes no space is not limited.
        let fit = |free: u64, spare: u64, each: u64| {
            free.saturating_sub(spare).checked_div(each).unwrap_or(u64::MAX)
        };
        let in_memory = fit(free.memory, self.spare.memory, self.session.memory);
        let on_medium = fit(free.medium, self.spare.medium, self.session.medium);
        usize::try_from(in_memory.min(on_medium)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: u64 = u64::MAX;

    fn left(medium: &StorageLocation, before: SpaceBytes, now: SpaceBytes) -> usize {
        GrowthLimit::new(medium.clone(), 2_500, before).sessions_in(now)
    }

    #[test]
    fn a_fifth_of_what_was_free_before_the_first_sample_stays_free() {
        let room = |memory| SpaceBytes { memory, medium: UNKNOWN };
        let after = |now| left(&StorageLocation::Memory, room(10_000_000), room(now));
        assert_eq!(
            [after(10_000_000), after(4_500_000), after(2_002_000), after(0)],
            [3_200, 1_000, 0, 0]
        );
    }

    #[test]
    fn on_a_disk_the_scarcer_one_decides_and_elsewhere_nothing_does() {
        // The kernel's cache of a file system is memory, too.
        let disk = StorageLocation::FileSystem("/var/tmp".into());
        let before = SpaceBytes { memory: 10_000_000, medium: 5_000_000 };
        let after = |memory, medium| left(&disk, before, SpaceBytes { memory, medium });
        assert_eq!([after(10_000_000, 1_250_000), after(2_250_000, 5_000_000)], [100, 100]);
        let none = SpaceBytes { memory: 0, medium: UNKNOWN };
        assert_eq!(
            left(&StorageLocation::Remote, SpaceBytes { memory: 1_000, medium: UNKNOWN }, none),
            usize::MAX
        );
    }
}
