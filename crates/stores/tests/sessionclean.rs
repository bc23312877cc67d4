//! `files:...?php=1` beside Debian's `/usr/lib/php/sessionclean`, a job of root's that removes
//! PHP's session files by their age.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

#[cfg(test)]
mod support;

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use sessile_core::{Bin, Key, Sessions, Ttl};
use sessile_stores::Context;

use support::patience::until;
use support::{key, ttl};

/// Three seconds. Nothing can make a file older, as what counts is when it was last changed.
const MINUTES: &str = "+0.05";

fn open(root: &Path) -> Sessions {
    sessile_stores::open(&format!("files:{}?php=1", root.display()), &Context::default()).unwrap()
}

/// The command of the job, and how many files it names.
fn sessionclean(root: &Path, action: &str) -> usize {
    let mut find = Command::new("find");
    find.arg("-O3").arg(format!("{}/", root.display()));
    find.args(["-ignore_readdir_race", "-depth", "-mindepth", "1", "-name", "sess_*"]);
    find.args(["-type", "f", "-cmin", MINUTES, "-print", action]);
    let output = find.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().count()
}

/// It looks for `sess_*` in all folders below. So sessions of other bins were removed, however long
/// they were to live, and what is remembered of an id that begins so.
#[test]
fn the_job_removes_sessions_that_nobody_has_used_and_nothing_else() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("php");
    let sessions = open(&root);
    let used = ["saved", "touched", "extended"];
    for id in used.iter().chain(&["read", "sess_out"]) {
        sessions.create(&key(id), b"n|i:1;", ttl()).unwrap();
    }
    let week = Ttl::sliding(Duration::from_secs(7 * 86_400)).unwrap();
    let login = Key::in_bin(Bin::new("remembered").unwrap(), "sess_in").unwrap();
    sessions.create(&login, b"ann", week).unwrap();
    sessions.destroy(&key("sess_out")).unwrap();
    until("all are old enough", || sessionclean(&root, "-true") >= 4);

    sessions.begin(&key("saved"), Duration::ZERO).unwrap().lease.commit(b"n|i:2;", ttl()).unwrap();
    sessions.touch(&key("touched"), ttl()).unwrap();
    sessions.begin(&key("extended"), Duration::ZERO).unwrap().lease.touch(ttl()).unwrap();
    // Reading prolongs no session, neither here nor in PHP.
    assert!(sessions.peek(&key("read")).unwrap().is_some());
    assert_eq!(sessionclean(&root, "-delete"), 1);
    for id in used {
        assert!(sessions.peek(&key(id)).unwrap().is_some(), "{id}");
    }
    assert!(sessions.peek(&key("read")).unwrap().is_none());
    assert_eq!(sessions.peek(&login).unwrap().unwrap().payload, b"ann");
    let begun = sessions.begin(&key("sess_out"), Duration::ZERO).unwrap();
    assert_eq!(begun.absence, sessile_core::Absence::Destroyed);
}

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Listener;

impl log::Log for Listener {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        WARNINGS.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

/// Sessions of a week were removed after 24 minutes without a word.
#[test]
fn sessions_that_the_job_removes_before_their_time_are_told_of_once() {
    log::set_logger(&Listener).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let told =
        || WARNINGS.lock().unwrap().iter().filter(|line| line.contains("maxlifetime")).count();
    let base = tempfile::tempdir().unwrap();
    let sessions = open(&base.path().join("php"));
    sessions.create(&key("one"), b"n|i:1;", ttl()).unwrap();
    let other_bin = Key::in_bin(Bin::new("remembered").unwrap(), "in").unwrap();
    let week = Ttl::sliding(Duration::from_secs(7 * 86_400)).unwrap();
    sessions.create(&other_bin, b"ann", week).unwrap();
    assert_eq!(told(), 0);
    sessions.create(&key("two"), b"n|i:1;", week).unwrap();
    sessions.begin(&key("two"), Duration::ZERO).unwrap().lease.commit(b"n|i:2;", week).unwrap();
    assert_eq!(told(), 1);
}
