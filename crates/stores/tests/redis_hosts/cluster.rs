//! Slots and roles that move while requests go on.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use sessile_core::{ErrorKind, Filter};
use sessile_fixtures::{RedisCluster, RedisHost};
use sessile_stores::Context;

use crate::setup::{
    WAIT, cluster, failing_cluster, increment, key, number_of, open, payload_of, ttl, until,
};

pub fn slot_of(host: &RedisHost, id: &str) -> String {
    host.command(&["CLUSTER", "KEYSLOT", &format!("x{{session/{id}}}")]).unwrap()
}

/// The primary that serves a slot, by its own account.
pub fn owner(cluster: &RedisCluster, slot: &str) -> usize {
    let name = format!("{{{}}}", tag_in(slot));
    let serves = |at: &usize| cluster.hosts[*at].command(&["GET", &name]).is_ok();
    cluster.primaries().into_iter().find(serves).expect("somebody serves the slot")
}

/// Some text in the slot.
fn tag_in(slot: &str) -> String {
    let slot: u16 = slot.parse().unwrap();
    let mut tags = (0..1_000_000).map(|number| number.to_string());
    tags.find(|tag| crc16(tag.as_bytes()) % 16_384 == slot).unwrap()
}

fn crc16(bytes: &[u8]) -> u16 {
    let shift = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
    bytes.iter().fold(0, |crc, byte| (0..8).fold(crc ^ (u16::from(*byte) << 8), shift))
}

#[test]
fn a_cluster_is_one_store() {
    let Some(mut cluster) = cluster() else { return };
    let store = open(&cluster.url());
    let other = open(&cluster.url());
    let ids: Vec<String> = (0..60).map(|number| format!("s{number}")).collect();
    for id in &ids {
        increment(&store, id).unwrap();
        assert_eq!(number_of(payload_of(&other, id)), 1);
    }
    let filter = Filter { entries_max: 7, ..Filter::default() };
    let (mut listed, mut cursor) = (BTreeSet::new(), None);
    loop {
        let page = store.list(cursor.as_ref(), &filter).unwrap();
        assert!(page.entries.len() <= 7);
        listed.extend(page.entries.into_iter().map(|entry| entry.key.id().to_owned()));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(listed, ids.iter().cloned().collect());
    assert_eq!(store.stat().unwrap().sessions, 60);
    let plain = format!("redis://{}/", cluster.hosts[0].address());
    let error = sessile_stores::open(&plain, &Context::default()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unsupported);
    assert!(format!("{error:#}").contains("redis+cluster://"), "{error:#}");
    // Any server of the cluster leads to the others, also a replica.
    let last = format!("redis+cluster://{}/", cluster.hosts[5].address());
    assert_eq!(number_of(payload_of(&open(&last), "s7")), 1);
    regeneration_crosses_slots(&cluster);
    a_cluster_that_is_not_up_yet_is_waited_for(&mut cluster);
}

/// All servers restart while a request waits.
fn a_cluster_that_is_not_up_yet_is_waited_for(cluster: &mut RedisCluster) {
    let store = open(&format!("{}?response_timeout_ms=30000", cluster.url()));
    cluster.hosts.iter_mut().for_each(|host| host.server.kill());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| increment(&store, "first"));
        std::thread::sleep(Duration::from_millis(300));
        cluster.hosts.iter_mut().for_each(|host| host.server.restart().unwrap());
        waiting.join().unwrap().unwrap();
    });
}

