//! `sessile bench faults` on real stores and servers: what a tier promises survives, and other
//! losses are shown.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod started;

use serde_json::Value;
use sessile_fixtures::ServerKind;
use started::{sessile, stderr};

fn missing(server: &str) -> bool {
    let missing = ServerKind::by_name(server).and_then(ServerKind::find).is_none();
    if missing {
        assert!(std::env::var_os("CI").is_none(), "{server} is not installed");
        eprintln!("SKIPPED: {server} is not installed");
    }
    missing
}

/// All rows of a run that must succeed.
fn rows(stores: &str, durability: &str) -> Vec<Value> {
    let brief =
        ["--quick", "--rounds", "3", "--duration", "0.2s", "--workers", "2", "--export-json", "-"];
    let output = sessile(
        &[&["bench", "faults", "--stores", stores, "--durability", durability][..], &brief]
            .concat(),
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    json["results"].as_array().unwrap().clone()
}

fn row<'a>(rows: &'a [Value], store: &str, op: &str) -> &'a Value {
    rows.iter().find(|row| row["store"] == store && row["op"] == op).unwrap()
}

#[test]
fn embedded_stores_lose_nothing_and_free_the_locks_of_the_dead() {
    let rows = rows("sessile,files#shm,sqlite,lmdb", "none");
    for row in rows.iter().filter(|row| row["store"] != "lmdb") {
        let faults = &row["faults"];
        assert!(
            faults["lost"] == 0 && faults["sessions_lost"] == 0 && faults["stuck"] == 0,
            "{row}"
        );
        assert!(
            faults["acknowledged"].as_u64() > Some(0) && faults["promise"] == "everything",
            "{row}"
        );
        assert!(
            row["op"] != "holder-killed" || row["latency_us"]["p50"].as_f64().unwrap() < 500_000.0,
            "{row}"
        );
    }
    // A futex does not know that its holder is dead. The row shows it and does not fail.
    let cheapest = &row(&rows, "lmdb", "holder-killed")["faults"];
    assert!(cheapest["stuck"] == 3 && cheapest["stuck_is_meant"] == true, "{cheapest}");
}

#[test]
fn what_memory_kept_is_gone_with_the_server_and_that_is_shown_but_no_fault() {
    if missing("memcached") {
        return;
    }
    let rows = rows("memcached,memcached-four-trips", "none");
    for store in ["memcached", "memcached-four-trips"] {
        let killed = row(&rows, store, "server-killed");
        let faults = &killed["faults"];
        assert!(faults["promise"] == "nothing" && faults["kills"] == 3, "{killed}");
        assert!(
            faults["sessions_lost"].as_u64() > Some(16),
            "all of two workers, more than once: {killed}"
        );
        assert!(faults["lost"].as_u64() > Some(0) && faults["lost_beyond"] == 0, "{killed}");
        assert!(faults["down_us"].as_f64().unwrap() > 0.0 && killed["lost"] == 0, "{killed}");
        // Their locks end after two seconds, of which a few milliseconds had passed.
        let held = row(&rows, store, "holder-killed");
        let waited = held["latency_us"]["p50"].as_f64().unwrap();
        assert!(
            held["faults"]["lock_ttl_ms"] == 2_000 && (500_000.0..3_500_000.0).contains(&waited),
            "{held}"
        );
    }
}

#[test]
fn in_the_most_durable_tier_a_killed_server_loses_nothing_that_was_acknowledged() {
    if missing("redis-server") {
        return;
    }
    let rows = rows("redis,redis-four-trips", "commit");
    for store in ["redis", "redis-four-trips"] {
        let killed = row(&rows, store, "server-killed");
        let faults = &killed["faults"];
        assert!(
            faults["promise"] == "everything"
                && faults["lost"] == 0
                && faults["sessions_lost"] == 0,
            "{killed}"
        );
        assert!(faults["acknowledged"].as_u64() > Some(0) && faults["failed"] == 0, "{killed}");
    }
    // The row without a way back is told more often.
    assert!(
        row(&rows, "redis-four-trips", "server-killed")["faults"]["refused"].as_u64() > Some(0)
    );
}

#[test]
fn a_standby_that_confirms_has_all_that_was_acknowledged_when_it_is_promoted() {
    if missing("postgres") {
        return;
    }
    let rows = rows("postgres#standby-confirmed", "commit");
    let promoted = row(&rows, "postgres", "standby-promoted");
    let faults = &promoted["faults"];
    assert!(faults["promise"] == "everything" && faults["kills"] == 3, "{promoted}");
    assert!(faults["lost"] == 0 && faults["sessions_lost"] == 0, "{promoted}");
    assert!(faults["acknowledged"].as_u64() > Some(0) && faults["stuck"] == 0, "{promoted}");
}
