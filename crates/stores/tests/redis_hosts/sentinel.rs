//! The primary that sentinels name, before and after a failover.

use std::time::{Duration, Instant};

use sessile_core::ErrorKind;
use sessile_stores::Context;

use crate::setup::{increment, key, number_of, open, payload_of, sentinels, until};

#[test]
fn the_primary_is_found_again_after_a_failover_also_by_a_quiet_worker() {
    let Some(mut set) = sentinels() else { return };
    let long = format!("{}?response_timeout_ms=30000", set.url());
    let (store, quiet) = (open(&long), open(&set.url()));
    let fence = increment(&store, "a").unwrap();
    increment(&quiet, "a").unwrap();
    let first = set.primary().unwrap();
    set.hosts[first].command(&["WAIT", "1", "2000"]).unwrap();
    // The old primary dies: the next request waits for its successor.
    set.hosts[first].server.kill();
    let start = Instant::now();
    assert!(increment(&store, "a").unwrap() > fence, "fences go on");
    println!("served again after {:?}", start.elapsed());
    assert_eq!(number_of(payload_of(&store, "a")), 3);
    set.hosts[first].server.restart().unwrap();
    until("the old primary is a replica", || {
        set.hosts[first].command(&["ROLE"]).is_ok_and(|role| role.starts_with("slave"))
    });
    set.wait_until_whole().unwrap();
    // The old primary lives on, cut off from its sentinels, and takes what a worker sends that
    // does not ask them: here, because it is made a primary behind their back.
    assert_eq!(number_of(payload_of(&quiet, "a")), 3);
    let second = set.primary().unwrap();
    for sentinel in &set.sentinels {
        sentinel.server.freeze();
    }
    set.hosts[first].command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    for sentinel in &set.sentinels {
        // What a failover leaves behind, for a sentinel that has just heard of it.
        sentinel.server.thaw();
        let port = set.hosts[first].port.to_string();
        sentinel.command(&["SENTINEL", "REMOVE", "shop"]).unwrap();
        sentinel.command(&["SENTINEL", "MONITOR", "shop", "127.0.0.1", &port, "2"]).unwrap();
    }
    assert_ne!(first, second);
    std::thread::sleep(Duration::from_millis(1_100)); // it has been quiet for a second
    increment(&quiet, "a").unwrap();
    let at = |host: usize| {
        let name = ["STRLEN", "sessile:d:{session/a}"];
        let _ = set.hosts[host].command(&name).unwrap();
        set.hosts[host].command(&["GETRANGE", "sessile:d:{session/a}", "58", "58"]).unwrap()
    };
    assert_eq!(at(first).as_bytes(), [4], "the increment is on the new primary");
}

#[test]
fn sentinels_that_do_not_know_the_name_are_told() {
    let Some(set) = sentinels() else { return };
    let url = set.url().replace("/shop", "/shoe");
    let error = sessile_stores::open(&url, &Context::default()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unreachable);
    assert!(format!("{error:#}").contains("no primary of this name"), "{error:#}");
    // One sentinel that is dead costs little, and all of them nothing while a connection works.
    let store = open(&set.url());
    increment(&store, "a").unwrap();
    for sentinel in &set.sentinels {
        sentinel.server.freeze();
    }
    std::thread::sleep(Duration::from_millis(1_100)); // they are asked once in a second
    let start = Instant::now();
    increment(&store, "a").unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert!(store.peek(&key("a")).unwrap().is_some());
    for sentinel in &set.sentinels {
        sentinel.server.thaw(); // or they would not end in order
    }
}
