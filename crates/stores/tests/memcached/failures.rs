//! Servers that restart, drop locks, hold foreign bytes, or want a login.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use sessile_core::{Clock, ErrorKind};
use sessile_fixtures::PrivateDir;

use crate::fake::{self, Lie};
use crate::setup::{Private, WAIT, free_port, key, open, open_url, payload_of, raw, ttl};

#[test]
fn a_restarted_server_is_found_again_and_every_lease_is_told() {
    let Some(mut private) = Private::start(&[]) else { return };
    let store = private.open();
    store.create(&key("a"), b"one", ttl()).unwrap();
    let (read, fresh) =
        (store.begin(&key("a"), WAIT).unwrap(), store.begin(&key("b"), WAIT).unwrap());
    let fence = fresh.lease.fence();
    private.server.kill();
    assert_eq!(store.peek(&key("a")).unwrap_err().kind(), &ErrorKind::Unreachable);
    private.server.restart().unwrap();
    assert_eq!(read.lease.commit(b"two", ttl()).unwrap_err().kind(), &ErrorKind::Gone);
    assert_eq!(fresh.lease.commit(b"new", ttl()).unwrap_err().kind(), &ErrorKind::Gone);
    assert_eq!((payload_of(&store, "a"), payload_of(&store, "b")), (None, None));
    assert!(
        store.begin(&key("b"), WAIT).unwrap().lease.fence() > fence,
        "fences grow over the loss of the counter"
    );
}

/// The server counts its CAS numbers from the start, so the successor has the very numbers that the
/// lease from before knows.
#[test]
fn a_lease_from_before_a_restart_touches_nothing_of_its_successor() {
    let Some(mut private) = Private::start(&[]) else { return };
    for created in [true, false] {
        let begin = |private: &Private| {
            let store = private.open();
            if created {
                store.create(&key("a"), b"one", ttl()).unwrap();
            }
            let begun = store.begin(&key("a"), WAIT).unwrap();
            let cas = ["d", "l"].map(|kind| private.say(&format!("mg sessile:{kind}:session/a c")));
            (begun, store, cas)
        };
        for ends in ["commit", "release", "touch", "regenerate"] {
            private.server.kill();
            private.server.restart().unwrap();
            let (mut before, _here, known) = begin(&private);
            private.server.kill();
            private.server.restart().unwrap();
            let (after, there, given) = begin(&private);
            assert_eq!(known, given, "the test shows nothing unless the numbers are the same");
            let told = match ends {
                "commit" => before.lease.commit(b"lost", ttl()),
                "touch" => before.lease.touch(ttl()),
                "regenerate" => before.lease.regenerate(&key("b"), Duration::ZERO),
                _ => before.lease.release().map_err(|error| panic!("{error}")),
            };
            if ends != "release" {
                assert_eq!(told.unwrap_err().kind(), &ErrorKind::Gone, "{ends}");
            }
            let third = there.begin(&key("a"), Duration::ZERO).unwrap_err();
            assert_eq!(
                third.kind().code(),
                "lock-timeout",
                "{ends}: the lock of the successor is gone"
            );
            after.lease.commit(b"two", ttl()).unwrap();
            assert_eq!(payload_of(&there, "a").unwrap(), b"two", "{ends}");
        }
    }
}

