//! The life of a large payload: written, replaced, touched, renamed, destroyed, expired.

use std::time::Duration;

use sessile_core::{Budget, Clock, Filter};
use sessile_stores::Context;

use crate::setup::{LARGER_THAN, Pair, SMALL, WAIT, commit, hour, key, large, payload_of, ttl};

const AMPLE: Budget = Budget { records_max: 10_000, time_max: Duration::from_secs(10) };

#[test]
fn a_payload_that_crosses_the_threshold_up_and_down_leaves_nothing_behind() {
    let pair = Pair::new();
    let store = pair.open();
    let mut version = 0;
    for (length, parts) in
        [(5, 0), (LARGER_THAN, 0), (LARGER_THAN + 1, 1), (LARGER_THAN * 9, 1), (3, 0), (2_000, 1)]
    {
        let payload = vec![b'x'; length];
        commit(&store, "a", &payload);
        let record = store.peek(&key("a")).unwrap().unwrap();
        assert_eq!((record.payload, record.head.version), (payload, version + 1), "{length} bytes");
        version = record.head.version;
        assert_eq!(pair.parts().len(), parts, "{length} bytes");
        let begun = store.begin(&key("a"), WAIT).unwrap();
        assert_eq!(begun.record.unwrap().payload.len(), length);
    }
}

#[test]
fn sizes_and_sums_are_those_of_the_payloads_and_not_of_the_stubs() {
    let pair = Pair::new();
    let store = pair.open();
    store.create(&key("a"), &large(1), hour()).unwrap();
    store.create(&key("b"), SMALL, hour()).unwrap();
    store.create(&key("c"), &[b'x'; 120], hour()).unwrap(); // as long as a stub
    let mut sizes: Vec<u64> = store
        .list(None, &Filter::default())
        .unwrap()
        .entries
        .iter()
        .map(|entry| entry.payload_bytes)
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [5, 120, LARGER_THAN as u64 + 2]);
    let least = Filter { payload_bytes_min: 500, ..Filter::default() };
    assert_eq!(store.list(None, &least).unwrap().entries.len(), 1);
    let stat = store.stat().unwrap();
    assert_eq!(
        (stat.sessions, stat.payload_bytes, stat.complete),
        (3, 127 + LARGER_THAN as u64, true)
    );
}

#[test]
fn a_log_out_removes_the_large_payload_and_refuses_the_late_commit() {
    let pair = Pair::new();
    let store = pair.open();
    commit(&store, "a", &large(1));
    let late = store.begin(&key("a"), WAIT).unwrap();
    store.destroy(&key("a")).unwrap();
    assert_eq!(pair.parts(), []);
    assert_eq!(late.lease.commit(&large(2), hour()).unwrap_err().kind().code(), "destroyed");
    assert_eq!(
        (pair.parts().len(), payload_of(&store, "a")),
        (1, None),
        "what it wrote ends by itself: no stub leads there"
    );
}

#[test]
fn a_new_id_takes_the_stub_along_and_copies_no_payload() {
    let pair = Pair::new();
    let store = pair.open();
    commit(&store, "old", &large(1));
    let parts = pair.parts();
    let mut begun = store.begin(&key("old"), WAIT).unwrap();
    begun.lease.regenerate(&key("new"), Duration::from_secs(60)).unwrap();
    begun.lease.release().unwrap();
    for id in ["old", "new"] {
        assert_eq!(payload_of(&store, id), Some(large(1)), "{id}");
    }
    assert_eq!(pair.parts(), parts);
    store.destroy(&key("old")).unwrap();
    assert_eq!((payload_of(&store, "new"), pair.parts()), (None, vec![]));
}

#[test]
fn a_touch_keeps_the_large_payload_for_as_long_as_its_stub() {
    for leased in [false, true] {
        let (pair, clock) = (Pair::new(), Clock::manual(Clock::system().now()));
        let store = pair.open_at(&clock);
        store.create(&key("a"), &large(1), ttl(60)).unwrap();
        if leased {
            store.begin(&key("a"), WAIT).unwrap().lease.touch(ttl(86_400)).unwrap();
        } else {
            store.touch(&key("a"), ttl(86_400)).unwrap();
        }
        clock.advance(Duration::from_secs(86_399));
        while !store.sweep(AMPLE).unwrap().complete {}
        assert_eq!(payload_of(&store, "a"), Some(large(1)), "leased: {leased}");
        clock.advance(Duration::from_secs(1));
        assert_eq!(payload_of(&store, "a"), None);
        assert_eq!(store.touch(&key("a"), hour()).unwrap_err().kind().code(), "gone");
    }
}

/// A touch for a minute came between the two steps of one for a day, and the session lost its
/// payload after eleven minutes.
#[test]
fn a_shorter_touch_leaves_the_large_payload_its_time() {
    for leased in [false, true] {
        let (pair, clock) = (Pair::new(), Clock::manual(Clock::system().now()));
        let store = pair.open_at(&clock);
        store.create(&key("a"), &large(1), ttl(86_400)).unwrap();
        if leased {
            store.begin(&key("a"), WAIT).unwrap().lease.touch(ttl(60)).unwrap();
        } else {
            store.touch(&key("a"), ttl(60)).unwrap();
        }
        // The second step of the longer one.
        sessile_stores::open(&pair.home_url(), &Context { clock: clock.clone() })
            .unwrap()
            .touch(&key("a"), ttl(86_400))
            .unwrap();
        clock.advance(Duration::from_secs(7_200));
        while !store.sweep(AMPLE).unwrap().complete {}
        assert_eq!(payload_of(&store, "a"), Some(large(1)), "leased: {leased}");
    }
}

#[test]
fn a_sweep_removes_the_session_and_later_its_payload_and_counts_one() {
    let (pair, clock) = (Pair::new(), Clock::manual(Clock::system().now()));
    let store = pair.open_at(&clock);
    store.create(&key("a"), &large(1), ttl(60)).unwrap();
    store.create(&key("b"), &large(2), hour()).unwrap();
    let pass = || {
        let mut removed = 0;
        loop {
            let swept = store.sweep(AMPLE).unwrap();
            removed += swept.removed;
            if swept.complete {
                return removed;
            }
        }
    };
    clock.advance(Duration::from_secs(60));
    assert_eq!((pass(), pair.parts().len()), (1, 2));
    clock.advance(Duration::from_secs(600));
    assert_eq!((pass(), pair.parts().len()), (0, 1));
    assert_eq!(payload_of(&store, "b"), Some(large(2)));
}
