//! A stub leads to the payload for which it was written, or to an error that says what is wrong.
//! Never to other bytes.

use sessile_core::{ErrorKind, Sessions};

use crate::setup::{
    LARGER_THAN, Pair, SMALL, WAIT, commit, hour, key, large, open, payload_of, route,
};

fn is_corrupt_and_stays(store: &Sessions, id: &str) -> String {
    for _ in 0..2 {
        assert_eq!(
            store.begin(&key(id), WAIT).unwrap_err().kind(),
            &ErrorKind::Corrupt,
            "and the lock is not held"
        );
    }
    let error = store.peek(&key(id)).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Corrupt);
    format!("{error:#}")
}

#[test]
fn a_stale_payload_under_a_newer_stub_is_an_error() {
    let pair = Pair::new();
    let store = pair.open();
    commit(&store, "a", &large(1));
    let part = pair.parts().remove(0);
    // The store of large payloads comes back from a backup: the same name, older bytes of the same
    // length.
    let mut other = large(1);
    other[500] ^= 1;
    pair.large().begin(&part, WAIT).unwrap().lease.commit(&other, hour()).unwrap();
    is_corrupt_and_stays(&store, "a");
    store.destroy(&key("a")).unwrap();
    commit(&store, "a", &large(2));
    assert_eq!(payload_of(&store, "a"), Some(large(2)));
}

#[test]
fn the_stub_of_one_version_with_the_payload_of_another_is_an_error() {
    let pair = Pair::new();
    let (store, home, large_store) = (pair.open(), pair.home(), pair.large());
    commit(&store, "a", &large(1));
    let old_stub = payload_of(&home, "a").unwrap();
    commit(&store, "a", &large(2));
    let new_stub = payload_of(&home, "a").unwrap();
    assert_ne!(old_stub, new_stub);
    // The home store comes back from a backup.
    commit(&home, "a", &old_stub);
    let told = is_corrupt_and_stays(&store, "a");
    assert!(told.contains("not in its store any more") && told.contains("files:"), "{told}");
    commit(&home, "a", &new_stub);
    assert_eq!(payload_of(&store, "a"), Some(large(2)));
    // Two sessions whose payloads were swapped.
    commit(&store, "b", &large(3));
    let parts = pair.parts();
    let read = |key| large_store.peek(key).unwrap().unwrap().payload;
    let (first, second) = (read(&parts[0]), read(&parts[1]));
    for (part, payload) in [(&parts[0], second), (&parts[1], first)] {
        large_store.begin(part, WAIT).unwrap().lease.commit(&payload, hour()).unwrap();
    }
    is_corrupt_and_stays(&store, "a");
    is_corrupt_and_stays(&store, "b");
}

#[test]
fn a_damaged_stub_is_an_error_and_a_log_out_is_rid_of_it() {
    let pair = Pair::new();
    let (store, home) = (pair.open(), pair.home());
    commit(&store, "a", &large(1));
    let mut stub = payload_of(&home, "a").unwrap();
    stub[40] ^= 1;
    commit(&home, "a", &stub);
    is_corrupt_and_stays(&store, "a");
    assert_eq!(
        store.list(None, &Default::default()).unwrap().entries.len(),
        1,
        "one damaged record hides no other"
    );
    store.destroy(&key("a")).unwrap();
    assert_eq!(payload_of(&store, "a"), None);
}

#[test]
fn the_store_of_a_running_site_becomes_a_home_store_and_no_payload_passes_for_a_stub() {
    let pair = Pair::new();
    let home = pair.home();
    commit(&home, "a", SMALL);
    commit(&home, "b", &vec![b'x'; LARGER_THAN * 2]);
    let store = pair.open();
    assert_eq!(payload_of(&store, "a").unwrap(), SMALL);
    assert_eq!(payload_of(&store, "b").unwrap().len(), LARGER_THAN * 2);
    commit(&store, "b", &large(1));
    let stub = payload_of(&home, "b").unwrap();
    // A visitor who found out what a stub looks like stores one as his own data.
    commit(&store, "c", &stub);
    assert_eq!(payload_of(&store, "c").unwrap(), stub);
    commit(&store, "c", &payload_of(&home, "c").unwrap());
    assert_eq!(payload_of(&store, "c").unwrap().len(), stub.len() + 16);
}

#[test]
fn a_url_with_another_large_store_says_where_the_payload_was_written() {
    let pair = Pair::new();
    commit(&pair.open(), "a", &large(1));
    let elsewhere = format!("files:{}/other", pair.dir.path().display());
    let told = is_corrupt_and_stays(&open(&route(&pair.home_url(), &elsewhere)), "a");
    assert!(told.contains("written to files:") && told.contains("/large"), "{told}");
    let bins = format!("route:?home={}&bins=cache&bins_in={elsewhere}", pair.home_url());
    let error = open(&bins).peek(&key("a")).unwrap_err();
    assert!(error.to_string().contains("large="), "{error}");
}
