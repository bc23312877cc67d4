//! What goes wrong: connections, servers, passwords, memory. Each is one clear error, and nothing
//! is harmed.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sessile_core::{Error, ErrorKind, Filter, Sessions};
use sessile_fixtures::{PrivateDir, ServerOptions};
use sessile_stores::Context;

use crate::setup::support::certificate;
use crate::setup::support::moving::Moving;
use crate::setup::support::server::{free_port, start};
use crate::setup::{Private, WAIT, key, ttl, until};

fn open(url: &str) -> Result<Sessions, Error> {
    sessile_stores::open(url, &Context::default())
}

fn refusal(url: &str) -> ErrorKind {
    let error = open(url).unwrap_err();
    let shown = format!("{error:#} {error:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    error.kind().clone()
}

#[test]
fn killed_connections_cost_a_retry_and_nothing_else() {
    let Some(private) = Private::start() else { return };
    let store = private.open("");
    let cut = || {
        let _: u64 = redis::cmd("CLIENT")
            .arg(&["KILL", "TYPE", "normal"])
            .query(&mut private.raw())
            .unwrap();
    };
    let begun = store.begin(&key("a"), WAIT).unwrap();
    cut();
    begun.lease.commit(b"one", ttl()).unwrap();
    cut();
    let begun = store.begin(&key("a"), WAIT).unwrap();
    assert_eq!(begun.record.unwrap().head.version, 1);
    cut();
    store.destroy(&key("a")).unwrap();
    cut();
    assert_eq!(begun.lease.commit(b"two", ttl()).unwrap_err().kind(), &ErrorKind::Destroyed);
}

#[test]
fn a_waiter_survives_the_loss_of_its_connection() {
    let Some(private) = Private::start() else { return };
    let store = private.open("");
    let begun = store.begin(&key("a"), WAIT).unwrap();
    std::thread::scope(|scope| {
        let waiter =
            scope.spawn(|| store.begin(&key("a"), WAIT).map(|begun| begun.record.is_some()));
        until("it waits", || private.commands().contains_key("blpop"));
        let _: u64 = redis::cmd("CLIENT")
            .arg(&["KILL", "TYPE", "normal"])
            .query(&mut private.raw())
            .unwrap();
        begun.lease.commit(b"x", ttl()).unwrap();
        assert!(waiter.join().unwrap().unwrap());
    });
}

#[test]
fn a_restarted_server_is_found_again_and_a_lost_record_is_told() {
    let Some(mut private) = Private::start() else { return };
    let store = private.open("");
    store.create(&key("a"), b"one", ttl()).unwrap();
    let lost = store.begin(&key("a"), WAIT).unwrap();
    let new = store.begin(&key("b"), WAIT).unwrap();
    let fence = new.lease.fence();
    private.server.kill();
    assert_eq!(store.peek(&key("a")).unwrap_err().kind(), &ErrorKind::Unreachable);
    private.server.restart().unwrap(); // without persistence: empty
    assert_eq!(lost.lease.commit(b"two", ttl()).unwrap_err().kind(), &ErrorKind::Gone);
    new.lease.commit(b"new", ttl()).unwrap();
    assert!(
        store.begin(&key("b"), WAIT).unwrap().lease.fence() > fence,
        "fences grow over the loss of the counter"
    );
}

#[test]
fn a_server_that_comes_back_within_the_retry_is_not_noticed() {
    let Some(mut private) = Private::start() else { return };
    let store = private.open("");
    let begun = store.begin(&key("a"), WAIT).unwrap();
    private.server.kill();
    std::thread::scope(|scope| {
        let committed = scope.spawn(|| begun.lease.commit(b"x", ttl()));
        private.server.restart().unwrap();
        // Nothing was read, nothing is there: the commit of a lapsed lease without a successor.
        committed.join().unwrap().unwrap();
    });
    assert!(store.peek(&key("a")).unwrap().is_some());
}

/// The server reads what was asked of it while it was stopped, long after the asker has given up.
#[test]
fn a_lock_that_a_begin_took_without_an_answer_is_given_back_by_the_next_contact() {
    let Some(private) = Private::start() else { return };
    let store = private.open("response_timeout_ms=1000&connect_timeout_ms=1000");
    store.create(&key("a"), b"cart", ttl()).unwrap();
    let server = Pid::from_raw(private.server.pid().try_into().unwrap());
    kill(server, Signal::SIGSTOP).unwrap();
    let failed = store.begin(&key("a"), WAIT).unwrap_err();
    kill(server, Signal::SIGCONT).unwrap();
    assert_eq!(failed.kind(), &ErrorKind::Unreachable);
    let other = private.open("");
    until("the server carries it out all the same", || {
        other.begin(&key("a"), Duration::ZERO).is_err()
    });
    store.begin(&key("b"), WAIT).unwrap();
    let begun = other
        .begin(&key("a"), Duration::ZERO)
        .expect("the lock is free long before its time is over");
    assert_eq!(begun.record.unwrap().payload, b"cart");
    // Whoever has the lock by now is left alone by those who come later.
    store.begin(&key("b"), WAIT).unwrap();
    begun.lease.commit(b"cart: 1 book", ttl()).unwrap();
}

#[test]
fn a_release_that_failed_is_made_up_for_by_the_next_contact() {
    let Some(private) = Private::start() else { return };
    let (store, other) = (private.open(""), private.open(""));
    let permit = |rule: &str| {
        let _: () =
            redis::cmd("ACL").arg(&["SETUSER", "default", rule]).query(&mut private.raw()).unwrap();
    };
    let begun = store.begin(&key("a"), WAIT).unwrap();
    permit("-evalsha");
    assert_eq!(begun.lease.release().unwrap_err().kind(), &ErrorKind::Denied);
    permit("+evalsha");
    assert!(other.begin(&key("a"), Duration::ZERO).is_err(), "the lock is still there");
    store.begin(&key("b"), WAIT).unwrap();
    other.begin(&key("a"), Duration::ZERO).expect("the lock is free");
}

#[test]
fn passwords_users_and_databases_are_checked_at_open() {
    let port = free_port().to_string();
    let extra = [
        "--port",
        &port,
        "--bind",
        "127.0.0.1",
        "--requirepass",
        "right:s3cret@1",
        "--databases",
        "4",
    ];
    let Some(private) = Private::start_with(&extra) else { return };
    let at = |login: &str, rest: &str| format!("redis://{login}127.0.0.1:{port}{rest}");
    assert_eq!(refusal(&at("", "/0")), ErrorKind::Denied);
    assert_eq!(refusal(&at(":wrong-s3cret@", "/0")), ErrorKind::Denied);
    assert_eq!(refusal(&at("nobody:wrong-s3cret@", "/0")), ErrorKind::Denied);
    assert_eq!(refusal(&at(":right%3As3cret%401@", "/9")), ErrorKind::InvalidUrl);
    let store = open(&at(":right%3As3cret%401@", "/3")).unwrap();
    store.create(&key("a"), b"x", ttl()).unwrap();
    assert_eq!(store.label(), format!("redis://127.0.0.1:{port}/3"));
    let file = private.dir.join("password");
    std::fs::write(&file, "right:s3cret@1\n").unwrap();
    let unix = format!("password_file={}&db=3", file.display());
    assert!(private.open(&unix).peek(&key("a")).unwrap().is_some());
}

#[test]
fn a_server_that_refuses_to_watch_is_served_by_scripts() {
    let Some(private) = Private::start() else { return };
    let user = ["SETUSER", "poor", "on", ">secret", "~*", "+@all", "-watch"];
    let _: () = redis::cmd("ACL").arg(&user).query(&mut private.raw()).unwrap();
    let file = private.dir.join("password");
    std::fs::write(&file, "secret\n").unwrap();
    let store = private.open(&format!("user=poor&password_file={}", file.display()));
    for payload in [b"one", b"two"] {
        store.begin(&key("a"), WAIT).unwrap().lease.commit(payload, ttl()).unwrap();
        assert_eq!(store.peek(&key("a")).unwrap().unwrap().payload, payload);
    }
}

#[test]
fn no_server_is_unreachable_with_advice() {
    assert_eq!(
        refusal(&format!("redis://:s3cret@127.0.0.1:{}/0", free_port())),
        ErrorKind::Unreachable
    );
    let error = open("redis+unix:/nowhere/redis.sock").unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unreachable);
    assert!(error.to_string().contains("check that it runs"));
}

