//! Writing records: into a slot in memory, or at the end of the log; and freeing them.
//!
//! Invariants: what is written is complete before an entry leads to it, and until then the lane names it; a record
//! is freed by its stamp, once, after nothing leads to it any more.

use sessile_core::{Error, ErrorKind, Result};

use crate::broken::{self, Twin};
use crate::class::class_of;
use crate::disklog::{self, Line, Log, Origin, Says, Text};
use crate::lane::{Claim, Lane, is_in_progress};
use crate::plane::{Entry, Plane};
use crate::record::{
    CHUNK, CHUNK_BYTES, CHUNKED, HEADER_BYTES, Header, LISTED_BYTES, PAYLOAD_BYTES_MAX, PLAIN, chunks,
};
use crate::reserve::For;
use crate::segment::{self, stamp_of};
use crate::sync::{Ordering, fence};
use crate::words::{Location, State};

/// What a record in the log says besides; in memory none of it is written.
#[derive(Clone, Copy)]
pub struct Logged {
    pub says: Says,
    pub origin: Origin,
    pub purpose: For,
}

impl Header {
    /// Writes it into a slot in memory, incomplete: its first word stays zero.
    fn write(&self, plane: &Plane, location: Location) {
        let words = plane.data.line(location.offset());
        words[0].store(0, Ordering::Relaxed);
        // A reader that sees any word below sees the zero above: pairs with the fence in `unchanged`.
        fence(Ordering::Release);
        let values = words.iter().zip(self.to_words()).skip(1);
        values.for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    }

    /// Frees the chunks of a record whose own slot is freed afterwards: a repetition finds the list still there.
    pub fn free_chunks(plane: &Plane, head: Claim) {
        let Some(stamp) = stamp_of(plane, head.location) else { return };
        let mine = || stamp.load(Ordering::SeqCst) == head.stamp;
        let Some(header) = Header::read(plane, head.location) else { return };
        if header.form != CHUNKED || header.stamp != head.stamp || !mine() {
            return;
        }
        for chunk in chunks(plane, head.location, &header) {
            if !mine() {
                return;
            }
            segment::free(plane, chunk);
        }
    }
}

/// Writes a record into a new slot, which the lane names. Nothing leads to it yet. `logged` is needed on a disk.
///
/// # Errors
///
/// `Full`; everything that was claimed is free again.
pub fn write(lane: &Lane<'_>, mut header: Header, payload: &[u8], logged: Option<Logged>) -> Result<Claim> {
    header.payload_bytes = payload.len() as u64;
    header.form = if header.payload_bytes <= CHUNK_BYTES { PLAIN } else { CHUNKED };
    if header.payload_bytes > PAYLOAD_BYTES_MAX {
        return Err(too_large());
    }
    match (&lane.plane.log, logged) {
        (Some(log), Some(Logged { says, origin, purpose })) => {
            let text = Text { says, origin, head: &header, rest: payload };
            if header.form == PLAIN {
                return lane.process.appender.append(lane, log, &text, purpose, |claim| lane.about_to_claim(claim));
            }
            write_in_chunks(lane, log, text, purpose)
        }
        _ => write_to_memory(lane, &header, payload),
    }
}

fn write_to_memory(lane: &Lane<'_>, header: &Header, payload: &[u8]) -> Result<Claim> {
    let plane = lane.plane;
    let class = class_of(HEADER_BYTES + header.stored_bytes()).ok_or_else(too_large)?;
    let claim = lane.process.rotations.claim(lane, class, |claim| lane.about_to_claim(claim))?;
    header.write(plane, claim.location);
    let start = claim.location.offset() + HEADER_BYTES;
    let complete = || plane.data.word(claim.location.offset()).store(claim.stamp, Ordering::Release);
    if header.form == PLAIN {
        if !broken::is(Twin::StateBeforeRecord) {
            plane.data.write(start, payload);
        }
        complete();
        return Ok(claim);
    }
    // The list is empty before it counts as one, so recovery never follows what lay here before.
    (0..header.stored_bytes() / 8).for_each(|word| plane.data.word(start + word * 8).store(0, Ordering::Relaxed));
    complete();
    for (at, piece) in payload.chunks(CHUNK_BYTES as usize).enumerate() {
        let chunk = write_chunk(lane, header, piece).inspect_err(|_| discard(lane, claim))?;
        let listed = start + at as u64 * LISTED_BYTES;
        plane.data.word(listed + 8).store(chunk.stamp, Ordering::Relaxed);
        plane.data.word(listed).store(chunk.location.0 + 1, Ordering::Release);
    }
    Ok(claim)
}

fn write_chunk(lane: &Lane<'_>, header: &Header, piece: &[u8]) -> Result<Claim> {
    let class = class_of(HEADER_BYTES + piece.len() as u64).ok_or_else(too_large)?;
    let chunk = lane.process.rotations.claim(lane, class, |chunk| lane.about_to_claim_chunk(chunk))?;
    let header = Header { form: CHUNK, payload_bytes: piece.len() as u64, ..*header };
    header.write(lane.plane, chunk.location);
    lane.plane.data.write(chunk.location.offset() + HEADER_BYTES, piece);
    lane.plane.data.word(chunk.location.offset()).store(chunk.stamp, Ordering::Release);
    Ok(chunk)
}

