//! The sessions of a run in a store of the user, and their removal.
//!
//! Invariant: ids are recorded before workers are asked to create them. They are removed after
//! those workers have ended: when the result is written, before the next workers start, or at the
//! end of the run. New workers do that, because the old ones may be dead or busy. They get only ids
//! of the run, so the user's sessions stay. Standard error reports the removal and what was not
//! removed.

use std::io::Write;
use std::ops::Range as Ids;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::interruption::out_of_time_to_clear;
use crate::progress::Progress;
use crate::redact;
use crate::worker::group::WorkerGroup;
use crate::worker::process::{INTERRUPTED, Launch};
use crate::worker::protocol::{
    ContenderFailure, OpenRequest, SampleAction, SamplePlan, SessionRange, WorkerRequest,
};

/// Sessions that are created or removed between two checks of the clock and of signals.
pub(super) const PIECE: usize = 1_000;
/// A store that takes longer for a piece is considered dead.
const PIECE_WITHIN: Duration = Duration::from_secs(120);

/// The recorded sessions of workers that have ended. Dropping it removes them and reports that on
/// standard error. That takes as long as the filling, so the result is written first.
#[derive(Default)]
#[must_use = "it is removed at once, while somebody may still wait for the result"]
pub struct PendingCleanup(Arc<Mutex<Vec<CreatedSessions>>>);

impl PendingCleanup {
    pub(crate) fn clear(&self) {
        let created_sessions =
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        drop(created_sessions); // outside the lock: it may take minutes
    }
}

