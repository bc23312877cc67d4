//! What is special to this store. What all stores owe is tested by the conformance suite.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use sessile_core::{
    Absence, Budget, Clock, ErrorKind, Filter, Key, Limits, Owner, Sessions, Timestamp, Ttl,
};
use tempfile::TempDir;

use crate::{Context, open};

const PATH: &str = "SESSILE_TEST_SQLITE_FILE";
const WAIT: Duration = Duration::from_secs(10);

struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("s.db")
    }

    fn try_open(&self, clock: &Clock) -> sessile_core::Result<Sessions> {
        open(&format!("sqlite:{}", self.file().display()), &Context { clock: clock.clone() })
    }

    fn open(&self, clock: &Clock) -> Sessions {
        self.try_open(clock).unwrap()
    }

    /// A connection past the store, as an administrator's shell would have one.
    fn sql(&self, sql: &str) {
        Connection::open(self.file()).unwrap().execute_batch(sql).unwrap();
    }
}

fn key(id: &str) -> Key {
    Key::session(id).unwrap()
}

fn ttl(seconds: u64) -> Ttl {
    Ttl::sliding(Duration::from_secs(seconds)).unwrap()
}

fn manual() -> Clock {
    Clock::manual(Timestamp::from_ms(1_700_000_000_000))
}

fn kind<T: std::fmt::Debug>(result: sessile_core::Result<T>) -> &'static str {
    result.unwrap_err().kind().code()
}

#[test]
fn a_record_survives_reopening_and_moves_through_its_life() {
    let (scratch, clock) = (Scratch::new(), manual());
    let sessions = scratch.open(&clock);
    sessions.create(&key("a"), b"1", ttl(60)).unwrap();
    assert_eq!(kind(sessions.create(&key("a"), b"2", ttl(60))), "exists");
    drop(sessions);
    let sessions = scratch.open(&clock);
    let mut begun = sessions.begin(&key("a"), WAIT).unwrap();
    assert_eq!(begun.record.as_ref().unwrap().payload, b"1");
    assert_eq!(kind(sessions.create(&key("a"), b"2", ttl(60))), "exists");
    begun.lease.regenerate(&key("b"), Duration::from_secs(30)).unwrap();
    begun.lease.commit(b"2", ttl(60)).unwrap();
    let begun = sessions.begin(&key("a"), WAIT).unwrap();
    assert_eq!(begun.lease.key(), &key("b"));
    assert_eq!(
        begun.record.as_ref().map(|record| (record.head.version, &record.payload[..])),
        Some((2, &b"2"[..]))
    );
    drop(begun);
    clock.advance(Duration::from_secs(30));
    let spent = sessions.begin(&key("a"), WAIT).unwrap();
    assert_eq!((spent.record, spent.absence), (None, Absence::Regenerated));
    clock.advance(Duration::from_secs(30));
    assert!(sessions.peek(&key("b")).unwrap().is_none());
    assert_eq!(kind(sessions.touch(&key("b"), ttl(60))), "gone");
}

#[test]
fn files_are_private_to_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let sessions = scratch.open(&manual());
    sessions.create(&key("a"), b"1", ttl(60)).unwrap();
    for file in std::fs::read_dir(scratch.0.path()).unwrap().map(Result::unwrap) {
        assert_eq!(
            file.metadata().unwrap().permissions().mode() & 0o077,
            0,
            "{:?}",
            file.file_name()
        );
    }
}

/// A database restored without its lock file, and root's clean-up job is the first to use it: the
/// lock file was root's then, mode 0600, and every request of the web server failed.
#[test]
fn a_lock_file_made_anew_belongs_to_whom_the_database_belongs() {
    use std::os::unix::fs::{MetadataExt, chown};
    let scratch = Scratch::new();
    drop(scratch.open(&manual()));
    // Only root can.
    for of_the_web_server in [scratch.0.path(), &scratch.file()] {
        let _ = chown(of_the_web_server, Some(65_534), Some(65_534));
    }
    std::fs::remove_file(scratch.path("s.db.locks")).unwrap();
    drop(scratch.open(&manual()).begin(&key("a"), WAIT).unwrap());
    let of = |name: &str| {
        std::fs::metadata(scratch.path(name)).map(|found| (found.mode(), found.uid(), found.gid()))
    };
    assert_eq!(of("s.db.locks").unwrap(), of("s.db").unwrap());
}

