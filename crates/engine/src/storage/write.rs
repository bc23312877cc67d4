//! Writing records: into a slot in memory, or at the end of the log.
//!
//! Invariant: a record is complete before an entry leads to it, and until then the lane names it.

use std::ops::Deref;

use sessile_core::{Error, ErrorKind, Result};

use super::append::Appender;
use super::header::{CHUNK, CHUNKED, PLAIN, RecordHeader};
use super::lane::{ClaimTarget, Lane, SlotClaim};
use super::log_line::{EncodedRecord, Lineage, LogRecord, RecordKind, granules};
use super::reserve::ClaimPurpose;
use super::slots::SlotRotations;
use crate::{memory::*, table::*};

/// This process, and where it writes.
pub struct RecordWriter {
    pub process: AttachedProcess,
    pub slots: SlotRotations,
    pub appender: Appender,
}

impl RecordWriter {
    pub fn new(process: AttachedProcess) -> RecordWriter {
        RecordWriter { process, slots: SlotRotations::default(), appender: Appender::default() }
    }

    /// Writes a record that nothing leads to yet; `logged` is needed on a disk. After an error
    /// every claimed slot is free again.
    pub fn write_record(
        &self,
        lane: &Lane<'_>,
        header: &RecordHeader,
        payload: &[u8],
        logged: Option<LoggedAs>,
    ) -> Result<SlotClaim> {
        let payload_bytes = payload.len() as u64;
        if payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(too_large());
        }
        let form = if payload_bytes <= CHUNK_BYTES { PLAIN } else { CHUNKED };
        let header = RecordHeader { payload_bytes, form, ..*header };
        match (&lane.plane.log, logged) {
            (Some(log), Some(LoggedAs { kind, lineage, purpose })) => {
                let record = LogRecord { kind, lineage, header: &header, body: payload };
                if header.form == PLAIN {
                    return self.appender.append(lane, log, &record, purpose);
                }
                log_in_chunks(&self.appender, lane, log, record, purpose)
            }
            _ => write_to_slot(&self.slots, lane, &header, payload),
        }
    }
}

impl Deref for RecordWriter {
    type Target = AttachedProcess;

    fn deref(&self) -> &AttachedProcess {
        &self.process
    }
}

/// What a record says in the log besides; in memory none of it is written.
#[derive(Clone, Copy)]
pub struct LoggedAs {
    pub kind: RecordKind,
    pub lineage: Lineage,
    pub purpose: ClaimPurpose,
}

fn write_to_slot(
    slots: &SlotRotations,
    lane: &Lane<'_>,
    header: &RecordHeader,
    payload: &[u8],
) -> Result<SlotClaim> {
    let plane = lane.plane;
    let class = class_of(HEADER_BYTES + header.stored_bytes()).ok_or_else(too_large)?;
    let claim = slots.claim_slot(lane, class, ClaimTarget::Record)?;
    plane.write_header(claim.location, header);
    let start = claim.location.offset() + HEADER_BYTES;
    if header.form == PLAIN {
        if !mutated(Mutation::StateBeforeRecord) {
            plane.data.write(start, payload);
        }
        complete(plane, claim);
        return Ok(claim);
    }
    // The list is empty before the record counts, so recovery never follows earlier content.
    (0..header.stored_bytes() / 8)
        .for_each(|word| plane.data.word(start + word * 8).store(0, Relaxed));
    complete(plane, claim);
    for (at, piece) in payload.chunks(CHUNK_BYTES as usize).enumerate() {
        let chunk = write_chunk(slots, lane, header, piece).inspect_err(|_| lane.discard(claim))?;
        let listed = start + at as u64 * LISTED_BYTES;
        plane.data.word(listed + 8).store(chunk.stamp, Relaxed);
        plane.data.word(listed).store(chunk.location.0 + 1, Release);
    }
    Ok(claim)
}

fn write_chunk(
    slots: &SlotRotations,
    lane: &Lane<'_>,
    header: &RecordHeader,
    piece: &[u8],
) -> Result<SlotClaim> {
    let class = class_of(HEADER_BYTES + piece.len() as u64).ok_or_else(too_large)?;
    let chunk = slots.claim_slot(lane, class, ClaimTarget::Chunk)?;
    let header = RecordHeader { form: CHUNK, payload_bytes: piece.len() as u64, ..*header };
    lane.plane.write_header(chunk.location, &header);
    lane.plane.data.write(chunk.location.offset() + HEADER_BYTES, piece);
    complete(lane.plane, chunk);
    Ok(chunk)
}

impl Plane {
    /// Writes a header into a slot in memory, incomplete: its first word stays zero.
    #[inline(always)]
    fn write_header(&self, location: Location, header: &RecordHeader) {
        let words = self.data.line(location.offset());
        words[0].store(0, Relaxed);
        // A reader that sees any word below sees the zero above: pairs with the fence in
        // `read_entry` before `is_unchanged`.
        fence(Release);
        let values = words.iter().zip(header.to_words()).skip(1);
        values.for_each(|(word, value)| word.store(value, Relaxed));
    }
}

