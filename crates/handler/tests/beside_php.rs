//! Requests beside PHP's own handler `files`, which writes the same sessions.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use sessile_core::{Clock, ErrorKind, Key, Sessions};
use sessile_fixtures::PrivateDir;
use sessile_handler::{Access, Concurrency, Format, OnConflict, Request, Rules, Save, Saved};
use sessile_stores::Context;

struct PhpDirectory {
    private: PrivateDir,
    sessions: Sessions,
}

impl PhpDirectory {
    fn new() -> PhpDirectory {
        let private = PrivateDir::on_disk().unwrap();
        let url = format!("files:{}?php=1", private.path().display());
        PhpDirectory { sessions: sessile_stores::open(&url, &Context::default()).unwrap(), private }
    }

    fn file(&self, id: &str) -> PathBuf {
        self.private.path().join(format!("sess_{id}"))
    }

    /// As PHP does under its lock: it empties the file and writes it.
    fn php_writes(&self, id: &str, payload: &str) {
        std::fs::write(self.file(id), payload).unwrap();
    }

    fn open(&self, request: &mut Request, sees: &str) {
        let opened = request.open(&self.sessions, "id", Access::Locked).unwrap();
        assert_eq!(str::from_utf8(opened.payload).unwrap(), sees);
        request.loaded();
    }

    fn save(&self, request: &mut Request, text: &str) {
        let payload = Some(text.as_bytes());
        let save = Save { payload, changed: true, empty: false, headers_open: true };
        let saved = request.save(&self.sessions, "id", save).unwrap();
        assert!(matches!(saved, Saved::Stored), "{saved:?}");
    }
}

fn request(concurrency: Concurrency) -> Request {
    let rules = Rules { concurrency, lock_wait: Duration::ZERO, ..Rules::default() };
    Request::new(Clock::system(), std::process::id, rules)
}

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Lines;

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        LINES.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

/// PHP empties a file and writes it, and a request that read it in between, without the lock, saw
/// a part of its session. PHP trusts the lock, so it is taken for each request.
#[test]
fn requests_beside_php_take_turns_although_they_may_merge() {
    log::set_logger(&Lines).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let (php, lock) = (PhpDirectory::new(), Key::session("id").unwrap());
    let mut merging = request(Concurrency::Merge {
        format: Some(Format::Php),
        on_conflict: OnConflict::LastWins,
    });
    php.open(&mut merging, "");
    php.save(&mut merging, "a|i:1;");
    for payload in ["a|i:2;", "a|i:3;"] {
        php.open(&mut merging, payload.replace('2', "1").replace('3', "2").as_str());
        let held = php.sessions.begin(&lock, Duration::ZERO).unwrap_err();
        assert!(matches!(held.kind(), ErrorKind::LockTimeout { .. }), "{held:?}");
        php.save(&mut merging, payload);
    }
    let lines = LINES.lock().unwrap();
    let told =
        lines.iter().filter(|line| line.contains("take turns, because another program")).count();
    assert_eq!(told, 1, "{lines:?}");
}

/// PHP's own strict mode takes each id that has a file: an attacker let this handler refuse the id,
/// and planted it for the pages that PHP's handler serves.
#[test]
fn an_id_that_strict_mode_refuses_gets_no_file() {
    let php = PhpDirectory::new();
    for access in [Access::Locked, Access::Unlocked] {
        let mut strict = request(Concurrency::Exclusive);
        assert!(!strict.validate(&php.sessions, "planted", access));
        strict.end();
        assert!(!php.file("planted").exists(), "{access:?}");
    }
}

/// Neither has a record in its file.
#[test]
fn strict_mode_takes_an_id_that_is_held_or_leads_on() {
    let (php, wait) = (PhpDirectory::new(), Duration::ZERO);
    let [old, new, held] = ["old", "new", "held"].map(|id| Key::session(id).unwrap());
    php.php_writes("old", "a|i:1;");
    let mut log_in = php.sessions.begin(&old, wait).unwrap().lease;
    log_in.regenerate(&new, Duration::from_secs(60)).unwrap();
    let _first = php.sessions.begin(&held, wait).unwrap();
    for id in ["old", "held"] {
        let mut strict = request(Concurrency::Exclusive);
        assert!(strict.validate(&php.sessions, id, Access::Locked), "{id}");
    }
}