fn regeneration_crosses_slots(cluster: &RedisCluster) {
    let store = open(&cluster.url());
    let other = open(&cluster.url());
    let grace = Duration::from_secs(30);
    for number in 0..20 {
        let (old, new) = (format!("old{number}"), format!("new{number}"));
        store.create(&key(&old), b"cart", ttl()).unwrap();
        let mut begun = store.begin(&key(&old), WAIT).unwrap();
        // A touch by somebody else comes between.
        other.touch(&key(&old), ttl()).unwrap();
        begun.lease.regenerate(&key(&new), grace).unwrap();
        let taken = other.begin(&key(&old), Duration::ZERO).unwrap_err();
        assert!(matches!(taken.kind(), ErrorKind::LockTimeout { .. }), "the lock moved, too");
        begun.lease.commit(b"cart, logged in", ttl()).unwrap();
        assert_eq!(payload_of(&other, &new).unwrap(), b"cart, logged in");
        // The old id leads on; a second regeneration of it is one of the session where it is now.
        let mut again = other.begin(&key(&old), WAIT).unwrap();
        assert_eq!(again.record.as_ref().unwrap().payload, b"cart, logged in");
        again.lease.regenerate(&key(&format!("third{number}")), grace).unwrap();
        again.lease.release().unwrap();
        assert_eq!(payload_of(&store, &old).unwrap(), b"cart, logged in");
        store.destroy(&key(&old)).unwrap();
        for id in [old, new, format!("third{number}")] {
            assert_eq!(payload_of(&store, &id), None, "{id}");
        }
    }
    // An id that is taken stays as it is, and so does the session that did not get it.
    store.create(&key("mine"), b"mine", ttl()).unwrap();
    store.create(&key("taken"), b"theirs", ttl()).unwrap();
    let mut begun = store.begin(&key("mine"), WAIT).unwrap();
    let refused = begun.lease.regenerate(&key("taken"), grace).unwrap_err();
    assert_eq!(refused.kind(), &ErrorKind::Exists);
    begun.lease.commit(b"mine, later", ttl()).unwrap();
    assert_eq!(payload_of(&store, "taken").unwrap(), b"theirs");
    // A lease that was destroyed leaves no copy behind.
    let mut begun = store.begin(&key("mine"), WAIT).unwrap();
    other.destroy(&key("mine")).unwrap();
    let refused = begun.lease.regenerate(&key("fresh"), grace).unwrap_err();
    assert_eq!(refused.kind(), &ErrorKind::Destroyed);
    assert_eq!(payload_of(&store, "fresh"), None);
    store.create(&key("fresh"), b"x", ttl()).expect("nor a lock");
}

/// All sessions of this test are in the slot that moves, there and back, while four threads work.
#[test]
fn a_slot_migrates_under_load_without_an_error() {
    let Some(cluster) = cluster() else { return };
    let slot = slot_of(&cluster.hosts[0], "s");
    // Ids of one slot: found by trying.
    let ids: Vec<String> = (0..4_000_000)
        .map(|number| format!("s{number}"))
        .filter(|id| {
            crc16(format!("session/{id}").as_bytes()) % 16_384 == slot.parse::<u16>().unwrap()
        })
        .take(16)
        .collect();
    let (stop, cycles, slowest) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    let moves = std::thread::scope(|scope| {
        for worker in 0..4 {
            let (ids, stop, cycles, slowest) = (&ids, &stop, &cycles, &slowest);
            let url = cluster.url();
            scope.spawn(move || {
                let store = open(&url);
                let mut last = vec![0; ids.len()];
                while !stop.load(SeqCst) {
                    let at = fastrand::usize(..ids.len());
                    let begun = Instant::now();
                    let fence = increment(&store, &ids[at]).unwrap_or_else(|error| {
                        panic!("worker {worker}: {error:#}");
                    });
                    let took = begun.elapsed().as_micros();
                    slowest.fetch_max(took.try_into().unwrap(), SeqCst);
                    assert!(fence > last[at], "fences grow: {} {fence}", last[at]);
                    last[at] = fence;
                    cycles.fetch_add(1, SeqCst);
                }
            });
        }
        let mut moves = 0;
        while moves < 2 || start.elapsed() < Duration::from_secs(3) {
            assert!(start.elapsed() < WAIT, "{moves} moves in {WAIT:?}");
            let from = owner(&cluster, &slot);
            let to = cluster.primaries().into_iter().find(|at| *at != from).unwrap();
            cluster.move_slot(&slot, from, to).unwrap();
            moves += 1;
        }
        stop.store(true, SeqCst);
        moves
    });
    let (cycles, slowest) = (cycles.into_inner(), slowest.into_inner());
    let rate = cycles as f64 / start.elapsed().as_secs_f64();
    println!("{moves} moves under {rate:.0} cycles a second, the slowest cycle took {slowest} us");
    let store = open(&cluster.url());
    let sum: u64 = ids.iter().map(|id| number_of(payload_of(&store, id))).sum();
    assert_eq!(sum, cycles, "no increment is lost");
}

