//! One session as the checker knows it: a register that many may write, and the holders of its
//! lock.
//!
//! A call has its effect at some moment between its report and that of its result; without a
//! result, because its process was killed, at such a moment or never. A read is *legal* if some
//! order of these moments explains it: its value comes from a write that began before the read
//! ended, and no other write that certainly happened lies wholly between the two. The rule can miss
//! a violation, it never invents one.
//!
//! Invariant: a read is judged only when every write that began before its end has its result or
//! its process is dead. What no later read may see is forgotten, so that hours fit into memory.

/// Whole milliseconds are what stores keep; the times here are finer.
const ROUNDING_NS: u64 = 5_000_000;
pub const MS: u64 = 1_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StoredValue {
    Missing,
    Empty,
    Token(u64),
    /// That of one of these writes, which followed each other; never what a read saw.
    Run {
        first: u64,
        last: u64,
    },
    /// What was there before: a touch. Never what a read saw.
    Kept,
}

#[derive(Clone, Copy)]
pub struct CallSpan {
    pub start: u64,
    pub end: u64,
}

#[derive(Clone, Copy)]
pub struct HistoryRead {
    /// What it saw; `None` for some record, as a touch that succeeded.
    pub seen: Option<StoredValue>,
    pub span: CallSpan,
    pub by: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    Certain,
    Possible,
    Refused,
}

#[derive(Clone, Copy)]
pub struct WriteEffect {
    pub stored: StoredValue,
    pub ttl_ms: u64,
    /// For so long the old content may still be seen: the grace of a regenerated id.
    pub lingers_ms: u64,
}

struct DecidedWrite {
    effect: WriteEffect,
    span: CallSpan,
    certain: bool,
}

struct PendingWrite {
    worker: usize,
    effect: WriteEffect,
    start: u64,
}

#[derive(Clone, Copy)]
pub struct LockGrant {
    worker: usize,
    pub fence: u64,
    begin: CallSpan,
    held_until: Option<u64>,
    /// A destroy may have taken it away while it was held. Kept here, since the destroy may be
    /// forgotten before the last call under the lease has its result.
    pub voided: bool,
    pub lost: bool,
}

pub struct History {
    writes: Vec<DecidedWrite>,
    pending: Vec<PendingWrite>,
    reads: Vec<HistoryRead>,
    grants: Vec<LockGrant>,
    fence_floor: u64,
    touched_until: u64,
    /// The shortest life that any call asked for: a touch may shorten too.
    shortest_ms: u64,
}

impl WriteEffect {
    pub const REMOVAL: WriteEffect =
        WriteEffect { stored: StoredValue::Missing, ttl_ms: 0, lingers_ms: 0 };

    pub fn store(stored: StoredValue, ttl_ms: u64) -> WriteEffect {
        WriteEffect { stored, ttl_ms, lingers_ms: 0 }
    }

    fn removes(&self) -> bool {
        self.stored == StoredValue::Missing
    }
}

impl Default for History {
    fn default() -> History {
        let span = CallSpan { start: 0, end: 0 };
        let nothing = DecidedWrite { effect: WriteEffect::REMOVAL, span, certain: true };
        History {
            writes: vec![nothing],
            pending: Vec::new(),
            reads: Vec::new(),
            grants: Vec::new(),
            fence_floor: 0,
            touched_until: 0,
            shortest_ms: u64::MAX,
        }
    }
}

impl History {
    pub fn write_begins(&mut self, worker: usize, start: u64, effect: WriteEffect) {
        if !effect.removes() {
            self.shortest_ms = self.shortest_ms.min(effect.ttl_ms);
        }
        self.pending.push(PendingWrite { worker, effect, start });
    }

    pub fn narrow(&mut self, worker: usize, stored: StoredValue) {
        if let Some(write) = self.pending.iter_mut().find(|write| write.worker == worker) {
            write.effect.stored = stored;
        }
    }

    pub fn decide(&mut self, worker: usize, end: u64, certainty: Certainty) {
        let Some(position) = self.pending.iter().position(|write| write.worker == worker) else {
            return;
        };
        let PendingWrite { effect, start, .. } = self.pending.swap_remove(position);
        if certainty == Certainty::Refused {
            return;
        }
        if effect.stored == StoredValue::Kept {
            self.touched_until = self.touched_until.max(end + effect.ttl_ms * MS);
            return;
        }
        let certain = certainty == Certainty::Certain;
        self.writes.push(DecidedWrite { effect, span: CallSpan { start, end }, certain });
    }

