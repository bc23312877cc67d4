//! The files store in its own mode: what is particular to it. The contract is tested by the
//! conformance suite.
//!
//! Where a test speaks of processes it starts real ones: this binary, again, with a role in its
//! environment.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what it expects"
)]

mod commits;
mod first_commits;
#[path = "../support/mod.rs"]
mod support;
mod turns;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sessile_core::{Budget, Clock, Error, ErrorKind, Filter, Key, Owner, Sessions, Timestamp, Ttl};
use sessile_stores::Context;

use support::child::{child, role};
use support::key;
use support::patience::{until, within_once};

const WAIT: Duration = Duration::from_secs(60);
/// For a lock that is free: a process that another test starts has a copy of each open file until
/// it is another program.
const FREE: Duration = Duration::from_secs(5);
/// The longest payload that is overwritten in place.
const IN_PLACE_MAX: usize = 4_096 - 72;

fn open_at(path: &Path) -> sessile_core::Result<Sessions> {
    sessile_stores::open(&format!("files:{}", path.display()), &Context::default())
}

fn ttl() -> Ttl {
    Ttl::sliding(Duration::from_secs(600)).unwrap()
}

fn files_below(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_below(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

fn file_of(root: &Path, id: &str) -> PathBuf {
    files_below(root).into_iter().find(|path| path.ends_with(id)).expect("the session has a file")
}

#[test]
fn role_of_a_child() {
    let Some((role, root)) = role() else { return };
    let sessions = open_at(&root).unwrap();
    let shared = key("shared");
    match role.as_str() {
        "hold" => {
            let begun = sessions.begin(&shared, WAIT).unwrap();
            fs::write(root.with_extension("held"), "").unwrap();
            until("the test is over", || root.with_extension("done").exists());
            drop(begun);
        }
        "increment" => {
            for _ in 0..500 {
                let begun = sessions.begin(&shared, WAIT).unwrap();
                let number: u64 =
                    String::from_utf8(begun.record.unwrap().payload).unwrap().parse().unwrap();
                begun.lease.commit((number + 1).to_string().as_bytes(), ttl()).unwrap();
            }
        }
        "loop" => {
            until("the start", || root.with_extension("start").exists());
            let mut cycles = 0_u64;
            while !root.with_extension("done").exists() {
                let begun = sessions.begin(&shared, WAIT).unwrap();
                let until = Instant::now() + Duration::from_micros(100);
                while Instant::now() < until {}
                begun.lease.commit(b"x", ttl()).unwrap();
                cycles += 1;
            }
            fs::write(
                root.with_extension(format!("cycles-{}", std::process::id())),
                cycles.to_string(),
            )
            .unwrap();
        }
        "churn" => loop {
            let begun = sessions.begin(&shared, WAIT).unwrap();
            let mut payload = begun.record.map(|record| record.payload).unwrap_or_default();
            let next = payload.first().copied().unwrap_or(0).wrapping_add(1);
            payload.fill(next);
            begun.lease.commit(&payload, ttl()).unwrap();
        },
        "first" => {
            for number in 0.. {
                let id = key(&format!("first-{}-{number}", std::process::id()));
                sessions.begin(&id, WAIT).unwrap().lease.commit(&[7; 200_000], ttl()).unwrap();
            }
        }
        "regenerate" => {
            let mut begun = sessions.begin(&shared, WAIT).unwrap();
            begun.lease.regenerate(&key("shared2"), Duration::from_secs(60)).unwrap();
            std::process::exit(0);
        }
        role => panic!("unknown role {role}"),
    }
}

#[test]
fn a_directory_that_is_not_ours_is_refused_with_advice() {
    let base = tempfile::tempdir().unwrap();
    let refused = |path: &Path| open_at(path).map(drop).unwrap_err().to_string();

    assert!(
        refused(&base.path().join("a/b")).contains("parent"),
        "only the last component is created"
    );
    let php = base.path().join("php");
    fs::create_dir(&php).unwrap();
    fs::write(php.join("sess_0123"), "x|i:1;").unwrap();
    assert!(refused(&php).contains("php=1"));
    let home = base.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("letter.txt"), "").unwrap();
    assert!(refused(&home).contains("not of this store"));
    let file = base.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(refused(&file).contains("not a directory"));
    let newer = base.path().join("newer");
    fs::create_dir(&newer).unwrap();
    fs::write(newer.join("format"), "sessile files 9\n").unwrap();
    assert!(refused(&newer).contains("newer program"));

    let made = base.path().join("made");
    open_at(&made).unwrap();
    assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
    open_at(&made).expect("it opens again");
    assert_eq!(files_below(&home).len() + files_below(&php).len(), 2, "nothing was left behind");
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let base = tempfile::tempdir().unwrap();
    let foreign = base.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    // Only root can give a directory away; as anyone else there is nothing to test.
    if std::os::unix::fs::chown(&foreign, Some(4_711), None).is_err() {
        eprintln!("skipped: needs root");
        return;
    }
    let error = open_at(&foreign).map(drop).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("4711"));
}

