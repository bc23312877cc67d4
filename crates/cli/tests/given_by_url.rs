//! A measurement in a user's store, given by URL: however it ends, the user's sessions stay and its
//! own are removed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use sessile_core::{Filter, Key, Sessions, Stat, Ttl};
use sessile_fixtures::{PrivateDir, Server, ServerKind, ServerOptions};
use sessile_stores::Context;

/// A generous deadline: other tests may load the machine.
const WITHIN: Duration = Duration::from_secs(120);
const OWN: u64 = 25;

/// A store with a user's sessions, and a measurement in it.
struct Measured {
    store: Sessions,
    child: Child,
    /// Lines of standard error.
    said: Receiver<String>,
    _dir: tempfile::TempDir,
}

impl Measured {
    fn start(scheme: &str, arguments: &[&str]) -> Measured {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let url = format!("{scheme}:{}", dir.path().join("store").display());
        Measured::start_in(&url, dir, arguments)
    }

    fn start_in(url: &str, dir: tempfile::TempDir, arguments: &[&str]) -> Measured {
        let store = sessile_stores::open(url, &Context::default()).unwrap();
        let hour = Ttl::sliding(Duration::from_secs(3_600)).unwrap();
        for number in 0..OWN {
            store.create(&key(number), format!("of the user {number}").as_bytes(), hour).unwrap();
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_sessile"))
            .arg("bench")
            .args(arguments)
            .args(["--stores", url])
            .env("SESSILE_BENCH_ALLOW_DEBUG", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let (sender, said) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Measured { store, child, said, _dir: dir }
    }

    fn stat(&self) -> Stat {
        self.store.stat().unwrap()
    }

    /// Waits until the store has this many sessions.
    fn until(&mut self, sessions: u64) {
        let start = Instant::now();
        while self.stat().sessions < sessions {
            assert!(self.child.try_wait().unwrap().is_none(), "it ended early: {}", self.said());
            assert!(start.elapsed() < WITHIN, "no {sessions} sessions within {WITHIN:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Signals the process group, as Ctrl-C does.
    fn interrupt(&self) {
        let group = format!("-{}", self.child.id());
        assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    }

    /// Waits for the next line with this beginning.
    fn line(&self, beginning: &str) -> String {
        let mut before = Vec::new();
        loop {
            let line = self
                .said
                .recv_timeout(WITHIN)
                .unwrap_or_else(|error| panic!("{error}, after {before:?}"));
            if line.starts_with(beginning) {
                return line;
            }
            before.push(line);
        }
    }

    /// The lines until its end that were not read before.
    fn said(&self) -> String {
        self.said.iter().collect::<Vec<String>>().join("\n")
    }

    /// Waits for its end, and returns exit code and lines.
    fn end(&mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < WITHIN, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        (self.child.wait().unwrap().code(), self.said())
    }

    fn only_the_users_sessions_are_there(&self, said: &str) {
        let stat = self.stat();
        assert_eq!((stat.sessions, stat.expired), (OWN, 0), "{said}");
        let mut page = self.store.list(None, &Filter::default()).unwrap();
        let mut listed = page.entries;
        while let Some(cursor) = page.next {
            page = self.store.list(Some(&cursor), &Filter::default()).unwrap();
            listed.append(&mut page.entries);
        }
        assert!(
            listed.iter().all(|entry| (0..OWN).any(|number| entry.key == key(number))),
            "{said}"
        );
        for number in 0..OWN {
            let record = self.store.peek(&key(number)).unwrap().unwrap();
            assert_eq!(record.payload.as_slice(), format!("of the user {number}").as_bytes());
        }
        assert!(!said.contains("remain:"), "{said}");
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn key(number: u64) -> Key {
    Key::session(&format!("{number:032}")).unwrap()
}

/// The run dropped its sessions and left them to expire: on stores without a server until a sweep,
/// and in a long run for a day.
#[test]
fn ctrl_c_while_it_fills_leaves_nothing_in_a_directory_of_the_users() {
    fills_and_is_interrupted("files");
}

#[test]
fn ctrl_c_while_it_fills_leaves_nothing_in_a_database_of_the_users() {
    fills_and_is_interrupted("sqlite");
}

fn fills_and_is_interrupted(scheme: &str) {
    let mut measured = Measured::start(
        scheme,
        &["cycle", "--sessions", "300000", "--workers", "2", "--duration", "1s"],
    );
    measured.until(OWN + 500);
    measured.interrupt();
    let (code, said) = measured.end();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    measured.only_the_users_sessions_are_there(&said);
}

#[test]
fn a_run_that_comes_to_its_end_leaves_nothing() {
    for flags in [
        &["ops", "--quick", "--sessions", "200", "--workers", "1,2", "--duration", "0.1s"][..],
        &["oversize", "--quick"],
        &["faults", "--quick", "--rounds", "1"],
    ] {
        let mut measured = Measured::start("files", flags);
        let (code, said) = measured.end();
        assert_eq!(code, Some(0), "{flags:?}: {said}");
        measured.only_the_users_sessions_are_there(&said);
    }
}

/// The sessions were removed first, silently, which takes as long as filling a store, and the
/// result had to wait.
#[test]
fn the_result_is_written_before_its_sessions_are_removed_and_a_line_says_how_many() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("out.json");
    let json = path.to_str().unwrap();
    let flags = [
        "cycle",
        "--sessions",
        "3000",
        "--workers",
        "1",
        "--duration",
        "0.1s",
        "--rounds",
        "1",
        "--export-json",
        json,
    ];
    for (flags, place, sessions) in [
        (&flags[..], "/results", 3_000),
        (&["all", "--quick", "--only", "cycle", "--export-json", json], "/runs/0/results", 5_000),
    ] {
        let mut measured = Measured::start("files", flags);
        let line = measured.line("removing ");
        let written: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(line, format!("removing {sessions} sessions from files (this run's own)"));
        let rows = written.pointer(place).and_then(|rows| rows.as_array().map(Vec::len));
        assert!(rows > Some(0), "{flags:?}: {written:#}");
        let (code, said) = measured.end();
        assert_eq!(code, Some(0), "{flags:?}: {said}");
        measured.only_the_users_sessions_are_there(&said);
    }
}

/// A user's server with its URL; none if it is not installed.
fn redis() -> Option<(Server, String, PrivateDir)> {
    let kind = ServerKind::by_name("redis-server").unwrap();
    if kind.find().is_none() {
        assert!(std::env::var_os("CI").is_none(), "redis-server is not installed");
        eprintln!("SKIPPED: redis-server is not installed");
        return None;
    }
    let home = PrivateDir::on_disk().unwrap();
    let server = Server::start(kind, home.path(), &ServerOptions::default()).unwrap();
    let url = format!("redis+unix:{}", server.socket().display());
    Some((server, url, home))
}

/// Of the ids of an interrupted fill only the first were created. All were destroyed, and a store
/// may keep a tombstone for each.
#[test]
fn a_fill_that_was_given_up_on_a_server_is_removed_and_no_more_is_asked_for() {
    let Some((_server, url, _home)) = redis() else { return };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let flags = ["scale", "--sessions", "400000", "--payload", "64", "--workers", "2"];
    let mut measured =
        Measured::start_in(&url, dir, &[&flags[..], &["--fill-max", "0.3s"]].concat());
    let line = measured.line("removing ");
    let (code, said) = measured.end();
    assert!(code == Some(2) && said.contains("--fill-max"), "{code:?}: {said}");
    let removed = line
        .strip_suffix(" sessions from redis (this run's own)")
        .and_then(|line| line.rsplit(' ').next());
    let removed: usize = removed.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
    // It fills batches of a thousand; the last one is incomplete.
    assert!(removed >= 1_000 && removed.is_multiple_of(1_000) && removed < 400_000, "{line}");
    measured.only_the_users_sessions_are_there(&said);
}

#[test]
fn what_cannot_be_removed_is_told_with_a_way_to_remove_it_and_without_the_place_of_the_store() {
    let Some((mut server, url, _home)) = redis() else { return };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let flags = ["cycle", "--sessions", "300000", "--workers", "2", "--duration", "1s"];
    let mut measured = Measured::start_in(&url, dir, &flags);
    measured.until(OWN + 500);
    server.kill();
    measured.interrupt(); // or it would try each of a thousand sessions in its batch
    let (code, said) = measured.end();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("sessions from redis (this run's own)"), "{said}");
    assert!(
        said.contains("redis: up to ") && said.contains(" sessions of the benchmark remain: "),
        "{said}"
    );
    assert!(
        said.contains("they expire within")
            && said.contains("`sessile gc` with its URL removes them"),
        "{said}"
    );
    assert!(!said.contains(&server.socket().display().to_string()), "{said}");
}

/// Each of a thousand sessions in the batch was tried for a second and a half.
#[test]
fn a_server_that_dies_while_it_is_filled_fails_its_row_at_the_first_error_and_no_other() {
    let Some((mut server, url, _home)) = redis() else { return };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("out.json");
    let flags =
        ["cycle", "--sessions", "300000", "--workers", "1", "--duration", "0.1s", "--rounds", "1"];
    let others = ["--stores", "null", "--export-json", path.to_str().unwrap()];
    let mut measured = Measured::start_in(&url, dir, &[&flags[..], &others].concat());
    measured.until(OWN + 500);
    server.kill();
    let (code, said) = measured.end();
    assert_eq!(code, Some(1), "{said}");
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let failed = |store: &str| {
        let rows = report["results"].as_array().unwrap();
        rows.iter().find(|row| row["store"] == store).unwrap()["failed"].clone()
    };
    assert!(failed("redis").as_str().unwrap().contains("it was given up after "), "{report:#}");
    assert!(failed("null").is_null(), "{report:#}");
}
