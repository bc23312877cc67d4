//! Hints: where the record behind a cell of the index was when it was last published. A hint
//! decides nothing, and may be old or missing: DESIGN.md, "Hints".
//!
//! ```text
//! hint  location 27 | granules 5; 0: none. Both count granules of 128 bytes
//! ```

use crate::memory::*;

const GRANULES_BITS: u32 = 5;
const GRANULES_MAX: u64 = (1 << GRANULES_BITS) - 1;
const LINES_OF_GRANULE: u64 = GRANULE_BYTES / CACHE_LINE_BYTES;
const BITS: u64 = 32;

#[derive(Clone, Copy)]
pub struct Hint(u64);

impl Hint {
    pub const NONE: Hint = Hint(0);

    /// None for a record beyond the first 16 GiB.
    pub fn new(location: Location, payload_bytes: u64) -> Hint {
        let first = location.0 / LINES_OF_GRANULE;
        let lines = (HEADER_BYTES + payload_bytes).div_ceil(CACHE_LINE_BYTES);
        let granules = (location.0 % LINES_OF_GRANULE + lines).div_ceil(LINES_OF_GRANULE);
        let hint = first << GRANULES_BITS | granules.min(GRANULES_MAX);
        if hint >> BITS == 0 { Hint(hint) } else { Hint::NONE }
    }

    /// Of a cell: half a word. Relaxed, as it publishes nothing.
    pub fn load(hints: &[Word; LINE_WORDS], cell: usize) -> Hint {
        let [low, high] = halves(word_of(hints, cell).load(Relaxed));
        Hint(if cell.is_multiple_of(2) { low } else { high })
    }

    /// Two that store side by side at once may undo one another.
    pub fn store(self, hints: &[Word; LINE_WORDS], cell: usize) {
        let word = word_of(hints, cell);
        let [low, high] = halves(word.load(Relaxed));
        let [low, high] = if cell.is_multiple_of(2) { [self.0, high] } else { [low, self.0] };
        word.store(low | high << BITS, Relaxed);
    }

    fn granules(self) -> u64 {
        self.0 & GRANULES_MAX
    }

    pub fn leads_to(self, location: Location) -> bool {
        self.granules() != 0 && self.0 >> GRANULES_BITS == location.0 / LINES_OF_GRANULE
    }

    /// Room for the payload, if the hint is right; 0 for a long or unknown one.
    pub fn room(self) -> usize {
        match self.granules() {
            GRANULES_MAX => 0,
            granules => (granules * GRANULE_BYTES).saturating_sub(HEADER_BYTES) as usize,
        }
    }
}

fn word_of(hints: &[Word; LINE_WORDS], cell: usize) -> &Word {
    hints.get(cell / 2).unwrap_or(&hints[LINE_WORDS - 1])
}

fn halves(word: u64) -> [u64; 2] {
    [word & ((1 << BITS) - 1), word >> BITS]
}

impl Plane {
    /// Prefetches the record. Not inlined: the look-up would have it once for each cell.
    #[inline(never)]
    pub fn follow_hint(&self, hint: Hint) -> Hint {
        let first = Location((hint.0 >> GRANULES_BITS) * LINES_OF_GRANULE);
        self.prefetch_lines(first, hint.granules() * LINES_OF_GRANULE);
        hint
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use sessile_core::{Clock, Key, OwnerChange, Store, Ttl};

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
        hint.leads_to(location) && (BYTES..BYTES + 192).contains(&hint.room())
    }

    #[test]
    fn each_session_has_a_right_hint_also_after_its_bucket_has_split() {
        let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let engine = store(&folder);
        // 64 buckets of fifteen cells: most of these have moved once, many twice.
        fill(&engine, 3_000);
        let right = (0..3_000).filter(|number| is_right(&engine, *number)).count();
        assert_eq!(right, 3_000);
    }

    #[test]
    fn who_moves_a_record_leaves_a_hint() {
        let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let engine = store(&folder);
        fill(&engine, 2);
        let (plane, me) = (&engine.plane, engine.me().unwrap());
        let held = engine.begin(&key(0), Duration::ZERO).unwrap().0;
        engine.commit(held, &payload(0), ttl(), OwnerChange::Keep).unwrap();
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
        let first = (first.0 / LINES_OF_GRANULE) << GRANULES_BITS;
        // Nowhere; beyond the file; a foreign record; the right place and a wrong length.
        for wrong in [0, 31, u64::from(u32::MAX), 1 << 31 | 15, first | 13, first | 1] {
            for hints in backed.clone().map(|number| plane.hints(number)) {
                hints.iter().for_each(|hints| hints.store(wrong | wrong << BITS, Relaxed));
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
    fn each_cell_has_a_hint_of_its_own() {
        let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let engine = store(&folder);
        let hints = engine.plane.hints(1 << LEVEL_FIRST);
        let of = |cell: usize| Hint::new(Location(cell as u64 * 64), cell as u64 * 200);
        (0..15).for_each(|cell| of(cell).store(hints, cell));
        (0..15).for_each(|cell| assert_eq!(Hint::load(hints, cell).0, of(cell).0, "{cell}"));
    }

    #[test]
    fn room_is_kept_only_for_what_a_hint_can_tell() {
        let room = |bytes| Hint::new(Location(0), bytes).room();
        assert_eq!(Hint::NONE.room(), 0);
        assert_eq!(room(0), 64, "a header and the rest of its granule");
        assert_eq!(room(1_500), 1_600);
        assert_eq!(room(3_776), 3_776);
        assert_eq!(room(3_777), 0, "so long or longer");
        assert_eq!(Hint::new(Location(1), 100).room(), 192, "it begins in the middle of a granule");
        let last = Location((1 << 28) - 1);
        assert!(Hint::new(last, 1).leads_to(last));
        assert_eq!(Hint::new(Location(1 << 28), 1).room(), 0, "beyond 16 GiB");
        assert!(
            !Hint::NONE.leads_to(Location(0)),
            "no hint is none for the first record of the file"
        );
    }
}