    pub fn removals_under_way(&self) -> Vec<(usize, u64)> {
        let removals = self.pending.iter().filter(|write| write.effect.removes());
        removals.map(|write| (write.worker, write.start)).collect()
    }

    pub fn read(&mut self, read: HistoryRead) {
        self.reads.push(read);
    }

    /// Judges what ended before `now`, then forgets what no read that begins at or after `horizon`
    /// may see. Says what is wrong, and whether reads are left.
    pub fn judge(&mut self, now: u64, horizon: u64) -> (Vec<String>, bool) {
        let undecided = self.pending.iter().map(|write| write.start).min().unwrap_or(u64::MAX);
        let (ready, waiting): (Vec<HistoryRead>, Vec<HistoryRead>) =
            self.reads.iter().partition(|read| read.span.end < now && read.span.end <= undecided);
        let wrong =
            ready.iter().filter(|read| !self.legal(read)).map(|read| self.describe(read)).collect();
        self.reads = waiting;
        let held = self.grants.iter().filter(|grant| grant.held_until.is_none());
        let needed = self.reads.iter().map(|read| read.span.start);
        let needed = needed.chain(held.map(|grant| grant.begin.start)).chain([undecided]);
        self.forget(needed.fold(horizon, u64::min));
        (wrong, !self.reads.is_empty())
    }

    fn replaced_at(&self, write: &DecidedWrite) -> u64 {
        let later =
            self.writes.iter().filter(|later| later.certain && later.span.start > write.span.end);
        later.map(|later| later.span.end + later.effect.lingers_ms * MS).min().unwrap_or(u64::MAX)
    }

    fn legal(&self, read: &HistoryRead) -> bool {
        self.writes.iter().any(|write| {
            write.span.start < read.span.end
                && self.explains(write, read)
                && self.replaced_at(write) >= read.span.start
        })
    }

    fn explains(&self, write: &DecidedWrite, read: &HistoryRead) -> bool {
        let WriteEffect { stored, ttl_ms, .. } = write.effect;
        let dead_from = (write.span.end + ttl_ms * MS).max(self.touched_until) + ROUNDING_NS;
        match (stored, read.seen) {
            (StoredValue::Missing, seen) => seen == Some(StoredValue::Missing),
            (_, Some(StoredValue::Missing)) => {
                let shortest_ms = self.shortest_ms.min(ttl_ms);
                read.span.end + ROUNDING_NS >= write.span.start + shortest_ms * MS
            }
            (StoredValue::Run { first, last }, Some(StoredValue::Token(token))) => {
                (first..=last).contains(&token)
            }
            (stored, seen) => {
                seen.is_none_or(|seen| seen == stored) && read.span.start <= dead_from
            }
        }
    }

    fn describe(&self, read: &HistoryRead) -> String {
        let known = |token| {
            self.writes.iter().any(|write| write.effect.stored == StoredValue::Token(token))
        };
        let what = match read.seen {
            Some(StoredValue::Missing) => "nothing: an acknowledged write is lost".to_owned(),
            Some(StoredValue::Token(token)) if known(token) => {
                format!("write {token:#x}, which had been replaced, removed or had expired")
            }
            Some(StoredValue::Token(token)) => {
                format!("write {token:#x}: refused, removed long ago, or of another session")
            }
            _ => "a record where none can be".to_owned(),
        };
        format!("{} at {} ms found {what}", read.by, read.span.start / MS)
    }

    fn forget(&mut self, horizon: u64) {
        let replaced: Vec<u64> = self.writes.iter().map(|write| self.replaced_at(write)).collect();
        let mut replaced = replaced.iter();
        self.writes.retain(|_| replaced.next().is_some_and(|moment| *moment >= horizon));
        let (past, recent): (Vec<LockGrant>, Vec<LockGrant>) =
            self.grants.iter().partition(|grant| {
                grant.held_until.is_some_and(|until| until.max(grant.begin.end) < horizon)
            });
        self.fence_floor = past.iter().map(|grant| grant.fence).fold(self.fence_floor, u64::max);
        self.grants = recent;
    }

