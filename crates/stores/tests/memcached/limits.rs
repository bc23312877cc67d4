//! Items that are too large, and servers that are full.

use std::time::Duration;

use sessile_core::{Counter, ErrorKind};

use crate::setup::{Private, WAIT, key, payload_of, ttl};

/// Around the limit, again and again: a server that refuses a `set` drops the item that it was to
/// replace.
#[test]
fn a_payload_over_the_item_limit_is_refused_loudly_and_the_old_one_stays_in_100_of_100_trials() {
    // Lowered, the default, and raised, where the server keeps an item in several pieces.
    let settings = [["-I", "512k"], ["-I", "1m"], ["-I", "2m"]];
    std::thread::scope(|scope| {
        settings.iter().for_each(|settings| drop(scope.spawn(|| try_the_limit(settings))));
    });
}

fn try_the_limit(settings: &[&str]) {
    let Some(private) = Private::start(settings) else { return };
    let store = private.open();
    let most = store.limits().payload_bytes_max as usize;
    assert!((200_000..2 << 20).contains(&most), "{settings:?}: {most}");
    for trial in 0..100 {
        let id = format!("{trial:0>182}"); // the longest there is
        let (old, over) = (most - trial % 3, most + 1 + trial * 37);
        store.create(&key(&id), &vec![1; old], ttl()).unwrap();
        let begun = store.begin(&key(&id), WAIT).unwrap();
        let error = begun.lease.commit(&vec![2; over], ttl()).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::TooLarge { size: over as u64, limit: most as u64 });
        let begun = store.begin(&key(&id), Duration::ZERO).expect("the lock is free");
        assert_eq!(
            begun.record.map(|record| record.payload.len()),
            Some(old),
            "{settings:?}, trial {trial}"
        );
        begun.lease.commit(&vec![3; most], ttl()).unwrap();
        assert_eq!(payload_of(&store, &id).map(|new| (new.len(), new[0])), Some((most, 3)));
        store.destroy(&key(&id)).unwrap();
    }
    assert_eq!(store.count(Counter::TooLarge), 100);
}

#[test]
fn a_small_server_pushes_sessions_out_and_no_update_is_lost_silently() {
    let Some(private) = Private::start(&["-m", "2"]) else { return };
    let store = private.open();
    store.create(&key("victim"), &[1; 1_500], ttl()).unwrap();
    let begun = store.begin(&key("victim"), WAIT).unwrap();
    for number in 0.. {
        store.create(&key(&format!("filler{number}")), &[2; 1_500], ttl()).unwrap();
        // To look with mg would count as a use.
        if number % 100 == 0 && private.say("me sessile:d:session/victim") == "EN" {
            break;
        }
        assert!(number < 100_000, "nothing is pushed out");
    }
    assert!(private.statistic("evictions") > 0);
    assert_eq!(begun.lease.commit(&[3; 1_500], ttl()).unwrap_err().kind(), &ErrorKind::Evicted);
    assert_eq!(payload_of(&store, "victim"), None, "one that was pushed out reads as missing");
    store.begin(&key("victim"), WAIT).unwrap().lease.commit(b"anew", ttl()).unwrap();
}

#[test]
fn a_full_server_that_may_not_push_out_refuses_saves_keeps_the_old_payload_and_still_logs_out() {
    let Some(private) = Private::start(&["-m", "4", "-M"]) else { return };
    let store = private.open();
    for id in ["a", "b"] {
        store.create(&key(id), b"old", ttl()).unwrap();
    }
    let begun = store.begin(&key("a"), WAIT).unwrap();
    let large = vec![7; 200_000];
    let full = (0..1_000)
        .map(|number| store.create(&key(&format!("filler{number}")), &large, ttl()))
        .find_map(Result::err);
    let told = format!(" (200000 bytes, limit {} bytes): ", store.limits().payload_bytes_max);
    for full in
        [full.expect("the server is never full"), begun.lease.commit(&large, ttl()).unwrap_err()]
    {
        assert!(
            full.kind() == &ErrorKind::OutOfMemory && full.to_string().contains(&told),
            "{full}"
        );
    }
    assert_eq!(payload_of(&store, "a").unwrap(), b"old");
    store
        .begin(&key("a"), WAIT)
        .expect("a failed commit gives up the lock")
        .lease
        .release()
        .unwrap();
    store.destroy(&key("b")).unwrap();
    assert_eq!(payload_of(&store, "b"), None);
}
