//! What a rebuild finds in a segment of the log.
//!
//! Invariant: a record that a power cut or the death of its writer has torn does not count; one
//! that was complete on the disk and is not any more counts as damaged. DESIGN.md, "Bit rot
//! and torn records".

use sessile_core::Result;

use crate::{memory::*, storage::*};

pub struct FoundRecord<'a> {
    pub line: LogLine,
    /// Of a damaged record only the stamp is good, which is a new one.
    pub header: RecordHeader,
    pub location: Location,
    /// It was complete on the disk.
    pub is_sealed: bool,
    body: Option<&'a [u8]>,
}

/// The records of a segment, torn ones and those of an earlier use included.
pub fn read_segment<'a>(
    log: &'a DiskLog,
    bytes: &'a mut [u8],
    segment: u64,
) -> Result<(Seal, impl Iterator<Item = FoundRecord<'a>>)> {
    log.file.read(bytes, segment * SEGMENT_BYTES)?;
    let seal = log.read_seal(segment, bytes);
    let found =
        parse_segment(log, bytes, segment).map(move |record| FoundRecord::new(record, seal));
    Ok((seal, found))
}

impl<'a> FoundRecord<'a> {
    fn new(record: ParsedRecord<'a>, seal: Seal) -> FoundRecord<'a> {
        let ParsedRecord { line, mut header, location, body } = record;
        if body.is_none() {
            header.stamp = stamp_of_damaged(location, line.kind.is_note());
        }
        FoundRecord { line, header, location, is_sealed: seal.covers(&line, location), body }
    }

    pub fn is_damaged(&self) -> bool {
        self.body.is_none()
    }

    /// Whether it is more than the torn rest of a write. A tombstone says all in its line.
    pub fn was_complete(&self) -> bool {
        !self.is_damaged() || self.is_tombstone() || self.is_sealed || mutated(Mutation::TornCounts)
    }

    pub fn is_tombstone(&self) -> bool {
        self.line.kind == RecordKind::Tombstone
    }

    pub fn is_touch(&self) -> bool {
        self.line.kind == RecordKind::Touch
    }

    pub fn is_chunk(&self) -> bool {
        self.line.kind == RecordKind::Chunk
    }

    pub fn has_list(&self) -> bool {
        !self.is_damaged() && self.header.form == CHUNKED
    }

    /// Of two records of a digest, the later one has the greater rank.
    pub fn rank(&self) -> (u64, bool, u64) {
        let lineage = self.line.lineage;
        (lineage.sequence, self.is_tombstone(), lineage.fence)
    }

    /// Whether it counts without anything else: other records need their chunks, or the session
    /// that they lead to.
    pub fn counts_alone(&self) -> bool {
        let is_alias = self.line.kind == RecordKind::Regenerated;
        self.is_sealed || self.is_tombstone() || !self.has_list() && !is_alias
    }

    /// The new id of a regenerated one.
    pub fn target(&self) -> Option<KeyDigest> {
        let body = self.body.filter(|_| self.line.kind == RecordKind::Regenerated)?;
        alias_of(body).map(|(target, _)| target)
    }

    /// Whether all chunks that its header says are in its list, and of each this holds.
    pub fn has_all_chunks(&self, is_there: impl Fn(SlotClaim) -> bool) -> bool {
        let Some(list) = self.body.filter(|_| self.has_list()) else { return true };
        list.as_chunks::<8>().0.as_chunks::<2>().0.iter().all(|item| {
            let [location, stamp] = item.map(u64::from_le_bytes);
            let location = location.checked_sub(1).map(Location);
            location.is_some_and(|location| is_there(SlotClaim { location, stamp }))
        })
    }
}
