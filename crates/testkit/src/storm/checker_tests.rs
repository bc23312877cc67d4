//! The checker alone, fed with events that no store made.

use super::*;
use crate::sealed::Seal;

const SEALED: SeenPayload = SeenPayload::Sealed(Seal { session: 1, token: 9, counter: 1 });

fn observe(
    checker: &mut Checker,
    worker: usize,
    at: u64,
    (id, call): (u64, StoreCall),
    result: Option<CallResult>,
) {
    checker.observe(worker, at, WorkerEvent::Call(id, call));
    if let Some(result) = result {
        checker.observe(worker, at + 1, WorkerEvent::Result(result));
    }
}

fn granted(fence: u64, payload: SeenPayload) -> CallResult {
    CallResult::Granted { id: 1, fence, seen: SeenRecord { payload, version: 0 } }
}

/// A holder is killed while its record moves from one id to the other; then both are looked at.
fn cut_short(log_out: bool, under_new: SeenPayload) -> Vec<String> {
    let mut checker = Checker::new(200);
    let create = Create { token: 9, ttl_ms: HOUR_MS };
    observe(&mut checker, 7, 10, (1, create), Some(CallResult::Done));
    observe(&mut checker, 7, 20, (1, Begin), Some(granted(5, SEALED)));
    let regenerate = Regenerate { new: ONE_OFF, grace_ms: 0 };
    observe(&mut checker, 7, 30, (1, regenerate), None);
    if log_out {
        observe(&mut checker, 8, 32, (1, Destroy), Some(CallResult::Done));
    }
    assert_eq!(checker.died(7, 40, 50), Some(ProbeRequest::Moved(1, ONE_OFF)));
    let nothing = granted(6, SeenPayload::Missing);
    observe(&mut checker, PROBER, 60, (1, Begin), Some(nothing));
    let found = CallResult::Found(SeenRecord { payload: under_new, version: 0 });
    observe(&mut checker, PROBER, 70, (ONE_OFF, Peek), Some(found));
    checker.judge(100);
    checker.counts.problems
}

#[test]
fn a_record_under_neither_id_after_a_kill_in_regenerate_is_lost_unless_someone_logged_out() {
    let lost = cut_short(false, SeenPayload::Missing);
    assert!(lost.iter().any(|problem| problem.contains("killed in regenerate")), "{lost:?}");
    assert_eq!(cut_short(false, SEALED), Vec::<String>::new());
    assert_eq!(cut_short(true, SeenPayload::Missing), Vec::<String>::new());
}

/// Time in which a client that wanted the lock was stopped says nothing about the store.
#[test]
fn a_lock_is_stuck_only_for_the_time_in_which_nobody_who_wanted_it_was_stopped() {
    let freed = |stop: Option<(u64, u64)>| {
        let mut checker = Checker::new(200);
        observe(&mut checker, 7, 20, (1, Begin), Some(granted(5, SeenPayload::Missing)));
        assert_eq!(checker.died(7, 40, 50), Some(ProbeRequest::Lock(1)));
        observe(&mut checker, 8, 60, (1, Begin), None);
        stop.into_iter().for_each(|(from, to)| checker.stopped(8, from, to));
        checker.observe(8, 500 * MS, WorkerEvent::Result(granted(6, SeenPayload::Missing)));
        checker.judge(600 * MS);
        (checker.counts.steals, checker.counts.problems.len())
    };
    assert_eq!(freed(None), (1, 1));
    assert_eq!(freed(Some((100 * MS, 490 * MS))), (1, 0));
}
