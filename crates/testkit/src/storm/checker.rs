//! All sessions and all processes of a storm: turns reports into histories, and deaths into
//! questions.
//!
//! Invariant: reads are judged at the end of a round of the listener. Whatever had an effect by
//! then was reported before that effect, so it has been heard of.

use std::collections::{BTreeSet, HashMap};

use super::client::HOUR_MS;
use super::counts::{SessionTrails, StormCounts, TRAILS_MAX};
use super::event::{CallResult, SeenPayload, SeenRecord, StoreCall, StoreCall::*, WorkerEvent};
use super::history::{
    CallSpan, Certainty, History, HistoryRead, LockGrant, MS, StoredValue, WriteEffect,
};
use super::prober::{PROBER, ProbeRequest};
use super::storm_worker::{ONE_OFF, RUN_MAX};

/// A grace ends by the store's clock, in whole milliseconds.
const GRACE_ROUNDING_MS: u64 = 5;
const STOPS_MAX: usize = 64;

#[derive(Default)]
struct ProcessState {
    call: Option<PendingCall>,
    changes: Vec<u64>,
    held: Option<HeldSession>,
    /// When the pipe was last found empty: a line that comes later was written later.
    heard_at: u64,
    stops: Vec<(u64, u64)>,
}

#[derive(Clone, Copy)]
struct PendingCall {
    id: u64,
    call: StoreCall,
    start: u64,
}

#[derive(Clone, Copy)]
struct HeldSession {
    id: u64,
    payload: SeenPayload,
    grant: Option<LockGrant>,
}

/// A lock whose holder has died, until another client has it.
#[derive(Clone, Copy)]
struct OrphanedLock {
    id: u64,
    since: u64,
    certain: bool,
}

struct KnownAlias {
    by: usize,
    new: u64,
    until: u64,
}

#[derive(Clone, Copy)]
struct CutRegeneration {
    id: u64,
    new: u64,
    start: u64,
}

#[derive(Default)]
pub struct Checker {
    sessions: HashMap<u64, History>,
    aliases: HashMap<u64, Vec<KnownAlias>>,
    processes: HashMap<usize, ProcessState>,
    orphans: Vec<OrphanedLock>,
    cut: Vec<CutRegeneration>,
    unjudged: BTreeSet<u64>,
    trails: SessionTrails,
    pub counts: StormCounts,
    stuck_ms_max: u64,
}

impl Checker {
    /// A lock that is not free `stuck_ms_max` after its owner's death is a problem.
    pub fn new(stuck_ms_max: u64) -> Checker {
        Checker { stuck_ms_max, ..Checker::default() }
    }

    pub fn ids(&self) -> Vec<u64> {
        self.sessions.keys().copied().collect()
    }

    pub fn all_judged(&self) -> bool {
        self.unjudged.is_empty()
    }

    pub fn holds(&self, worker: usize) -> bool {
        self.held(worker).is_some()
    }

    pub fn problem(&mut self, problem: String) {
        self.counts.note(problem);
    }

    fn held(&self, worker: usize) -> Option<HeldSession> {
        self.processes.get(&worker).and_then(|process| process.held)
    }

    fn process(&mut self, worker: usize) -> &mut ProcessState {
        self.processes.entry(worker).or_default()
    }

    fn session(&mut self, id: u64) -> &mut History {
        self.unjudged.insert(id);
        self.sessions.entry(id).or_default()
    }

    fn note(&mut self, id: u64, problem: Option<String>) {
        let Some(problem) = problem else { return };
        let one_off = if id >= ONE_OFF { "one-off " } else { "" };
        let problem = format!("session {one_off}{:#x}: {problem}", id & !ONE_OFF);
        if self.counts.trails.len() < TRAILS_MAX {
            let trail = self.trails.of_session(id);
            let trail = format!("{problem}; before that:{trail}");
            self.counts.trails.push(trail);
        }
        self.problem(problem);
    }

