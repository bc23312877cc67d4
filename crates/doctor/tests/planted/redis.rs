//! Faults of a Redis server.

use sessile_core::Durability;
use sessile_doctor::Examination;

use crate::started::{codes, directory, filled, server};

fn found(arguments: &[&str], change: impl Fn(&mut Examination)) -> Option<Vec<&'static str>> {
    let instance = server("redis", arguments)?;
    let mut examination = Examination::new(instance.url());
    change(&mut examination);
    Some(codes(&examination))
}

#[test]
fn a_redis_that_evicts_is_found() {
    let Some(found) = found(&["--maxmemory-policy", "allkeys-lru"], |_| {}) else { return };
    assert_eq!(found, ["redis-evicts"]);
}

/// A site that goes back to phpredis: the server gets all its sessions.
#[test]
fn a_redis_that_evicts_is_found_behind_the_new_store_of_a_move() {
    let dir = directory();
    let from = format!("files:{}/old", dir.path().display());
    filled(&from);
    let Some(instance) = server("redis", &["--maxmemory-policy", "allkeys-lru"]) else { return };
    let found = |from: &str, to: &str| {
        let examination = Examination::new(format!("migrate:?from={from}&to={to}"));
        codes(&examination).contains(&"redis-evicts")
    };
    let php = format!("php+{}", instance.url());
    assert!(found(&from, &php));
    assert!(!found(&php, &from), "sessions leave it");
}

#[test]
fn a_redis_without_a_limit_of_memory_is_found() {
    let Some(found) = found(&["--maxmemory", "0"], |_| {}) else { return };
    assert_eq!(found, ["redis-memory-unlimited"]);
}

#[test]
fn a_redis_that_is_nearly_full_is_found() {
    let Some(found) = found(&["--maxmemory", "900kb"], |_| {}) else { return };
    assert_eq!(found, ["redis-nearly-full"]);
}

#[test]
fn a_redis_with_long_ticks_is_found() {
    let Some(found) = found(&["--hz", "10"], |_| {}) else { return };
    assert_eq!(found, ["redis-hz"]);
}

#[test]
fn a_redis_that_is_a_replica_is_found() {
    let Some(found) = found(&["--replicaof", "127.0.0.1", "1"], |_| {}) else { return };
    assert_eq!(found, ["redis-replica"]);
}

#[test]
fn a_redis_without_a_log_is_found_if_sessions_must_stay() {
    let keep = |examination: &mut Examination| examination.keep = Some(Durability::Second);
    let Some(found) = found(&["--appendonly", "no"], keep) else { return };
    assert_eq!(found, ["weaker-tier"]);
}

#[test]
fn a_redis_with_fewer_connections_than_workers_is_found() {
    let workers = |examination: &mut Examination| examination.workers = Some(100);
    let Some(found) = found(&["--maxclients", "50"], workers) else { return };
    assert_eq!(found, ["few-connections"]);
}

#[test]
fn a_redis_that_cannot_write_its_snapshots_is_found() {
    let Some(mut instance) = server("redis", &[]) else { return };
    drop(filled(instance.url()));
    // The place of the snapshot is taken by a directory.
    let home = instance.server().unwrap().socket().parent().unwrap().to_owned();
    std::fs::create_dir(home.join("dump.rdb")).unwrap();
    ask(instance.server().unwrap().socket(), "BGSAVE");
    let examination = Examination::new(instance.url());
    let start = std::time::Instant::now();
    while codes(&examination) != ["redis-persistence-failed"] {
        assert!(start.elapsed().as_secs() < 20, "the snapshot never failed");
    }
}

/// One command without an answer of interest.
fn ask(socket: &std::path::Path, command: &str) {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let _ = stream.read(&mut [0; 64]).unwrap();
}
