//! One session as the checker knows it: a register that may be written by many, and the holders of its lock.
//!
//! A call has its effect at some moment between its line and its answer; one without an answer, because its
//! process was killed, at such a moment or never. A read is *legal* if some order of these moments explains it.
//! The rule for one read: the value comes from a write that began before the read ended, and no other write
//! that surely happened lies wholly between the two. It can miss a violation, it never invents one.
//!
//! Invariant: a read is judged only when every write that began before its end has been answered or its
//! process is dead. What no later read may see any more is forgotten, so that hours fit into memory.

/// Whole milliseconds are what stores keep; the times here are finer.
const ROUNDING_NS: u64 = 5_000_000;
const MS: u64 = 1_000_000;

/// What a session holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// No record.
    Missing,
    /// An empty payload.
    Empty,
    /// The payload of this write.
    Token(u64),
    /// That of one of these writes, which followed each other; never what a read saw.
    Run { first: u64, last: u64 },
}

/// What a read saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Exactly this.
    Exactly(Stored),
    /// Some record: a touch that succeeded.
    Record,
}

/// A read between two moments.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    pub seen: Seen,
    pub start: u64,
    pub end: u64,
    pub by: &'static str,
}

/// What is known of a write in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It happened.
    Sure,
    /// Its process was killed: perhaps.
    Maybe,
    /// It was refused.
    Never,
}

/// What a write would leave.
#[derive(Clone, Copy, Debug)]
pub struct Effect {
    pub stored: Stored,
    pub ttl_ms: u64,
    /// The old content may be seen for this long after it: the grace of a regenerated id.
    pub lingers_ms: u64,
    /// It moves the expiry and leaves the rest.
    pub touch: bool,
}

#[derive(Clone, Copy, Debug)]
struct Write {
    effect: Effect,
    start: u64,
    end: u64,
    sure: bool,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    worker: usize,
    effect: Effect,
    start: u64,
}

/// A lock that was granted.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    pub worker: usize,
    pub fence: u64,
    /// When `begin` was called, and when it had returned.
    pub start: u64,
    pub end: u64,
    /// Until when it was surely held, once that is known.
    held_until: Option<u64>,
    /// A log-out may have taken it away while it was held. Kept here, because what happened so long ago may be
    /// forgotten before the last call under the lease is answered.
    pub voided: bool,
    /// A log-out surely has.
    pub lost: bool,
}

/// The session.
#[derive(Debug)]
pub struct History {
    writes: Vec<Write>,
    open: Vec<Open>,
    reads: Vec<Read>,
    grants: Vec<Grant>,
    fence_floor: u64,
    touched_until: u64,
    /// The shortest life that any call asked for: a touch may shorten too.
    shortest_ms: u64,
}

impl Effect {
    /// A log-out.
    pub const GONE: Effect = Effect { stored: Stored::Missing, ttl_ms: 0, lingers_ms: 0, touch: false };

    /// A payload.
    pub fn store(stored: Stored, ttl_ms: u64) -> Effect {
        Effect { stored, ttl_ms, lingers_ms: 0, touch: false }
    }
}

impl Default for History {
    fn default() -> History {
        let nothing = Write { effect: Effect::GONE, start: 0, end: 0, sure: true };
        History {
            writes: vec![nothing],
            open: Vec::new(),
            reads: Vec::new(),
            grants: Vec::new(),
            fence_floor: 0,
            touched_until: 0,
            shortest_ms: u64::MAX,
        }
    }
}

impl History {
    /// Someone is about to change the session.
    pub fn call(&mut self, worker: usize, start: u64, effect: Effect) {
        if effect.stored != Stored::Missing || effect.touch {
            self.shortest_ms = self.shortest_ms.min(effect.ttl_ms);
        }
        self.open.push(Open { worker, effect, start });
    }

    /// What this worker is about to leave is known better by now.
    pub fn narrow(&mut self, worker: usize, stored: Stored) {
        if let Some(open) = self.open.iter_mut().find(|open| open.worker == worker) {
            open.effect.stored = stored;
        }
    }

