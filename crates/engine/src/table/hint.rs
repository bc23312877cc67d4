//! Hints: where the record behind a cell of the index was when it was last published. A hint
//! decides nothing, and may be old or missing: docs/engine.md, "Hints".
//!
//! ```text
//! hint  location 35 | unused 21 | lines 8; 0: none
//! ```

use crate::memory::*;

const LOCATION_SHIFT: u32 = 29;
const LINES_MAX: u64 = 0xff;

#[derive(Clone, Copy)]
pub struct Hint(pub u64);

impl Hint {
    pub const NONE: Hint = Hint(0);

    pub fn new(location: Location, payload_bytes: u64) -> Hint {
        let lines = (HEADER_BYTES + payload_bytes).div_ceil(CACHE_LINE_BYTES).min(LINES_MAX);
        Hint(location.0 << LOCATION_SHIFT | lines)
    }

    pub fn leads_to(self, location: Location) -> bool {
        self.0 & LINES_MAX != 0 && self.0 >> LOCATION_SHIFT == location.0
    }

    /// Room for the payload, if the hint is right; 0 for a long or unknown one.
    pub fn room(self) -> usize {
        match self.0 & LINES_MAX {
            LINES_MAX => 0,
            lines => (lines * CACHE_LINE_BYTES).saturating_sub(HEADER_BYTES) as usize,
        }
    }
}

impl Plane {
    /// Prefetches the record. Not inlined: the look-up would have it seven times, once for each
    /// cell.
    #[inline(never)]
    pub fn follow_hint(&self, word: &Word) -> Hint {
        let hint = Hint(word.load(Relaxed));
        self.prefetch_lines(Location(hint.0 >> LOCATION_SHIFT), hint.0 & LINES_MAX);
        hint
    }
}

pub fn copy_hint(from: &Word, to: &Word) {
    to.store(from.load(Relaxed), Relaxed);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use sessile_core::{Clock, Key, Store, Ttl};

    use super::*;
    use crate::memory::LEVEL_FIRST;
    use crate::storage::ClaimPurpose;
    use crate::{Engine, EngineOptions, open};

    const BYTES: usize = 1_500;

    fn store(folder: &tempfile::TempDir) -> Engine {
        open(&folder.path().join("store"), Clock::system(), &EngineOptions::default()).unwrap()
    }

    fn ttl() -> Ttl {
        Ttl::sliding(Duration::from_secs(600)).unwrap()
    }

    fn key(number: usize) -> Key {
        Key::session(&format!("session-{number}")).unwrap()
    }

    fn payload(number: usize) -> Vec<u8> {
        (0..BYTES).map(|at| (at * 31 + number) as u8).collect()
    }

    fn fill(engine: &Engine, count: usize) {
        (0..count).for_each(|number| engine.create(&key(number), &payload(number), ttl()).unwrap());
    }

    /// Whether the hint of a session says where its record is, and how long it is.
    fn is_right(engine: &Engine, number: usize) -> bool {
        let (entry, hint) =
            engine.plane.find_to_read(engine.plane.digest_of(&key(number))).unwrap();
        let location = engine.plane.entry(entry).state().location();
        hint.leads_to(location) && (BYTES..BYTES + 128).contains(&hint.room())
    }

    #[test]
    fn each_session_has_a_right_hint_also_after_its_bucket_has_split() {
        let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let engine = store(&folder);
        // 64 buckets of seven cells: most of these have moved once, many twice.
        fill(&engine, 1_500);
        let right = (0..1_500).filter(|number| is_right(&engine, *number)).count();
        assert_eq!(right, 1_500);
    }

    #[test]
    fn who_moves_a_record_leaves_a_hint() {
        let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let engine = store(&folder);
        fill(&engine, 2);
        let (plane, me) = (&engine.plane, engine.me().unwrap());
        let held = engine.begin(&key(0), Duration::ZERO).unwrap().0;
        engine.commit(held, &payload(0), ttl()).unwrap();
        let entry = plane.entry(plane.find_entry(plane.digest_of(&key(1))).unwrap());
        let (before, claim) = entry.present_state(plane, entry.state()).unwrap();
        assert!(me.move_record(plane, claim.unwrap(), ClaimPurpose::Move).unwrap());
        assert_ne!(entry.state().location(), before.location());
        assert!(is_right(&engine, 0), "after a commit");
        assert!(is_right(&engine, 1), "after a move");
    }

    #[test]
    fn a_rebuild_leaves_hints() {
        let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
        let control = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let options =
            EngineOptions { control: Some(control.path().into()), ..EngineOptions::default() };
        let engine = open(&folder.path().join("store"), Clock::system(), &options).unwrap();
        fill(&engine, 20);
        drop((engine, control));
        let other = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let options = EngineOptions { control: Some(other.path().into()), ..options };
        let engine = open(&folder.path().join("store"), Clock::system(), &options).unwrap();
        let right = (0..20).filter(|number| is_right(&engine, *number)).count();
        assert_eq!(right, 20);
    }

    #[test]
    fn a_hint_that_is_wrong_changes_nothing_that_is_read() {
        let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let engine = store(&folder);
        fill(&engine, 200);
        let plane = &engine.plane;
        let first =
            plane.entry(plane.find_entry(plane.digest_of(&key(0))).unwrap()).state().location();
        let backed = 1 << LEVEL_FIRST..2 << LEVEL_FIRST;
        // Nowhere; beyond the file; beyond the mapping; a foreign record; the right place and a
        // wrong length.
        for wrong in [
            0,
            0xff,
            u64::MAX,
            u64::MAX - 0xff,
            1 << 63 | 30,
            first.0 << LOCATION_SHIFT | 25,
            first.0 << LOCATION_SHIFT | 1,
        ] {
            for hints in backed.clone().map(|number| plane.hints(number)) {
                hints.iter().for_each(|hint| hint.store(wrong, Relaxed));
            }
            for number in 0..200 {
                let found = engine.peek(&key(number)).unwrap().record.unwrap();
                assert!(found.payload == payload(number), "{number} under the hint {wrong:x}");
                let locked = engine.begin(&key(number), Duration::ZERO).unwrap();
                assert!(
                    locked.2.record.unwrap().payload == payload(number),
                    "{number} under the hint {wrong:x}"
                );
                engine.release(locked.0).unwrap();
            }
        }
    }

    #[test]
    fn room_is_kept_only_for_what_a_hint_can_tell() {
        assert_eq!(Hint::NONE.room(), 0);
        assert_eq!(Hint(LINES_MAX).room(), 0, "so long or longer");
        assert_eq!(Hint(1).room(), 0, "a header alone");
        assert_eq!(Hint(25).room(), 1_536);
        assert!(
            !Hint::NONE.leads_to(Location(0)),
            "no hint is none for the first record of the file"
        );
    }
}
