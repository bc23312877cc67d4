//! The parent's own account of what each session must contain.
//!
//! Invariant: an update is in it if and only if a worker has reported that the store acknowledged it. What a session contains
//! later is compared with that: a lower counter is so many lost updates, no session is all of them. A higher one is none:
//! a commit may arrive although its worker did not live to hear of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Findings;
use crate::report::Promise;
use crate::worker::faults::{Met, Step};

/// What is known of each session.
pub(super) struct Journal {
    sessions: BTreeMap<usize, Vec<Update>>,
    damaged: BTreeSet<usize>,
}

/// An acknowledged counter, and when that was. The lowest of a session is the session itself.
struct Update {
    counter: u64,
    asked_ns: u64,
    at_ns: u64,
}

/// What may explain a loss: something was killed, and what must survive that.
#[derive(Clone, Copy)]
pub(super) struct Kill {
    pub at_ns: u64,
    /// What is asked for after this is explained by no kill any more.
    pub over_ns: u64,
    pub promise: Promise,
}

impl Kill {
    /// Of workers, with their store in place: it explains nothing.
    pub(super) fn of_workers(at_ns: u64) -> Kill {
        Kill { at_ns, over_ns: at_ns, promise: Promise::Everything }
    }

    fn excuses(&self, update: &Update) -> bool {
        update.asked_ns <= self.over_ns && !self.promise.covers(update.at_ns, self.at_ns)
    }
}

impl Journal {
    /// Of sessions that were created, with the counter 0.
    pub(super) fn of(sessions: Range<usize>, at_ns: u64) -> Journal {
        let created = |session| (session, vec![Update { counter: 0, asked_ns: at_ns, at_ns }]);
        Journal { sessions: sessions.map(created).collect(), damaged: BTreeSet::new() }
    }

    /// Compares what a change found, and takes down what it had acknowledged.
    pub(super) fn change(&mut self, step: &Step, kill: Option<Kill>, found: &mut Findings) {
        self.look(step, kill, found);
        if let Some(restarted) = step.restarted {
            *found.faults.restarted.get_or_insert(0) += restarted;
        }
        let counter = match step.met {
            Met::Counter(counter) => counter + 1,
            Met::Nothing => 0,
            Met::Damaged | Met::Failed(_) => return,
        };
        found.faults.acknowledged += 1;
        self.sessions.entry(step.session).or_default().push(Update {
            counter,
            asked_ns: step.asked_ns,
            at_ns: step.ended_ns,
        });
    }

