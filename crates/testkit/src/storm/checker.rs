//! All sessions and all processes of a storm: turns reports into histories, and deaths into questions.
//!
//! Invariant: it is fed in rounds. In a round every pipe is read until it is empty; what was reported before the
//! round began is heard in the order of time, and only reads that had ended by then are judged. So whatever
//! had an effect by then has been heard of: its line was in a pipe before the effect.

use std::collections::{BTreeSet, HashMap};

use super::event::{Answer, Call, Event};
use super::history::{Effect, Grant, History, Outcome, Read, Seen, Stored};
use super::payload::Content;
use super::prober::{Errand, PROBER};
use super::tally::{TRAILS_MAX, Tally, Trails};
use super::work::{ONE_OFF, RUN_MAX};

const MS: u64 = 1_000_000;
const HOUR_MS: u64 = 3_600_000;
/// A grace ends by the store's clock, in whole milliseconds.
const GRACE_ROUNDING_MS: u64 = 5;

#[derive(Debug, Default)]
struct Process {
    call: Option<(Call, u64)>,
    /// The sessions that the call may change.
    changes: Vec<u64>,
    held: Option<Held>,
    /// When its pipe was last found empty: a line that comes later was written later.
    heard_at: u64,
    /// Stops, the last one perhaps still going on.
    stops: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    id: u64,
    content: Content,
    grant: Option<Grant>,
}

/// A lock whose holder has died, until someone else has it.
#[derive(Debug)]
struct Orphan {
    id: u64,
    since: u64,
    sure: bool,
}

/// A grace: the old id leads to the new one.
#[derive(Clone, Copy, Debug)]
struct Lead {
    by: usize,
    new: u64,
    until: u64,
}

/// A record that was on its way to a new id when its holder was killed.
#[derive(Clone, Copy, Debug)]
struct Move {
    id: u64,
    new: u64,
    start: u64,
}

/// The checker.
#[derive(Debug, Default)]
pub struct Checker {
    sessions: HashMap<u64, History>,
    leads: HashMap<u64, Vec<Lead>>,
    processes: HashMap<usize, Process>,
    orphans: Vec<Orphan>,
    moves: Vec<Move>,
    unsettled: BTreeSet<u64>,
    trails: Trails,
    pub tally: Tally,
    stuck_ms_max: u64,
}

impl Checker {
    /// A lock that is not free `stuck_ms_max` after its owner's death is a problem.
    pub fn new(stuck_ms_max: u64) -> Checker {
        Checker { stuck_ms_max, ..Checker::default() }
    }

    /// Sessions that were ever mentioned.
    pub fn ids(&self) -> Vec<u64> {
        self.sessions.keys().copied().collect()
    }

    /// Whether all that was heard is judged.
    pub fn settled(&self) -> bool {
        self.unsettled.is_empty()
    }

    /// Whether a process holds a lock, as far as was heard.
    pub fn holds(&self, worker: usize) -> bool {
        self.processes.get(&worker).is_some_and(|process| process.held.is_some())
    }

    /// Notes a violation.
    pub fn problem(&mut self, problem: String) {
        self.tally.note(problem);
    }

    fn session(&mut self, id: u64) -> &mut History {
        self.unsettled.insert(id);
        self.sessions.entry(id).or_default()
    }

    fn about(&mut self, id: u64, problem: Option<String>) {
        if let Some(problem) = problem {
            let name = if id >= ONE_OFF { format!("one-off {:#x}", id ^ ONE_OFF) } else { format!("{id:#x}") };
            if self.tally.trails.len() < TRAILS_MAX {
                let trail = self.trails.of(id);
                self.tally
                    .trails
                    .push(format!("session {name}: {problem}; before that (+ call, - answer):\n    {trail}"));
            }
            self.problem(format!("session {name}: {problem}"));
        }
    }

    /// A process was stopped or goes on.
    pub fn stopped(&mut self, worker: usize, from: u64, to: u64) {
        let stops = &mut self.processes.entry(worker).or_default().stops;
        stops.retain(|(start, _)| *start != from);
        stops.push((from, to));
        if stops.len() > 64 {
            stops.remove(0);
        }
    }