    pub fn stopped(&mut self, worker: usize, from: u64, to: u64) {
        let stops = &mut self.process(worker).stops;
        stops.retain(|(start, _)| *start != from);
        stops.push((from, to));
        if stops.len() > STOPS_MAX {
            stops.remove(0);
        }
    }

    pub fn observe(&mut self, worker: usize, at: u64, event: WorkerEvent) {
        let process = self.process(worker);
        match event {
            WorkerEvent::Call(id, call) => {
                let start = at.max(process.heard_at);
                process.call = Some(PendingCall { id, call, start });
                self.counts.calls += 1;
                self.trails.add(id, worker, at, &event);
                self.called(worker, id, call, start);
            }
            WorkerEvent::Result(ref result) => {
                let Some(PendingCall { id, call, start }) = process.call.take() else {
                    let why = "a process reported a result without a call: the harness is broken";
                    return self.problem(why.into());
                };
                self.trails.add(id, worker, at, &event);
                if let CallResult::Failed(text) = result {
                    self.decide(worker, at, Certainty::Possible, &[]);
                    self.note(id, Some(format!("{call:?} failed: {text}")));
                } else {
                    self.returned(worker, id, call, CallSpan { start, end: at }, result);
                }
            }
        }
    }

    fn called(&mut self, worker: usize, id: u64, call: StoreCall, start: u64) {
        if matches!(call, Commit { .. } | Release | Regenerate { .. }) {
            self.lock_ends(worker, start);
        }
        match call {
            Begin | Release | Peek => {}
            Commit { token, ttl_ms } => {
                let stored = token.map_or(StoredValue::Empty, StoredValue::Token);
                self.change(worker, id, start, WriteEffect::store(stored, ttl_ms));
            }
            Run { first } => {
                let stored = StoredValue::Run { first, last: first + RUN_MAX };
                self.change(worker, id, start, WriteEffect::store(stored, HOUR_MS));
            }
            Create { token, ttl_ms } => {
                let effect = WriteEffect::store(StoredValue::Token(token), ttl_ms);
                self.change(worker, id, start, effect);
            }
            Touch { ttl_ms } => {
                let effect = WriteEffect::store(StoredValue::Kept, ttl_ms);
                self.change_with_aliases(worker, id, start, effect);
            }
            Destroy => self.change_with_aliases(worker, id, start, WriteEffect::REMOVAL),
            Regenerate { new, grace_ms } => {
                let found = self.held_value(worker);
                // Destroys that are under way may reach the record under either id.
                for (other, since) in self.session(id).removals_under_way() {
                    self.change(other, new, since, WriteEffect::REMOVAL);
                }
                let lingers_ms = grace_ms + GRACE_ROUNDING_MS;
                let leaves = WriteEffect { lingers_ms, ..WriteEffect::REMOVAL };
                self.change(worker, id, start, leaves);
                self.change(worker, new, start, WriteEffect::store(found, HOUR_MS));
                let alias = KnownAlias { by: worker, new, until: u64::MAX };
                self.aliases.entry(id).or_default().push(alias);
            }
        }
    }

    fn change(&mut self, worker: usize, id: u64, start: u64, effect: WriteEffect) {
        self.session(id).write_begins(worker, start, effect);
        self.process(worker).changes.push(id);
    }

    fn change_with_aliases(&mut self, worker: usize, id: u64, start: u64, effect: WriteEffect) {
        for id in self.with_aliases(id, start) {
            self.change(worker, id, start, effect);
        }
    }

    /// Decides the call of this process, with certainty for some sessions; others, to which an id
    /// may have led, were changed at most.
    fn decide(&mut self, worker: usize, at: u64, certainty: Certainty, certain: &[u64]) {
        for id in std::mem::take(&mut self.process(worker).changes) {
            let weakened = certainty == Certainty::Certain && !certain.contains(&id);
            let certainty = if weakened { Certainty::Possible } else { certainty };
            self.session(id).decide(worker, at, certainty);
        }
    }

