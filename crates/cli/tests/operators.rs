//! The verbs of an operator: stat, check, gc, sync, drop.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod started;

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use sessile_core::{Clock, Key, Sessions, Ttl};
use sessile_stores::Context;
use started::{sessile, stderr, stdout};

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A directory on a disk, or at least not the shared memory that `sync` refuses.
fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn url(dir: &Path) -> String {
    format!("files:{}", dir.display())
}

/// Ten live sessions, and `expired` ones: their writer's clock is ahead.
fn filled(dir: &Path, expired: u64) -> Sessions {
    let store = sessile_stores::open(&url(dir), &Context::default()).unwrap();
    let hour = Ttl::sliding(Duration::from_secs(3_600)).unwrap();
    for number in 0..10 {
        store
            .create(&Key::session(&format!("secret{number}")).unwrap(), &[b'x'; 100], hour)
            .unwrap();
    }
    let past = Clock::manual(Clock::system().now().minus(Duration::from_secs(7_200)));
    let earlier = sessile_stores::open(&url(dir), &Context { clock: past }).unwrap();
    for number in 0..expired {
        earlier.create(&Key::session(&format!("old{number}")).unwrap(), b"x", hour).unwrap();
    }
    store
}

#[test]
fn bad_input_gets_one_clear_error_and_its_exit_code() {
    let dir = on_disk();
    let missing = format!("files:{}/missing/deeper", dir.path().display());
    let table: &[(&str, i32, &str)] = &[
        ("mongo://host/", 2, "known schemes"),
        ("nonsense", 2, "malformed"),
        ("memory:?nonsense=1", 2, "unknown option"),
        (&missing, 3, "files"),
        ("redis+unix:/nowhere/socket", 3, "redis+unix"),
    ];
    for verb in ["stat", "check", "gc", "sync", "drop"] {
        for (url, code, words) in table {
            // What a server does by itself is answered without it: gc has nothing to do, the others
            // are refused.
            let by_nature = url.starts_with("redis") && verb != "stat";
            let output = sessile(&[verb, url]);
            let message = stderr(&output);
            assert!(
                output.status.code() == Some(*code) || by_nature,
                "{verb} {url}: {:?} {message}",
                output.status
            );
            assert!(by_nature || message.contains(words), "{verb} {url}: {message}");
            assert!(by_nature || output.stdout.is_empty(), "{verb} {url} printed a result");
        }
        assert_eq!(sessile(&[verb]).status.code(), Some(2), "{verb} without a URL");
        assert!(stdout(&sessile(&[verb, "--help"])).contains("Exit codes"), "{verb} --help");
    }
    assert_eq!(sessile(&["gc", "memory:", "--batch", "0"]).status.code(), Some(2));
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let dir = on_disk();
    for verb in ["stat", "check", "gc", "sync", "drop"] {
        for scheme in ["files", "sessile", "sqlite"] {
            let place = dir.path().join(format!("mistyped-{scheme}"));
            let output = sessile(&[verb, &format!("{scheme}:{}", place.display())]);
            let message = stderr(&output);
            assert_eq!(output.status.code(), Some(3), "{verb} {scheme}: {message}");
            assert!(message.contains("no store of sessile"), "{verb} {scheme}: {message}");
            assert!(!place.exists(), "{verb} {scheme}");
        }
    }
}

