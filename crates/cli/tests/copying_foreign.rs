//! `sessile copy` from what a site has: sessions that PHP has written through phpredis.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod started;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use sessile_core::{Key, Sessions, Ttl};
use sessile_fixtures::{PrivateDir, Server, ServerKind, ServerOptions};
use sessile_stores::Context;
use started::{sessile, stderr, stdout};

/// More than a batch; below the number at which digits are grouped.
const SESSIONS: u32 = 900;
/// How often a copy is killed.
const KILLS: u64 = 5;

/// A site whose sessions are in Redis, and the directory of its new store.
struct Site {
    redis: Server,
    dir: PrivateDir,
}

impl Site {
    /// `None`, said on stderr, without Redis or phpredis; under CI that is a failure.
    fn start() -> Option<Site> {
        let skipped = |what: &str| {
            assert!(std::env::var_os("CI").is_none(), "{what} is not installed");
            eprintln!("SKIPPED: {what} is not installed");
        };
        let dir = PrivateDir::on_disk().unwrap();
        let kind = ServerKind::by_name("redis-server").unwrap();
        if kind.find().is_none() {
            skipped("redis-server");
            return None;
        }
        let has_redis = ["-r", "exit((int) !extension_loaded('redis'));"];
        if !Command::new("php").args(has_redis).status().is_ok_and(|status| status.success()) {
            skipped("PHP's extension redis");
            return None;
        }
        let redis = Server::start(kind, dir.path(), &ServerOptions::default()).unwrap();
        Some(Site { redis, dir })
    }

    /// PHP with sessions in Redis.
    fn command(&self, settings: &[&str], program: &str) -> Command {
        let place = format!("session.save_path=unix://{}", self.redis.socket().display());
        let fixed = [
            "session.save_handler=redis",
            &place,
            "session.use_cookies=0",
            "session.use_strict_mode=0",
            "session.gc_maxlifetime=1440",
            "session.cache_limiter=",
            "redis.session.locking_enabled=1",
        ];
        let mut command = Command::new("php");
        for setting in fixed.iter().chain(settings) {
            command.args(["-d", setting]);
        }
        command.args(["-r", program]);
        command
    }

    fn php(&self, settings: &[&str], program: &str) {
        let output = self.command(settings, program).output().unwrap();
        let told = [output.stdout, output.stderr].concat();
        assert!(output.status.success() && told.is_empty(), "{}", String::from_utf8_lossy(&told));
    }