#[test]
fn a_symbolic_link_in_place_of_a_session_is_refused_and_its_target_untouched() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    sessions.create(&key("a"), b"payload", ttl()).unwrap();
    let (path, target) = (file_of(&root, "a"), base.path().join("target"));
    fs::copy(&path, &target).unwrap();
    let before = fs::metadata(&target).unwrap();
    fs::remove_file(&path).unwrap();
    symlink(&target, &path).unwrap();

    assert_eq!(*sessions.begin(&key("a"), WAIT).map(drop).unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(*sessions.peek(&key("a")).map(drop).unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(*sessions.touch(&key("a"), ttl()).unwrap_err().kind(), ErrorKind::Denied);
    assert!(sessions.create(&key("a"), b"", ttl()).is_err());
    assert!(sessions.destroy(&key("a")).is_err());
    sessions.sweep(Budget::default()).unwrap();
    assert!(path.is_symlink());
    let after = fs::metadata(&target).unwrap();
    assert_eq!((before.mtime_nsec(), before.len()), (after.mtime_nsec(), after.len()));
}

#[test]
fn damaged_files_are_corrupt_and_stay_as_they_are() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    sessions.create(&key("a"), b"payload", ttl()).unwrap();
    let path = file_of(&root, "a");
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for damaged in
        [whole[..30].to_vec(), whole[..whole.len() - 1].to_vec(), flipped, vec![b'x'; 500]]
    {
        fs::write(&path, &damaged).unwrap();
        // Writing set the time to the present, and the time is the expiry.
        let later = std::time::SystemTime::now() + Duration::from_secs(600);
        fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
        assert_eq!(
            *sessions.begin(&key("a"), WAIT).map(drop).unwrap_err().kind(),
            ErrorKind::Corrupt
        );
        assert_eq!(*sessions.peek(&key("a")).map(drop).unwrap_err().kind(), ErrorKind::Corrupt);
        sessions.sweep(Budget::default()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), damaged);
        // A copy left damaged files out and said that all were copied.
        let page = sessions.list(None, &Filter::default()).unwrap();
        assert_eq!((page.entries.len(), sessions.stat().unwrap().sessions), (1, 1));
        // The lock is not left behind by the failed begin.
        assert_eq!(
            *sessions.begin(&key("a"), FREE).map(drop).unwrap_err().kind(),
            ErrorKind::Corrupt
        );
    }
    // A file that has grown takes no memory.
    fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(*sessions.peek(&key("a")).map(drop).unwrap_err().kind(), ErrorKind::Corrupt);
    sessions.destroy(&key("a")).expect("what cannot be read can be destroyed");
    assert!(sessions.peek(&key("a")).unwrap().is_none());
}

#[test]
fn files_are_for_their_owner_only_and_a_release_leaves_no_file() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    let before = files_below(&root).len();
    sessions.begin(&key("a"), WAIT).unwrap().lease.release().unwrap();
    drop(sessions.begin(&key("b"), WAIT).unwrap());
    assert_eq!(files_below(&root).len(), before);
    sessions.begin(&key("a"), WAIT).unwrap().lease.commit(b"x", ttl()).unwrap();
    assert_eq!(fs::metadata(file_of(&root, "a")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(files_below(&root).len(), before + 1, "no temporary file is left");
}

#[test]
fn a_timeout_names_the_process_that_holds_the_lock_and_its_death_frees_it_at_once() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    let after_a_death = || {
        let _ = fs::remove_file(root.with_extension("held"));
        let mut holder = child("hold", &root);
        until("the child holds the lock", || root.with_extension("held").exists());

        let error =
            sessions.begin(&key("shared"), Duration::from_millis(30)).map(drop).unwrap_err();
        let ErrorKind::LockTimeout { holder: named, .. } = error.kind() else { panic!("{error}") };
        assert_eq!(named.pid, Some(holder.id()));

        let other = sessions.clone();
        let waiter = std::thread::spawn(move || {
            other.begin(&key("shared"), WAIT).map(drop).unwrap();
            Instant::now()
        });
        // Let it wait; too early would only weaken the test.
        std::thread::sleep(Duration::from_millis(50));
        let killed = Instant::now();
        holder.kill().unwrap();
        holder.wait().unwrap();
        waiter.join().unwrap().duration_since(killed)
    };
    within_once(
        "woken by the event, not by the second line",
        Duration::from_millis(90),
        after_a_death,
    );
}