#[test]
fn drop_removes_a_store_that_is_not_in_use_after_it_was_confirmed() {
    for parent in ["/dev/shm", "/var/tmp"] {
        let dir = tempfile::tempdir_in(parent).unwrap();
        let control = tempfile::tempdir_in("/dev/shm").unwrap();
        let place = dir.path().join("store");
        let opened = format!("sessile:{}?control={}", place.display(), control.path().display());
        let url = format!("sessile:{}", place.display());
        let store = sessile_stores::open(&opened, &Context::default()).unwrap();
        let code = |arguments: &[&str]| {
            let output = sessile(arguments);
            (output.status.code(), stderr(&output))
        };
        let (in_use, message) = code(&["drop", &url, "--yes"]);
        assert_eq!(in_use, Some(3), "{message}");
        assert!(message.contains(&std::process::id().to_string()), "{message}");
        drop(store);
        let (unconfirmed, message) = code(&["drop", &url]);
        assert!(unconfirmed == Some(2) && message.contains("--yes"), "{message}");
        assert!(place.exists(), "it was not confirmed");
        let output = sessile(&["drop", &url, "--yes", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(json(&output)["dropped"], true);
        assert!(!place.exists(), "a file of the store is left");
        assert_eq!(std::fs::read_dir(control.path()).unwrap().count(), 0, "its control plane");
    }
}

#[test]
fn drop_tells_what_to_do_with_a_store_that_cannot_tell_whether_it_is_in_use() {
    let dir = on_disk();
    filled(dir.path(), 0);
    for (url, words) in [(url(dir.path()).as_str(), "remove the directory"), ("memory:", "end")] {
        // It is told before it is asked whether.
        let output = sessile(&["drop", url]);
        assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    let other = on_disk();
    std::fs::write(other.path().join("letter"), "dear").unwrap();
    let output = sessile(&["drop", &format!("sessile:{}", other.path().display()), "--yes"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(other.path().join("letter").exists(), "a file of another program");
}

#[test]
fn what_a_store_cannot_do_by_its_nature_has_an_exit_code_of_its_own() {
    for verb in ["check", "sync"] {
        let output = sessile(&[verb, "memory:"]);
        assert_eq!(output.status.code(), Some(4), "{verb}: {}", stderr(&output));
        assert!(stderr(&output).contains(&format!("cannot {verb}")), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
    let in_memory = tempfile::tempdir_in("/dev/shm").unwrap();
    filled(in_memory.path(), 0);
    assert_eq!(
        sessile(&["sync", &url(in_memory.path())]).status.code(),
        Some(4),
        "a power cut empties tmpfs"
    );
}

#[test]
fn stat_counts_the_living_and_the_expired() {
    let dir = on_disk();
    filled(dir.path(), 3);
    let text = stdout(&sessile(&["stat", &url(dir.path())]));
    assert!(
        text.contains("sessions") && text.contains("10\n") && text.contains("1 000 bytes"),
        "{text}"
    );
    let json = json(&sessile(&["stat", &url(dir.path()), "--json"]));
    assert_eq!((&json["stat"]["sessions"], &json["stat"]["expired"]), (&10.into(), &3.into()));
    assert_eq!(json["stat"]["payload_bytes"], 1_000);
    assert!(json["details"].is_array() && json["schema"] == 1);
}

/// `stat` said that it changes nothing, and set the limit of all workers to what stood in its URL.
#[test]
fn a_limit_in_the_url_is_set_by_gc_and_by_no_verb_that_changes_nothing() {
    let dir = on_disk();
    let engine = format!("sessile:{}", dir.path().join("engine").display());
    drop(sessile_stores::open(&engine, &Context { clock: Clock::system() }).unwrap());
    let limit = || {
        let stat = json(&sessile(&["stat", &engine, "--json"]));
        let details = stat["details"].as_array().unwrap().clone();
        let limit = details.into_iter().find(|detail| detail["name"] == "size_limit").unwrap();
        limit["value"].as_u64().unwrap()
    };
    let before = limit();
    let limited = format!("{engine}?size_bytes_max=8388608");
    assert_ne!(before, 8_388_608);
    for verb in ["stat", "check", "sync"] {
        assert!(sessile(&[verb, &limited]).status.success(), "{verb}");
        assert_eq!(limit(), before, "{verb}");
    }
    assert!(sessile(&["gc", &limited]).status.success());
    assert_eq!(limit(), 8_388_608);
    assert!(sessile(&["drop", &engine, "--yes"]).status.success());
}

#[test]
fn gc_removes_all_that_has_expired_and_nothing_else() {
    let dir = on_disk();
    let store = filled(dir.path(), 57);
    let output = sessile(&["gc", &url(dir.path()), "--batch", "10", "--json"]);
    let collected = json(&output);
    assert_eq!(
        (&collected["removed"], &collected["complete"]),
        (&57.into(), &true.into()),
        "{collected}"
    );
    assert!(collected["steps"].as_u64().unwrap() >= 6, "not in steps of 10: {collected}");
    assert_eq!((store.stat().unwrap().sessions, store.stat().unwrap().expired), (10, 0));
    assert!(
        collected["rested_seconds"].as_f64()
            >= collected["longest_step_ms"].as_f64().map(|ms| ms / 1e3),
        "{collected}"
    );
    let hasty =
        json(&sessile(&["gc", &url(dir.path()), "--batch", "10", "--pause", "0", "--json"]));
    assert!(
        hasty["rested_seconds"].as_f64().unwrap() < 0.1 * hasty["seconds"].as_f64().unwrap(),
        "{hasty}"
    );
    let again = stdout(&sessile(&["gc", &url(dir.path())]));
    assert!(again.starts_with("removed 0 expired sessions of"), "{again}");
}

#[test]
fn verify_is_silent_about_a_sound_store_and_fails_on_a_damaged_one() {
    let dir = on_disk();
    filled(dir.path(), 0);
    let sound = sessile(&["check", &url(dir.path())]);
    assert_eq!(
        (sound.status.code(), stdout(&sound).as_str()),
        (Some(0), "10 checked, 0 problems\n")
    );
    let damaged = walk(dir.path()).into_iter().find(|path| path.ends_with("secret7")).unwrap();
    std::fs::write(&damaged, b"something else").unwrap();
    let output = sessile(&["check", &url(dir.path())]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("problem: session/"), "{}", stdout(&output));
    assert!(stderr(&output).contains("1 problem found"), "{}", stderr(&output));
    assert!(!stdout(&output).contains("secret"), "a problem names an id");
    let report = json(&sessile(&["check", &url(dir.path()), "--json"]));
    assert_eq!(
        (&report["clean"], &report["checked"], &report["problems"]),
        (&false.into(), &10.into(), &1.into())
    );
    assert_eq!(std::fs::read(&damaged).unwrap(), b"something else");
}

#[test]
fn sync_says_when_all_is_on_the_disk() {
    let dir = on_disk();
    filled(dir.path(), 0);
    let output = sessile(&["sync", &url(dir.path())]);
    // A build directory may be in memory; then a refusal is right.
    let expected = if sessile_fixtures::file_system(dir.path()) == "tmpfs" { 4 } else { 0 };
    assert_eq!(output.status.code(), Some(expected), "{}", stderr(&output));
    assert!(expected != 0 || stdout(&output).contains("on the disk"));
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