#[test]
fn a_full_server_refuses_saves_loudly_keeps_the_old_payload_and_still_logs_out() {
    let Some(private) = Private::start() else { return };
    let store = private.open("");
    store.create(&key("a"), b"old", ttl()).unwrap();
    let begun = store.begin(&key("a"), WAIT).unwrap();
    let set = |value: &str| {
        let _: () = redis::cmd("CONFIG")
            .arg(&["SET", "maxmemory", value])
            .query(&mut private.raw())
            .unwrap();
    };
    set("1");
    let full = begun.lease.commit(&[7; 1_000], ttl()).unwrap_err();
    let told = format!(" (1000 bytes, limit {} bytes): ", store.limits().payload_bytes_max);
    assert!(full.kind() == &ErrorKind::OutOfMemory && full.to_string().contains(&told), "{full}");
    assert_eq!(store.create(&key("b"), b"x", ttl()).unwrap_err().kind(), &ErrorKind::OutOfMemory);
    assert_eq!(store.peek(&key("a")).unwrap().unwrap().payload, b"old");
    set("0");
    let begun = store.begin(&key("a"), Duration::ZERO).expect("a failed commit gives up the lock");
    set("1");
    store.destroy(&key("a")).unwrap();
    set("0");
    assert_eq!(begun.lease.commit(b"back", ttl()).unwrap_err().kind(), &ErrorKind::Destroyed);
}

