//! `sessile analyze`: its output, and that it leaves no trace in a store.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use sessile_core::{Bin, Key, Ttl};
use sessile_fixtures::PrivateDir;
use sessile_stores::Context;

fn analyze(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sessile")).arg("analyze").args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(arguments: &[&str]) -> Value {
    let output = analyze(&[arguments, &["--json", "--pause", "0"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("secret"), "an id is shown");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Ten sessions of 100, 200, ... bytes, and two cache entries.
fn fill(url: &str) {
    let store = sessile_stores::open(url, &Context::default()).unwrap();
    let hour = Ttl::sliding(Duration::from_secs(3_600)).unwrap();
    for number in 1..=10 {
        store
            .create(
                &Key::session(&format!("secret{number}")).unwrap(),
                &vec![b'x'; number * 100],
                hour,
            )
            .unwrap();
    }
    let cache = Bin::new("cache_menu").unwrap();
    for (name, bytes) in [("menu:main", 3_000), ("menu:footer", 30)] {
        store.create(&Key::in_bin(cache.clone(), name).unwrap(), &vec![b'x'; bytes], hour).unwrap();
    }
}

type Trace = BTreeMap<PathBuf, (u64, i64, i64, i64)>;

/// Everything below a directory: sizes, and times of content, status and access.
fn traces(dir: &Path) -> Trace {
    let mut found = Trace::new();
    for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        let status = std::fs::symlink_metadata(&entry).unwrap();
        if status.is_dir() {
            found.extend(traces(&entry));
            // A scan lists directories, which may change their access times.
            found.insert(entry, (0, status.mtime_nsec(), status.ctime_nsec(), 0));
        } else {
            let times = (status.mtime_nsec(), status.ctime_nsec(), status.atime_nsec());
            found.insert(entry, (status.size(), times.0, times.1, times.2));
        }
    }
    found
}

#[test]
fn a_scan_of_our_own_store_counts_all_and_lists_the_largest() {
    for scheme in ["files:", "sqlite:", "sessile:"] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // The in-memory part of a store on a disk outlives its directory.
        let control = PrivateDir::in_shared_memory().unwrap();
        let (store, mut url) =
            (dir.path().join("store"), format!("{scheme}{}/store", dir.path().display()));
        if scheme != "sqlite:" {
            std::fs::create_dir(store).unwrap();
        }
        if scheme == "sessile:" {
            url = format!("{url}?control={}", control.path().display());
        }
        fill(&url);
        // The other file is the lock of the owner.
        let is_in_control = control.path().read_dir().unwrap().count() > 1;
        assert_eq!(is_in_control, scheme == "sessile:", "{url}");
        for page in ["1", "5", "1000"] {
            let scanned = json(&[&url, "--batch", page, "--top", "3"]);
            assert_eq!(
                (&scanned["entries"], &scanned["bytes"]),
                (&12.into(), &8_530.into()),
                "{url} {page} {scanned}"
            );
            assert_eq!((&scanned["complete"], &scanned["expired"]), (&true.into(), &0.into()));
            let largest: Vec<u64> = scanned["largest"]
                .as_array()
                .unwrap()
                .iter()
                .map(|entry| entry["bytes"].as_u64().unwrap())
                .collect();
            assert_eq!(largest, [3_000, 1_000, 900], "{url}");
            // The engine has digests of all keys, and no names.
            let name = if scheme == "sessile:" { Value::Null } else { "menu:main".into() };
            assert_eq!(scanned["largest"][0]["name"], name);
            assert_eq!(scanned["largest"][1]["name"], Value::Null);
            assert_eq!(scanned["bins"].as_array().map(Vec::len), Some(2));
        }
        let large = text(&analyze(&[&url, "--larger-than", "900"]));
        assert!(
            large.contains("3 of at least 900 bytes")
                && large.contains("menu:main") != (scheme == "sessile:"),
            "{large}"
        );
        assert!(!large.contains("secret") && !large.contains("menu:footer"), "{large}");
    }
}

#[test]
fn the_digest_of_a_listed_session_is_found_again_by_its_id() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let url = format!("files:{}", dir.path().display());
    fill(&url);
    let scanned = json(&[&url, "--top", "2"]);
    let key = Key::session("secret10").unwrap();
    assert_eq!(scanned["largest"][1]["tag"].as_str(), Some(key.tag().as_str()));
    // printf %s secret10 | sha256sum | cut -c1-12
    assert_eq!(scanned["largest"][1]["sha256"], "788d3288f45a");
}

