//! What each session may be after a power cut: all that was asked of it, with the moments in which
//! each change began and ended.
//!
//! Invariant: a moment is a count of changes of the disk. The verdict knows nothing of records,
//! segments or syncs but the moment of the last one that counts.

use std::time::Duration;

use sessile_core::{Found, Key, Timestamp};

use crate::SyncMode;

/// Of the time to live: how much later an expiry may be after a rebuild, which adds a sixteenth
/// each time.
pub const LATER_PART: u64 = 4;
/// How much earlier: a touch within a cell of the grid is not logged, and after a rebuild the cell
/// may be one behind what the disk has.
pub const EARLIER_PART: u64 = 12;
/// The change is under way.
pub const UNENDED: u64 = u64::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    Nothing,
    Record {
        tag: u64,
        bytes: usize,
        expires: Timestamp,
        ttl_ms: u64,
        ends: Option<Timestamp>,
    },
    /// The id leads to that of another session for so long.
    Alias {
        session: usize,
        until: Timestamp,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    UnderWay,
    Done,
    /// Refused by an error of the disk: a power cut may show it until the next change.
    Refused,
    /// A log-out came first.
    Void,
}

#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub number: u64,
    pub ended: u64,
    pub outcome: Outcome,
    pub kind: ChangeKind,
    pub content: Content,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    Write,
    Destroy,
    /// May be acknowledged without a record of its own.
    Touch,
}

/// The changes of one session; those that are done in their order, the latest last.
#[derive(Clone, Debug)]
pub struct Session {
    pub changes: Vec<Change>,
    /// Two changes were under way at the same time: what memory has tells their order.
    pub overlapped: bool,
}

/// The bytes of a payload, which tell its tag.
pub fn payload(tag: u64, bytes: usize) -> Vec<u8> {
    let word = |at: usize| tag.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut payload = vec![0; bytes];
    let words = payload.chunks_mut(8).enumerate();
    words.for_each(|(at, to)| to.copy_from_slice(&word(at).to_le_bytes()[..to.len()]));
    payload
}

fn is_written(change: &Change) -> bool {
    change.kind != ChangeKind::Touch
}

fn tag_of(bytes: &[u8]) -> Option<u64> {
    let tag = bytes.first_chunk::<8>().map_or(0, |first| u64::from_le_bytes(*first));
    (payload(tag, bytes.len()) == bytes).then_some(tag)
}

impl Content {
    pub fn is_live(self, now: Timestamp) -> bool {
        matches!(self, Content::Record { expires, .. } if expires > now)
    }

    /// What a look-up has found, if it is nothing or a payload in one piece. Under an alias it is
    /// the session with that stored key.
    pub fn found(found: &Found, session_of: impl Fn(&Key) -> usize) -> Option<Content> {
        let Some(record) = &found.record else { return Some(Content::Nothing) };
        if let Some(moved_to) = &found.moved_to {
            let session = session_of(moved_to);
            return Some(Content::Alias { session, until: record.head.expires });
        }
        let (head, bytes) = (record.head, record.payload.len());
        let ttl_ms = head.expires.as_ms().saturating_sub(head.written.as_ms());
        let tag = tag_of(&record.payload)?;
        Some(Content::Record { tag, bytes, expires: head.expires, ttl_ms, ends: head.ends })
    }

    /// Whether a look-up at a time may find this.
    fn explains(
        self,
        found: Content,
        (now, earlier_part): (Timestamp, u64),
        alias: impl Fn(usize) -> Content,
    ) -> bool {
        match (self, found) {
            (Content::Nothing, found) => found == Content::Nothing,
            (Content::Alias { until, .. }, Content::Nothing) if until <= now => true,
            (Content::Alias { session, .. }, Content::Alias { session: found, .. }) => {
                let next = alias(session);
                session == found
                    || matches!(next, Content::Alias { session, .. } if session == found)
            }
            (Content::Alias { session, .. }, found) => alias(session) == found,
            (Content::Record { expires, ttl_ms, .. }, Content::Nothing) => {
                expires.as_ms().saturating_sub(ttl_ms / earlier_part) <= now.as_ms()
            }
            (Content::Record { .. }, Content::Alias { .. }) => false,
            (
                Content::Record { tag, bytes, expires, ttl_ms, ends },
                Content::Record { tag: found, bytes: length, expires: then, .. },
            ) => {
                let later = expires.plus(Duration::from_millis(ttl_ms / LATER_PART));
                let later = ends.map_or(later, |ends| ends.min(later));
                let sooner = expires.as_ms().saturating_sub(ttl_ms / earlier_part);
                (tag, bytes) == (found, length) && then <= later && then.as_ms() >= sooner
            }
        }
    }
}

impl Session {
    pub fn holding(content: Content) -> Session {
        let mut session = Session { changes: Vec::new(), overlapped: false };
        session.began(0, content, ChangeKind::Write);
        session.ended(0, 0, Outcome::Done);
        session
    }