    fn with_aliases(&self, id: u64, start: u64) -> Vec<u64> {
        let aliases = self.aliases.get(&id).into_iter().flatten();
        let live = aliases.filter(|alias| alias.until >= start);
        std::iter::once(id).chain(live.map(|alias| alias.new)).collect()
    }

    fn held_value(&self, worker: usize) -> StoredValue {
        self.held(worker).map_or(StoredValue::Missing, |held| stored(held.payload))
    }

    fn lock_ends(&mut self, worker: usize, now: u64) {
        let Some(mut held) = self.held(worker) else { return };
        let (grant, problem) = self.session(held.id).lock_ends(worker, now);
        self.note(held.id, problem);
        held.grant = grant;
        self.process(worker).held = Some(held);
    }

    fn returned(
        &mut self,
        worker: usize,
        id: u64,
        call: StoreCall,
        span: CallSpan,
        result: &CallResult,
    ) {
        let done = *result == CallResult::Done;
        let decided = if done { Certainty::Certain } else { Certainty::Refused };
        let missing = Some(StoredValue::Missing);
        match (call, result) {
            (Begin, CallResult::Granted { id: granted, fence, seen }) => {
                self.granted(worker, id, *granted, *fence, span);
                self.saw(*granted, *seen, span, "begin");
                let held = HeldSession { id: *granted, payload: seen.payload, grant: None };
                self.process(worker).held = Some(held);
            }
            (Begin, _) => self.timed_out(id, span),
            (Peek, CallResult::Found(seen)) => self.peeked(worker, id, *seen, span),
            (Touch { .. }, _) => {
                let ids = self.with_aliases(id, span.start);
                self.decide(worker, span.end, decided, &ids);
                if ids.len() == 1 {
                    let seen = if done { None } else { missing };
                    self.session(id).read(HistoryRead { seen, span, by: "touch" });
                }
            }
            (Destroy, _) => self.decide(worker, span.end, decided, &[id]),
            (Run { first }, CallResult::Ran { last }) => {
                self.counts.commits += last + 1 - first;
                self.session(id).narrow(worker, StoredValue::Token(*last));
                self.decide(worker, span.end, Certainty::Certain, &[id]);
            }
            (Create { .. }, _) => {
                self.decide(worker, span.end, decided, &[id]);
                if done {
                    self.session(id).read(HistoryRead { seen: missing, span, by: "create" });
                }
            }
            (Commit { .. }, _) => {
                self.counts.commits += 1;
                self.judge_change(worker, id, span, done, "commit");
                self.decide(worker, span.end, decided, &[id]);
                self.process(worker).held = None;
            }
            (Regenerate { new, grace_ms }, result) => {
                if *result != CallResult::Refused("exists".into()) {
                    self.judge_change(worker, id, span, done, "regenerate");
                }
                self.decide(worker, span.end, decided, &[id, new]);
                self.regenerated(worker, id, new, span, done.then_some(grace_ms));
            }
            (Release, _) => self.process(worker).held = None,
            (call, result) => {
                self.problem(format!("{call:?} returned {result:?}: the harness is broken"));
            }
        }
    }

    fn peeked(&mut self, worker: usize, id: u64, seen: SeenRecord, span: CallSpan) {
        if seen.payload == SeenPayload::Missing {
            self.judge_cut_regeneration(worker, id);
        }
        let ids = self.with_aliases(id, span.start);
        // Within a grace it may be the record of the new id that was seen.
        let of = match seen.payload {
            SeenPayload::Sealed(seal) if ids.contains(&seal.session) => seal.session,
            _ => id,
        };
        if ids.len() == 1 || seen.payload != SeenPayload::Empty {
            self.saw(of, seen, span, "peek");
        }
    }