    /// The change that this worker was about to make is decided.
    pub fn resolve(&mut self, worker: usize, end: u64, outcome: Outcome) {
        let Some(position) = self.open.iter().position(|open| open.worker == worker) else { return };
        let Open { effect, start, .. } = self.open.swap_remove(position);
        match outcome {
            Outcome::Never => {}
            _ if effect.touch => self.touched_until = self.touched_until.max(end + effect.ttl_ms * MS),
            _ => self.writes.push(Write { effect, start, end, sure: outcome == Outcome::Sure }),
        }
    }

    /// Log-outs under way, by worker.
    pub fn leaving(&self) -> Vec<(usize, u64)> {
        let gone = |open: &&Open| open.effect.stored == Stored::Missing && !open.effect.touch;
        self.open.iter().filter(gone).map(|open| (open.worker, open.start)).collect()
    }

    /// Someone has read.
    pub fn read(&mut self, read: Read) {
        self.reads.push(read);
    }

    /// Judges the reads that ended before `now` and can be judged, then forgets what no read that begins at or
    /// after `horizon` may see. Says what is wrong, and whether reads are left.
    pub fn settle(&mut self, now: u64, horizon: u64) -> (Vec<String>, bool) {
        let undecided = self.open.iter().map(|open| open.start).min().unwrap_or(u64::MAX);
        let (ready, waiting): (Vec<Read>, Vec<Read>) =
            self.reads.iter().partition(|read| read.end < now && read.end <= undecided);
        let wrong = ready.iter().filter(|read| !self.legal(read)).map(|read| self.explain(read)).collect();
        self.reads = waiting;
        let oldest = self.reads.iter().map(|read| read.start).min().unwrap_or(u64::MAX);
        let held = self.grants.iter().filter(|grant| grant.held_until.is_none()).map(|grant| grant.start).min();
        self.forget(horizon.min(oldest).min(undecided).min(held.unwrap_or(u64::MAX)));
        (wrong, !self.reads.is_empty())
    }

    /// The moment from which a write cannot be seen any more.
    fn buried(&self, write: &Write) -> u64 {
        let later = self.writes.iter().filter(|later| later.sure && later.start > write.end);
        later.map(|later| later.end + later.effect.lingers_ms * MS).min().unwrap_or(u64::MAX)
    }

    fn legal(&self, read: &Read) -> bool {
        let began = |write: &&Write| write.start < read.end;
        self.writes.iter().filter(began).any(|write| self.explains(write, read) && self.buried(write) >= read.start)
    }

    fn explains(&self, write: &Write, read: &Read) -> bool {
        let effect = &write.effect;
        let dead_from = (write.end + effect.ttl_ms * MS).max(self.touched_until) + ROUNDING_NS;
        match (effect.stored, read.seen) {
            (Stored::Missing, Seen::Exactly(Stored::Missing)) => true,
            (Stored::Missing, _) => false,
            // It may have expired.
            (_, Seen::Exactly(Stored::Missing)) => {
                read.end + ROUNDING_NS >= write.start + self.shortest_ms.min(effect.ttl_ms) * MS
            }
            (Stored::Run { first, last }, Seen::Exactly(Stored::Token(token))) => (first..=last).contains(&token),
            (stored, Seen::Exactly(seen)) => stored == seen && read.start <= dead_from,
            (_, Seen::Record) => read.start <= dead_from,
        }
    }

    fn explain(&self, read: &Read) -> String {
        let known = |token| self.writes.iter().any(|write| write.effect.stored == Stored::Token(token));
        let (by, ms) = (read.by, read.start / MS);
        match read.seen {
            Seen::Exactly(Stored::Missing) => format!("{by} at {ms} ms found nothing: an acknowledged write is lost"),
            Seen::Exactly(Stored::Token(token)) if known(token) => {
                format!("{by} at {ms} ms found write {token:#x}, which had been replaced, removed or had expired")
            }
            Seen::Exactly(Stored::Token(token)) => {
                format!("{by} at {ms} ms found write {token:#x}: refused, removed long ago, or of another session")
            }
            _ => format!("{by} at {ms} ms found a record where none can be"),
        }
    }

    fn forget(&mut self, horizon: u64) {
        let buried: Vec<u64> = self.writes.iter().map(|write| self.buried(write)).collect();
        let mut buried = buried.iter();
        self.writes.retain(|_| buried.next().is_some_and(|moment| *moment >= horizon));
        let past = |grant: &Grant| grant.held_until.is_some_and(|until| until.max(grant.end) < horizon);
        let floor = self.grants.iter().filter(|grant| past(grant)).map(|grant| grant.fence).max();
        self.fence_floor = self.fence_floor.max(floor.unwrap_or(0));
        self.grants.retain(|grant| !past(grant));
    }

