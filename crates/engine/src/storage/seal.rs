//! Seals: which part of each segment of the log is known to be complete and on the disk.
//!
//! ```text
//! dir/sealed   8 bytes for each segment:  check 52 | granules 12
//! ```
//!
//! Invariants: a segment is sealed up to a granule only after all writes below it have returned and
//! a later sync has ended well; a seal is good for one use of its segment, because its check covers
//! the checksum of the segment's first line. DESIGN.md, "Bit rot and torn records".

use sessile_core::Result;
use xxhash_rust::xxh3::xxh3_64_with_secret;

use super::log_line::LogLine;
use super::segment::SegmentState;
use crate::memory::*;

/// Segments looked at in one call.
const SEGMENTS_LOOKED_AT: u64 = 16;
const GRANULES_BITS: u32 = 12;
/// Of the first line of a segment: its last word.
const FIRST_CHECKSUM: u64 = LOG_LINE_BYTES - 8;

fn seal(log: &DiskLog, segment: u64, granules: u64, first: u64) -> u64 {
    let words = [segment, granules, first].map(u64::to_le_bytes);
    xxh3_64_with_secret(words.as_flattened(), &log.secret) >> GRANULES_BITS << GRANULES_BITS
        | granules
}

/// The granules of a segment that are sealed, in the use of this generation.
#[derive(Clone, Copy, Default)]
pub struct Seal {
    granules: u64,
    generation: u64,
}

impl Seal {
    pub fn granules_of(self, generation: u64) -> u64 {
        if generation == self.generation { self.granules } else { 0 }
    }

    pub fn covers(self, line: &LogLine, location: Location) -> bool {
        let end = location.within() / GRANULE_BYTES + line.granules;
        end <= self.granules_of(line.generation)
    }
}

impl DiskLog {
    /// The seal that is good for the first line among the bytes of a segment.
    pub fn read_seal(&self, segment: u64, bytes: &[u8]) -> Seal {
        let mut word = [0; 8];
        let read = self.seals.read(&mut word, segment * 8);
        let line = bytes.as_chunks::<8>().0.first_chunk::<LINE_WORDS>();
        let (Ok(()), Some(line)) = (read, line) else { return Seal::default() };
        let [.., generation, first] = line.map(u64::from_le_bytes);
        let found = u64::from_le_bytes(word);
        let granules = found & ((1 << GRANULES_BITS) - 1);
        let is_good = found == seal(self, segment, granules, first);
        if is_good { Seal { granules, generation } } else { Seal::default() }
    }
}

impl SegmentWords<'_> {
    /// A write begins; before its granules are counted as appended.
    pub fn begin_write(&self) {
        self.writing.add(1);
    }

    /// A write has returned. One that failed, or whose process died, keeps its segment from being
    /// sealed in this use.
    pub fn end_write(&self, plane: &Plane) {
        // Pairs with the add of SYNCS_BEGUN in `begin_round`: a sync with a greater number begins
        // after the write.
        fence(SeqCst);
        self.syncs.raise(plane.header(header::SYNCS_BEGUN).load(SeqCst));
        self.writing.add(u64::MAX);
    }

    /// What `sealed` says of a segment whose first granules are sealed. The generation makes sure
    /// that a late store says nothing about the next use.
    fn mark(state: SegmentState, granules: u64) -> u64 {
        state.generation() << GRANULES_BITS | granules
    }

    /// How many granules are sealed in the present use.
    pub fn sealed_granules(&self) -> u64 {
        let (state, sealed) = (SegmentState(self.state.load(SeqCst)), self.sealed.load(SeqCst));
        let granules = sealed & ((1 << GRANULES_BITS) - 1);
        if sealed == SegmentWords::mark(state, granules) { granules } else { 0 }
    }

    pub fn remember_seal(&self, granules: u64) {
        let state = SegmentState(self.state.load(SeqCst));
        self.sealed.store(SegmentWords::mark(state, granules), SeqCst);
    }
}

impl Plane {
    /// Seals what can be sealed among the next few segments of a circle over all.
    pub fn seal_some(&self) -> Result<()> {
        let (Some(log), count) = (&self.log, self.segment_count()) else { return Ok(()) };
        let first = self.header(header::SEALING).add(SEGMENTS_LOOKED_AT);
        (0..SEGMENTS_LOOKED_AT.min(count))
            .try_for_each(|step| self.seal(log, (first + step) % count))
    }

    fn seal(&self, log: &DiskLog, segment: u64) -> Result<()> {
        let words = self.segment(segment);
        let state = SegmentState(words.state.load(SeqCst));
        let before = words.sealed.load(SeqCst);
        let appended = words.appended.load(SeqCst);
        let mark = SegmentWords::mark(state, appended);
        if !is_log(state.class()) || !state.has_slots() || appended == 0 || before == mark {
            return Ok(());
        }
        // In this order: a write of an earlier granule has begun before `appended`, and has noted
        // its sync before it has ended.
        let written = words.writing.load(SeqCst) == 0;
        let done = self.header(header::SYNCS_DONE).load(SeqCst);
        let done = done + u64::from(mutated(Mutation::SealsUnsynced));
        if !written || done <= words.syncs.load(SeqCst) {
            return Ok(());
        }
        let first = self.data.word(segment * SEGMENT_BYTES + FIRST_CHECKSUM).load(Relaxed);
        if words.state.load(SeqCst) != state.0 {
            return Ok(());
        }
        // Written late, over the seal of a later use, it is good for none.
        let sealed = seal(log, segment, appended, first).to_le_bytes();
        log.seals.write(&sealed, segment * 8)?;
        words.sealed.cas(before, mark);
        Ok(())
    }
}