fn complete(plane: &Plane, claim: SlotClaim) {
    plane.data.word(claim.location.offset()).store(claim.stamp, Release);
}

/// The list is written empty, then item by item, for recovery; at last with its checksum, for a
/// rebuild.
fn log_in_chunks(
    appender: &Appender,
    lane: &Lane<'_>,
    log: &DiskLog,
    record: LogRecord<'_>,
    purpose: ClaimPurpose,
) -> Result<SlotClaim> {
    let plane = lane.plane;
    let LogRecord { header, body: payload, .. } = record;
    let stored = header.stored_bytes();
    let claim = appender.claim_unmoved(lane, granules(stored), purpose, ClaimTarget::Record)?;
    let give_up = |_: &Error| lane.discard(claim);
    let put = |record: EncodedRecord<'_>| {
        record.write(log)?;
        plane.note_unsynced();
        Ok(())
    };
    let end_write = |of: SlotClaim| plane.segment(of.location.segment()).end_write(plane);
    let mut list = vec![0; stored as usize];
    put(EncodedRecord::unfinished(claim, header, &list)).inspect_err(give_up)?;
    for (at, piece) in payload.chunks(CHUNK_BYTES as usize).enumerate() {
        let piece_bytes = piece.len() as u64;
        let chunk = appender
            .claim_unmoved(lane, granules(piece_bytes), purpose, ClaimTarget::Chunk)
            .inspect_err(give_up)?;
        let header = RecordHeader { form: CHUNK, payload_bytes: piece_bytes, ..*header };
        let record = LogRecord { kind: RecordKind::Chunk, header: &header, body: piece, ..record };
        put(record.encode(plane, log, chunk)).inspect_err(|error| {
            plane.free_slot(chunk);
            give_up(error);
        })?;
        end_write(chunk);
        let item = [(chunk.location.0 + 1).to_le_bytes(), chunk.stamp.to_le_bytes()].concat();
        let listed = at * LISTED_BYTES as usize;
        let offset = claim.location.offset() + HEADER_BYTES + listed as u64;
        log.file.write(&item, offset).inspect_err(give_up)?;
        list.iter_mut().skip(listed).zip(item).for_each(|(to, from)| *to = from);
    }
    put(LogRecord { body: &list, ..record }.encode(plane, log, claim)).inspect_err(give_up)?;
    end_write(claim);
    Ok(claim)
}

fn too_large() -> Error {
    let limit = PAYLOAD_BYTES_MAX;
    let why = "the payload needs more chunks than a record can list";
    Error::new(ErrorKind::TooLarge { size: limit + 1, limit }, why)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use sessile_core::{Clock, Key, Store, Ttl};

    use super::*;
    use crate::memory::SeqCst;

    const FREED: u64 = 0;

    /// A record is replaced by someone who remembers an earlier stamp at its place; returns what is
    /// left there.
    fn stamp_after(published: bool, replaced: bool) -> u64 {
        let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let engine = crate::open(
            &folder.path().join("store"),
            Clock::system(),
            &crate::EngineOptions::default(),
        )
        .unwrap();
        let key = Key::session("moved").unwrap();
        engine
            .create(&key, b"payload", Ttl::sliding(std::time::Duration::from_secs(60)).unwrap())
            .unwrap();
        let (plane, me) = (&engine.plane, engine.me().unwrap());
        let entry = plane.entry(plane.find_entry(plane.digest_of(&key)).unwrap());
        let (state, old) = entry.present_state(plane, entry.state()).unwrap();
        let lane = Lane::enter(plane, me, entry.number, old);
        let header = RecordHeader::read(plane, state.location()).unwrap();
        let new = me.write_record(&lane, &header, b"payload", None).unwrap();
        assert!(entry.replace_state(state, state.moved(new.location)));
        if published {
            lane.published();
        }
        if replaced {
            entry.replace_state(entry.state(), entry.state().moved(state.location()));
        }
        entry.discard_replaced(plane, SlotClaim { stamp: new.stamp + 1, ..new });
        let left = plane.stamp_of(new.location).unwrap().load(SeqCst);
        if left == new.stamp { left } else { FREED }
    }

    #[test]
    fn a_record_that_came_back_to_its_old_place_is_freed_by_who_replaces_it() {
        assert_eq!(stamp_after(true, true), FREED);
    }

    #[test]
    fn a_record_is_left_to_its_mover_until_he_says_that_it_is_published() {
        assert_ne!(stamp_after(false, true), FREED);
    }

    #[test]
    fn a_record_that_its_entry_leads_to_is_never_freed() {
        assert_ne!(stamp_after(true, false), FREED);
    }
}