    fn regenerated(
        &mut self,
        worker: usize,
        id: u64,
        new: u64,
        span: CallSpan,
        grace_ms: Option<u64>,
    ) {
        let until = grace_ms.map_or(0, |ms| span.end + (ms + GRACE_ROUNDING_MS) * MS);
        let aliases = self.aliases.entry(id).or_default();
        aliases.retain(|alias| alias.until >= span.start);
        aliases.iter_mut().filter(|alias| alias.new == new).for_each(|alias| alias.until = until);
        let Some(held) = self.held(worker).filter(|_| grace_ms.is_some()) else { return };
        if let Some(grant) = held.grant {
            let problem = self.session(new).grant(worker, grant.fence, span);
            self.note(new, problem);
        }
        self.process(worker).held = Some(HeldSession { id: new, ..held });
    }

    fn judge_change(&mut self, worker: usize, id: u64, span: CallSpan, done: bool, what: &str) {
        let Some(grant) = self.held(worker).and_then(|held| held.grant) else { return };
        let session = self.session(id);
        let problem = if done && (grant.lost || session.removed_under(&grant, span.start)) {
            Some(format!("a {what} was accepted after a log-out: a destroyed session is back"))
        } else if !done && !grant.voided && !session.removed_between(span.start, span.end) {
            let fence = grant.fence;
            let why = "was refused although nobody took the session away";
            Some(format!("a {what} under fence {fence} {why}"))
        } else {
            None
        };
        self.note(id, problem);
    }

    /// The prober holds the old id of a regeneration that was cut short, and found nothing under
    /// either id.
    fn judge_cut_regeneration(&mut self, worker: usize, new: u64) {
        let Some(held) = self.held(worker).filter(|_| worker == PROBER) else { return };
        let cut = self.cut.iter().copied().find(|cut| cut.new == new && cut.id == held.id);
        let Some(CutRegeneration { id, start, .. }) = cut else { return };
        if ![id, new].into_iter().any(|id| self.session(id).removed_otherwise(start)) {
            let why = "the record was lost when its holder was killed in regenerate";
            self.note(id, Some(why.into()));
        }
    }

    fn saw(&mut self, id: u64, seen: SeenRecord, span: CallSpan, by: &'static str) {
        self.counts.reads += 1;
        let SeenRecord { payload, version } = seen;
        match payload {
            SeenPayload::Torn { bytes } => {
                return self.note(id, Some(format!("{by} found {bytes} torn bytes")));
            }
            SeenPayload::Sealed(seal) if version != 0 && seal.counter != version => {
                let counter = seal.counter;
                let with = format!("version {version} with the payload of version {counter}");
                self.note(id, Some(format!("{by} found {with}")));
            }
            _ => {}
        }
        self.session(id).read(HistoryRead { seen: Some(stored(payload)), span, by });
    }

    fn granted(&mut self, worker: usize, asked: u64, id: u64, fence: u64, span: CallSpan) {
        let problem = self.session(id).grant(worker, fence, span);
        self.note(id, problem);
        let taken = |orphan: &mut OrphanedLock| orphan.id == id && orphan.since < span.end;
        let orphans: Vec<OrphanedLock> = self.orphans.extract_if(.., taken).collect();
        for orphan in orphans {
            self.counts.steals += u64::from(orphan.certain);
            self.freed(&orphan, asked, Some(worker), span);
        }
    }

    fn timed_out(&mut self, id: u64, span: CallSpan) {
        self.counts.timeouts += 1;
        let due = |orphan: &&OrphanedLock| {
            let waited = span.end.saturating_sub(orphan.since.max(span.start));
            orphan.id == id && waited > self.stuck_ms_max * MS
        };
        if let Some(orphan) = self.orphans.iter().find(due).copied() {
            self.freed(&orphan, id, None, span);
            self.orphans.retain(|other| other.id != id);
        }
    }

