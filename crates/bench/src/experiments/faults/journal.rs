//! The parent's own account of the content that each session must have.
//!
//! Invariant: an update is in it if and only if a worker has reported its acknowledgement. A lower
//! counter in the store is as many lost updates; no session is the loss of all. A higher counter is
//! no loss: a commit may succeed although its worker dies first.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use sessile_results::DurabilityPromise;

use super::FaultFindings;
use crate::worker::faults::{FoundContent, SessionAccess};

pub(super) struct Journal {
    sessions: BTreeMap<usize, Vec<AcknowledgedUpdate>>,
    damaged: BTreeSet<usize>,
}

/// An acknowledged counter. The lowest one of a session is its creation.
struct AcknowledgedUpdate {
    counter: u64,
    asked_ns: u64,
    at_ns: u64,
}

/// What may excuse a loss.
#[derive(Clone, Copy)]
pub(super) struct Kill {
    pub at_ns: u64,
    /// Updates asked for after this have no excuse.
    pub over_ns: u64,
    pub promise: DurabilityPromise,
}

impl Kill {
    fn excuses(&self, update: &AcknowledgedUpdate) -> bool {
        update.asked_ns <= self.over_ns && !self.promise.covers(update.at_ns, self.at_ns)
    }
}

impl Journal {
    /// The sessions were created with counter 0.
    pub(super) fn new(sessions: Range<usize>, at_ns: u64) -> Journal {
        let created =
            |session| (session, vec![AcknowledgedUpdate { counter: 0, asked_ns: at_ns, at_ns }]);
        Journal { sessions: sessions.map(created).collect(), damaged: BTreeSet::new() }
    }

    /// Compares the counter that a change found, and records its acknowledgement.
    pub(super) fn record_change(
        &mut self,
        access: &SessionAccess,
        kill: Option<Kill>,
        found: &mut FaultFindings,
    ) {
        self.compare(access, kill, found);
        if let Some(restarted) = access.restarted {
            *found.faults.restarted.get_or_insert(0) += restarted;
        }
        let counter = match access.found {
            FoundContent::Counter(counter) => counter + 1,
            FoundContent::Nothing => 0,
            FoundContent::Damaged | FoundContent::Failed(_) => return,
        };
        found.faults.acknowledged += 1;
        self.sessions.entry(access.session).or_default().push(AcknowledgedUpdate {
            counter,
            asked_ns: access.asked_ns,
            at_ns: access.ended_ns,
        });
    }