#[test]
fn a_database_of_another_program_is_refused_and_not_changed() {
    let scratch = Scratch::new();
    scratch.sql("CREATE TABLE customers (name TEXT)");
    let before = std::fs::read(scratch.file()).unwrap();
    assert_eq!(kind(scratch.try_open(&manual())), "incompatible");
    assert_eq!(std::fs::read(scratch.file()).unwrap(), before);
    assert_eq!(
        std::fs::read_dir(scratch.0.path()).unwrap().count(),
        1,
        "a file was left beside it"
    );
}

#[test]
fn a_file_that_is_no_database_is_refused_and_not_changed() {
    let scratch = Scratch::new();
    let text = "These are notes, not a database. ".repeat(100);
    std::fs::write(scratch.file(), &text).unwrap();
    assert_eq!(kind(scratch.try_open(&manual())), "corrupt");
    assert_eq!(std::fs::read_to_string(scratch.file()).unwrap(), text);
}

#[test]
fn a_newer_schema_is_refused() {
    let scratch = Scratch::new();
    drop(scratch.open(&manual()));
    scratch.sql("PRAGMA user_version = 2");
    assert_eq!(kind(scratch.try_open(&manual())), "incompatible");
}

#[test]
fn a_missing_directory_and_a_second_name_are_refused() {
    let scratch = Scratch::new();
    let missing = open(
        &format!("sqlite:{}/none/s.db", scratch.0.path().display()),
        &Context { clock: manual() },
    );
    assert_eq!(kind(missing), "unreachable");
    drop(scratch.open(&manual()));
    std::fs::hard_link(scratch.file(), scratch.path("twin.db")).unwrap();
    assert_eq!(kind(scratch.try_open(&manual())), "incompatible");
}

#[test]
fn a_symbolic_link_leads_to_the_same_locks() {
    let (scratch, clock) = (Scratch::new(), manual());
    let sessions = scratch.open(&clock);
    let link = scratch.path("link.db");
    std::os::unix::fs::symlink(scratch.file(), &link).unwrap();
    let linked = open(&format!("sqlite:{}", link.display()), &Context { clock }).unwrap();
    let _begun = sessions.begin(&key("a"), WAIT).unwrap();
    assert_eq!(kind(linked.begin(&key("a"), Duration::ZERO)), "lock-timeout");
}

#[test]
#[ignore = "started by the other tests"]
fn as_a_process() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let url = format!("sqlite:{}", path.display());
    let sessions = open(&url, &Context::default()).unwrap();
    sessions.create(&key(&format!("p{}", std::process::id())), b"mine", ttl(600)).unwrap();
    for _ in 0..100 {
        let begun = sessions.begin(&key("shared"), WAIT).unwrap();
        let count = begun
            .record
            .map_or(0, |record| String::from_utf8(record.payload).unwrap().parse().unwrap());
        begun.lease.commit((count + 1_u32).to_string().as_bytes(), ttl(600)).unwrap();
    }
}

#[test]
fn eight_processes_create_the_database_at_once_and_lose_no_increment() {
    let scratch = Scratch::new();
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["sqlite::tests::as_a_process", "--exact", "--ignored"])
            .env(PATH, scratch.file())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let children: Vec<Child> = (0..8).map(|_| start()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let sessions = scratch.open(&Clock::system());
    assert_eq!(sessions.stat().unwrap().sessions, 9);
    assert_eq!(sessions.peek(&key("shared")).unwrap().unwrap().payload, b"800");
}

#[test]
fn a_commit_is_refused_when_the_tombstone_may_have_been_swept_already() {
    let (scratch, clock) = (Scratch::new(), manual());
    let sessions = scratch.open(&clock);
    let begun = sessions.begin(&key("a"), WAIT).unwrap();
    sessions.destroy(&key("a")).unwrap();
    clock.advance(Limits::TOMBSTONE_TTL);
    // The tombstone of a held session is left alone, but an administrator may have emptied the
    // table.
    scratch.sql("DELETE FROM session");
    assert_eq!(kind(begun.lease.commit(b"back", ttl(60))), "gone");
    assert!(sessions.peek(&key("a")).unwrap().is_none());
}

#[test]
fn destroying_again_voids_the_lease_that_saw_the_first_destruction() {
    let (scratch, clock) = (Scratch::new(), manual());
    let sessions = scratch.open(&clock);
    sessions.create(&key("a"), b"1", ttl(60)).unwrap();
    sessions.destroy(&key("a")).unwrap();
    let begun = sessions.begin(&key("a"), WAIT).unwrap();
    assert_eq!(begun.absence, Absence::Destroyed);
    sessions.destroy(&key("a")).unwrap();
    assert_eq!(kind(begun.lease.commit(b"2", ttl(60))), "destroyed");
    let begun = sessions.begin(&key("a"), WAIT).unwrap();
    begun.lease.commit(b"3", ttl(60)).unwrap();
    assert_eq!(sessions.peek(&key("a")).unwrap().unwrap().head.version, 1);
}