#[test]
#[ignore = "takes half a minute: make failovers"]
fn a_killed_primary_costs_time_and_no_error() {
    let Some(mut cluster) = failing_cluster() else { return };
    // Longer than the failover.
    let store = open(&format!("{}?response_timeout_ms=30000", cluster.url()));
    let ids: Vec<String> = (0..30).map(|number| format!("s{number}")).collect();
    ids.iter().for_each(|id| assert!(increment(&store, id).is_ok()));
    let held = store.begin(&key("held"), WAIT).unwrap();
    let fence = held.lease.fence();
    let slot = slot_of(&cluster.hosts[0], "held");
    let victim = owner(&cluster, &slot);
    cluster.hosts[victim].command(&["WAIT", "1", "1000"]).unwrap();
    cluster.hosts[victim].server.kill();
    let start = Instant::now();
    for id in &ids {
        increment(&store, id).unwrap();
    }
    println!("served again after {:?}", start.elapsed());
    held.lease.commit(b"x", ttl()).unwrap();
    let next = store.begin(&key("held"), WAIT).unwrap();
    assert!(next.lease.fence() > fence);
    drop(next);
    cluster.hosts[victim].server.restart().unwrap();
    cluster.wait_until_whole().unwrap();
    ids.iter().for_each(|id| assert!(increment(&store, id).is_ok()));
    // Without its replicas a change is made and told as in doubt.
    let strict = open(&format!("{}?min_replicas=1&response_timeout_ms=2000", cluster.url()));
    increment(&strict, "strict").unwrap();
    let slot = slot_of(&cluster.hosts[0], "strict");
    let primary = owner(&cluster, &slot);
    let before = number_of(payload_of(&store, "strict"));
    let primaries = cluster.primaries();
    assert!(primaries.contains(&primary));
    for at in (0..6).filter(|at| !primaries.contains(at)) {
        cluster.hosts[at].server.freeze();
    }
    let told = increment(&strict, "strict");
    let doubted = strict.create(&key("doubted"), b"x", ttl());
    for host in &cluster.hosts {
        host.server.thaw();
    }
    let told = told.unwrap_err();
    assert_eq!(told.kind(), &ErrorKind::Unreachable);
    assert!(format!("{told:#}").contains("0 of 1 replicas"), "{told:#}");
    assert_eq!(doubted.unwrap_err().kind(), &ErrorKind::Unreachable);
    until("it was made all the same", || number_of(payload_of(&store, "strict")) == before + 1);
}

/// A lease whose regeneration was in doubt copied an alias over the session to which it led.
#[test]
fn a_regeneration_in_doubt_can_be_tried_again() {
    let Some(cluster) = cluster() else { return };
    let strict = open(&format!("{}?min_replicas=1&response_timeout_ms=2000", cluster.url()));
    let store = open(&cluster.url());
    let at = |id: &str| owner(&cluster, &slot_of(&cluster.hosts[0], id));
    let old = "old";
    let elsewhere = |id: &String| at(id) != at(old);
    let mut news = (0..).map(|number| format!("new{number}")).filter(elsewhere);
    let (new, other) = (news.next().unwrap(), news.next().unwrap());
    store.create(&key(old), b"cart", ttl()).unwrap();
    let mut begun = strict.begin(&key(old), WAIT).unwrap();
    // Nobody confirms the second of the two changes, which is made.
    let replica = &cluster.hosts[at(old) + 3];
    replica.server.freeze();
    let grace = Duration::from_secs(30);
    let told = begun.lease.regenerate(&key(&new), grace);
    replica.server.thaw(); // or it would not end in order
    let told = told.unwrap_err();
    assert!(format!("{told:#}").contains("0 of 1 replicas"), "{told:#}");
    assert_eq!(payload_of(&store, old).unwrap(), b"cart");
    let moved = begun.lease.regenerate(&key(&other), grace).unwrap_err();
    assert_eq!(moved.kind(), &ErrorKind::Stale, "it is at {new}");
    assert_eq!(payload_of(&store, &other), None);
    begun.lease.regenerate(&key(&new), grace).unwrap();
    begun.lease.commit(b"cart, logged in", ttl()).unwrap();
    for id in [old, &new] {
        assert_eq!(payload_of(&store, id).unwrap(), b"cart, logged in", "{id}");
    }
    fences_grow_over_a_regeneration(&cluster, &store, &new, old);
}

/// The clock of the server of the old id is ahead of the other one's.
fn fences_grow_over_a_regeneration(
    cluster: &RedisCluster,
    store: &sessile_core::Sessions,
    id: &str,
    old: &str,
) {
    let mut begun = store.begin(&key(id), WAIT).unwrap();
    begun.lease.release().unwrap();
    let slot = slot_of(&cluster.hosts[0], id);
    let host = &cluster.hosts[owner(cluster, &slot)];
    let counter = format!("sessile:fence:{{{}}}", tag_in(&slot));
    host.command(&["SET", &counter, "4000000000000005"]).unwrap();
    begun = store.begin(&key(id), WAIT).unwrap();
    let fence = begun.lease.fence();
    let new = format!("{old}-again");
    begun.lease.regenerate(&key(&new), Duration::from_secs(30)).unwrap();
    begun.lease.commit(b"x", ttl()).unwrap();
    assert!(store.begin(&key(&new), WAIT).unwrap().lease.fence() > fence);
}