    /// How long the lock of a dead holder kept a client waiting. Time in which a client that wanted
    /// it was stopped does not count: it may have had the lock, or been first in the queue.
    fn freed(&mut self, orphan: &OrphanedLock, asked: u64, worker: Option<usize>, span: CallSpan) {
        let wants = |process: &ProcessState| match process.call {
            Some(PendingCall { id, call: Begin, start }) if id == orphan.id || id == asked => {
                Some(start)
            }
            _ => None,
        };
        let first = self.processes.values().filter_map(wants).fold(span.start, u64::min);
        let from = orphan.since.max(first);
        let stopped: u64 = (self.processes.iter())
            .filter(|(number, process)| Some(**number) == worker || wants(process).is_some())
            .flat_map(|(_, process)| &process.stops)
            .map(|(begin, end)| (*end).min(span.end).saturating_sub((*begin).max(from)))
            .sum();
        let waited = span.end.saturating_sub(from).saturating_sub(stopped) as f64 / MS as f64;
        self.counts.freed_ms.push(waited);
        if waited > self.stuck_ms_max as f64 {
            let why = format!("the lock of a dead holder was stuck for {waited:.0} ms");
            self.note(orphan.id, Some(why));
        }
    }

    /// A process is dead and all its reports were heard. Returns what to ask about the lock that it
    /// may have held.
    pub fn died(&mut self, worker: usize, killed_at: u64, dead_at: u64) -> Option<ProbeRequest> {
        let moved = matches!(self.held_value(worker), StoredValue::Token(_) | StoredValue::Empty);
        self.decide(worker, dead_at, Certainty::Possible, &[]);
        self.lock_ends(worker, killed_at);
        let ProcessState { call, held, .. } = self.processes.remove(&worker)?;
        let orphaned = |id, certain| OrphanedLock { id, since: dead_at, certain };
        let mut left =
            held.map(|held| orphaned(held.id, held.grant.is_some_and(|grant| !grant.voided)));
        if let Some(PendingCall { id, call, .. }) = call {
            let reads = matches!(call, Begin | Peek | Release);
            self.counts.killed_in_change += u64::from(!reads);
            if matches!(call, Begin | Run { .. }) {
                // It may have had the lock and died before it could report that.
                left.get_or_insert(orphaned(id, false));
            }
            // Nobody can have been given the lock while the dead one may have had it.
            for orphan in self.orphans.iter_mut().filter(|orphan| orphan.id == id) {
                orphan.since = orphan.since.max(dead_at);
            }
        }
        // A regeneration without a result may lead on for its grace, which began at the latest now.
        let open = |alias: &&mut KnownAlias| alias.by == worker && alias.until == u64::MAX;
        for alias in self.aliases.values_mut().flatten().filter(open) {
            alias.until = dead_at + 1_000 * MS;
        }
        self.orphans.extend(left);
        if let Some(PendingCall { id, call: Regenerate { new, .. }, start }) = call
            && moved
        {
            self.cut.push(CutRegeneration { id, new, start });
            return Some(ProbeRequest::Moved(id, new));
        }
        left.map(|orphan| ProbeRequest::Lock(orphan.id))
    }

    pub fn judge(&mut self, round: u64) {
        let calls: Vec<PendingCall> =
            self.processes.values().filter_map(|process| process.call).collect();
        for id in std::mem::take(&mut self.unjudged) {
            // Any call may reach a one-off session, through another id.
            let about = calls.iter().filter(|call| id >= ONE_OFF || call.id == id);
            let horizon = about.map(|call| call.start).fold(round, u64::min);
            let (wrong, left) = self.sessions.entry(id).or_default().judge(round, horizon);
            wrong.into_iter().for_each(|problem| self.note(id, Some(problem)));
            if left {
                self.unjudged.insert(id);
            }
        }
        self.processes.values_mut().for_each(|process| process.heard_at = round);
    }
}

fn stored(payload: SeenPayload) -> StoredValue {
    match payload {
        SeenPayload::Missing | SeenPayload::Torn { .. } => StoredValue::Missing,
        SeenPayload::Empty => StoredValue::Empty,
        SeenPayload::Sealed(seal) => StoredValue::Token(seal.token),
    }
}

#[cfg(test)]
#[path = "checker_tests.rs"]
mod tests;