    /// A line of a process.
    pub fn hear(&mut self, worker: usize, at: u64, event: Event) {
        match event {
            Event::Call(call) => {
                self.tally.calls += 1;
                let process = self.processes.entry(worker).or_default();
                let start = at.max(process.heard_at);
                self.trails.add(call.id(), worker, at, &event);
                process.call = Some((call, start));
                self.called(worker, start, call);
            }
            Event::Answer(answer) => {
                let call = self.processes.entry(worker).or_default().call.take();
                if let Some((call, _)) = call {
                    self.trails.add(call.id(), worker, at, &Event::Answer(answer.clone()));
                }
                match (call, answer) {
                    (None, _) => self.problem("a process answered without a call: the harness is broken".into()),
                    (Some((call, _)), Answer::Failed(text)) => {
                        self.decide(worker, at, Outcome::Maybe, &[]);
                        self.about(call.id(), Some(format!("{call:?} failed: {text}")));
                    }
                    (Some((call, start)), answer) => self.answered(worker, call, start, at, &answer),
                }
            }
        }
    }

    fn called(&mut self, worker: usize, start: u64, call: Call) {
        if matches!(call, Call::Commit { .. } | Call::Release { .. } | Call::Regenerate { .. }) {
            self.let_go(worker, start);
        }
        match call {
            Call::Begin { .. } | Call::Release { .. } | Call::Peek { .. } => {}
            Call::Commit { id, token, ttl_ms } => {
                self.change(worker, id, start, Effect::store(token.map_or(Stored::Empty, Stored::Token), ttl_ms));
            }
            Call::Run { id, first } => {
                let stored = Stored::Run { first, last: first + RUN_MAX };
                self.change(worker, id, start, Effect::store(stored, HOUR_MS));
            }
            Call::Create { id, token, ttl_ms } => {
                self.change(worker, id, start, Effect::store(Stored::Token(token), ttl_ms));
            }
            Call::Touch { id, ttl_ms } => {
                let effect = Effect { touch: true, ..Effect::store(Stored::Missing, ttl_ms) };
                self.with_leads(id, start).into_iter().for_each(|id| self.change(worker, id, start, effect));
            }
            Call::Destroy { id } => {
                let ids = self.with_leads(id, start);
                ids.into_iter().for_each(|id| self.change(worker, id, start, Effect::GONE));
            }
            Call::Regenerate { id, new, grace_ms } => {
                let found = self.held_content(worker);
                // Log-outs that are under way may reach the record under either id.
                for (other, since) in self.session(id).leaving() {
                    self.change(other, new, since, Effect::GONE);
                }
                let lingers_ms = grace_ms + GRACE_ROUNDING_MS;
                self.change(worker, id, start, Effect { lingers_ms, ..Effect::GONE });
                self.change(worker, new, start, Effect::store(found, HOUR_MS));
                self.leads.entry(id).or_default().push(Lead { by: worker, new, until: u64::MAX });
            }
        }
    }

    fn change(&mut self, worker: usize, id: u64, start: u64, effect: Effect) {
        self.session(id).call(worker, start, effect);
        self.processes.entry(worker).or_default().changes.push(id);
    }

    /// The call of this process is decided. `certain` are the sessions of which it is; others, to which an id
    /// may have led, were changed at most.
    fn decide(&mut self, worker: usize, at: u64, outcome: Outcome, certain: &[u64]) {
        for id in std::mem::take(&mut self.processes.entry(worker).or_default().changes) {
            let weaker = if outcome == Outcome::Never { Outcome::Never } else { Outcome::Maybe };
            let outcome = if certain.contains(&id) { outcome } else { weaker };
            self.session(id).resolve(worker, at, outcome);
        }
    }

    /// The session and those to which its id may lead now.
    fn with_leads(&self, id: u64, start: u64) -> Vec<u64> {
        let leads = self.leads.get(&id).into_iter().flatten().filter(|lead| lead.until >= start);
        std::iter::once(id).chain(leads.map(|lead| lead.new)).collect()
    }