#[test]
fn fences_grow_over_a_boot_and_old_tombstones_do_not_refuse() {
    let (scratch, clock) = (Scratch::new(), manual());
    let sessions = scratch.open(&clock);
    sessions.create(&key("a"), b"1", ttl(60)).unwrap();
    let fence = sessions.begin(&key("a"), WAIT).unwrap().lease.fence();
    sessions.destroy(&key("a")).unwrap();
    drop(sessions);
    // The next boot: another boot id, and a monotonic clock that started anew.
    scratch
        .sql("UPDATE boot SET id = 'an earlier boot'; UPDATE session SET mark = mark | (1 << 49)");
    let sessions = scratch.open(&clock);
    let begun = sessions.begin(&key("a"), WAIT).unwrap();
    assert!(begun.lease.fence() > fence + (1 << 49), "{} {fence}", begun.lease.fence());
    begun.lease.commit(b"2", ttl(60)).unwrap();
}

#[test]
fn losing_the_lock_file_loses_no_update() {
    let (scratch, clock) = (Scratch::new(), manual());
    let sessions = scratch.open(&clock);
    sessions.create(&key("a"), b"1", ttl(60)).unwrap();
    let first = sessions.begin(&key("a"), WAIT).unwrap();
    std::fs::remove_file(scratch.path("s.db.locks")).unwrap();
    let second = sessions.begin(&key("a"), WAIT).unwrap();
    second.lease.commit(b"2", ttl(60)).unwrap();
    assert_eq!(kind(first.lease.commit(b"lost update", ttl(60))), "stale");
    assert_eq!(sessions.peek(&key("a")).unwrap().unwrap().payload, b"2");
}

#[test]
fn a_damaged_row_is_reported_left_alone_and_passed_over() {
    let (scratch, clock) = (Scratch::new(), manual());
    let sessions = scratch.open(&clock);
    for id in ["a", "b", "c", "fine"] {
        sessions.create(&key(id), b"1", ttl(60)).unwrap();
    }
    scratch.sql(
        "UPDATE session SET payload = NULL WHERE id = 'a'; UPDATE session SET expires = -1 \
                 WHERE id = 'b'",
    );
    scratch.sql("UPDATE session SET kind = 7 WHERE id = 'c'");
    for id in ["a", "b", "c"] {
        assert_eq!(kind(sessions.begin(&key(id), WAIT).map(|begun| begun.record)), "corrupt");
        assert_eq!(kind(sessions.peek(&key(id))), "corrupt");
        // The lock is not held after the failure.
        assert_eq!(
            kind(sessions.begin(&key(id), Duration::ZERO).map(|begun| begun.record)),
            "corrupt"
        );
    }
    assert!(
        sessions
            .list(None, &Filter::default())
            .unwrap()
            .entries
            .iter()
            .any(|entry| entry.key == key("fine"))
    );
}

#[test]
fn a_sweep_counts_records_passes_over_leases_and_files_the_living_anew() {
    let (scratch, clock) = (Scratch::new(), manual());
    let sessions = scratch.open(&clock);
    for number in 0..100 {
        sessions.create(&key(&format!("s{number}")), b"1", ttl(60)).unwrap();
    }
    sessions.destroy(&key("s99")).unwrap();
    sessions.begin(&key("s0"), WAIT).unwrap().lease.commit(b"2", ttl(600)).unwrap();
    let held = sessions.begin(&key("s1"), WAIT).unwrap();
    clock.advance(Duration::from_secs(60));
    let (mut removed, mut calls) = (0, 0);
    loop {
        let swept = sessions.sweep(Budget { records_max: 10, time_max: WAIT }).unwrap();
        assert!(swept.examined <= 10);
        (removed, calls) = (removed + swept.removed, calls + 1);
        if swept.complete {
            break;
        }
    }
    assert_eq!((removed, calls), (97, 10));
    held.lease.commit(b"went on", ttl(60)).unwrap();
    let record = sessions.peek(&key("s1")).unwrap().unwrap();
    assert_eq!(
        (record.head.version, record.head.created),
        (2, clock.now().minus(Duration::from_secs(60)))
    );
    // The living one was filed under its expiry: the next pass does not look at it again, until it
    // is over.
    assert_eq!(sessions.sweep(Budget::default()).unwrap().examined, 1);
    clock.advance(Limits::TOMBSTONE_TTL);
    let swept = sessions.sweep(Budget::default()).unwrap();
    assert_eq!((swept.examined, swept.removed), (3, 2), "a tombstone counts as a record");
}