    /// A worker has got the lock. Says what is wrong with the fence.
    pub fn grant(&mut self, worker: usize, fence: u64, begin: CallSpan) -> Option<String> {
        let held_until = None;
        let grant = LockGrant { worker, fence, begin, held_until, voided: false, lost: false };
        let falls = |first: &LockGrant, second: &LockGrant| {
            first.begin.end < second.begin.start && first.fence > second.fence
        };
        let wrong = fence <= self.fence_floor
            || self
                .grants
                .iter()
                .any(|other| other.fence == fence || falls(other, &grant) || falls(&grant, other));
        self.grants.push(grant);
        wrong.then(|| format!("the fence {fence} does not grow, or was given twice"))
    }

    /// This worker certainly held the lock until now; what happens to it next is not known yet.
    pub fn lock_ends(&mut self, worker: usize, now: u64) -> (Option<LockGrant>, Option<String>) {
        let open = |grant: &LockGrant| grant.worker == worker && grant.held_until.is_none();
        let position = self.grants.iter().position(open);
        let Some(mut grant) = position.map(|position| self.grants.swap_remove(position)) else {
            return (None, None);
        };
        grant.held_until = Some(now);
        grant.voided = self.removed_between(grant.begin.start, now);
        grant.lost = self.removed_under(&grant, now);
        let both = |other: &&LockGrant| {
            let until = other.held_until.unwrap_or(0).min(now);
            !grant.voided && !other.voided && grant.begin.end.max(other.begin.end) < until
        };
        let problem = self.grants.iter().find(both).map(|other| {
            let (first, second) = (other.fence, grant.fence);
            format!("two held the lock at once, with fences {first} and {second}")
        });
        self.grants.push(grant);
        (Some(grant), problem)
    }

    fn removals(&self) -> impl Iterator<Item = CallSpan> {
        let decided = self.writes.iter().filter(|write| write.effect.removes());
        let pending = self.pending.iter().filter(|write| write.effect.removes());
        let under_way = pending.map(|write| CallSpan { start: write.start, end: u64::MAX });
        decided.map(|write| write.span).chain(under_way)
    }

    pub fn removed_between(&self, from: u64, to: u64) -> bool {
        self.removals().any(|removal| removal.end >= from && removal.start <= to)
    }

    /// Whether another change than the one called at `own` may have removed the record since.
    pub fn removed_otherwise(&self, own: u64) -> bool {
        self.removals().any(|removal| removal.start != own && removal.end >= own)
    }