#[test]
fn a_scan_leaves_files_as_they_were() {
    for (scheme, url_scheme) in [("files:", "files:"), ("php", "php+files:")] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let url = format!("{url_scheme}{}", dir.path().display());
        if scheme == "files:" {
            fill(&url);
        } else {
            (0..500).for_each(|number| {
                std::fs::write(
                    dir.path().join(format!("sess_secret{number:03}")),
                    vec![b'x'; number],
                )
                .unwrap();
            });
        }
        let before = traces(dir.path());
        let scanned = json(&[&url, "--batch", "7"]);
        assert!(scanned["entries"].as_u64().unwrap() >= 12, "{scanned}");
        let after = traces(dir.path());
        let names = |trace: &Trace| trace.keys().cloned().collect::<Vec<PathBuf>>();
        assert_eq!(names(&before), names(&after));
        let changed = before.iter().filter(|(path, was)| {
            let is = &after[*path];
            // Reading a header of our own store counts as access; PHP's files are not even opened.
            (was.0, was.1, was.2) != (is.0, is.1, is.2) || (scheme == "php" && was.3 != is.3)
        });
        assert_eq!(
            changed.map(|(path, _)| path).collect::<Vec<_>>(),
            Vec::<&PathBuf>::new(),
            "{url}"
        );
    }
}

#[test]
fn php_files_have_sizes_idle_times_and_an_end() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let url = format!("php+files:{}", dir.path().display());
    for (name, bytes, idle_s) in [("sess_secretnew", 10, 5), ("sess_secretold", 2_000_000, 90_000)]
    {
        let path = dir.path().join(name);
        std::fs::write(&path, vec![b'x'; bytes]).unwrap();
        let modified = std::time::SystemTime::now() - Duration::from_secs(idle_s);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    }
    let scanned = json(&[&url, "--larger-than", "1M"]);
    assert_eq!((&scanned["entries"], &scanned["expired"]), (&2.into(), &1.into()), "{scanned}");
    assert_eq!(scanned["larger_than"], serde_json::json!({ "bytes": 1 << 20, "entries": 1 }));
    let idle = scanned["largest"][0]["idle_ms"].as_u64().unwrap();
    assert!((90_000_000..90_100_000).contains(&idle), "{idle}");
    let longer = json(&[&format!("{url}?maxlifetime=100000")]);
    assert_eq!(longer["expired"], 0);
    let shown = text(&analyze(&[&url]));
    assert!(
        shown.contains("1 of them expired") && shown.contains("idle for 25 h 0 min"),
        "{shown}"
    );
}

#[test]
fn a_profile_of_one_store_sizes_the_payloads_of_a_benchmark() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let url = format!("files:{}/store", dir.path().display());
    std::fs::create_dir(dir.path().join("store")).unwrap();
    fill(&url);
    let profile = dir.path().join("profile.json");
    let profile = profile.to_str().unwrap();
    let exporting = analyze(&[&url, "--export-profile", profile]);
    assert!(text(&exporting).contains("12 entries"));
    assert!(
        String::from_utf8_lossy(&exporting.stderr).contains("2 bins or tables together"),
        "{exporting:?}"
    );
    let exported = std::fs::read_to_string(profile).unwrap();
    assert!(!exported.contains("secret") && !exported.contains("menu"), "{exported}");
    let flags = [
        "bench",
        "scale",
        "--stores",
        "memory",
        "--workers",
        "1",
        "--sessions",
        "500",
        "--rounds",
        "1",
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessile"));
    command.env("SESSILE_BENCH_ALLOW_DEBUG", "1").args(flags);
    let output = command
        .args(["--duration", "0.05s", "--profile", profile, "--export-json", "-"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["results"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{report}");
    assert_eq!((&rows[0]["payload_spread"], &rows[0]["lost"]), (&"profile".into(), &0.into()));
    // The mean of the scanned sizes is 710 bytes.
    let mean = rows[0]["payload_bytes"].as_u64().unwrap();
    assert!((560..860).contains(&mean), "{mean}");
    // It is reported before the walk; an existing file stays if the walk fails.
    let unwritable = analyze(&[&url, "--export-profile", "/proc/nowhere/x.json"]);
    assert_eq!((unwritable.status.code(), unwritable.stdout.is_empty()), (Some(3), true));
    assert_eq!(
        analyze(&["php+files:/nowhere/at/all", "--export-profile", profile]).status.code(),
        Some(3)
    );
    assert_eq!(std::fs::read_to_string(profile).unwrap(), exported);
}

#[test]
fn a_scan_of_nothing_makes_nothing() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    let before = traces(dir.path());
    for url in [
        "files:DIR/empty",
        "files:DIR/none",
        "sessile:DIR/empty",
        "sessile:DIR/none",
        "sqlite:DIR/none.db",
    ] {
        let output = analyze(&[&url.replace("DIR", &dir.path().display().to_string())]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{url}: {message}");
        assert!(
            message.contains("no store of sessile") && message.contains("drupal+mysql"),
            "{url}: {message}"
        );
    }
    assert_eq!(traces(dir.path()), before);
}

/// The files of a directory that can be listed but not searched were reported as an empty store.
#[test]
fn sessions_that_cannot_be_looked_at_are_no_empty_store() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(dir.path().join("sess_secret"), b"x").unwrap();
    let mode =
        |mode| std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o444);
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessile"));
    command.args(["analyze", &format!("php+files:{}", dir.path().display())]);
    if std::fs::metadata(dir.path()).unwrap().uid() == 0 {
        // Root may search everything; nobody may not.
        command.uid(65_534).gid(65_534);
    }
    let output = command.output();
    mode(0o755);
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            eprintln!("SKIPPED: another user may not run what was built here");
            return;
        }
        output => output.unwrap(),
    };
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("as its owner") && output.stdout.is_empty(), "{message}");
}

