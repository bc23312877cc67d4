//! What a run has put into a store of the user's, and takes out again.
//!
//! Invariant: whatever a crew was told to make there is taken down before it is told, and is removed after the crew has ended, in
//! whichever way that happens: when the result is written, before another crew starts, or with the run. Whoever waits is told what
//! for, and what was not removed is told. It asks new workers: those of the crew may have been killed, or may still be at work.
//! Only ids of the run are named to them, so what the user has in the store stays as it is.

use std::io::Write;
use std::ops::Range as Ids;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::interruption::clears_no_more;
use crate::progress::Progress;
use crate::redact;
use crate::worker::crew::Crew;
use crate::worker::process::{INTERRUPTED, Launch};
use crate::worker::protocol::{Action, Failure, Opening, Plan, Range, Request};

/// So many sessions are made, or removed, before anybody looks at a clock or at a signal.
pub(super) const PIECE: usize = 1_000;
/// A store that needs longer for a piece than this does not answer any more.
const PIECE_WITHIN: Duration = Duration::from_secs(120);

/// What crews that have ended have left in stores of the user's. Dropping it removes that, and says so on standard error: when the
/// result is written, because it takes as long again as it took to fill the stores.
#[derive(Default)]
#[must_use = "it is removed at once, while somebody may still wait for the result"]
pub struct Remains(Arc<Mutex<Vec<Leftovers>>>);

impl Remains {
    /// Removes it now.
    pub(crate) fn clear(&self) {
        let leftovers = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        drop(leftovers); // not under the lock: it may take minutes
    }
}