    /// Whether a removal certainly lies between the grant and the call of the commit.
    pub fn removed_under(&self, grant: &LockGrant, commit: u64) -> bool {
        self.writes.iter().any(|write| {
            write.effect.removes()
                && write.certain
                && write.span.start > grant.begin.end
                && write.span.end < commit
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn token(token: u64) -> WriteEffect {
        WriteEffect::store(StoredValue::Token(token), HOUR)
    }

    fn written(
        history: &mut History,
        start: u64,
        end: u64,
        effect: WriteEffect,
        certainty: Certainty,
    ) {
        history.write_begins(1, start, effect);
        history.decide(1, end, certainty);
    }

    fn verdict(history: &mut History, seen: StoredValue, start: u64, end: u64) -> usize {
        history.read(HistoryRead { seen: Some(seen), span: CallSpan { start, end }, by: "peek" });
        history.judge(u64::MAX, 0).0.len()
    }

    #[test]
    fn an_acknowledged_write_must_be_seen_and_what_it_replaced_must_not() {
        let mut history = History::default();
        assert_eq!(verdict(&mut history, StoredValue::Missing, 5, 6), 0);
        written(&mut history, 10, 20, token(1), Certainty::Certain);
        written(&mut history, 30, 40, token(2), Certainty::Certain);
        assert_eq!(verdict(&mut history, StoredValue::Token(2), 50, 60), 0);
        assert_eq!(
            verdict(&mut history, StoredValue::Token(1), 35, 60),
            0,
            "it began before the second was done"
        );
        assert_eq!(verdict(&mut history, StoredValue::Token(1), 50, 60), 1, "lost update");
        assert_eq!(verdict(&mut history, StoredValue::Missing, 50, 60), 1, "lost write");
        assert_eq!(verdict(&mut history, StoredValue::Token(3), 50, 60), 1, "never written");
        assert_eq!(verdict(&mut history, StoredValue::Token(2), 21, 25), 1, "from the future");
    }

    #[test]
    fn a_write_without_an_answer_may_be_seen_or_not_and_a_refused_one_may_not() {
        let mut history = History::default();
        written(&mut history, 10, 20, token(1), Certainty::Certain);
        written(&mut history, 30, 40, token(2), Certainty::Possible);
        written(&mut history, 31, 41, token(3), Certainty::Refused);
        assert_eq!(verdict(&mut history, StoredValue::Token(1), 50, 60), 0);
        assert_eq!(verdict(&mut history, StoredValue::Token(2), 50, 60), 0);
        assert_eq!(verdict(&mut history, StoredValue::Token(3), 50, 60), 1);
        written(
            &mut history,
            70,
            80,
            WriteEffect::store(StoredValue::Run { first: 10, last: 20 }, HOUR),
            Certainty::Possible,
        );
        assert_eq!(
            [1, 15, 21].map(|token| verdict(&mut history, StoredValue::Token(token), 90, 99)),
            [0, 0, 1]
        );
    }

    #[test]
    fn what_was_destroyed_does_not_come_back_and_expires_neither_early_nor_late() {
        let mut history = History::default();
        written(&mut history, 10, 20, token(1), Certainty::Certain);
        written(&mut history, 30, 40, WriteEffect::REMOVAL, Certainty::Certain);
        assert_eq!(verdict(&mut history, StoredValue::Token(1), 50, 60), 1);
        assert_eq!(verdict(&mut history, StoredValue::Missing, 50, 60), 0);
        let short = WriteEffect::store(StoredValue::Token(2), 50);
        written(&mut history, 70, 80, short, Certainty::Certain);
        assert_eq!(verdict(&mut history, StoredValue::Missing, 90, 30 * MS), 1, "too early");
        assert_eq!(verdict(&mut history, StoredValue::Missing, 90, 60 * MS), 0);
        assert_eq!(verdict(&mut history, StoredValue::Token(2), 60 * MS, 61 * MS), 1, "too late");
        let touch = WriteEffect { stored: StoredValue::Kept, ..short };
        written(&mut history, 40 * MS, 41 * MS, touch, Certainty::Certain);
        assert_eq!(
            verdict(&mut history, StoredValue::Token(2), 60 * MS, 61 * MS),
            0,
            "it was touched"
        );
    }

    #[test]
    fn a_read_waits_until_the_writes_before_it_are_decided_and_forgetting_changes_no_verdict() {
        let mut history = History::default();
        history.write_begins(1, 10, token(1));
        history.read(HistoryRead {
            seen: Some(StoredValue::Token(1)),
            span: CallSpan { start: 11, end: 12 },
            by: "peek",
        });
        assert_eq!(history.judge(100, 100), (vec![], true));
        history.decide(1, 20, Certainty::Certain);
        assert_eq!(history.judge(100, 100), (vec![], false));
        (2..100).for_each(|number| {
            written(&mut history, number * 100, number * 100 + 1, token(number), Certainty::Certain)
        });
        history.judge(20_000, 9_900);
        assert!(history.writes.len() < 5, "{} writes are remembered", history.writes.len());
        assert_eq!(verdict(&mut history, StoredValue::Token(99), 20_000, 20_001), 0);
        assert_eq!(verdict(&mut history, StoredValue::Token(1), 20_000, 20_001), 1);
    }

    #[test]
    fn fences_grow_and_two_holders_at_once_are_noticed_unless_a_log_out_came_between() {
        let mut history = History::default();
        assert_eq!(history.grant(1, 5, CallSpan { start: 10, end: 20 }), None);
        assert_eq!(history.lock_ends(1, 30).1, None);
        assert!(history.grant(2, 5, CallSpan { start: 40, end: 50 }).is_some(), "given twice");
        assert!(history.grant(3, 4, CallSpan { start: 60, end: 70 }).is_some(), "fell");
        let mut history = History::default();
        history.grant(1, 5, CallSpan { start: 10, end: 20 });
        history.grant(2, 6, CallSpan { start: 21, end: 25 });
        assert_eq!(history.lock_ends(2, 40).1, None, "the first is not known to be held that long");
        assert!(history.lock_ends(1, 30).1.is_some());
        let mut history = History::default();
        history.grant(1, 5, CallSpan { start: 10, end: 20 });
        written(&mut history, 21, 22, WriteEffect::REMOVAL, Certainty::Certain);
        history.grant(2, 6, CallSpan { start: 23, end: 25 });
        history.lock_ends(2, 40);
        let (grant, problem) = history.lock_ends(1, 30);
        assert_eq!(problem, None);
        assert!(history.removed_under(&grant.unwrap(), 30), "a commit must be refused");
    }
}
