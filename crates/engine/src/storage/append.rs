//! Appending to the log: a process has one open segment for records that move, and one for chunks
//! and their lists.
//!
//! Invariant: granules are counted as appended before they are claimed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sessile_core::Result;

use super::flush::BackgroundSync;
use super::lane::{ClaimTarget, Lane, SlotClaim};
use super::log_line::{LogRecord, RecordKind, granules};
use super::log_segment::{OpenSegment, SegmentRequest, WRITE_BACK_PORTION};
use super::reserve::ClaimPurpose;
use super::segment::{length_mark, note_stamp, record_location};
use crate::memory::*;

#[derive(Default)]
pub struct Appender {
    records: Mutex<Option<OpenSegment>>,
    /// Of chunks and their lists.
    unmoved: Mutex<Option<OpenSegment>>,
    pub background_sync: BackgroundSync,
}

impl Appender {
    pub fn claim_unmoved(
        &self,
        lane: &Lane<'_>,
        granules: u64,
        purpose: ClaimPurpose,
        target: ClaimTarget,
    ) -> Result<SlotClaim> {
        let mut open = locked(&self.unmoved);
        let request = self.request(lane, LOG_CHUNKS, granules, purpose);
        advance(&mut open, request, lane, lane.stamp(), target)
    }

    fn request<'a>(
        &'a self,
        lane: &Lane<'a>,
        class: u64,
        granules: u64,
        purpose: ClaimPurpose,
    ) -> SegmentRequest<'a> {
        let (plane, me, background_sync) = (lane.plane, lane.process, &self.background_sync);
        SegmentRequest { plane, me, background_sync, class, granules, purpose }
    }

    /// Appends a record in one piece, or a note. After an error its granules are free again.
    pub fn append(
        &self,
        lane: &Lane<'_>,
        log: &DiskLog,
        record: &LogRecord<'_>,
        purpose: ClaimPurpose,
    ) -> Result<SlotClaim> {
        self.claim(lane, record.kind, record.body.len() as u64, purpose)?.write(log, record)
    }

    /// Claims the granules of a record in one piece, or of a note.
    pub fn claim<'a>(
        &'a self,
        lane: &'a Lane<'a>,
        kind: RecordKind,
        body_bytes: u64,
        purpose: ClaimPurpose,
    ) -> Result<ClaimedGranules<'a>> {
        let mut open = locked(&self.records);
        let request = self.request(lane, LOG, granules(body_bytes), purpose);
        let note = kind.is_note();
        let stamp = if note { note_stamp(lane.stamp()) } else { lane.stamp() };
        let target = if note { ClaimTarget::Chunk } else { ClaimTarget::Record };
        let claim = advance(&mut open, request, lane, stamp, target)?;
        Ok(ClaimedGranules { lane, open, request, claim })
    }

    /// Shares the segment that room was made into with all processes that may.
    pub fn share_segment(&self, plane: &Plane) {
        if let Some(at) = locked(&self.records).take_if(|at| at.shared) {
            plane.header(header::SHARED).store(at.segment + 1, Relaxed);
            at.close(plane);
        }
    }

    pub fn leave_segments(&self, plane: &Plane) {
        for (class, open) in (LOG..).zip([&self.records, &self.unmoved]) {
            if let Some(at) = locked(open).take() {
                let (segment, next) = (at.segment, at.next);
                at.close(plane);
                if next < SLOTS_MAX / 2 {
                    let partial = plane.header(header::PARTIAL + (class - LOG) * 8);
                    partial.store(segment + 1, Relaxed);
                }
            }
        }
    }
}

/// Claimed for a record that is not encoded yet: the segment keeps its generation only while it is
/// held.
pub struct ClaimedGranules<'a> {
    lane: &'a Lane<'a>,
    open: MutexGuard<'a, Option<OpenSegment>>,
    request: SegmentRequest<'a>,
    claim: SlotClaim,
}

impl ClaimedGranules<'_> {
    fn release(mut self) -> SlotClaim {
        close_shared(&mut self.open, self.request);
        self.claim
    }

    pub fn write(self, log: &DiskLog, record: &LogRecord<'_>) -> Result<SlotClaim> {
        let lane = self.lane;
        let record = record.encode(lane.plane, log, self.claim);
        let claim = self.release();
        record.write(log).inspect_err(|_| lane.discard(claim))?;
        lane.plane.segment(claim.location.segment()).end_write(lane.plane);
        lane.plane.note_unsynced();
        Ok(claim)
    }

    /// The record is written as one that was given up: the first line of a segment says its
    /// generation.
    pub fn abandon(self, log: &DiskLog, record: &LogRecord<'_>) {
        let lane = self.lane;
        let record = record.encode(lane.plane, log, self.claim).given_up();
        let claim = self.release();
        // The segment of a write that fails is not sealed.
        if record.write(log).is_ok() {
            lane.plane.segment(claim.location.segment()).end_write(lane.plane);
        }
        lane.discard(claim);
    }
}

fn locked(open: &Mutex<Option<OpenSegment>>) -> MutexGuard<'_, Option<OpenSegment>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes a shared segment, which only the process that makes room keeps.
fn close_shared(open: &mut Option<OpenSegment>, request: SegmentRequest<'_>) {
    if let Some(shared) = open.take_if(|at| at.shared && request.purpose != ClaimPurpose::Room) {
        shared.close(request.plane);
    }
}

fn advance(
    open: &mut Option<OpenSegment>,
    request: SegmentRequest<'_>,
    lane: &Lane<'_>,
    stamp: u64,
    target: ClaimTarget,
) -> Result<SlotClaim> {
    let SegmentRequest { plane, class, granules, .. } = request;
    close_shared(open, request); // another thread makes room
    if let Some(at) = open.as_mut() {
        // A change that waits for its sync waits for that page anyway.
        if !plane.log.as_ref().is_some_and(|log| log.sync == SyncMode::EachChange) {
            at.leave_page(plane);
        }
        at.begin_write_back(plane, WRITE_BACK_PORTION);
    }
    loop {
        if let Some(filled) = open.take_if(|at| at.next + granules > slots(class)) {
            filled.close(plane);
        }
        let at = match open {
            Some(at) => at,
            None => open.insert(request.open()?),
        };
        let first = at.next;
        at.next += granules;
        let claim = SlotClaim { location: record_location(at.segment, class, first), stamp };
        lane.about_to_claim(target, claim);
        let words = plane.segment(at.segment);
        words.begin_write();
        words.appended.store(at.next, Release);
        if granules > 1 {
            plane.stamp(at.segment, first + 1).store(length_mark(granules), Relaxed);
        }
        if plane.stamp(at.segment, first).cas(0, stamp) {
            return Ok(claim);
        }
    }
}