    /// A failure says nothing about the content.
    pub(super) fn compare(
        &mut self,
        access: &SessionAccess,
        kill: Option<Kill>,
        found: &mut FaultFindings,
    ) {
        let updates = self.sessions.entry(access.session).or_default();
        let kept = match access.found {
            FoundContent::Counter(counter) => {
                updates.iter().rposition(|update| update.counter <= counter).map_or(0, |it| it + 1)
            }
            FoundContent::Nothing => 0,
            FoundContent::Damaged => {
                if self.damaged.insert(access.session) {
                    found.faults.damaged += 1;
                    found
                        .first_error
                        .get_or_insert_with(|| "a payload is not what was written".to_owned());
                }
                return;
            }
            FoundContent::Failed(_) => return,
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
                found
                    .first_error
                    .get_or_insert_with(|| "what was acknowledged is not there".to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use sessile_results::Faults;

    fn findings() -> FaultFindings {
        FaultFindings { times_ns: Vec::new(), faults: Faults::default(), first_error: None }
    }

    fn access(at_s: u64, found: FoundContent) -> SessionAccess {
        let ns = Duration::from_secs(at_s).as_nanos() as u64;
        SessionAccess {
            session: 3,
            asked_ns: ns,
            granted_ns: ns,
            ended_ns: ns,
            found,
            restarted: None,
        }
    }

    /// A session that was created at 0 s, with updates acknowledged at 1, 2 and 3 s.
    fn journal() -> (Journal, FaultFindings) {
        let (mut journal, mut found) = (Journal::new(3..4, 0), findings());
        for counter in 0..3 {
            journal.record_change(
                &access(counter + 1, FoundContent::Counter(counter)),
                None,
                &mut found,
            );
        }
        assert_eq!(
            (found.faults.acknowledged, found.faults.lost, found.first_error.take()),
            (3, 0, None)
        );
        (journal, found)
    }

    fn kill(at_ms: u64, promise: DurabilityPromise) -> Option<Kill> {
        Some(Kill { at_ns: at_ms * 1_000_000, over_ns: (at_ms + 200) * 1_000_000, promise })
    }

    #[test]
    fn what_is_acknowledged_after_the_kill_is_promised_whatever_the_tier() {
        for promise in [DurabilityPromise::Nothing, DurabilityPromise::AllButTheLastSecond] {
            // Killed at 2.5 s: the update of 3 s came after it.
            let (mut journal, mut found) = journal();
            journal.compare(&access(4, FoundContent::Counter(1)), kill(2_500, promise), &mut found);
            assert_eq!((found.faults.lost, found.faults.lost_beyond), (2, 1), "{promise:?}");
        }
    }

    #[test]
    fn a_lower_counter_is_lost_updates_and_the_promise_says_which_of_them_are_a_fault() {
        let cases = [
            (DurabilityPromise::Everything, 2),
            (DurabilityPromise::AllButTheLastSecond, 1),
            (DurabilityPromise::Nothing, 0),
        ];
        for (promise, beyond) in cases {
            let (mut journal, mut found) = journal();
            journal.compare(&access(4, FoundContent::Counter(1)), kill(3_500, promise), &mut found);
            assert_eq!((found.faults.lost, found.faults.lost_beyond), (2, beyond), "{promise:?}");
            assert_eq!(
                (found.faults.sessions_lost, found.first_error.is_some()),
                (0, beyond > 0),
                "{promise:?}"
            );
            // Counted once; from there the session goes on.
            journal.record_change(&access(5, FoundContent::Counter(1)), None, &mut found);
            journal.compare(&access(6, FoundContent::Counter(2)), None, &mut found);
            assert_eq!((found.faults.lost, found.faults.acknowledged), (2, 4));
        }
    }

    /// Our own store tries again too and counts nothing, which read as if it had never had to.
    #[test]
    fn repeated_transactions_are_summed_and_absent_where_they_are_not_counted() {
        let (mut journal, mut found) = journal();
        assert_eq!(found.faults.restarted, None);
        for restarted in [Some(0), Some(2), Some(3)] {
            journal.record_change(
                &SessionAccess { restarted, ..access(4, FoundContent::Counter(3)) },
                None,
                &mut found,
            );
        }
        assert_eq!(found.faults.restarted, Some(5));
    }

    #[test]
    fn a_session_that_is_gone_takes_its_updates_along_and_may_start_anew() {
        let (mut journal, mut found) = journal();
        journal.record_change(
            &access(4, FoundContent::Nothing),
            kill(3_500, DurabilityPromise::Nothing),
            &mut found,
        );
        assert_eq!((found.faults.sessions_lost, found.faults.lost), (1, 3));
        assert_eq!((found.faults.sessions_lost_beyond, found.faults.lost_beyond), (0, 0));
        journal.compare(&access(5, FoundContent::Nothing), None, &mut found);
        assert_eq!(
            (found.faults.sessions_lost, found.faults.sessions_lost_beyond),
            (2, 1),
            "lost without a kill"
        );
    }

    #[test]
    fn a_commit_whose_worker_died_before_the_answer_is_no_loss() {
        let (mut journal, mut found) = journal();
        journal.record_change(&access(4, FoundContent::Counter(4)), None, &mut found);
        journal.compare(&access(5, FoundContent::Counter(5)), None, &mut found);
        assert_eq!((found.faults.lost, found.faults.acknowledged), (0, 4));
    }

    #[test]
    fn a_damaged_session_counts_once_and_a_failure_says_nothing() {
        let (mut journal, mut found) = journal();
        for _ in 0..2 {
            journal.record_change(&access(4, FoundContent::Damaged), None, &mut found);
        }
        assert_eq!((found.faults.damaged, found.faults.lost, found.faults.acknowledged), (1, 0, 3));
    }
}