#[test]
fn a_shorter_life_is_swept_in_time() {
    let (scratch, clock) = (Scratch::new(), manual());
    let sessions = scratch.open(&clock);
    for id in ["committed", "touched"] {
        sessions.create(&key(id), b"1", ttl(3_000)).unwrap();
    }
    sessions.begin(&key("committed"), WAIT).unwrap().lease.commit(b"2", ttl(10)).unwrap();
    sessions.touch(&key("touched"), ttl(10)).unwrap();
    clock.advance(Duration::from_secs(10));
    assert_eq!(sessions.sweep(Budget::default()).unwrap().removed, 2);
}

#[test]
fn a_writer_outside_delays_a_commit_and_does_not_fail_it() {
    let scratch = Scratch::new();
    let sessions = scratch.open(&Clock::system());
    sessions.create(&key("a"), b"1", ttl(60)).unwrap();
    let outside = Connection::open(scratch.file()).unwrap();
    outside.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = sessions.begin(&key("a"), WAIT).unwrap(); // a reader waits for nobody
    let start = Instant::now();
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| begun.lease.commit(b"2", ttl(60)));
        while start.elapsed() < Duration::from_millis(100) {
            std::thread::yield_now();
        }
        outside.execute_batch("COMMIT").unwrap();
        commit.join().unwrap().unwrap();
    });
    assert!(start.elapsed() >= Duration::from_millis(100));
    assert_eq!(sessions.peek(&key("a")).unwrap().unwrap().payload, b"2");
}

#[test]
fn a_read_only_database_is_denied_and_a_full_one_says_so() {
    let (scratch, clock) = (Scratch::new(), manual());
    let sessions = scratch.open(&clock);
    sessions.create(&key("a"), b"old", ttl(60)).unwrap();
    let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
    let denied = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY_DIRECTORY);
    let map = |cause| super::failure::failure(rusqlite::Error::SqliteFailure(cause, None));
    assert_eq!(map(full).kind(), &ErrorKind::Full);
    assert_eq!(map(denied).kind(), &ErrorKind::Denied);
}

/// Each row is one that a reader would refuse as corrupt, or never find again.
#[test]
fn verify_names_rows_that_cannot_be_what_was_written_and_changes_none() {
    let (scratch, clock) = (Scratch::new(), Clock::system());
    let store = scratch.open(&clock);
    let ids = ["secretone", "secrettwo", "secretthree", "secretfour"];
    for id in ids {
        store.create(&Key::session(id).unwrap(), b"payload", Ttl::sliding(WAIT).unwrap()).unwrap();
    }
    assert!(store.verify(&mut |_| ()).unwrap().problems.is_empty());
    scratch.sql("UPDATE session SET version = -1 WHERE id = 'secretone'");
    scratch.sql("UPDATE session SET payload = NULL WHERE id = 'secrettwo'");
    scratch.sql("UPDATE session SET id = '../secret' WHERE id = 'secretthree'");
    for _ in 0..2 {
        let verified = store.verify(&mut |_| ()).unwrap();
        assert_eq!((verified.checked, verified.problems.len()), (4, 3), "{:?}", verified.problems);
        assert!(
            verified
                .problems
                .iter()
                .all(|problem| problem.starts_with("row ") && !problem.contains("secret"))
        );
    }
}

/// As a version without owners made it, with a session of 2040.
const BEFORE_OWNERS: &str = "PRAGMA journal_mode = WAL;
CREATE TABLE session (
    row INTEGER PRIMARY KEY, bin TEXT NOT NULL, id TEXT NOT NULL, kind INTEGER NOT NULL,
    version INTEGER NOT NULL, created INTEGER NOT NULL, written INTEGER NOT NULL,
    expires INTEGER NOT NULL, ends INTEGER, due INTEGER NOT NULL, mark INTEGER NOT NULL,
    target TEXT, payload BLOB, UNIQUE (bin, id)
) STRICT;
CREATE INDEX session_due ON session (due);
CREATE TABLE boot (number INTEGER PRIMARY KEY, id TEXT NOT NULL) STRICT;
PRAGMA application_id = 0x73657373;
PRAGMA user_version = 1;
INSERT INTO session (kind, version, created, written, expires, ends, due, mark, target, bin, id, \
                             payload)
    VALUES (0, 3, 1, 2, 2208988800000, NULL, 2208988800000, 0, NULL, 'session', 'old', x'63');";