    /// Someone has got the lock.
    pub fn grant(&mut self, worker: usize, fence: u64, start: u64, end: u64) -> Option<String> {
        let grant = Grant { worker, fence, start, end, held_until: None, voided: false, lost: false };
        let twice = fence <= self.fence_floor || self.grants.iter().any(|other| other.fence == fence);
        let falls = |first: &Grant, second: &Grant| first.end < second.start && first.fence > second.fence;
        let fallen = self.grants.iter().any(|other| falls(other, &grant) || falls(&grant, other));
        self.grants.push(grant);
        (twice || fallen).then(|| format!("the fence {fence} does not grow, or was given twice"))
    }

    /// The lock was surely held until now, by this worker; what happens to it next is not known yet.
    pub fn let_go(&mut self, worker: usize, now: u64) -> (Option<Grant>, Option<String>) {
        let position = self.grants.iter().position(|grant| grant.worker == worker && grant.held_until.is_none());
        let Some(mut grant) = position.map(|position| self.grants.swap_remove(position)) else { return (None, None) };
        grant.held_until = Some(now);
        grant.voided = self.gone_between(grant.start, now);
        grant.lost = self.gone_under(&grant, now);
        let both = |other: &&Grant| {
            let until = other.held_until.unwrap_or(0).min(now);
            !grant.voided && !other.voided && grant.end.max(other.end) < until
        };
        let other = self.grants.iter().find(both).map(|other| other.fence);
        self.grants.push(grant);
        (Some(grant), other.map(|fence| format!("two held the lock at once, with fences {fence} and {}", grant.fence)))
    }

    /// Whether a log-out may have happened between these moments.
    pub fn gone_between(&self, from: u64, to: u64) -> bool {
        let gone = |effect: &Effect| effect.stored == Stored::Missing && !effect.touch;
        let done = self.writes.iter().any(|write| gone(&write.effect) && write.end >= from && write.start <= to);
        done || self.open.iter().any(|open| gone(&open.effect) && open.start <= to)
    }

    /// Whether anything else than the change that was called at `own` may have removed the record since then.
    pub fn gone_otherwise(&self, own: u64) -> bool {
        let gone = |effect: &Effect, start: u64| effect.stored == Stored::Missing && !effect.touch && start != own;
        let done = self.writes.iter().any(|write| gone(&write.effect, write.start) && write.end >= own);
        done || self.open.iter().any(|open| gone(&open.effect, open.start))
    }