pub(crate) struct CreatedSessions {
    launch: Launch,
    opening: OpenRequest,
    workers: usize,
    title: String,
    hidden: Vec<(String, &'static str)>,
    /// Ids that may be there.
    made: Vec<Ids<usize>>,
    /// Receives this after the workers have ended.
    cleanup: Weak<Mutex<Vec<CreatedSessions>>>,
}

impl CreatedSessions {
    /// `hidden` paths appear in no message.
    pub(crate) fn new(
        launch: &Launch,
        opening: &OpenRequest,
        workers: usize,
        title: String,
        hidden: Vec<(String, &'static str)>,
        cleanup: &PendingCleanup,
    ) -> CreatedSessions {
        let (launch, opening, cleanup) =
            (launch.clone(), opening.clone(), Arc::downgrade(&cleanup.0));
        CreatedSessions { launch, opening, workers, title, hidden, made: Vec::new(), cleanup }
    }

    /// The workers have ended. Without a running experiment, the drop removes the sessions here.
    pub(super) fn hand_over(self) {
        if let Some(cleanup) = self.cleanup.upgrade() {
            cleanup.lock().unwrap_or_else(PoisonError::into_inner).push(self);
        }
    }

    /// Records what a request may create. The match is exhaustive, so that a new request is decided
    /// here.
    pub(super) fn record_request(&mut self, request: &WorkerRequest) {
        match request {
            WorkerRequest::Fill(range) => self.record(range.from..range.to, true),
            WorkerRequest::Sample(plan) => self.record(fresh_of(plan), false),
            WorkerRequest::Save(save) => self.record(save.session..save.session + 1, false),
            // These create nothing, but those of `faults` may recreate what they miss.
            WorkerRequest::Go { .. }
            | WorkerRequest::EndSample(_)
            | WorkerRequest::Verify(_)
            | WorkerRequest::Destroy(_)
            | WorkerRequest::Sweep
            | WorkerRequest::Fault(_)
            | WorkerRequest::Stop => {}
        }
    }

    /// Keeps only the ids that a sample has created.
    pub(super) fn trim_sample(&mut self, plan: &SamplePlan, created: usize) {
        let fresh = fresh_of(plan);
        if let Some(made) = self.made.iter_mut().rfind(|made| **made == fresh) {
            made.end = made.end.min(made.start + created);
        }
    }

    /// Skips ids that are recorded already. Sessions that are filled in piece by piece become one
    /// range.
    fn record(&mut self, ids: Ids<usize>, joins: bool) {
        let is_part = |made: &Ids<usize>| made.start <= ids.start && ids.end <= made.end;
        if ids.is_empty() || self.made.iter().any(is_part) {
            return;
        }
        match self.made.last_mut() {
            Some(last) if joins && last.end == ids.start => last.end = ids.end,
            _ => self.made.push(ids),
        }
    }

    fn count(&self) -> usize {
        self.made.iter().map(ExactSizeIterator::len).sum()
    }

    /// Removes the sessions in pieces. The error says how many may remain, and why.
    fn remove(&self) -> Result<(), (usize, String)> {
        let mut left = self.count();
        let (mut failed, mut why) = (0, String::new());
        let progress = Progress::new(None);
        progress.expect_more(self.made.iter().map(|ids| ids.len().div_ceil(PIECE)).sum());
        progress.set_message(&format!("{}: remove this run's own sessions", self.title));
        let opened = WorkerGroup::open(
            &self.launch,
            &self.opening,
            self.workers,
            None,
            out_of_time_to_clear,
        );
        let mut group = opened.map_err(|failure| (left, self.reason(failure)))?;
        for ids in &self.made {
            for from in ids.clone().step_by(PIECE) {
                let piece = SessionRange::whole(&(from..ids.end.min(from + PIECE)));
                let removed = group.run_piece(
                    self.workers,
                    piece,
                    &WorkerRequest::Destroy,
                    PIECE_WITHIN,
                    out_of_time_to_clear,
                );
                let done = removed.map_err(|failure| (left + failed, self.reason(failure)))?;
                left -= piece.to - piece.from;
                failed += usize::try_from(done.errors).unwrap_or(usize::MAX);
                if let Some(message) = done.first_error.filter(|_| why.is_empty()) {
                    why = redact::message(&message, &self.hidden);
                }
                progress.advance();
            }
        }
        if failed == 0 { Ok(()) } else { Err((failed, why)) }
    }

    fn reason(&self, failure: ContenderFailure) -> String {
        if failure.code == INTERRUPTED {
            return "there was no time left to remove them".to_owned();
        }
        redact::message(&failure.message, &self.hidden)
    }
}

fn fresh_of(plan: &SamplePlan) -> Ids<usize> {
    match plan.action {
        SampleAction::Create | SampleAction::Request(_) => plan.fresh.clone(),
        SampleAction::Read
        | SampleAction::Cycle
        | SampleAction::Begin
        | SampleAction::StartWithSweep => 0..0,
    }
}

impl Drop for CreatedSessions {
    fn drop(&mut self) {
        let sessions = self.count();
        if sessions == 0 {
            return;
        }
        // One write does not mix with other output. Its failure cannot be reported.
        let line = format!("removing {sessions} sessions from {} (this run's own)\n", self.title);
        let _ = std::io::stderr().write_all(line.as_bytes());
        if let Err((left, why)) = self.remove() {
            log::warn!(
                "{}: up to {left} sessions of the benchmark remain: {why}; they expire within {} \
                 minutes, and after that \
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
    use crate::payload_spread::PayloadSpread;
    use crate::worker::protocol::ContenderSpec;

    fn created_sessions(cleanup: &PendingCleanup) -> CreatedSessions {
        let launch = Launch { program: "false".into(), arguments: Vec::new() };
        let what = ContenderSpec::Store { url: "files:/nowhere".to_owned(), reconnects: false };
        let (ttl, spread) = (Duration::from_secs(60), PayloadSpread::Fixed);
        let opening = OpenRequest {
            contender: what,
            worker: 0,
            seed: 1,
            ids: 9,
            payload_bytes: 9,
            spread,
            ttl,
            lock_ttl: None,
        };
        CreatedSessions::new(&launch, &opening, 1, "files".to_owned(), Vec::new(), cleanup)
    }

    /// It was once removed with the workers, and the result had to wait for that.
    #[test]
    fn what_a_group_leaves_waits_for_the_cleanup_of_the_run() {
        let cleanup = PendingCleanup::default();
        let waiting = |cleanup: &PendingCleanup| cleanup.0.lock().unwrap().len();
        created_sessions(&cleanup).hand_over();
        created_sessions(&cleanup).hand_over();
        assert_eq!(waiting(&cleanup), 2);
        cleanup.clear();
        assert_eq!(waiting(&cleanup), 0);
        let late = created_sessions(&cleanup);
        drop(cleanup);
        late.hand_over(); // nobody is there, and this ends all the same
    }

    #[test]
    fn what_may_be_there_is_recorded_and_no_more() {
        let mut created_sessions = created_sessions(&PendingCleanup::default());
        let fill = |from, to| {
            WorkerRequest::Fill(SessionRange { step: 2, ..SessionRange::whole(&(from..to)) })
        };
        for (from, to) in [(0, 1_000), (1, 1_000), (1_000, 1_500), (1_001, 1_500)] {
            created_sessions.record_request(&fill(from, to));
        }
        assert_eq!(format!("{:?}", created_sessions.made), "[0..1500]");
        let plan = |action, fresh| SamplePlan { fresh, ..SamplePlan::new(action) };
        let (first, second) =
            (plan(SampleAction::Create, 1_500..3_000), plan(SampleAction::Create, 3_000..9_000));
        created_sessions.record_request(&WorkerRequest::Sample(first.clone()));
        created_sessions.record_request(&WorkerRequest::Sample(second));
        created_sessions
            .record_request(&WorkerRequest::Sample(plan(SampleAction::Cycle, 9_000..9_500)));
        created_sessions.trim_sample(&first, 7); // the second one never answers
        assert_eq!(created_sessions.made, [0..1_500, 1_500..1_507, 3_000..9_000]);
        // Its drop must not look for the store, which does not exist.
        created_sessions.made.clear();
    }
}
