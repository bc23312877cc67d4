//! Histories that no store may have, each beside one that it may: the checker tells them apart.

use super::checker::{Answer, Call, Event, explain};

fn event(number: u64, (start, end): (u64, u64), call: Call, answer: Answer) -> Event {
    Event { number, call, answer: Some(answer), start, end }
}

fn granted(number: u64, span: (u64, u64), fence: u64, seen: Option<u64>) -> Event {
    event(number, span, Call::Begin, Answer::Granted { fence, seen })
}

fn commit(span: (u64, u64), lease: u64, tag: u64) -> Event {
    event(90, span, Call::Commit { lease, tag }, Answer::Done)
}

fn peek(span: (u64, u64), seen: Option<u64>) -> Event {
    event(91, span, Call::Peek, Answer::Seen(seen))
}

fn destroy(span: (u64, u64)) -> Event {
    event(92, span, Call::Destroy, Answer::Done)
}

fn refused(span: (u64, u64), lease: u64) -> Event {
    event(93, span, Call::Commit { lease, tag: 9 }, Answer::Refused)
}

fn both(broken: &[Event], sound: &[Event], what: &str) {
    assert!(explain(broken.to_vec()).is_err(), "{what}: is not noticed");
    explain(sound.to_vec()).unwrap_or_else(|why| panic!("{what}: {why}"));
}

pub fn prove_that_the_checker_can_fail() {
    reads();
    locks();
}

fn reads() {
    let begun = granted(1, (1, 2), 5, None);
    both(
        &[begun, commit((3, 4), 1, 7), peek((5, 6), None)],
        &[begun, commit((3, 6), 1, 7), peek((5, 6), None)],
        "an acknowledged write is lost",
    );
    both(
        &[begun, commit((5, 6), 1, 7), peek((3, 4), Some(7))],
        &[begun, commit((3, 6), 1, 7), peek((3, 4), Some(7))],
        "a read from the future",
    );
    both(
        &[begun, commit((3, 4), 1, 7), peek((5, 6), Some(8))],
        &[begun, commit((3, 4), 1, 7), peek((5, 6), Some(7))],
        "a payload that nobody wrote",
    );
    both(
        &[begun, commit((3, 4), 1, 7), destroy((5, 6)), peek((7, 8), Some(7))],
        &[begun, commit((3, 4), 1, 7), destroy((5, 7)), peek((6, 8), Some(7))],
        "a destroyed session is back",
    );
    // Two reads in turn that see two writes in opposite order.
    let second = granted(2, (5, 6), 6, Some(7));
    both(
        &[
            begun,
            commit((3, 4), 1, 7),
            second,
            commit((7, 20), 2, 8),
            peek((8, 9), Some(8)),
            peek((10, 11), Some(7)),
        ],
        &[
            begun,
            commit((3, 4), 1, 7),
            second,
            commit((7, 20), 2, 8),
            peek((8, 9), Some(7)),
            peek((10, 11), Some(8)),
        ],
        "an older payload after a newer one",
    );
    let killed = Event { answer: None, ..commit((3, u64::MAX), 1, 7) };
    both(
        &[begun, killed, peek((4, 5), Some(7)), peek((6, 7), None)],
        &[begun, killed, peek((4, 5), None), peek((6, 7), Some(7))],
        "the commit of a killed process, seen and lost",
    );
}

fn locks() {
    let begun = granted(1, (1, 2), 5, None);
    both(
        &[begun, granted(2, (3, 4), 6, None), commit((5, 6), 1, 7)],
        &[begun, granted(2, (3, 8), 6, Some(7)), commit((5, 6), 1, 7)],
        "two hold one session",
    );
    both(
        &[begun, destroy((3, 4)), commit((5, 6), 1, 7)],
        &[begun, destroy((3, 6)), commit((5, 6), 1, 7)],
        "a commit after a log-out",
    );
    both(
        &[begun, refused((3, 4), 1)],
        &[begun, refused((3, 5), 1), destroy((4, 6))],
        "a commit that is refused without a log-out",
    );
    both(
        &[begun, commit((3, 4), 1, 7), granted(2, (5, 6), 5, Some(7))],
        &[begun, commit((3, 4), 1, 7), granted(2, (5, 6), 6, Some(7))],
        "a fence that does not grow",
    );
}