#[test]
fn increments_of_eight_processes_sum_up() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    sessions.create(&key("shared"), b"0", ttl()).unwrap();
    let children: Vec<Child> = (0..8).map(|_| child("increment", &root)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let record = sessions.peek(&key("shared")).unwrap().unwrap();
    assert_eq!(record.payload, b"4000");
    assert_eq!(record.head.version, 4_001);
}

#[test]
fn a_full_disk_is_told_and_the_old_payload_stays() {
    let base = tempfile::tempdir().unwrap();
    let disk = base.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mount = |arguments: &[&str]| {
        Command::new("mount").args(arguments).arg(&disk).stderr(Stdio::null()).status()
    };
    if !mount(&["-t", "tmpfs", "-o", "size=512k", "tmpfs"]).is_ok_and(|status| status.success()) {
        eprintln!("skipped: needs the right to mount");
        return;
    }
    let failures: Vec<String> = ["", "?php=1"]
        .iter()
        .flat_map(|mode| {
            let url = format!("files:{}/store{mode}", disk.display()).replace("store?", "php?");
            let sessions = sessile_stores::open(&url, &Context::default()).unwrap();
            sessions.create(&key("a"), &[1; 20_000], ttl()).unwrap();
            let full = sessions
                .begin(&key("a"), WAIT)
                .unwrap()
                .lease
                .commit(&[2; 600_000], ttl())
                .unwrap_err();
            let intact = sessions
                .peek(&key("a"))
                .unwrap()
                .is_some_and(|record| record.payload == [1; 20_000]);
            sessions.begin(&key("a"), WAIT).unwrap().lease.commit(&[3; 20_000], ttl()).unwrap();
            let first = sessions
                .begin(&key("b"), WAIT)
                .unwrap()
                .lease
                .commit(&[2; 600_000], ttl())
                .unwrap_err();
            let missing = sessions.peek(&key("b")).unwrap().is_none();
            // What was written of it is not left behind.
            sessions.begin(&key("b"), WAIT).unwrap().lease.commit(&[3; 20_000], ttl()).unwrap();
            let told = |error: &Error| {
                error.to_string().contains(" (600000 bytes, limit 67108864 bytes): ")
            };
            let failed = [&full, &first]
                .iter()
                .any(|error| *error.kind() != ErrorKind::Full || !told(error));
            let failed = failed || !intact || !missing;
            failed.then(|| format!("{url}: {full:?}, old payload intact: {intact}"))
        })
        .collect();
    Command::new("umount").arg(&disk).status().unwrap();
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
fn in_a_closed_loop_on_one_session_nobody_starves() {
    // Who is kept off the processor by other tests makes fewer cycles, too: once of five times it
    // is the lock alone.
    let nobody_starves = |cycles: &[u64]| {
        let sum = cycles.iter().sum::<u64>();
        sum >= 8 * 10 && cycles.iter().all(|own| *own * 2 >= sum / 8)
    };
    assert!(
        (0..5).any(|_| nobody_starves(&cycles_of_eight())),
        "somebody starved, or all did, five times"
    );
}

fn cycles_of_eight() -> Vec<u64> {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    open_at(&root).unwrap();
    let children: Vec<Child> = (0..8).map(|_| child("loop", &root)).collect();
    fs::write(root.with_extension("start"), "").unwrap();
    std::thread::sleep(Duration::from_secs(2)); // the length of the measurement
    fs::write(root.with_extension("done"), "").unwrap();
    let cycles: Vec<u64> = children
        .into_iter()
        .map(|mut child| {
            assert!(child.wait().unwrap().success());
            fs::read_to_string(root.with_extension(format!("cycles-{}", child.id())))
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    eprintln!("cycles of eight processes on one session in 2 s: {cycles:?}");
    cycles
}

#[test]
fn a_regenerated_session_survives_the_death_of_its_process_and_both_ids_lead_to_it() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    sessions.create(&key("shared"), b"cart", ttl()).unwrap();
    assert!(child("regenerate", &root).wait().unwrap().success());
    for id in ["shared", "shared2"] {
        assert_eq!(sessions.peek(&key(id)).unwrap().unwrap().payload, b"cart");
    }
    sessions.destroy(&key("shared")).unwrap();
    assert!(
        sessions.peek(&key("shared2")).unwrap().is_none(),
        "a log-out by the old id reaches the new one"
    );
}

#[test]
fn a_waiter_at_the_old_id_follows_the_session_to_its_new_one() {
    let base = tempfile::tempdir().unwrap();
    let sessions = open_at(&base.path().join("files")).unwrap();
    sessions.create(&key("old"), b"cart", ttl()).unwrap();
    let mut begun = sessions.begin(&key("old"), WAIT).unwrap();
    let other = sessions.clone();
    let waiter = std::thread::spawn(move || {
        let begun = other.begin(&key("old"), WAIT).unwrap();
        (begun.lease.key().clone(), begun.record.unwrap().payload)
    });
    begun.lease.regenerate(&key("new"), Duration::from_secs(60)).unwrap();
    begun.lease.commit(b"cart: 1 book", ttl()).unwrap();
    assert_eq!(waiter.join().unwrap(), (key("new"), b"cart: 1 book".to_vec()));
}

#[test]
fn a_destroyed_session_stays_destroyed_whatever_happens_before_the_late_commit() {
    let base = tempfile::tempdir().unwrap();
    let sessions = open_at(&base.path().join("files")).unwrap();
    sessions.create(&key("a"), b"old", ttl()).unwrap();
    let late = sessions.begin(&key("a"), WAIT).unwrap();
    sessions.destroy(&key("a")).unwrap();
    sessions.create(&key("a"), b"second", ttl()).unwrap();
    let mut between = sessions.begin(&key("a"), WAIT).unwrap();
    assert!(between.lease.fence() > late.lease.fence());
    between.lease.touch(ttl()).unwrap();
    assert_eq!(*late.lease.commit(b"resurrected", ttl()).unwrap_err().kind(), ErrorKind::Destroyed);
    between.lease.commit(b"third", ttl()).unwrap();
    assert_eq!(sessions.peek(&key("a")).unwrap().unwrap().payload, b"third");
}

#[test]
fn a_sweep_is_resumable_and_spares_what_is_leased_or_touched() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let clock = Clock::manual(Timestamp::from_ms(1_700_000_000_000));
    let context = Context { clock: clock.clone() };
    let sessions = sessile_stores::open(&format!("files:{}", root.display()), &context).unwrap();
    for number in 0..300 {
        sessions.create(&key(&format!("s{number}")), b"x", ttl()).unwrap();
    }
    clock.advance(Duration::from_secs(599));
    sessions.touch(&key("s7"), ttl()).unwrap();
    let leased = sessions.begin(&key("s8"), WAIT).unwrap();
    clock.advance(Duration::from_secs(1));
    let (mut removed, mut calls) = (0, 0);
    loop {
        let swept = sessions.sweep(Budget { records_max: 50, time_max: WAIT }).unwrap();
        assert!(swept.examined <= 50);
        removed += swept.removed;
        calls += 1;
        if swept.complete {
            break;
        }
    }
    assert_eq!((removed, calls), (298, 7));
    leased.lease.commit(b"goes on", ttl()).unwrap();
    assert!(
        sessions.peek(&key("s7")).unwrap().is_some()
            && sessions.peek(&key("s8")).unwrap().is_some()
    );
}

#[test]
fn an_absolute_end_set_by_a_touch_survives_and_moves_the_expiry() {
    let base = tempfile::tempdir().unwrap();
    let clock = Clock::manual(Timestamp::from_ms(1_700_000_000_000));
    let context = Context { clock: clock.clone() };
    let url = format!("files:{}", base.path().join("files").display());
    let sessions = sessile_stores::open(&url, &context).unwrap();
    sessions.create(&key("a"), b"x", ttl()).unwrap();
    let leased = sessions.begin(&key("a"), WAIT).unwrap();
    sessions.touch(&key("a"), ttl().within(Duration::from_secs(900)).unwrap()).unwrap();
    leased.lease.commit(b"y", ttl()).unwrap();
    clock.advance(Duration::from_secs(500));
    sessions.touch(&key("a"), ttl()).unwrap();
    let record = sessions.peek(&key("a")).unwrap().unwrap();
    assert_eq!(record.head.expires.since(record.head.created), Duration::from_secs(900));
    clock.advance(Duration::from_secs(400));
    assert!(sessions.peek(&key("a")).unwrap().is_none());
}

#[test]
#[ignore = "a measurement: cargo test --release -p sessile-stores --test files_own -- --ignored \
            --nocapture"]
fn cost_of_a_cycle() {
    let payload = vec![b'x'; 1_500];
    let shm = PathBuf::from("/dev/shm");
    for (parent, mode) in [
        (std::env::temp_dir(), ""),
        (std::env::temp_dir(), "?php=1"),
        (shm.clone(), ""),
        (shm, "?php=1"),
    ] {
        let base = tempfile::tempdir_in(&parent).unwrap();
        let url = format!("files:{}/files{mode}", base.path().display());
        let sessions = sessile_stores::open(&url, &Context::default()).unwrap();
        let keys: Vec<Key> = (0..1_000).map(|number| key(&format!("session{number}"))).collect();
        for key in &keys {
            sessions.create(key, &payload, ttl()).unwrap();
        }
        let mut best = f64::MAX;
        for _ in 0..5 {
            let start = Instant::now();
            for key in keys.iter().cycle().take(10_000) {
                let begun = sessions.begin(key, WAIT).unwrap();
                begun.lease.commit(&payload, ttl()).unwrap();
            }
            best = best.min(start.elapsed().as_secs_f64() / 10_000.0 * 1e6);
        }
        println!("{}{mode}: {best:.1} us a cycle (best of 5 rounds of 10,000)", parent.display());
    }
}

/// A flipped byte, a cut file, a file that was moved by hand, a link: each is told without the id,
/// none is touched.
#[test]
fn verify_names_damaged_files_by_inode_and_changes_none() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_at(dir.path()).unwrap();
    for id in ["secretflip", "secretcut", "secretmove", "secretgood"] {
        store.create(&key(id), b"payload", ttl()).unwrap();
    }
    assert!(store.verify(&mut |_| ()).unwrap().problems.is_empty());
    let flipped = file_of(dir.path(), "secretflip");
    let mut bytes = fs::read(&flipped).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&flipped, &bytes).unwrap();
    fs::File::options()
        .write(true)
        .open(file_of(dir.path(), "secretcut"))
        .unwrap()
        .set_len(20)
        .unwrap();
    let moved = file_of(dir.path(), "secretmove");
    fs::rename(&moved, file_of(dir.path(), "secretgood").parent().unwrap().join("secretmove"))
        .unwrap();
    symlink("/etc/passwd", flipped.parent().unwrap().join("secretlink")).unwrap();
    for _ in 0..2 {
        let verified = store.verify(&mut |_| ()).unwrap();
        assert_eq!((verified.checked, verified.problems.len()), (5, 4), "{:?}", verified.problems);
        let inode = fs::metadata(&flipped).unwrap().ino();
        assert!(
            verified.problems.iter().any(|problem| problem.contains(&format!("inode {inode}")))
        );
        assert!(verified.problems.iter().all(|problem| !problem.contains("secret")));
    }
    assert_eq!(fs::read(&flipped).unwrap(), bytes);
}

/// The story: a process without a free file descriptor passed over the sessions that it could not
/// open, and told that all of the user's had ended.
#[test]
fn a_file_that_cannot_be_read_now_fails_a_revocation_and_a_damaged_one_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let (sessions, owner) = (open_at(directory.path()).unwrap(), Owner::new(b"17").unwrap());
    for id in ["a", "b", "c"] {
        let mut begun = sessions.begin(&key(id), WAIT).unwrap();
        begun.lease.set_owner(Some(owner)).unwrap();
        begun.lease.commit(b"cart", ttl()).unwrap();
    }
    fs::write(file_of(directory.path(), "a"), [b'x'; 200]).unwrap();
    let (unreadable, aside) = (file_of(directory.path(), "b"), directory.path().join("aside"));
    fs::rename(&unreadable, &aside).unwrap();
    symlink(&unreadable, &unreadable).unwrap();
    assert!(sessions.revoke(owner, None).is_err());
    assert!(sessions.list(None, &Filter::default()).unwrap().entries.len() <= 1);
    fs::rename(&aside, &unreadable).unwrap();
    sessions.revoke(owner, None).unwrap();
    for id in ["b", "c"] {
        assert!(sessions.peek(&key(id)).unwrap().is_none());
    }
}
