//! Whether the history of one session can be explained: by some order of its calls, each at one
//! moment between its beginning and its end, that a register with a lock would answer in the same
//! way (Wing and Gong, "Testing and Verifying Concurrent Objects", 1993).
//!
//! The register: `begin` gets the lock and a fence greater than all before when nobody has it, then
//! what is stored; `commit` stores and gives the lock back, and is refused exactly if a `destroy`
//! came since, which may be between the two; `create` stores where nothing is. A call of a process
//! that was killed has its effect at some later moment, or never.

use std::collections::HashSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Begin,
    /// The second half of a `begin`, made of it here: the lock was taken before. Its number is that
    /// of the `begin`.
    ReadUnderLock,
    /// Under the lease of that `begin`.
    Commit {
        lease: u64,
        tag: u64,
    },
    Release {
        lease: u64,
    },
    Peek,
    Create {
        tag: u64,
    },
    Destroy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Granted { fence: u64, seen: Option<u64> },
    Seen(Option<u64>),
    Done,
    Refused,
}

/// The lease of a `begin` is its number.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub number: u64,
    pub call: Call,
    /// None: its process was killed.
    pub answer: Option<Answer>,
    pub start: u64,
    pub end: u64,
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Hash)]
struct Register {
    value: Option<u64>,
    holder: Option<u64>,
    fence: u64,
}

impl Register {
    /// What it is after a call with this answer; `None` when it would answer in another way.
    fn after(self, event: &Event) -> Option<Register> {
        let Register { value, holder, fence } = self;
        let is_free = holder.is_none();
        let answer = event.answer.unwrap_or(Answer::Done);
        match (event.call, answer) {
            (Call::Begin, _) if event.answer == Some(Answer::Refused) => Some(self),
            (Call::Begin, Answer::Granted { fence: granted, .. }) => (is_free && granted > fence)
                .then_some(Register { holder: Some(event.number), fence: granted, ..self }),
            (Call::Begin, _) => is_free.then_some(Register { holder: Some(event.number), ..self }),
            (Call::ReadUnderLock, Answer::Granted { seen, .. }) => (seen == value).then_some(self),
            (Call::Commit { lease, tag }, Answer::Done) => (holder == Some(lease))
                .then_some(Register { value: Some(tag), holder: None, ..self }),
            (Call::Commit { lease, .. }, _) => (holder != Some(lease)).then_some(self),
            (Call::Release { lease }, _) if holder == Some(lease) => {
                Some(Register { holder: None, ..self })
            }
            (Call::Peek, Answer::Seen(seen)) => (seen == value).then_some(self),
            (Call::Create { tag }, Answer::Done) => {
                (is_free && value.is_none()).then_some(Register { value: Some(tag), ..self })
            }
            (Call::Destroy, _) => Some(Register { value: None, holder: None, ..self }),
            _ => Some(self),
        }
    }
}

/// How far the calls are placed, and what the register is then.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Place {
    /// All before this one are placed, and these of the later ones, in their order.
    first: usize,
    later: Vec<usize>,
    /// Of the calls without an answer, a bit each.
    used: u64,
    register: Register,
}

impl Place {
    fn and(&self, at: usize, register: Register) -> Place {
        let mut place = Place { register, ..self.clone() };
        let sorted = place.later.partition_point(|later| *later < at);
        place.later.insert(sorted, at);
        let next = place.later.iter().zip(place.first..);
        let passed = next.take_while(|(later, first)| *later == first).count();
        place.later.drain(..passed);
        place.first += passed;
        place
    }
}

#[derive(Default)]
struct Search {
    /// With an answer, and without one, by their beginning.
    answered: Vec<Event>,
    cut: Vec<Event>,
    seen: HashSet<Place>,
    furthest: usize,
}

impl Search {
    /// Whether the rest can be placed; of the calls without an answer any may be left out.
    fn is_explained(&mut self, place: &Place) -> bool {
        let Place { first, used, register, .. } = *place;
        if first == self.answered.len() {
            return true;
        }
        self.furthest = self.furthest.max(first);
        if !self.seen.insert(place.clone()) {
            return false;
        }
        // What begins after another one has ended cannot be placed before it.
        let mut until = u64::MAX;
        let mut next = Vec::new();
        for (at, event) in self.answered.iter().enumerate().skip(first) {
            if event.start > until {
                break;
            }
            if place.later.binary_search(&at).is_err() {
                until = until.min(event.end);
                next.push((at, *event));
            }
        }
        // A `begin` reads after it has the lock.
        let is_before = |at: usize| at < first || place.later.binary_search(&at).is_ok();
        let is_next = |at: usize, event: &Event| {
            let same = |other: &Event| other.number == event.number;
            event.call != Call::ReadUnderLock
                || self.answered[..at].iter().rposition(same).is_some_and(is_before)
        };
        next.retain(|(at, event)| event.start <= until && is_next(*at, event));
        let after = |(at, event): &(usize, Event)| {
            let after = place.and(*at, register.after(event)?);
            Some((after, event.call == Call::Destroy))
        };
        let next: Vec<(Place, bool)> = next.iter().filter_map(after).collect();
        // What changes nothing can as well be placed at once, but for a destroy, which might later.
        let same = |(next, destroys): &&(Place, bool)| next.register == register && !destroys;
        if let Some((same, _)) = next.iter().find(same) {
            return self.is_explained(same);
        }
        if next.iter().any(|(next, _)| self.is_explained(next)) {
            return true;
        }
        (0..self.cut.len()).any(|at| {
            let event = self.cut[at];
            let may_be = used >> at & 1 == 0 && event.start <= until;
            let after = register.after(&event).filter(|after| may_be && *after != register);
            let used = used | 1 << at;
            after.is_some_and(|register| {
                self.is_explained(&Place { used, register, ..place.clone() })
            })
        })
    }
}

/// The error has the calls around the first one that fits nowhere.
pub fn explain(mut events: Vec<Event>) -> Result<(), String> {
    let begun = |event: &&Event| event.call == Call::Begin;
    let reads =
        events.iter().filter(begun).map(|begun| Event { call: Call::ReadUnderLock, ..*begun });
    events.extend(reads.collect::<Vec<_>>());
    events.sort_by_key(|event| event.start);
    let (answered, cut) = events.into_iter().partition(|event| event.answer.is_some());
    let mut search = Search { answered, cut, ..Search::default() };
    assert!(search.cut.len() <= 64, "so many killed processes are not meant");
    if search.is_explained(&Place::default()) {
        return Ok(());
    }
    let (from, to) = (search.furthest.saturating_sub(12), search.furthest + 12);
    let around = &search.answered[from..to.min(search.answered.len())];
    let lines: Vec<String> =
        around.iter().chain(&search.cut).map(|event| format!("\n{event:?}")).collect();
    Err(format!("no order explains{}", lines.concat()))
}