    /// Whether a log-out surely happened after the lock was granted and before the commit was asked for.
    pub fn gone_under(&self, grant: &Grant, commit: u64) -> bool {
        let surely = |write: &Write| write.sure && write.start > grant.end && write.end < commit;
        self.writes.iter().any(|write| write.effect.stored == Stored::Missing && surely(write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn token(token: u64) -> Effect {
        Effect::store(Stored::Token(token), HOUR)
    }

    fn written(history: &mut History, start: u64, end: u64, effect: Effect, outcome: Outcome) {
        history.call(1, start, effect);
        history.resolve(1, end, outcome);
    }

    fn verdict(history: &mut History, seen: Stored, start: u64, end: u64) -> usize {
        history.read(Read { seen: Seen::Exactly(seen), start, end, by: "peek" });
        history.settle(u64::MAX, 0).0.len()
    }

    #[test]
    fn an_acknowledged_write_must_be_seen_and_what_it_replaced_must_not() {
        let mut history = History::default();
        assert_eq!(verdict(&mut history, Stored::Missing, 5, 6), 0);
        written(&mut history, 10, 20, token(1), Outcome::Sure);
        written(&mut history, 30, 40, token(2), Outcome::Sure);
        assert_eq!(verdict(&mut history, Stored::Token(2), 50, 60), 0);
        assert_eq!(verdict(&mut history, Stored::Token(1), 35, 60), 0, "it began before the second was done");
        assert_eq!(verdict(&mut history, Stored::Token(1), 50, 60), 1, "lost update");
        assert_eq!(verdict(&mut history, Stored::Missing, 50, 60), 1, "lost write");
        assert_eq!(verdict(&mut history, Stored::Token(3), 50, 60), 1, "never written");
        assert_eq!(verdict(&mut history, Stored::Token(2), 21, 25), 1, "from the future");
    }

    #[test]
    fn a_write_without_an_answer_may_be_seen_or_not_and_a_refused_one_may_not() {
        let mut history = History::default();
        written(&mut history, 10, 20, token(1), Outcome::Sure);
        written(&mut history, 30, 40, token(2), Outcome::Maybe);
        written(&mut history, 31, 41, token(3), Outcome::Never);
        assert_eq!(verdict(&mut history, Stored::Token(1), 50, 60), 0);
        assert_eq!(verdict(&mut history, Stored::Token(2), 50, 60), 0);
        assert_eq!(verdict(&mut history, Stored::Token(3), 50, 60), 1);
        written(&mut history, 70, 80, Effect::store(Stored::Run { first: 10, last: 20 }, HOUR), Outcome::Maybe);
        assert_eq!([1, 15, 21].map(|token| verdict(&mut history, Stored::Token(token), 90, 99)), [0, 0, 1]);
    }

    #[test]
    fn what_was_destroyed_does_not_come_back_and_expires_neither_early_nor_late() {
        let mut history = History::default();
        written(&mut history, 10, 20, token(1), Outcome::Sure);
        written(&mut history, 30, 40, Effect::GONE, Outcome::Sure);
        assert_eq!(verdict(&mut history, Stored::Token(1), 50, 60), 1);
        assert_eq!(verdict(&mut history, Stored::Missing, 50, 60), 0);
        let short = Effect::store(Stored::Token(2), 50);
        written(&mut history, 70, 80, short, Outcome::Sure);
        assert_eq!(verdict(&mut history, Stored::Missing, 90, 30 * MS), 1, "too early");
        assert_eq!(verdict(&mut history, Stored::Missing, 90, 60 * MS), 0);
        assert_eq!(verdict(&mut history, Stored::Token(2), 60 * MS, 61 * MS), 1, "too late");
        let touch = Effect { touch: true, ..short };
        written(&mut history, 40 * MS, 41 * MS, touch, Outcome::Sure);
        assert_eq!(verdict(&mut history, Stored::Token(2), 60 * MS, 61 * MS), 0, "it was touched");
    }

    #[test]
    fn a_read_waits_until_the_writes_before_it_are_decided_and_forgetting_changes_no_verdict() {
        let mut history = History::default();
        history.call(1, 10, token(1));
        history.read(Read { seen: Seen::Exactly(Stored::Token(1)), start: 11, end: 12, by: "peek" });
        assert_eq!(history.settle(100, 100), (vec![], true));
        history.resolve(1, 20, Outcome::Sure);
        assert_eq!(history.settle(100, 100), (vec![], false));
        (2..100).for_each(|number| written(&mut history, number * 100, number * 100 + 1, token(number), Outcome::Sure));
        history.settle(20_000, 9_900);
        assert!(history.writes.len() < 5, "{} writes are remembered", history.writes.len());
        assert_eq!(verdict(&mut history, Stored::Token(99), 20_000, 20_001), 0);
        assert_eq!(verdict(&mut history, Stored::Token(1), 20_000, 20_001), 1);
    }

    #[test]
    fn fences_grow_and_two_holders_at_once_are_noticed_unless_a_log_out_came_between() {
        let mut history = History::default();
        assert_eq!(history.grant(1, 5, 10, 20), None);
        assert_eq!(history.let_go(1, 30).1, None);
        assert!(history.grant(2, 5, 40, 50).is_some(), "given twice");
        assert!(history.grant(3, 4, 60, 70).is_some(), "fell");
        let mut history = History::default();
        history.grant(1, 5, 10, 20);
        history.grant(2, 6, 21, 25);
        assert_eq!(history.let_go(2, 40).1, None, "the first is not known to be held that long");
        assert!(history.let_go(1, 30).1.is_some());
        let mut history = History::default();
        history.grant(1, 5, 10, 20);
        written(&mut history, 21, 22, Effect::GONE, Outcome::Sure);
        history.grant(2, 6, 23, 25);
        history.let_go(2, 40);
        let (grant, problem) = history.let_go(1, 30);
        assert_eq!(problem, None);
        assert!(history.gone_under(&grant.unwrap(), 30), "a commit must be refused");
    }
}
