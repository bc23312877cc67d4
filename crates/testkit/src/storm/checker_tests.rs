//! The checker alone, fed with events that no store made.

use super::*;

fn tell(checker: &mut Checker, worker: usize, at: u64, call: Call, answer: Option<Answer>) {
    checker.hear(worker, at, Event::Call(call));
    answer.into_iter().for_each(|answer| checker.hear(worker, at + 1, Event::Answer(answer)));
}

fn granted(fence: u64, content: Content) -> Option<Answer> {
    Some(Answer::Granted { id: 1, fence, content, version: 0 })
}

/// A holder is killed while its record moves from one id to the other; then both are looked at.
fn cut_short(log_out: bool, under_new: Content) -> Vec<String> {
    let mut checker = Checker::new(200);
    let sealed = Content::Sealed { id: 1, token: 9, counter: 1 };
    tell(&mut checker, 7, 10, Call::Create { id: 1, token: 9, ttl_ms: HOUR_MS }, Some(Answer::Done));
    tell(&mut checker, 7, 20, Call::Begin { id: 1 }, granted(5, sealed));
    tell(&mut checker, 7, 30, Call::Regenerate { id: 1, new: ONE_OFF, grace_ms: 0 }, None);
    if log_out {
        tell(&mut checker, 8, 32, Call::Destroy { id: 1 }, Some(Answer::Done));
    }
    assert_eq!(checker.died(7, 40, 50), Some(Errand::Moved(1, ONE_OFF)));
    tell(&mut checker, PROBER, 60, Call::Begin { id: 1 }, granted(6, Content::Missing));
    let found = Answer::Found { content: under_new, version: 0 };
    tell(&mut checker, PROBER, 70, Call::Peek { id: ONE_OFF }, Some(found));
    checker.settle(100);
    checker.tally.problems
}

#[test]
fn a_record_under_neither_id_after_a_kill_in_regenerate_is_lost_unless_someone_logged_out() {
    let lost = cut_short(false, Content::Missing);
    assert!(lost.iter().any(|problem| problem.contains("killed in regenerate")), "{lost:?}");
    assert_eq!(cut_short(false, Content::Sealed { id: 1, token: 9, counter: 1 }), Vec::<String>::new());
    assert_eq!(cut_short(true, Content::Missing), Vec::<String>::new());
}

/// Time in which one who wanted the lock was stopped says nothing about the store.
#[test]
fn a_lock_is_stuck_only_for_the_time_in_which_nobody_who_wanted_it_was_stopped() {
    let freed = |stop: Option<(u64, u64)>| {
        let mut checker = Checker::new(200);
        tell(&mut checker, 7, 20, Call::Begin { id: 1 }, granted(5, Content::Missing));
        assert_eq!(checker.died(7, 40, 50), Some(Errand::Lock(1)));
        tell(&mut checker, 8, 60, Call::Begin { id: 1 }, None);
        stop.into_iter().for_each(|(from, to)| checker.stopped(8, from, to));
        checker.hear(8, 500 * MS, Event::Answer(granted(6, Content::Missing).unwrap()));
        checker.settle(600 * MS);
        (checker.tally.steals, checker.tally.problems.len())
    };
    assert_eq!(freed(None), (1, 1));
    assert_eq!(freed(Some((100 * MS, 490 * MS))), (1, 0));
}