    /// Saves sessions as an application does.
    fn save(&self, settings: &[&str], from: u32, to: u32, value: &str) {
        let program = format!(
            "for ($i = {from}; $i < {to}; $i++) {{
                session_id(\"secret$i\");
                session_start();
                $_SESSION['n'] = $i;
                $_SESSION['cart'] = '{value}';
                session_write_close();
            }}"
        );
        self.php(settings, &program);
    }

    fn from(&self) -> String {
        format!("php+redis+unix:{}", self.redis.socket().display())
    }

    fn to(&self) -> String {
        format!("files:{}/new", self.dir.path().display())
    }

    fn new_store(&self) -> Sessions {
        sessile_stores::open(&self.to(), &Context::default()).unwrap()
    }

    /// `sessile copy FROM TO` and more.
    fn copy(&self, more: &[&str]) -> (i32, String, String) {
        let (from, to) = (self.from(), self.to());
        let output = sessile(&[&["copy", &from, &to, "--pause", "0"], more].concat());
        let told = format!("{}{}", stdout(&output), stderr(&output));
        assert!(!told.contains("secret"), "an id: {told}");
        (output.status.code().unwrap(), stdout(&output), stderr(&output))
    }

    /// Begins a copy and kills it after a time.
    fn copy_and_kill(&self, after: Duration) {
        let mut copy = Command::new(env!("CARGO_BIN_EXE_sessile"))
            .args(["copy", &self.from(), &self.to(), "--batch", "20", "--pause", "20ms"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Not a wait for a result: the moment of the kill.
        std::thread::sleep(after);
        copy.kill().unwrap();
        copy.wait().unwrap();
    }

    fn payload(&self, number: u32) -> String {
        let record = self.new_store().peek(&key(number)).unwrap().unwrap();
        String::from_utf8(record.payload).unwrap()
    }
}

fn key(number: u32) -> Key {
    Key::session(&format!("secret{number}")).unwrap()
}

/// As PHP has serialised it.
fn saved(number: u32, value: &str) -> String {
    format!("n|i:{number};cart|s:{}:\"{value}\";", value.len())
}

#[test]
fn sessions_of_phpredis_are_copied_by_a_command_that_is_killed_and_repeated() {
    let Some(site) = Site::start() else { return };
    site.save(&[], 0, SESSIONS, "a book");
    assert_eq!(site.copy(&["--dry-run"]).0, 3, "a dry run makes no store");
    drop(site.new_store());
    let (code, told, _) = site.copy(&["--dry-run"]);
    assert_eq!((code, told.as_str()), (0, "900 sessions to copy\n"));
    let copied = || site.new_store().stat().unwrap().sessions;
    for kill in 0..KILLS {
        site.copy_and_kill(Duration::from_millis(100 + 100 * kill));
    }
    let mut after = Duration::from_millis(600);
    while copied() == 0 {
        // On a busy machine.
        site.copy_and_kill(after);
        after += Duration::from_millis(100);
    }
    assert!((1..u64::from(SESSIONS)).contains(&copied()), "{} before the last copy", copied());
    let (code, told, why) = site.copy(&[]);
    assert!(code == 0 && told.contains("sessions there already"), "{told}{why}");
    assert_eq!(copied(), u64::from(SESSIONS));
    let (code, told, _) = site.copy(&["--verify"]);
    assert_eq!((code, told.as_str()), (0, "900 sessions equal\n"));
    let now = sessile_core::Clock::system().now();
    for number in 0..SESSIONS {
        assert_eq!(site.payload(number), saved(number, "a book"));
        let record = site.new_store().peek(&key(number)).unwrap().unwrap();
        let left = record.head.expires.since(now).as_secs();
        assert!((1_000..=1_440).contains(&left), "{left}");
    }
}

#[test]
fn the_session_that_was_used_later_wins() {
    let Some(site) = Site::start() else { return };
    site.save(&[], 0, 3, "a book");
    let (code, told, why) = site.copy(&[]);
    assert_eq!((code, told.as_str()), (0, "3 sessions copied\n"), "{why}");
    // A visitor is still served by phpredis, another one already by the new store.
    site.save(&["session.gc_maxlifetime=2000"], 1, 2, "two books");
    let begun = site.new_store().begin(&key(2), Duration::ZERO).unwrap();
    begun.lease.commit(b"new", Ttl::sliding(Duration::from_secs(3_000)).unwrap()).unwrap();
    let expected = "1 session older in the new store\n1 session newer in the new store\n";
    let (code, told, _) = site.copy(&["--verify"]);
    assert_eq!((code, told.as_str()), (1, &*format!("1 session equal\n{expected}")));
    let (code, told, why) = site.copy(&[]);
    let expected = "0 sessions copied\n1 session replaced\n1 session there already\n\
                    1 session newer in the new store\n";
    assert_eq!((code, told.as_str()), (0, expected), "{why}");
    assert_eq!(site.payload(0), saved(0, "a book"));
    assert_eq!(site.payload(1), saved(1, "two books"));
    assert_eq!(site.payload(2), "new");
    // After a log-out in the new store the old session is not brought back.
    site.new_store().destroy(&key(0)).unwrap();
    let (code, told, _) = site.copy(&[]);
    assert_eq!(code, 1);
    assert!(told.contains("1 session left in the old store: ended in the new one"), "{told}");
    assert!(site.new_store().peek(&key(0)).unwrap().is_none());
}

/// A worker of phpredis that holds a session while the others move.
#[test]
fn a_move_leaves_nothing_in_redis_but_what_is_in_use() {
    let Some(site) = Site::start() else { return };
    site.save(&[], 0, 3, "a book");
    let program = "session_id('secret1'); session_start(); echo 'held'; fgets(STDIN); \
                   $_SESSION['cart'] = 'two books';";
    let mut worker = site.command(&[], program);
    let mut worker = worker.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut held = [0; 4];
    worker.stdout.as_mut().unwrap().read_exact(&mut held).unwrap();
    let (code, told, why) = site.copy(&["--move"]);
    let expected = "2 sessions moved\n1 session not copied: lock-timeout\n";
    assert_eq!((code, told.as_str()), (1, expected), "{why}");
    drop(worker.stdin.take());
    assert!(worker.wait().unwrap().success());
    let (code, told, why) = site.copy(&["--move"]);
    assert_eq!((code, told.as_str()), (0, "1 session moved\n"), "{why}");
    assert_eq!(site.payload(1), saved(1, "two books"));
    let (code, told, _) = site.copy(&["--move"]);
    assert_eq!((code, told.as_str()), (0, "0 sessions moved\n"));
}

#[test]
fn a_move_back_to_phpredis_leaves_sessions_that_php_finds() {
    let Some(site) = Site::start() else { return };
    site.save(&[], 0, 3, "a book");
    assert_eq!(site.copy(&["--move"]).0, 0);
    let back = |more: &[&str]| {
        let output = sessile(&[&["copy", &site.to(), &site.from(), "--pause", "0"], more].concat());
        (output.status.code().unwrap(), stdout(&output), stderr(&output))
    };
    let (code, _, why) = back(&[]);
    assert!(code == 4 && why.contains("--move"), "{code} {why}");
    let (code, told, why) = back(&["--move"]);
    assert_eq!((code, told.as_str()), (0, "3 sessions moved\n"), "{why}");
    assert!(why.contains("Owners of sessions are not copied"), "{why}");
    let settings = ["session.use_strict_mode=1", "session.use_cookies=0"];
    site.php(
        &settings,
        "for ($i = 0; $i < 3; $i++) {
            session_id(\"secret$i\");
            session_start();
            session_id() === \"secret$i\" && $_SESSION['n'] === $i || print 'logged out';
            $_SESSION['cart'] === 'a book' || print 'another cart';
            session_write_close();
        }",
    );
    assert_eq!(site.new_store().stat().unwrap().sessions, 0);
}

#[test]
fn a_session_with_a_malformed_id_is_left_out_with_the_reason() {
    let Some(site) = Site::start() else { return };
    site.save(&[], 0, 2, "a book");
    site.php(&[], "session_id('secret.0'); session_start(); $_SESSION['n'] = 1;");
    let (code, told, why) = site.copy(&[]);
    let expected = "2 sessions copied\n1 session not copied: invalid-id\n";
    assert_eq!((code, told.as_str()), (1, expected), "{why}");
    assert!(why.contains("outside A-Z a-z 0-9"), "{why}");
    let (code, told, _) = site.copy(&["--json"]);
    assert_eq!(code, 1);
    assert!(told.contains("\"invalid-id\": 1") && told.contains("\"same\": 2"), "{told}");
    let (code, told, why) = site.copy(&["--move"]);
    let expected = "2 sessions moved\n1 session not copied: invalid-id\n";
    assert_eq!((code, told.as_str()), (1, expected), "{why}");
}

#[test]
fn sessions_of_apache_session_are_copied_as_perl_has_written_them() {
    let perl = |arguments: &[&str]| Command::new("perl").args(arguments).status();
    if !perl(&["-MApache::Session::File", "-e", "1"]).is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "Apache::Session is not installed");
        return eprintln!("SKIPPED: Apache::Session is not installed");
    }
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("old");
    std::fs::create_dir(&old).unwrap();
    let place = old.to_str().unwrap();
    let program = "use Apache::Session::File;
        for (1 .. 20) {
            my %arguments = (Directory => $ARGV[0], LockDirectory => $ARGV[0]);
            tie my %session, 'Apache::Session::File', undef, \\%arguments;
            $session{cart} = ['a book', $_];
            untie %session;
        }";
    assert!(perl(&["-e", program, place]).unwrap().success());
    let to = format!("files:{}/new", dir.path().display());
    let copy = || {
        let from = format!("apache-session+files:{place}?maxlifetime=3600");
        let output = sessile(&["copy", &from, &to, "--pause", "0"]);
        (output.status.code().unwrap(), stdout(&output), stderr(&output))
    };
    assert_eq!(copy(), (0, "20 sessions copied\n".to_owned(), String::new()));
    let again = "0 sessions copied\n20 sessions there already\n".to_owned();
    assert_eq!(copy(), (0, again, String::new()));
    let new = sessile_stores::open(&to, &Context::default()).unwrap();
    let ids = std::fs::read_dir(&old).unwrap().map(|entry| entry.unwrap().file_name());
    let ids = ids.map(|name| name.into_string().unwrap()).filter(|name| name.len() == 32);
    let copied = ids.map(|id| {
        let record = new.peek(&Key::session(&id).unwrap()).unwrap().unwrap();
        assert_eq!(record.payload, std::fs::read(old.join(&id)).unwrap());
    });
    assert_eq!(copied.count(), 20);
}