    /// After a cut that has left this.
    pub fn after_cut(mut self, tier: SyncMode, content: Content) -> Session {
        if tier != SyncMode::Never {
            return Session::holding(content);
        }
        // What is older may come back in the next cut.
        let number = u64::MAX;
        self.began(number, content, ChangeKind::Write);
        self.ended(number, 1, Outcome::Done);
        for change in &mut self.changes {
            (change.number, change.ended) = (0, 1);
        }
        self.overlapped = false;
        self
    }

    pub fn latest(&self) -> &Change {
        let done = self.changes.iter().rfind(|change| change.outcome == Outcome::Done);
        done.expect("the first change of a session is done")
    }

    pub fn under_way(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.outcome == Outcome::UnderWay)
    }

    pub fn began(&mut self, number: u64, content: Content, kind: ChangeKind) {
        let overlaps = self.under_way().next().is_some();
        self.overlapped |= overlaps;
        self.changes.push(Change {
            number,
            ended: UNENDED,
            outcome: Outcome::UnderWay,
            kind,
            content,
        });
    }

    pub fn ended(&mut self, number: u64, moment: u64, outcome: Outcome) {
        // One that a log-out has made void may be forgotten by now.
        let Some(at) = self.changes.iter().position(|change| change.number == number) else {
            return;
        };
        let mut change = self.changes.remove(at);
        if change.outcome != Outcome::Void {
            (change.ended, change.outcome) = (moment, outcome);
        }
        if change.kind == ChangeKind::Destroy && outcome == Outcome::Done {
            // A commit of a lease from before is refused.
            let under_way = |change: &&mut Change| change.outcome == Outcome::UnderWay;
            let lasts = |change: &&mut Change| change.kind != ChangeKind::Destroy;
            for void in self.changes.iter_mut().filter(under_way).filter(lasts) {
                (void.ended, void.outcome) = (moment, Outcome::Void);
            }
        }
        self.changes.push(change);
    }

    /// A log-out that was refused, by an error of the disk, is done by the next change.
    pub fn end_refused_destroy(&mut self, moment: u64) {
        if let Some(at) = self.refused_destroy() {
            let mut change = self.changes.remove(at);
            (change.outcome, change.ended) = (Outcome::Done, moment);
            self.changes.push(change);
        }
    }

    /// A log-out that was refused after what was written last.
    pub fn refused_destroy(&self) -> Option<usize> {
        let is_refused = |change: &Change| change.outcome == Outcome::Refused;
        let last = self.changes.iter().rposition(|change| match change.kind {
            ChangeKind::Write => change.outcome == Outcome::Done,
            ChangeKind::Destroy => is_refused(change) || change.outcome == Outcome::Done,
            ChangeKind::Touch => false,
        });
        last.filter(|at| self.changes.get(*at).is_some_and(is_refused))
    }

    /// Puts what memory has last, once nothing is under way.
    pub fn settle(&mut self, found: Content, now: Timestamp) {
        self.overlapped = false;
        let is_found = |change: &Change| {
            change.outcome == Outcome::Done
                && change.content.explains(found, (now, EARLIER_PART), |_| found)
        };
        if let Some(at) = self.changes.iter().rposition(is_found) {
            let change = self.changes.remove(at);
            self.changes.push(change);
        }
    }

    /// Forgets what no cut from this floor on can show.
    pub fn forget(&mut self, floor: u64) {
        let first = self.floor(floor, |_| true).min(self.floor(floor, is_written));
        let mut at = 0;
        self.changes.retain(|change| {
            at += 1;
            at > first || change.ended > floor
        });
    }

    /// The last change of a kind that is on the disk for sure.
    fn floor(&self, floor: u64, is_meant: fn(&Change) -> bool) -> usize {
        let counts = |change: &Change| {
            change.outcome == Outcome::Done && change.ended <= floor && is_meant(change)
        };
        self.changes.iter().rposition(counts).unwrap_or(0)
    }

    /// The changes that a cut may show, when all that had ended at the floor is on the disk.
    pub fn possible(&self, floor: u64) -> impl Iterator<Item = &Change> {
        let (first, written) = (self.floor(floor, |_| true), self.floor(floor, is_written));
        self.changes.iter().enumerate().filter_map(move |(at, change)| {
            let possible = match change.outcome {
                Outcome::Done => at == first || change.ended > floor,
                Outcome::UnderWay => true,
                Outcome::Refused => at > written || change.ended > floor,
                Outcome::Void => change.ended > floor,
            };
            possible.then_some(change)
        })
    }

    /// Whether it was this at any time, whenever it expired.
    pub fn had(&self, found: Content) -> bool {
        let Content::Record { tag: found, .. } = found else { return true };
        let is_found =
            |change: &Change| matches!(change.content, Content::Record { tag, .. } if tag == found);
        self.changes.iter().any(is_found)
    }

    /// Whether a store may show this after a cut.
    pub fn allows(
        &self,
        floor: u64,
        found: Content,
        (now, earlier_part): (Timestamp, u64),
        alias: impl Fn(usize) -> Content,
    ) -> bool {
        let now = (now, earlier_part);
        self.possible(floor).any(|change| change.content.explains(found, now, &alias))
    }
}
