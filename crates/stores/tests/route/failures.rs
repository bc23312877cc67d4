//! A store that does not answer: which one it is, and that nothing is lost.

use std::time::Duration;

use sessile_core::{Counter, ErrorKind};

use crate::setup::{
    LARGER_THAN, Pair, SMALL, WAIT, commit, hour, key, large, memcached, open, payload_of, route,
};

/// How an error of a save says it.
fn size_of(payload: &[u8]) -> String {
    format!(" ({} bytes, limit ", payload.len())
}

#[test]
fn a_large_store_that_is_down_is_named_and_small_sessions_go_on() {
    let Some((mut server, _kept, url)) = memcached(&[]) else { return };
    let pair = Pair::new();
    let store = open(&route(&pair.home_url(), &url));
    commit(&store, "small", SMALL);
    commit(&store, "large", &large(1));
    server.kill();
    let begun = store.begin(&key("small"), WAIT).unwrap();
    let error = begun.lease.commit(&large(2), hour()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unreachable);
    assert!(error.to_string().starts_with("memcached+unix:"), "{error}");
    assert_eq!(error.to_string().matches(&size_of(&large(2))).count(), 1, "{error}");
    assert_eq!(
        store.count(Counter::FailedSaves),
        1,
        "counted once, though two stores are concerned"
    );
    // The old value stands, and the lock is free.
    let begun = store.begin(&key("small"), Duration::ZERO).unwrap();
    assert_eq!(begun.record.unwrap().payload, SMALL);
    begun.lease.commit(b"smaller", hour()).unwrap();
    let created = store.create(&key("new"), &large(2), hour());
    for error in
        [store.peek(&key("large")).map(drop), store.begin(&key("large"), WAIT).map(drop), created]
    {
        let error = error.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Unreachable);
        assert!(error.to_string().contains("memcached+unix:"), "{error}");
    }
    assert_eq!(payload_of(&store, "new"), None);
    // A log-out does not wait for a store that is down.
    store.destroy(&key("large")).unwrap();
    assert_eq!(payload_of(&store, "large"), None);
}

/// The case of the theme registry: over 1 MB, refused by memcached, and lost by those who do not
/// look at the answer.
#[test]
fn what_memcached_refuses_goes_to_the_large_store_without_any_option() {
    let Some((_server, _kept, url)) = memcached(&[]) else { return };
    let pair = Pair::new();
    let plain = open(&url.replace("%2B", "+"));
    let store = open(&format!("route:?home={url}&large={}", pair.large_url()));
    let limit = usize::try_from(plain.limits().payload_bytes_max).unwrap();
    let over = vec![b'x'; limit + 1];
    let refused = plain.create(&key("a"), &over, hour()).unwrap_err();
    assert_eq!(
        refused.kind(),
        &ErrorKind::TooLarge { size: limit as u64 + 1, limit: limit as u64 }
    );
    for (id, length, parts) in [("at", limit, 0), ("over", limit + 1, 1), ("far", limit * 8, 2)] {
        commit(&store, id, &vec![b'y'; length]);
        assert_eq!(payload_of(&store, id).unwrap().len(), length);
        assert_eq!(pair.parts().len(), parts, "{length} bytes");
    }
    assert_eq!(store.limits().payload_bytes_max, pair.large().limits().payload_bytes_max);
}

#[test]
fn a_home_store_that_is_down_loses_nothing_and_keeps_what_may_have_been_stored() {
    let Some((mut server, _kept, url)) = memcached(&[]) else { return };
    let pair = Pair::new();
    let store = open(&route(&url, &pair.large_url()));
    commit(&store, "a", &large(1));
    let begun = store.begin(&key("a"), WAIT).unwrap();
    server.kill();
    let error = begun.lease.commit(&large(2), hour()).unwrap_err();
    // It is what was to be saved that counts, and not the stub of it that the home store could not
    // take.
    assert!(error.to_string().contains(&size_of(&large(2))), "{error}");
    assert_eq!(error.kind(), &ErrorKind::Unreachable);
    // Nobody can know whether the stub arrived, so neither payload may be removed.
    assert_eq!(pair.parts().len(), 2);
}

#[test]
fn a_payload_over_every_limit_is_refused_with_size_and_limit() {
    let pair = Pair::new();
    let store = open(&format!("{}&payload_bytes_max={}", pair.url(), LARGER_THAN * 2));
    commit(&store, "a", &large(1));
    let begun = store.begin(&key("a"), WAIT).unwrap();
    let refused = begun.lease.commit(&vec![b'x'; LARGER_THAN * 3], hour()).unwrap_err();
    let (size, limit) = (LARGER_THAN as u64 * 3, LARGER_THAN as u64 * 2);
    assert_eq!(refused.kind(), &ErrorKind::TooLarge { size, limit });
    assert_eq!(payload_of(&store, "a"), Some(large(1)));
}

/// `+` in an inner URL stood for a space: another directory, another password.
#[test]
fn a_plus_sign_in_an_inner_url_stays_one() {
    let pair = Pair::new();
    let store = open(&route(&format!("{}+b", pair.home_url()), &pair.large_url()));
    commit(&store, "a", SMALL);
    assert_eq!(payload_of(&open(&format!("{}+b", pair.home_url())), "a"), Some(SMALL.to_vec()));
}