    fn held_content(&self, worker: usize) -> Stored {
        let held = self.processes.get(&worker).and_then(|process| process.held.as_ref());
        held.map_or(Stored::Missing, |held| stored(held.content))
    }

    /// The lease is about to be used for the last time.
    fn let_go(&mut self, worker: usize, now: u64) {
        let Some(Held { id, .. }) = self.processes.get(&worker).and_then(|process| process.held) else { return };
        let (grant, problem) = self.session(id).let_go(worker, now);
        self.about(id, problem);
        if let Some(held) = self.processes.get_mut(&worker).and_then(|process| process.held.as_mut()) {
            held.grant = grant;
        }
    }

    fn answered(&mut self, worker: usize, call: Call, start: u64, at: u64, answer: &Answer) {
        let done = *answer == Answer::Done;
        let decided = if done { Outcome::Sure } else { Outcome::Never };
        match (call, answer) {
            (Call::Begin { id }, Answer::Granted { id: granted, fence, content, version }) => {
                self.granted(worker, id, *granted, *fence, start, at);
                let seen = (*content, *version);
                self.saw(*granted, seen, start, at, "begin");
                let held = Held { id: *granted, content: *content, grant: None };
                self.processes.entry(worker).or_default().held = Some(held);
            }
            (Call::Begin { id }, _) => self.timed_out(id, start, at),
            (Call::Peek { id }, Answer::Found { content, version }) => {
                if *content == Content::Missing {
                    self.judge_move(worker, id);
                }
                let ids = self.with_leads(id, start);
                // Within a grace it may be the record of the new id that was seen.
                let of = match content {
                    Content::Sealed { id: written, .. } if ids.contains(written) => *written,
                    _ => id,
                };
                if ids.len() == 1 || *content != Content::Empty {
                    self.saw(of, (*content, *version), start, at, "peek");
                }
            }
            (Call::Touch { id, .. }, _) => {
                let ids = self.with_leads(id, start);
                self.decide(worker, at, decided, &ids);
                let seen = if done { Seen::Record } else { Seen::Exactly(Stored::Missing) };
                if ids.len() == 1 {
                    self.session(id).read(Read { seen, start, end: at, by: "touch" });
                }
            }
            (Call::Destroy { id }, _) => {
                self.decide(worker, at, decided, &[id]);
            }
            (Call::Run { id, first }, Answer::Ran { last }) => {
                self.tally.commits += last + 1 - first;
                self.session(id).narrow(worker, Stored::Token(*last));
                self.decide(worker, at, Outcome::Sure, &[id]);
            }
            (Call::Create { id, .. }, _) => {
                self.decide(worker, at, decided, &[id]);
                if done {
                    let seen = Seen::Exactly(Stored::Missing);
                    self.session(id).read(Read { seen, start, end: at, by: "create" });
                }
            }
            (Call::Commit { id, .. }, _) => {
                self.tally.commits += 1;
                self.judge_change(worker, id, start, at, done, "commit");
                self.decide(worker, at, decided, &[id]);
                self.processes.entry(worker).or_default().held = None;
            }
            (Call::Regenerate { id, new, grace_ms }, answer) => {
                if *answer != Answer::Refused("exists".into()) {
                    self.judge_change(worker, id, start, at, done, "regenerate");
                }
                self.decide(worker, at, decided, &[id, new]);
                self.moved(
                    worker,
                    id,
                    new,
                    (start, at),
                    if done { at + (grace_ms + GRACE_ROUNDING_MS) * MS } else { 0 },
                );
            }
            (Call::Release { .. }, _) => self.processes.entry(worker).or_default().held = None,
            (call, answer) => self.problem(format!("{call:?} was answered with {answer:?}: the harness is broken")),
        }
    }

    fn moved(&mut self, worker: usize, id: u64, new: u64, (start, at): (u64, u64), until: u64) {
        let leads = self.leads.entry(id).or_default();
        leads.retain(|lead| lead.until >= start);
        leads.iter_mut().filter(|lead| lead.new == new).for_each(|lead| lead.until = until);
        let held = self.processes.get(&worker).and_then(|process| process.held);
        if until == 0 {
            return;
        }
        if let Some(fence) = held.and_then(|held| held.grant).map(|grant| grant.fence) {
            let problem = self.session(new).grant(worker, fence, start, at);
            self.about(new, problem);
        }
        if let Some(held) = self.processes.get_mut(&worker).and_then(|process| process.held.as_mut()) {
            held.id = new;
        }
    }