#[test]
fn foreign_bytes_are_corrupt_and_stay_as_they_are() {
    let Some(private) = Private::start() else { return };
    let store = private.open("");
    store.create(&key("flipped"), b"cart", ttl()).unwrap();
    let mut raw = private.raw();
    let name = |id: &str| format!("sessile:d:{{session/{id}}}");
    let _: () =
        redis::cmd("SETRANGE").arg(name("flipped")).arg(59).arg("X").query(&mut raw).unwrap();
    let _: () = redis::cmd("SET").arg(name("foreign")).arg("hello").query(&mut raw).unwrap();
    for id in ["flipped", "foreign"] {
        let before: Vec<u8> = redis::cmd("GET").arg(name(id)).query(&mut raw).unwrap();
        assert_eq!(store.peek(&key(id)).unwrap_err().kind(), &ErrorKind::Corrupt);
        for _ in 0..2 {
            let error = store.begin(&key(id), Duration::ZERO).unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::Corrupt, "and the lock is not held");
        }
        let after: Vec<u8> = redis::cmd("GET").arg(name(id)).query(&mut raw).unwrap();
        assert_eq!(before, after);
    }
    // A copy left damaged records out and said that all were copied.
    let page = store.list(None, &Filter::default()).unwrap();
    assert_eq!((page.entries.len(), store.stat().unwrap().sessions), (2, 2));
    let _: () = redis::cmd("RPUSH").arg(name("list")).arg("x").query(&mut raw).unwrap();
    assert_eq!(store.peek(&key("list")).unwrap_err().kind(), &ErrorKind::Corrupt);
}

/// The checksum is no signature: whoever may write to the server can make a record that passes it.
/// One with the last version made the commit after it panic (in a release build: start again at
/// version 0).
#[test]
fn a_foreign_record_with_the_last_version_does_not_panic() {
    let Some(private) = Private::start() else { return };
    let store = private.open("");
    let tail = [u64::MAX.to_le_bytes(), u64::MAX.to_le_bytes(), u64::MAX.to_le_bytes()].concat();
    let [no_end, never] = [0_u64.to_le_bytes(), u64::MAX.to_le_bytes()];
    let check = xxhash_rust::xxh3::xxh3_64(&tail).to_le_bytes();
    let value = [b"SLwriter-1".as_slice(), &no_end, &never, &check, &tail].concat();
    let _: () = redis::cmd("SET")
        .arg("sessile:d:{session/a}")
        .arg(value)
        .query(&mut private.raw())
        .unwrap();
    let begun = store.begin(&key("a"), WAIT).unwrap();
    assert_eq!(begun.record.map(|record| record.head.version), Some(u64::MAX));
    begun.lease.commit(b"cart", ttl()).unwrap();
    assert_eq!(store.peek(&key("a")).unwrap().map(|record| record.head.version), Some(u64::MAX));
}

#[test]
fn a_replica_is_refused_for_writing() {
    let Some(private) = Private::start() else { return };
    let store = private.open("");
    private.demote();
    assert_eq!(store.begin(&key("a"), WAIT).unwrap_err().kind(), &ErrorKind::Denied);
}

/// Connections to the primary of before stay open, and each answered a request with an error.
#[test]
fn a_demoted_primary_is_left_for_the_one_that_the_address_leads_to() {
    let Some(private) = Private::start() else { return };
    let dir = PrivateDir::on_disk().unwrap();
    let successor = start("redis-server", &dir, &ServerOptions::default()).unwrap();
    let address = Moving::to(private.server.socket());
    let store = open(&format!("redis+unix:{}", address.socket().display())).unwrap();
    let held = ["a", "b", "c"].map(|id| store.begin(&key(id), WAIT).unwrap());
    held.into_iter().for_each(|begun| begun.lease.commit(b"cart", ttl()).unwrap());
    private.demote();
    address.move_to(successor.socket());
    for id in ["a", "b", "c"] {
        store.begin(&key(id), WAIT).unwrap().lease.commit(b"cart", ttl()).unwrap();
    }
}

