//! A measurement in a store of the user's, given by URL: however it ends, the user's sessions are there and its own are not.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sessile_core::{Filter, Key, Sessions, Stat, Ttl};
use sessile_stores::Context;

/// For whatever is waited for: this machine may be busy with other tests.
const WITHIN: Duration = Duration::from_secs(120);
const OWN: u64 = 25;

/// A store with sessions of a user, and a measurement in it.
struct Measured {
    store: Sessions,
    child: Child,
    _dir: tempfile::TempDir,
}

impl Measured {
    fn start(scheme: &str, arguments: &[&str]) -> Measured {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let url = format!("{scheme}:{}", dir.path().join("store").display());
        let store = sessile_stores::open(&url, &Context::default()).unwrap();
        let hour = Ttl::sliding(Duration::from_secs(3_600)).unwrap();
        for number in 0..OWN {
            store.create(&key(number), format!("of the user {number}").as_bytes(), hour).unwrap();
        }
        let child = Command::new(env!("CARGO_BIN_EXE_sessile"))
            .arg("bench")
            .args(arguments)
            .args(["--stores", &url])
            .env("SESSILE_BENCH_ALLOW_DEBUG", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        Measured { store, child, _dir: dir }
    }

    fn stat(&self) -> Stat {
        self.store.stat().unwrap()
    }

    /// Waits until the store has so many sessions.
    fn until(&mut self, sessions: u64) {
        let start = Instant::now();
        while self.stat().sessions < sessions {
            assert!(self.child.try_wait().unwrap().is_none(), "it ended early: {}", self.said());
            assert!(start.elapsed() < WITHIN, "no {sessions} sessions within {WITHIN:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ctrl-C at a terminal reaches the workers, too.
    fn interrupt(&self) {
        let group = format!("-{}", self.child.id());
        assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    }

    /// Kills its workers, which are its children.
    fn kill_workers(&self) {
        let path = format!("/proc/{0}/task/{0}/children", self.child.id());
        let workers = fs::read_to_string(path).unwrap();
        assert!(!workers.trim().is_empty(), "there are no workers");
        for worker in workers.split_whitespace() {
            let _ = Command::new("kill").args(["-KILL", worker]).status();
        }
    }

    fn said(&mut self) -> String {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }

    /// Waits for its end, and says its exit code and what it had to say.
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
        assert!(listed.iter().all(|entry| (0..OWN).any(|number| entry.key == key(number))), "{said}");
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

/// The run dropped whatever it had filled in, and left it to expire: on stores without a server that means until somebody
/// sweeps, and for a long run after a day.
#[test]
fn ctrl_c_while_it_fills_leaves_nothing_in_a_directory_of_the_users() {
    fills_and_is_interrupted("files");
}

#[test]
fn ctrl_c_while_it_fills_leaves_nothing_in_a_database_of_the_users() {
    fills_and_is_interrupted("sqlite");
}

fn fills_and_is_interrupted(scheme: &str) {
    let mut measured = Measured::start(scheme, &["cycle", "--sessions", "300000", "--workers", "2", "--seconds", "1"]);
    measured.until(OWN + 500);
    measured.interrupt();
    let (code, said) = measured.end();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    measured.only_the_users_sessions_are_there(&said);
}

/// What had expired and was not met stayed, too: nobody sweeps in this experiment.
#[test]
fn an_error_in_the_middle_of_expiry_leaves_nothing() {
    let flags = ["expiry", "--sessions", "300", "--rate", "1000", "--seconds", "5", "--rounds", "3"];
    let mut measured = Measured::start("files", &flags);
    // The sessions that the stream will meet, or meets by now.
    measured.until(OWN + 300 + 250);
    measured.kill_workers();
    let (code, said) = measured.end();
    assert_eq!(code, Some(1), "{said}");
    measured.only_the_users_sessions_are_there(&said);
}

#[test]
fn a_run_that_comes_to_its_end_leaves_nothing() {
    for flags in [
        &["ops", "--quick", "--sessions", "200", "--workers", "1,2", "--seconds", "0.1"][..],
        &["expiry", "--quick", "--sessions", "200", "--rate", "500", "--rounds", "1"],
        &["oversize", "--quick"],
        &["faults", "--quick", "--rounds", "1"],
    ] {
        let mut measured = Measured::start("files", flags);
        let (code, said) = measured.end();
        assert_eq!(code, Some(0), "{flags:?}: {said}");
        measured.only_the_users_sessions_are_there(&said);
    }
}