#[test]
fn bad_input_gets_one_clear_error_and_its_exit_code() {
    let table: &[(&[&str], i32, &str)] = &[
        (&["mongo://host/"], 2, "known schemes"),
        (&["php+nonsense:/x"], 2, "php+files, "),
        (&["php+files:relative"], 2, "absolute"),
        (&["php+files:/x?nonsense=1"], 2, "unknown option"),
        (&["php+files:/nowhere/at/all"], 3, "no such directory"),
        (&["php+files:/proc/self/status"], 3, "no such directory"),
        (&["memory:", "--larger-than", "much"], 2, "a size such as"),
        (&["memory:", "--batch", "0"], 2, "whole number"),
        (&["memory:", "--top", "1001"], 2, "whole number"),
        (&["redis+unix:/nowhere/socket"], 3, "redis+unix"),
        (&[], 2, "required"),
    ];
    for (arguments, code, words) in table {
        let output = analyze(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {message}");
        assert!(message.contains(words), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty(), "{arguments:?} printed a result");
    }
}

#[test]
fn an_interrupted_scan_shows_what_it_has_seen() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for number in 0..2_000 {
        std::fs::write(dir.path().join(format!("sess_secret{number}")), b"x").unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessile"));
    let url = format!("php+files:{}", dir.path().display());
    // Two hundred pages with pauses of a second: the scan does not end before the interrupt.
    command.args(["analyze", &url, "--batch", "10", "--pause", "1s", "--json"]);
    let child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    // The handler is installed before the first page; until then Ctrl-C ends the process at once.
    let handled = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let caught =
            status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim().to_owned();
        u64::from_str_radix(&caught, 16).unwrap() & 2 != 0
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while !handled() {
        assert!(Instant::now() < deadline, "no handler within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let scanned: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&scanned["ended"], &scanned["complete"]), (&"interrupted".into(), &false.into()));
    assert!(scanned["entries"].as_u64().unwrap() < 2_000, "{scanned}");
}

/// The first Ctrl-C takes effect after the page. A page of an unresponsive server lasts until the
/// timeout, which only an unhandled signal could end before.
#[test]
fn a_second_interruption_ends_a_scan_that_waits_for_its_store() {
    // A socket needs a short path.
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessile"));
    command.args([
        "analyze",
        &format!("php+memcached+unix:{}?response_timeout_ms=60000", socket.display()),
    ]);
    let mut child = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "stats");
    stream.write_all(b"STAT pid 1\r\nSTAT uptime 1\r\nSTAT time 1700000000\r\nEND\r\n").unwrap();
    assert!(lines.next().unwrap().unwrap().contains("metadump"));
    let (start, pid) = (Instant::now(), child.id().to_string());
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > Duration::from_secs(90) {
            child.kill().unwrap();
        }
        // Two simultaneous signals count as one.
        assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(status.code(), Some(130), "after {:?}", start.elapsed());
}