/// Memcached may drop a lock at any time. The record's CAS number, not the lock, is what prevents a
/// lost update.
#[test]
fn of_two_holders_after_the_lock_was_pushed_out_one_commits_and_the_other_is_told() {
    let Some(private) = Private::start(&[]) else { return };
    let (here, there) = (private.open(), private.open());
    for id in ["there", "not-there"] {
        if id == "there" {
            here.create(&key(id), b"0", ttl()).unwrap();
        }
        let first = here.begin(&key(id), WAIT).unwrap();
        assert_eq!(private.say(&format!("md sessile:l:session/{id}")), "HD");
        let second = there.begin(&key(id), Duration::ZERO).expect("nothing says that it is held");
        second.lease.commit(b"second", ttl()).unwrap();
        assert_eq!(
            first.lease.commit(b"first", ttl()).unwrap_err().kind(),
            &ErrorKind::Stale,
            "{id}"
        );
        assert_eq!(payload_of(&here, id).unwrap(), b"second");
    }
    let first = here.begin(&key("there"), WAIT).unwrap();
    private.say("md sessile:l:session/there");
    let second = there.begin(&key("there"), Duration::ZERO).unwrap();
    first.lease.commit(b"first", ttl()).unwrap();
    assert_eq!(second.lease.commit(b"second", ttl()).unwrap_err().kind(), &ErrorKind::Stale);
    assert_eq!(payload_of(&here, "there").unwrap(), b"first");
}

#[test]
fn a_session_whose_memory_was_lost_under_a_lease_is_not_brought_back() {
    let Some(private) = Private::start(&[]) else { return };
    let store = private.open();
    let fresh = store.begin(&key("a"), WAIT).unwrap();
    store.destroy(&key("a")).unwrap();
    private.say("md sessile:d:session/a"); // the tombstone is pushed out
    assert_eq!(fresh.lease.commit(b"back", ttl()).unwrap_err().kind(), &ErrorKind::Gone);
    assert_eq!(payload_of(&store, "a"), None);
}