    /// A change under a lease was made or refused: was that right?
    fn judge_change(&mut self, worker: usize, id: u64, start: u64, at: u64, done: bool, what: &str) {
        let Some(grant) = self.processes.get(&worker).and_then(|process| process.held).and_then(|held| held.grant)
        else {
            return;
        };
        let session = self.session(id);
        let problem = if done && (grant.lost || session.gone_under(&grant, start)) {
            Some(format!("a {what} was accepted after a log-out: a destroyed session is back"))
        } else if !done && !grant.voided && !session.gone_between(start, at) {
            Some(format!("a {what} under fence {} was refused although nobody took the session away", grant.fence))
        } else {
            None
        };
        self.about(id, problem);
    }

    /// The prober holds the old id of a move that was cut short, found nothing there, and nothing under the new.
    fn judge_move(&mut self, worker: usize, new: u64) {
        let held = self.processes.get(&worker).and_then(|process| process.held);
        let of = |cut: &Move| cut.new == new && held.is_some_and(|held| held.id == cut.id && worker == PROBER);
        let Some(Move { id, start, .. }) = self.moves.iter().copied().find(of) else { return };
        if !self.session(id).gone_otherwise(start) && !self.session(new).gone_otherwise(start) {
            self.about(id, Some("the record was lost when its holder was killed in regenerate".into()));
        }
    }

    fn saw(&mut self, id: u64, (content, version): (Content, u64), start: u64, end: u64, by: &'static str) {
        self.tally.reads += 1;
        match content {
            Content::Torn { bytes } => self.about(id, Some(format!("{by} found {bytes} torn bytes"))),
            Content::Sealed { counter, .. } if version != 0 && counter != version => {
                self.about(id, Some(format!("{by} found version {version} with the payload of version {counter}")));
            }
            _ => {}
        }
        if !matches!(content, Content::Torn { .. }) {
            self.session(id).read(Read { seen: Seen::Exactly(stored(content)), start, end, by });
        }
    }

    fn granted(&mut self, worker: usize, asked: u64, id: u64, fence: u64, start: u64, at: u64) {
        let problem = self.session(id).grant(worker, fence, start, at);
        self.about(id, problem);
        let (mine, rest): (Vec<Orphan>, Vec<Orphan>) =
            std::mem::take(&mut self.orphans).into_iter().partition(|orphan| orphan.id == id && orphan.since < at);
        self.orphans = rest;
        for orphan in mine {
            self.tally.steals += u64::from(orphan.sure);
            self.freed(&orphan, asked, (worker, start), at);
        }
    }

    fn timed_out(&mut self, id: u64, start: u64, at: u64) {
        self.tally.timeouts += 1;
        let long = self.stuck_ms_max * MS;
        let due = |orphan: &Orphan| orphan.id == id && at.saturating_sub(orphan.since.max(start)) > long;
        if let Some(orphan) = self.orphans.iter().find(|orphan| due(orphan)) {
            let orphan = Orphan { ..*orphan };
            self.freed(&orphan, id, (usize::MAX, start), at);
            self.orphans.retain(|other| other.id != id);
        }
    }

    /// How long the lock of a dead holder kept someone waiting. Time in which one of those who wanted it was
    /// stopped does not count: it may have had the lock, and its turn comes before that of the others.
    fn freed(&mut self, orphan: &Orphan, asked: u64, (worker, start): (usize, u64), at: u64) {
        let wants = |process: &Process| match process.call {
            Some((Call::Begin { id }, since)) if id == orphan.id || id == asked => Some(since),
            _ => None,
        };
        let first = self.processes.values().filter_map(wants).min().unwrap_or(u64::MAX).min(start);
        let from = orphan.since.max(first);
        let stopped: u64 = (self.processes.iter())
            .filter(|(number, process)| **number == worker || wants(process).is_some())
            .flat_map(|(_, process)| &process.stops)
            .map(|(begin, end)| (*end).min(at).saturating_sub((*begin).max(from)))
            .sum();
        let waited = at.saturating_sub(from).saturating_sub(stopped) as f64 / MS as f64;
        self.tally.freed_ms.push(waited);
        if waited > self.stuck_ms_max as f64 {
            self.about(orphan.id, Some(format!("the lock of a dead holder was stuck for {waited:.0} ms")));
        }
    }