    /// Compares what is there with what must be. A failure says nothing about that.
    pub(super) fn look(&mut self, step: &Step, kill: Option<Kill>, found: &mut Findings) {
        let updates = self.sessions.entry(step.session).or_default();
        let kept = match step.met {
            Met::Counter(counter) => {
                updates.iter().rposition(|update| update.counter <= counter).map_or(0, |it| it + 1)
            }
            Met::Nothing => 0,
            Met::Damaged => {
                if self.damaged.insert(step.session) {
                    found.faults.damaged += 1;
                    found.first_error.get_or_insert_with(|| "a payload is not what was written".to_owned());
                }
                return;
            }
            Met::Failed(_) => return,
        };
        for (place, update) in updates.drain(kept..).enumerate() {
            let promised = kill.is_none_or(|kill| !kill.excuses(&update));
            let faults = &mut found.faults;
            let (lost, beyond) = if kept + place == 0 {
                (&mut faults.sessions_lost, &mut faults.sessions_lost_beyond)
            } else {
                (&mut faults.lost, &mut faults.lost_beyond)
            };
            *lost += 1;
            *beyond += u64::from(promised);
            if promised {
                found.first_error.get_or_insert_with(|| "what was acknowledged is not there".to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::report::Faults;

    fn findings() -> Findings {
        Findings { times_ns: Vec::new(), faults: Faults::default(), first_error: None }
    }

    fn step(at_s: u64, met: Met) -> Step {
        let ns = Duration::from_secs(at_s).as_nanos() as u64;
        Step { session: 3, asked_ns: ns, granted_ns: ns, ended_ns: ns, met, restarted: None }
    }

    /// A session that was created at 0 s, with updates acknowledged at 1, 2 and 3 s.
    fn journal() -> (Journal, Findings) {
        let (mut journal, mut found) = (Journal::of(3..4, 0), findings());
        for counter in 0..3 {
            journal.change(&step(counter + 1, Met::Counter(counter)), None, &mut found);
        }
        assert_eq!((found.faults.acknowledged, found.faults.lost, found.first_error.take()), (3, 0, None));
        (journal, found)
    }

    fn kill(at_ms: u64, promise: Promise) -> Option<Kill> {
        Some(Kill { at_ns: at_ms * 1_000_000, over_ns: (at_ms + 200) * 1_000_000, promise })
    }

    #[test]
    fn what_is_acknowledged_after_the_kill_is_promised_whatever_the_tier() {
        for promise in [Promise::Nothing, Promise::AllButTheLastSecond] {
            // Killed at 2.5 s: the update of 3 s came after it.
            let (mut journal, mut found) = journal();
            journal.look(&step(4, Met::Counter(1)), kill(2_500, promise), &mut found);
            assert_eq!((found.faults.lost, found.faults.lost_beyond), (2, 1), "{promise:?}");
        }
    }

    #[test]
    fn a_lower_counter_is_lost_updates_and_the_promise_says_which_of_them_are_a_fault() {
        let cases = [(Promise::Everything, 2), (Promise::AllButTheLastSecond, 1), (Promise::Nothing, 0)];
        for (promise, beyond) in cases {
            let (mut journal, mut found) = journal();
            journal.look(&step(4, Met::Counter(1)), kill(3_500, promise), &mut found);
            assert_eq!((found.faults.lost, found.faults.lost_beyond), (2, beyond), "{promise:?}");
            assert_eq!((found.faults.sessions_lost, found.first_error.is_some()), (0, beyond > 0), "{promise:?}");
            // Counted once; from there the session goes on.
            journal.change(&step(5, Met::Counter(1)), None, &mut found);
            journal.look(&step(6, Met::Counter(2)), None, &mut found);
            assert_eq!((found.faults.lost, found.faults.acknowledged), (2, 4));
        }
    }

    /// Our own store tries again too and counts nothing, which read as if it had never had to.
    #[test]
    fn transactions_that_were_done_again_are_summed_and_nobody_who_does_not_count_has_none() {
        let (mut journal, mut found) = journal();
        assert_eq!(found.faults.restarted, None);
        for restarted in [Some(0), Some(2), Some(3)] {
            journal.change(&Step { restarted, ..step(4, Met::Counter(3)) }, None, &mut found);
        }
        assert_eq!(found.faults.restarted, Some(5));
    }

    #[test]
    fn a_session_that_is_gone_takes_its_updates_along_and_may_start_anew() {
        let (mut journal, mut found) = journal();
        journal.change(&step(4, Met::Nothing), kill(3_500, Promise::Nothing), &mut found);
        assert_eq!((found.faults.sessions_lost, found.faults.lost), (1, 3));
        assert_eq!((found.faults.sessions_lost_beyond, found.faults.lost_beyond), (0, 0));
        journal.look(&step(5, Met::Nothing), None, &mut found);
        assert_eq!((found.faults.sessions_lost, found.faults.sessions_lost_beyond), (2, 1), "lost without a kill");
    }

    #[test]
    fn a_commit_whose_worker_did_not_live_to_hear_of_it_is_no_loss() {
        let (mut journal, mut found) = journal();
        journal.change(&step(4, Met::Counter(4)), None, &mut found);
        journal.look(&step(5, Met::Counter(5)), None, &mut found);
        assert_eq!((found.faults.lost, found.faults.acknowledged), (0, 4));
    }

    #[test]
    fn a_damaged_session_counts_once_and_a_failure_says_nothing() {
        let (mut journal, mut found) = journal();
        for _ in 0..2 {
            journal.change(&step(4, Met::Damaged), None, &mut found);
        }
        assert_eq!((found.faults.damaged, found.faults.lost, found.faults.acknowledged), (1, 0, 3));
    }
}