#[test]
fn a_database_from_before_owners_keeps_its_sessions_and_gets_owners() {
    let (scratch, owner) = (Scratch::new(), Owner::new(b"17").unwrap());
    scratch.sql(BEFORE_OWNERS);
    // A worker of that version, whose statements are prepared.
    let before = Connection::open(scratch.file()).unwrap();
    let save = "UPDATE session SET payload = ?1, version = version + 1 WHERE id = ?2";
    let read = "SELECT version, payload FROM session WHERE id = ?1";
    let mut statements = [save, read].map(|sql| before.prepare(sql).unwrap());
    let mut serve = |id: &str| {
        assert_eq!(statements[0].execute((b"more".as_slice(), id)).unwrap(), 1);
        statements[1].query_row([id], |row| row.get::<_, Vec<u8>>(1)).unwrap()
    };
    serve("old");
    // To change the table would take as long as to read it, and nobody could write meanwhile.
    let table =
        "SELECT group_concat(sql ORDER BY sql) FROM sqlite_schema WHERE tbl_name = 'session'
        AND type <> 'trigger'";
    let schema = || before.query_row(table, [], |row| row.get::<_, String>(0)).unwrap();
    let of_before = schema();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let scratch = &scratch;
            scope.spawn(move || {
                let sessions = scratch.open(&manual());
                sessions.create(&key(&format!("s{number}")), b"1", ttl(60)).unwrap();
            });
        }
    });
    let sessions = scratch.open(&manual());
    assert_eq!(sessions.peek(&key("old")).unwrap().unwrap().payload, b"more");
    for id in ["old", "s1", "s2"] {
        let mut begun = sessions.begin(&key(id), WAIT).unwrap();
        begun.lease.set_owner(Some(owner)).unwrap();
        begun.lease.commit(&vec![b'x'; 100_000], ttl(60)).unwrap();
    }
    assert_eq!(serve("s1"), b"more");
    before.execute("UPDATE session SET kind = 1, payload = NULL WHERE id = 's2'", []).unwrap();
    let listed = sessions.sessions_of(owner).unwrap().into_iter().map(|entry| entry.key);
    assert_eq!(listed.collect::<Vec<_>>(), [key("old"), key("s1")]);
    assert_eq!(schema(), of_before);
    assert!(sessions.verify(&mut |_| {}).unwrap().problems.is_empty());
    let version = |name| before.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(version("user_version"), 1, "earlier programs can open it");
    assert_eq!(sessions.revoke(owner, None).unwrap(), 2);
}

/// The story: a visitor logs out through a worker that knows no owners, and another one begins anew
/// there under the same id. To end the sessions of the first user ended that of the second.
#[test]
fn a_session_that_an_old_worker_begins_anew_has_no_owner_of_the_one_before() {
    let (scratch, owner, clock) = (Scratch::new(), Owner::new(b"17").unwrap(), manual());
    let sessions = scratch.open(&clock);
    let own = |id: &str, owner| {
        let mut begun = sessions.begin(&key(id), WAIT).unwrap();
        begun.lease.set_owner(owner).unwrap();
        begun.lease.commit(b"owned", ttl(60)).unwrap();
    };
    ["anew", "removed", "cleared", "destroyed", "owned"].iter().for_each(|id| own(id, Some(owner)));
    // What a program from before owners does.
    scratch.sql(
        "UPDATE session SET kind = 1, created = 1700000000001, payload = NULL WHERE id = 'anew';
        UPDATE session SET kind = 0, created = 1700000000002, payload = x'63' WHERE id = 'anew';
        DELETE FROM session WHERE id = 'removed'",
    );
    own("cleared", None);
    sessions.destroy(&key("destroyed")).unwrap();
    assert_eq!(sessions.peek(&key("anew")).unwrap().unwrap().head.owner, None);
    assert!(!sessions.destroy_owned(&key("anew"), owner).unwrap());
    let listed = sessions.sessions_of(owner).unwrap().into_iter().map(|entry| entry.key);
    assert_eq!(listed.collect::<Vec<_>>(), [key("owned")]);
    let owners = || -> i64 {
        let connection = Connection::open(scratch.file()).unwrap();
        connection.query_row("SELECT count(*) FROM session_owner", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(owners(), 2, "that of the one which is there anew goes with its row");
    clock.advance(Duration::from_secs(7_200));
    sessions.sweep(Budget { records_max: 100, time_max: WAIT }).unwrap();
    sessions.sweep(Budget { records_max: 100, time_max: WAIT }).unwrap();
    assert_eq!(sessions.stat().unwrap().sessions, 0);
    assert_eq!(owners(), 0, "a row that is swept takes its owner along");
}