#[test]
fn what_cannot_be_copied_makes_no_store_and_is_refused_with_a_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let to = format!("files:{}/new", dir.path().display());
    let refused = |from: &str, more: &[&str]| {
        let output = sessile(&[&["copy", from, &to], more].concat());
        assert!(!Path::new(&format!("{}/new", dir.path().display())).exists());
        (output.status.code().unwrap(), stderr(&output))
    };
    let files = format!("php+files:{}", dir.path().display());
    let (code, why) = refused(&files, &[]);
    assert!(code == 4 && why.contains("files:DIRECTORY?php=1"), "{code} {why}");
    let (code, why) = refused(&files, &["--move"]);
    assert!(code == 4 && why.contains("without --move"), "{code} {why}");
    let (code, why) = refused(&format!("apache-session+files:{}", dir.path().display()), &[]);
    assert!(code == 2 && why.contains("?maxlifetime="), "{code} {why}");
    let (code, why) = refused("php+redis+unix:/nowhere", &[]);
    assert!(code == 3 && why.contains("php+redis+unix:/nowhere"), "{code} {why}");
    let (code, why) = refused("php+redis+unix:/nowhere?nonsense=1", &[]);
    assert!(code == 2 && why.contains("unknown option"), "{code} {why}");
    // --move goes neither with --verify nor with --dry-run.
    for (option, advice) in [("--pause=0", "add --move"), ("--verify", "leave --dry-run and")] {
        let output = sessile(&["copy", &to, "php+redis+unix:/nowhere", option]);
        let (code, why) = (output.status.code().unwrap(), stderr(&output));
        assert!(code == 4 && why.contains(advice), "{code} {why}");
    }
}