/// Sessions of a run in a store that is not its own.
pub(crate) struct Leftovers {
    launch: Launch,
    opening: Opening,
    /// So many workers remove them.
    workers: usize,
    title: String,
    hidden: Vec<(String, &'static str)>,
    /// Numbers of sessions that may be there: those that were filled in, and those that samples have made.
    filled: Vec<Ids<usize>>,
    sampled: Vec<Ids<usize>>,
    /// Where it goes when its crew has ended.
    remains: Weak<Mutex<Vec<Leftovers>>>,
}

impl Leftovers {
    /// None so far. `hidden` are places that no message shows.
    pub(crate) fn new(
        launch: &Launch,
        opening: &Opening,
        workers: usize,
        title: String,
        hidden: Vec<(String, &'static str)>,
        remains: &Remains,
    ) -> Leftovers {
        let (launch, opening, remains) = (launch.clone(), opening.clone(), Arc::downgrade(&remains.0));
        Leftovers { launch, opening, workers, title, hidden, filled: Vec::new(), sampled: Vec::new(), remains }
    }

    /// Its crew has ended. Who runs the experiment removes it; when there is nobody any more it is removed here.
    pub(super) fn hand_over(self) {
        if let Some(remains) = self.remains.upgrade() {
            remains.lock().unwrap_or_else(PoisonError::into_inner).push(self);
        }
    }

    /// Takes down what a request may make. There is no line for all the others: a new request belongs into one of these.
    pub(super) fn expect(&mut self, request: &Request) {
        match request {
            Request::Fill(range) => self.fill(range.from..range.to),
            Request::Sample(plan) => self.sample(fresh_of(plan)),
            Request::Save(save) => self.sample(save.session..save.session + 1),
            // They change, read and remove what is there. Those of `faults` make anew what they miss of it.
            Request::Go { .. }
            | Request::Churn(_)
            | Request::Verify(_)
            | Request::Destroy(_)
            | Request::Sweep
            | Request::Fault(_)
            | Request::Stop => {}
        }
    }

    /// A sample has ended, and has made only so many of its ids.
    pub(super) fn sampled(&mut self, plan: &Plan, created: usize) {
        let fresh = fresh_of(plan);
        if let Some(made) = self.sampled.iter_mut().rfind(|made| **made == fresh) {
            made.end = made.end.min(made.start + created);
        }
    }

    /// Ranges that follow each other become one, and what other workers fill of the same range is known already.
    fn fill(&mut self, ids: Ids<usize>) {
        if self.is_known(&ids) {
            return;
        }
        match self.filled.last_mut() {
            Some(last) if last.end == ids.start => last.end = ids.end,
            _ => self.filled.push(ids),
        }
    }

    fn sample(&mut self, ids: Ids<usize>) {
        if !self.is_known(&ids) {
            self.sampled.push(ids);
        }
    }

    fn is_known(&self, ids: &Ids<usize>) -> bool {
        ids.is_empty() || self.made().any(|made| made.start <= ids.start && ids.end <= made.end)
    }

    fn made(&self) -> impl Iterator<Item = &Ids<usize>> {
        self.filled.iter().chain(&self.sampled)
    }

    fn count(&self) -> usize {
        self.made().map(ExactSizeIterator::len).sum()
    }

    /// Removes them, piece by piece, and says how many may remain, and why.
    fn remove(&self) -> Result<(), (usize, String)> {
        let mut left = self.count();
        let (mut failed, mut why) = (0, String::new());
        let progress = Progress::new(None);
        progress.expect_more(self.made().map(|ids| ids.len().div_ceil(PIECE)).sum());
        progress.say(&format!("{}: remove this run's own sessions", self.title));
        let opened = Crew::open(&self.launch, &self.opening, self.workers, None, clears_no_more);
        let mut crew = opened.map_err(|failure| (left, self.reason(failure)))?;
        for ids in self.made() {
            for from in ids.clone().step_by(PIECE) {
                let piece = Range::whole(&(from..ids.end.min(from + PIECE)));
                let removed = crew.ask(self.workers, piece, &Request::Destroy, PIECE_WITHIN, clears_no_more);
                let done = removed.map_err(|failure| (left + failed, self.reason(failure)))?;
                left -= piece.to - piece.from;
                failed += usize::try_from(done.errors).unwrap_or(usize::MAX);
                if let Some(message) = done.first_error.filter(|_| why.is_empty()) {
                    why = redact::message(&message, &self.hidden);
                }
                progress.step();
            }
        }
        if failed == 0 { Ok(()) } else { Err((failed, why)) }
    }

    fn reason(&self, failure: Failure) -> String {
        if failure.code == INTERRUPTED {
            return "there was no time left to remove them".to_owned();
        }
        redact::message(&failure.message, &self.hidden)
    }
}

fn fresh_of(plan: &Plan) -> Ids<usize> {
    match plan.action {
        Action::Create | Action::Stream | Action::Request(_) => plan.fresh.clone(),
        Action::Read | Action::Cycle | Action::Begin | Action::StartWithSweep => 0..0,
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        let sessions = self.count();
        if sessions == 0 {
            return;
        }
        // One write: it does not mix with lines of others. Nobody can be told when it fails.
        let line = format!("removing {sessions} sessions from {} (this run's own)\n", self.title);
        let _ = std::io::stderr().write_all(line.as_bytes());
        if let Err((left, why)) = self.remove() {
            log::warn!(
                "{}: up to {left} sessions of the benchmark remain: {why}; they expire within {} minutes, and after that \
                 `sessile gc` with its URL removes them, where the store does not do so by itself",
                self.title,
                self.opening.ttl.as_secs().div_ceil(60)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spread::Spread;
    use crate::worker::protocol::What;

    fn leftovers(remains: &Remains) -> Leftovers {
        let launch = Launch { program: "false".into(), arguments: Vec::new() };
        let what = What::Store { url: "files:/nowhere".to_owned(), reconnects: false };
        let (ttl, spread) = (Duration::from_secs(60), Spread::Fixed);
        let opening = Opening { what, worker: 0, seed: 1, ids: 9, payload_bytes: 9, spread, ttl, lock_ttl: None };
        Leftovers::new(&launch, &opening, 1, "files".to_owned(), Vec::new(), remains)
    }

    /// It was removed with the crew, and the result had to wait for that.
    #[test]
    fn what_a_crew_leaves_waits_for_who_runs_the_experiment_and_is_gone_when_it_is_cleared() {
        let remains = Remains::default();
        let waiting = |remains: &Remains| remains.0.lock().unwrap().len();
        leftovers(&remains).hand_over();
        leftovers(&remains).hand_over();
        assert_eq!(waiting(&remains), 2);
        remains.clear();
        assert_eq!(waiting(&remains), 0);
        let late = leftovers(&remains);
        drop(remains);
        late.hand_over(); // nobody is there, and this ends all the same
    }

    #[test]
    fn what_may_be_there_is_known_and_no_more() {
        let mut leftovers = leftovers(&Remains::default());
        let fill = |from, to| Request::Fill(Range { step: 2, ..Range::whole(&(from..to)) });
        for (from, to) in [(0, 1_000), (1, 1_000), (1_000, 1_500), (1_001, 1_500)] {
            leftovers.expect(&fill(from, to));
        }
        assert_eq!(format!("{:?}", leftovers.filled), "[0..1500]");
        let plan = |action, fresh| Plan { fresh, ..Plan::of(action) };
        let (first, second) = (plan(Action::Create, 1_500..3_000), plan(Action::Create, 3_000..9_000));
        leftovers.expect(&Request::Sample(first.clone()));
        leftovers.expect(&Request::Sample(second));
        leftovers.expect(&Request::Sample(plan(Action::Cycle, 9_000..9_500)));
        leftovers.sampled(&first, 7); // the second one never answers
        assert_eq!(leftovers.sampled, [1_500..1_507, 3_000..9_000]);
        // A stream meets ids that were filled in. What it does not meet of them is there all the same.
        let stream = plan(Action::Stream, 9_500..9_700);
        leftovers.expect(&fill(9_500, 9_700));
        leftovers.expect(&Request::Sample(stream.clone()));
        leftovers.sampled(&stream, 3);
        assert_eq!(leftovers.filled, [0..1_500, 9_500..9_700]);
        assert_eq!(leftovers.sampled, [1_500..1_507, 3_000..9_000]);
        (leftovers.filled, leftovers.sampled) = (Vec::new(), Vec::new()); // there is no such store
    }
}