/// A server that follows another one for a moment gets its state, older fences included, and keeps
/// the connections of its clients. Each of them went on from the older number.
#[test]
fn fences_grow_over_an_older_state_that_a_live_connection_does_not_notice() {
    let Some(private) = Private::start() else { return };
    let (dir, port) = (PrivateDir::on_disk().unwrap(), free_port().to_string());
    let extra = ["--port", &port, "--bind", "127.0.0.1"].map(Into::into).to_vec();
    let options = ServerOptions { extra, ..ServerOptions::default() };
    let older = start("redis-server", &dir, &options).unwrap();
    let client = redis::Client::open(format!("unix:{}", older.socket().display())).unwrap();
    let state = redis::cmd("SET").arg("sessile:fence").arg(1_000_000_000_000_u64).to_owned();
    state.exec(&mut client.get_connection().unwrap()).unwrap();

    let store = private.open("");
    let fence = || store.begin(&key("a"), WAIT).unwrap().lease.fence();
    let last = (0..100).map(|_| fence()).max().unwrap();
    let mut raw = private.raw();
    let connections = |raw: &mut redis::Connection| -> String {
        let text: String = redis::cmd("INFO").arg("stats").query(raw).unwrap();
        text.lines().find(|line| line.starts_with("total_connections_received")).unwrap().into()
    };
    redis::cmd("REPLICAOF").arg("127.0.0.1").arg(&port).exec(&mut raw).unwrap();
    until("the older state is there", || {
        let text: String = redis::cmd("INFO").arg("replication").query(&mut raw).unwrap();
        text.contains("master_link_status:up")
    });
    redis::cmd("REPLICAOF").arg(&["NO", "ONE"]).exec(&mut raw).unwrap();
    let before = connections(&mut raw);
    until("the fences are above those from before", || fence() > last);
    assert_eq!(connections(&mut raw), before, "on the same connection");
}

#[test]
fn a_primary_without_its_replicas_says_which_setting_refuses_writes() {
    let Some(private) = Private::start() else { return };
    let store = private.open("");
    let mut minimum = redis::cmd("CONFIG");
    minimum.arg(&["SET", "min-replicas-to-write", "1"]).exec(&mut private.raw()).unwrap();
    let error = store.create(&key("a"), b"x", ttl()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unreachable);
    assert!(error.to_string().contains("min-replicas-to-write"), "{error}");
}

/// Most requests to a cluster passed; those that waited failed with CROSSSLOT.
#[test]
fn a_cluster_is_refused_when_the_store_is_opened() {
    let Some(private) = Private::start_with(&["--cluster-enabled", "yes"]) else { return };
    let error = open(&private.url("")).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unsupported);
    assert!(error.to_string().contains("not part of a cluster"), "{error}");
}

/// The server repeats the arguments of a command that it does not know: the key, and so the id.
#[test]
fn what_a_server_repeats_of_a_request_is_in_no_error() {
    let Some(private) = Private::start_with(&["--rename-command", "EVALSHA", ""]) else { return };
    let error = private.open("").create(&key("s3cret"), b"s3cret", ttl()).unwrap_err();
    let shown = format!("{error:#} {error:?}");
    assert!(!shown.contains("s3cret") && shown.contains("does not know a command"), "{shown}");
    assert_eq!(error.kind(), &ErrorKind::Denied);
}

/// One list under a name of ours failed every page and every count.
#[test]
fn a_foreign_key_of_another_type_is_passed_over_by_listings() {
    let Some(private) = Private::start() else { return };
    let store = private.open("");
    store.create(&key("a"), b"cart", ttl()).unwrap();
    let name = "sessile:d:{session/list}";
    let _: () = redis::cmd("RPUSH").arg(name).arg("x").query(&mut private.raw()).unwrap();
    let page = store.list(None, &Filter::default()).unwrap();
    assert_eq!(page.entries.iter().map(|entry| &entry.key).collect::<Vec<_>>(), [&key("a")]);
    assert_eq!(store.stat().unwrap().sessions, 1);
}

#[test]
fn tls_is_spoken_and_an_unknown_authority_refused() {
    let dir = tempfile::tempdir().unwrap();
    if !certificate::make(dir.path(), "DNS:localhost,IP:127.0.0.1") {
        return;
    }
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (port, cert, secret) = (free_port().to_string(), path("cert.pem"), path("key.pem"));
    let extra = [
        "--bind",
        "127.0.0.1",
        "--tls-port",
        &port,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &secret,
        "--tls-ca-cert-file",
        &cert,
        "--tls-auth-clients",
        "no",
    ];
    let Some(_private) = Private::start_with(&extra) else { return };
    let store = open(&format!("rediss://localhost:{port}/1?tls_ca_file={cert}")).unwrap();
    store.begin(&key("a"), WAIT).unwrap().lease.commit(b"x", ttl()).unwrap();
    assert!(store.peek(&key("a")).unwrap().is_some());
    assert_eq!(
        refusal(&format!("rediss://localhost:{port}/1")),
        ErrorKind::Denied,
        "not signed by a known authority"
    );
    assert_eq!(
        refusal(&format!("redis://localhost:{port}/1?connect_timeout_ms=300")),
        ErrorKind::Unreachable
    );
}