/// On a disk the list is written empty, then item by item, for recovery; and once more as a whole with its
/// checksum, from when on a rebuild believes it.
fn write_in_chunks(lane: &Lane<'_>, log: &Log, text: Text<'_>, purpose: For) -> Result<Claim> {
    let (plane, appender) = (lane.plane, &lane.process.appender);
    let Text { origin, head, rest: payload, .. } = text;
    let granules = disklog::granules(head.stored_bytes());
    let claim = appender.claim(lane, granules, purpose, |claim| lane.about_to_claim(claim))?;
    let give_up = |_: &Error| discard(lane, claim);
    let mut list = vec![0; head.stored_bytes() as usize];
    disklog::put_unfinished(plane, log, claim, head, &list).inspect_err(give_up)?;
    for (at, piece) in payload.chunks(CHUNK_BYTES as usize).enumerate() {
        let granules = disklog::granules(piece.len() as u64);
        let chunk =
            appender.claim(lane, granules, purpose, |chunk| lane.about_to_claim_chunk(chunk)).inspect_err(give_up)?;
        let head = Header { form: CHUNK, payload_bytes: piece.len() as u64, ..*head };
        let text = Text { says: Says::Chunk, origin, head: &head, rest: piece };
        disklog::put(plane, log, chunk, &text).inspect_err(|error| {
            segment::free(plane, chunk);
            give_up(error);
        })?;
        let item = [(chunk.location.0 + 1).to_le_bytes(), chunk.stamp.to_le_bytes()].concat();
        let listed = at * LISTED_BYTES as usize;
        let place = claim.location.offset() + HEADER_BYTES + listed as u64;
        log.file.write(&item, place).inspect_err(give_up)?;
        list.iter_mut().skip(listed).zip(item).for_each(|(to, from)| *to = from);
    }
    disklog::put(plane, log, claim, &Text { rest: &list, ..text }).inspect_err(give_up)?;
    Ok(claim)
}

/// Gives up a record that was not published.
pub fn discard(lane: &Lane<'_>, claim: Claim) {
    let plane = lane.plane;
    Header::free_chunks(plane, claim);
    // As long as it has our stamp the place is ours.
    disklog::invalidate(plane, lane.process, claim.location);
    segment::free(plane, claim);
}

/// Frees the record that an entry led to until a moment ago.
///
/// While `old` was only remembered, the record may have been moved away and back to the same place, where it then has
/// another stamp: the state looks as if nothing had happened. So what is there now goes too if it is a record of this
/// entry that the entry does not lead to; should its mover not have come to its end, the mover frees it.
pub fn discard_replaced(plane: &Plane, entry: &Entry<'_>, old: Claim) {
    Header::free_chunks(plane, old);
    if segment::free(plane, old) || broken::is(Twin::ForgetsReturned) {
        return;
    }
    let Some(stamp) = stamp_of(plane, old.location).map(|stamp| stamp.load(Ordering::SeqCst)) else { return };
    let Some(header) = Header::read(plane, old.location) else { return };
    let of_this_entry = match (&plane.log, Line::read(plane, old.location)) {
        (None, _) => header.entry == entry.number,
        (Some(_), line) => line.is_some_and(|line| line.origin.digest == entry.digest()),
    };
    let of_this_entry = of_this_entry && header.stamp == stamp && header.is_movable();
    // In this order: once its lane is marked nobody leads the entry to it again.
    if of_this_entry && !is_in_progress(plane, stamp) && !leads_to(entry, old.location) {
        segment::free(plane, Claim { stamp, ..old });
    }
}

/// Whether an entry stands for the record at a location.
pub fn leads_to(entry: &Entry<'_>, location: Location) -> bool {
    let state = State(entry.state_word().load(Ordering::SeqCst));
    state.has_record() && state.location() == location
}

fn too_large() -> Error {
    let limit = PAYLOAD_BYTES_MAX;
    Error::new(ErrorKind::TooLarge { size: limit + 1, limit }, "the payload needs more chunks than a record can list")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use sessile_core::{Clock, Key, Store, Ttl};

    use super::*;
    use crate::record::settle;

    const FREED: u64 = 0;

    /// A record is replaced by someone who remembers an earlier stamp at its place; returns what is left there.
    fn stamp_after(published: bool, replaced: bool) -> u64 {
        let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let engine = crate::open(&folder.path().join("store"), Clock::system(), &crate::Options::default()).unwrap();
        let key = Key::session("moved").unwrap();
        engine.create(&key, b"payload", Ttl::sliding(std::time::Duration::from_secs(60)).unwrap()).unwrap();
        let (plane, me) = (&engine.plane, engine.me().unwrap());
        let entry = plane.entry(crate::index::find(plane, engine.digest(&key)).unwrap());
        let (state, old) = settle(plane, &entry, entry.state()).unwrap();
        let lane = Lane::enter(plane, me);
        lane.intend(entry.number, old);
        let header = Header::read(plane, state.location()).unwrap();
        let new = write(&lane, header, b"payload", None).unwrap();
        assert!(entry.replace_state(state, state.moved(new.location)));
        if published {
            lane.published();
        }
        if replaced {
            entry.replace_state(entry.state(), entry.state().moved(state.location()));
        }
        discard_replaced(plane, &entry, Claim { stamp: new.stamp + 1, ..new });
        let left = stamp_of(plane, new.location).unwrap().load(Ordering::SeqCst);
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