#[test]
fn the_counter_of_fences_may_be_lost() {
    let Some(private) = Private::start(&[]) else { return };
    let store = private.open();
    let mut last = 0;
    for _ in 0..5 {
        let fence = store.begin(&key("a"), WAIT).unwrap().lease.fence();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        assert_eq!(private.say("md sessile:fence"), "HD");
        // The time in ms has to go on: fewer than 1,000 begins a ms.
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A lost counter began at the time of the host that noticed first: behind, its fences repeated,
/// and ahead, those after the next loss did.
#[test]
fn a_lost_counter_of_fences_begins_at_the_time_of_the_server_whatever_ours_is() {
    let Some(private) = Private::start(&[]) else { return };
    let (hour, system) = (Duration::from_secs(3_600), Clock::system());
    for ours in [system.now().minus(hour), system.now().plus(hour)] {
        let store = private.open_at(Clock::manual(ours));
        let fence = store.begin(&key("a"), WAIT).unwrap().lease.fence();
        let off = (fence / 1_000).abs_diff(system.now().as_ms());
        assert!(off < 60_000, "{off} ms");
        assert_eq!(private.say("md sessile:fence"), "HD");
    }
}

#[test]
fn foreign_bytes_are_corrupt_and_stay_as_they_are() {
    let Some(private) = Private::start(&[]) else { return };
    let store = private.open();
    assert_eq!(private.say("set sessile:d:session/a 0 0 5\r\nhello"), "STORED");
    for _ in 0..2 {
        assert_eq!(store.peek(&key("a")).unwrap_err().kind(), &ErrorKind::Corrupt);
        let error = store.begin(&key("a"), Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Corrupt, "and the lock is not held");
    }
    assert_eq!(private.say("mg sessile:d:session/a s"), "HD s5");
    store.destroy(&key("a")).unwrap();
    assert_eq!(payload_of(&store, "a"), None);
    assert_eq!(private.say("set sessile:l:session/b 0 0 5\r\nhello"), "STORED");
    assert_eq!(
        store.begin(&key("b"), Duration::from_millis(20)).unwrap_err().kind().code(),
        "lock-timeout"
    );
}

#[test]
fn a_login_is_checked_at_open_and_never_shown() {
    let dir = PrivateDir::on_disk().unwrap();
    let file = dir.path().join("logins");
    std::fs::write(&file, "shop:s3cret@1\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let Some(private) = Private::start_in(dir, &["-Y", file.to_str().unwrap()]) else { return };
    let password = private.kept.path().join("password");
    let with = |user: &str, text: &str| {
        std::fs::write(&password, text).unwrap();
        open(private.server.socket(), &format!("user={user}&password_file={}", password.display()))
    };
    let store = with("shop", "s3cret@1\n").unwrap();
    store.create(&key("a"), b"x", ttl()).unwrap();
    assert_eq!(payload_of(&store, "a").unwrap(), b"x");
    let refused = [
        with("shop", "wrong-s3cret").err(),
        with("nobody", "s3cret@1").err(),
        open(private.server.socket(), "").err(),
    ];
    for error in refused {
        let error = error.expect("refused");
        assert_eq!(error.kind(), &ErrorKind::Denied);
        assert!(!format!("{error:#} {error:?}").contains("s3cret"), "{error:#}");
    }
}

/// To such a server the login is a `set` like any other.
#[test]
fn a_login_leaves_nothing_on_a_server_that_wants_none() {
    let Some(private) = Private::start(&[]) else { return };
    let password = private.kept.path().join("password");
    std::fs::write(&password, "s3cret").unwrap();
    let options = format!("user=shop&password_file={}", password.display());
    let store = open(private.server.socket(), &options).unwrap();
    assert_eq!(payload_of(&store, "a"), None);
    assert_eq!(private.statistic("cmd_set"), 1, "the login was sent");
    for key in ["sessile:login", "login"] {
        assert_eq!(private.say(&format!("mg {key} v")), "EN");
    }
}

/// A connect to a unix socket waited for ever when the queue of a server that hangs was full.
#[test]
fn a_server_that_hangs_with_a_full_queue_is_unreachable_in_time() {
    let Some(private) = Private::start(&["-b", "1"]) else { return };
    private.server.freeze();
    let (done, told) = std::sync::mpsc::channel();
    let socket = private.server.socket().to_owned();
    std::thread::spawn(move || {
        // The first find room in the queue, and no answer.
        let options = "connect_timeout_ms=100&response_timeout_ms=100";
        let errors: Vec<_> = (0..3).map(|_| open(&socket, options).err()).collect();
        let _ = done.send(errors);
    });
    let told = told.recv_timeout(WAIT);
    private.server.thaw();
    for error in told.expect("it waits for ever") {
        assert_eq!(error.expect("nobody answers").kind(), &ErrorKind::Unreachable);
    }
}

#[test]
fn no_server_is_unreachable_with_advice() {
    let error = open_url(&format!("memcached://u:s3cret@127.0.0.1:{}", free_port())).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unreachable);
    assert!(
        error.to_string().contains("check that it runs") && !error.to_string().contains("s3cret"),
        "{error}"
    );
}

/// It spun for ever, whatever it was told to wait: memory and processor of a worker for whoever is
/// in between.
#[test]
fn a_server_whose_lock_is_never_there_and_never_to_be_had_is_given_up() {
    let dir = PrivateDir::on_disk().unwrap();
    fake::start(dir.path().join("fake"), Lie::TakenAndGone);
    let store = open(&dir.path().join("fake"), "").unwrap();
    for wait in [Duration::ZERO, WAIT] {
        assert_eq!(store.begin(&key("a"), wait).unwrap_err().kind(), &ErrorKind::Io);
    }
}

/// `mg` with `N` has no other words for it than for an item that is not there.
#[test]
fn a_begin_for_which_there_is_no_room_is_out_of_memory_and_gives_the_lock_back() {
    let dir = PrivateDir::on_disk().unwrap();
    fake::start(dir.path().join("fake"), Lie::NoRoomForRecords);
    let store = open(&dir.path().join("fake"), "").unwrap();
    assert_eq!(store.begin(&key("a"), WAIT).unwrap_err().kind(), &ErrorKind::OutOfMemory);
    let lock = raw(&dir.path().join("fake"), "mg sessile:l:session/a v");
    assert_eq!(lock, "EN", "the lock is free");
}

#[test]
fn a_server_without_cas_is_refused() {
    let Some(private) = Private::start(&["-C"]) else { return };
    let error = open(private.server.socket(), "").unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Incompatible);
    assert!(error.to_string().contains("-C"), "{error}");
}