    /// A process is dead and its pipe is empty. Returns what should be asked about the lock that it may have held.
    pub fn died(&mut self, worker: usize, killed_at: u64, dead_at: u64) -> Option<Errand> {
        let moved = matches!(self.held_content(worker), Stored::Token(_) | Stored::Empty);
        self.decide(worker, dead_at, Outcome::Maybe, &[]);
        let Process { call, held, .. } = self.processes.remove(&worker)?;
        let orphaned = |id, sure| Orphan { id, since: dead_at, sure };
        let mut left = None;
        if let Some(held) = held {
            let (grant, problem) = self.session(held.id).let_go(worker, killed_at);
            self.about(held.id, problem);
            left = Some(orphaned(held.id, grant.is_some_and(|grant| !grant.voided)));
        }
        if let Some((call, _)) = call {
            let reads = matches!(call, Call::Begin { .. } | Call::Peek { .. } | Call::Release { .. });
            self.tally.killed_in_change += u64::from(!reads);
            if let (Call::Begin { id } | Call::Run { id, .. }, None) = (call, &left) {
                // It may have had the lock and died before it could say so.
                left = Some(orphaned(id, false));
            }
            // Nobody can have been given the lock while the dead one may have had it.
            for orphan in self.orphans.iter_mut().filter(|orphan| orphan.id == call.id()) {
                orphan.since = orphan.since.max(dead_at);
            }
        }
        // An unanswered regeneration may lead on for its grace, which began at the latest now.
        for lead in self.leads.values_mut().flatten().filter(|lead| lead.by == worker && lead.until == u64::MAX) {
            lead.until = dead_at + 1_000 * MS;
        }
        let mut errand = left.as_ref().map(|orphan| Errand::Lock(orphan.id));
        if let (Some((Call::Regenerate { id, new, .. }, start)), true) = (call, moved) {
            self.moves.push(Move { id, new, start });
            errand = Some(Errand::Moved(id, new));
        }
        self.orphans.extend(left);
        errand
    }

    /// The end of a round that began at `round`: judges what ended before it.
    pub fn settle(&mut self, round: u64) {
        let calls: Vec<(u64, u64)> = self
            .processes
            .values()
            .filter_map(|process| process.call.map(|(call, start)| (call.id(), start)))
            .collect();
        let any = calls.iter().map(|(_, start)| *start).min().unwrap_or(u64::MAX);
        for id in std::mem::take(&mut self.unsettled) {
            // A one-off session may be reached through another id: whatever is under way may be about it.
            let own = || calls.iter().filter(|(of, _)| *of == id).map(|(_, start)| *start).min().unwrap_or(u64::MAX);
            let horizon = round.min(if id >= ONE_OFF { any } else { own() });
            let (wrong, left) = self.session_settled(id, round, horizon);
            wrong.into_iter().for_each(|problem| self.about(id, Some(problem)));
            if left {
                self.unsettled.insert(id);
            }
        }
        self.processes.values_mut().for_each(|process| process.heard_at = round);
    }

    fn session_settled(&mut self, id: u64, round: u64, horizon: u64) -> (Vec<String>, bool) {
        self.sessions.get_mut(&id).map_or((Vec::new(), false), |session| session.settle(round, horizon))
    }
}

fn stored(content: Content) -> Stored {
    match content {
        Content::Missing | Content::Torn { .. } => Stored::Missing,
        Content::Empty => Stored::Empty,
        Content::Sealed { token, .. } => Stored::Token(token),
    }
}

#[cfg(test)]
#[path = "checker_tests.rs"]
mod tests;
