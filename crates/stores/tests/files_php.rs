//! The files store beside a real PHP: both use one directory, one lock and one idea of expiry.
//!
//! Needs php-cli. Without it the tests say that they were skipped, and under CI=true they fail.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expects")]

#[cfg(test)]
mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use sessile_core::{Budget, Clock, Cursor, ErrorKind, Filter, Sessions, Ttl};
use sessile_stores::Context;

use support::child::{child, role};
use support::patience::until;
use support::{key, ttl};

const WAIT: Duration = Duration::from_secs(30);

fn has_php() -> bool {
    let found = Command::new("php").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(
        !std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1"),
        "php-cli is missing; make deps installs it"
    );
    eprintln!("skipped: php-cli is not installed");
    false
}

fn open_with(path: &Path, options: &str, clock: Clock) -> sessile_core::Result<Sessions> {
    sessile_stores::open(&format!("files:{}?php=1{options}", path.display()), &Context { clock })
}

fn open(path: &Path) -> Sessions {
    open_with(path, "", Clock::system()).unwrap()
}

/// A PHP that runs `code` between session_start() and its end; `root` goes to session.save_path.
fn php(root: &str, id: &str, code: &str) -> Command {
    let mut command = Command::new("php");
    let settings = [
        "session.save_handler=files".to_owned(),
        format!("session.save_path=\"{root}\""),
        "session.use_cookies=0".to_owned(),
        "session.use_strict_mode=0".to_owned(),
        "session.gc_probability=0".to_owned(),
        "session.gc_maxlifetime=1440".to_owned(),
        "session.cache_limiter=".to_owned(),
        "display_errors=stderr".to_owned(),
    ];
    for setting in settings {
        command.args(["-d", &setting]);
    }
    command.args(["-r", &format!("session_id('{id}'); session_start(); {code}")]);
    command
}

fn run(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn set_age(path: &Path, age: Duration) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

#[test]
fn role_of_a_child() {
    let Some((role, root)) = role() else { return };
    let sessions = open(&root);
    match role.as_str() {
        "increment" => {
            for _ in 0..300 {
                let begun = sessions.begin(&key("shared"), WAIT).unwrap();
                let text = String::from_utf8(begun.record.unwrap().payload).unwrap();
                let number: u64 =
                    text.strip_prefix("n|i:").unwrap().trim_end_matches(';').parse().unwrap();
                begun.lease.commit(format!("n|i:{};", number + 1).as_bytes(), ttl()).unwrap();
            }
        }
        "loop" => {
            while !root.with_extension("done").exists() {
                let begun = sessions.begin(&key("shared"), WAIT).unwrap();
                begun.lease.commit(b"n|i:1;", ttl()).unwrap();
            }
        }
        "churn" => {
            for round in 0_usize.. {
                let begun = sessions.begin(&key("shared"), WAIT).unwrap();
                let letter = char::from(b'a' + u8::try_from(round % 26).unwrap());
                let text = letter.to_string().repeat([60_000, 20_000, 100][round % 3]);
                begun
                    .lease
                    .commit(format!("t|s:{}:\"{text}\";", text.len()).as_bytes(), ttl())
                    .unwrap();
            }
        }
        role => unreachable!("unknown role {role}"),
    }
}

#[test]
fn what_php_writes_is_read_here_and_the_other_way_round() {
    if !has_php() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("php");
    let sessions = open(&root);
    let path = root.display().to_string();

    run(php(&path, "one", "$_SESSION['cart'] = 'book';"));
    let record = sessions.peek(&key("one")).unwrap().unwrap();
    assert_eq!(record.payload, b"cart|s:4:\"book\";");
    assert_eq!(
        (record.head.version, record.head.expires.since(record.head.written)),
        (0, Duration::from_secs(1_440))
    );

    let begun = sessions.begin(&key("one"), WAIT).unwrap();
    begun.lease.commit(b"cart|s:3:\"pen\";", ttl()).unwrap();
    assert_eq!(run(php(&path, "one", "echo $_SESSION['cart']; $_SESSION['cart'] = 'ink';")), "pen");
    let record = sessions.peek(&key("one")).unwrap().unwrap();
    assert_eq!((record.payload.as_slice(), record.head.version), (&b"cart|s:3:\"ink\";"[..], 2));

    sessions.create(&key("two"), b"cart|s:3:\"cup\";", ttl()).unwrap();
    assert_eq!(run(php(&path, "two", "echo $_SESSION['cart'];")), "cup");
    assert_eq!(fs::metadata(root.join("sess_two")).unwrap().permissions().mode() & 0o777, 0o600);
    let listed = sessions.list(None, &Filter::default()).unwrap().entries;
    assert_eq!(listed.len(), 2);

    sessions.destroy(&key("one")).unwrap();
    assert_eq!(run(php(&path, "one", "echo count($_SESSION);")), "0");
    assert!(sessions.peek(&key("one")).unwrap().is_none(), "PHP's empty file is not a session");
    run(php(&path, "two", "session_destroy();"));
    assert!(sessions.peek(&key("two")).unwrap().is_none());
}

#[test]
fn a_lease_waits_for_php_and_gets_the_lock_when_php_ends_or_is_killed() {
    if !has_php() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("php");
    let sessions = open(&root);
    let marker = base.path().join("php-has-it");
    for kill in [false, true] {
        let _ = fs::remove_file(&marker);
        let code = format!(
            "$_SESSION['n'] = 7; touch('{}'); while (!file_exists('{}')) usleep(1000);",
            marker.display(),
            if kill {
                "/never".into()
            } else {
                marker.with_extension("done").display().to_string()
            }
        );
        let mut holder = php(&root.display().to_string(), "held", &code).spawn().unwrap();
        until("PHP holds the lock", || marker.exists());

        let error = sessions.begin(&key("held"), Duration::from_millis(30)).map(drop).unwrap_err();
        let ErrorKind::LockTimeout { holder: named, .. } = error.kind() else {
            unreachable!("{error}")
        };
        assert_eq!(named.pid, Some(holder.id()));

        let other = sessions.clone();
        let waiter = std::thread::spawn(move || {
            let begun = other.begin(&key("held"), WAIT).unwrap();
            (Instant::now(), begun.record.map(|record| record.payload))
        });
        // Let it wait; too early would only weaken the test.
        std::thread::sleep(Duration::from_millis(50));
        let ended = Instant::now();
        if kill {
            holder.kill().unwrap();
        } else {
            fs::write(marker.with_extension("done"), "").unwrap();
        }
        let (got, payload) = waiter.join().unwrap();
        holder.wait().unwrap();
        assert!(
            got.duration_since(ended) < Duration::from_secs(10),
            "{:?}",
            got.duration_since(ended)
        );
        assert_eq!(payload.unwrap(), b"n|i:7;");
    }
}

#[test]
fn php_waits_for_a_lease_and_then_sees_what_was_committed() {
    if !has_php() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("php");
    let sessions = open(&root);
    for id in ["fresh", "old"] {
        if id == "old" {
            sessions.create(&key(id), b"n|i:1;", ttl()).unwrap();
        }
        let begun = sessions.begin(&key(id), WAIT).unwrap();
        let mut command =
            php(&root.display().to_string(), id, "echo $_SESSION['n']; $_SESSION['n'] = 3;");
        let waiter = command.stdout(Stdio::piped()).spawn().unwrap();
        let blocked = format!("-> FLOCK  ADVISORY  WRITE {} ", waiter.id());
        until("PHP waits in flock", || {
            fs::read_to_string("/proc/locks").unwrap().contains(&blocked)
        });
        begun.lease.commit(b"n|i:2;", ttl()).unwrap();
        assert_eq!(waiter.wait_with_output().unwrap().stdout, b"2");
        assert_eq!(sessions.peek(&key(id)).unwrap().unwrap().payload, b"n|i:3;");
    }
}

#[test]
fn phps_collection_and_ours_agree_at_the_boundary() {
    if !has_php() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("php");
    let sessions = open(&root);
    let ages = [("young", 1_430), ("old", 1_450)];
    let prepare = || {
        for (id, age) in ages {
            let _ = sessions.destroy(&key(id));
            sessions.create(&key(id), b"n|i:1;", ttl()).unwrap();
            set_age(&root.join(format!("sess_{id}")), Duration::from_secs(age));
        }
    };
    let exist = || ages.map(|(id, _)| root.join(format!("sess_{id}")).exists());
    prepare();
    assert!(sessions.peek(&key("young")).unwrap().is_some());
    assert!(sessions.peek(&key("old")).unwrap().is_none());
    run(php(&root.display().to_string(), "collector", "session_gc();"));
    assert_eq!(exist(), [true, false], "PHP's");
    prepare();
    assert_eq!(sessions.sweep(Budget { records_max: 1_000, time_max: WAIT }).unwrap().removed, 1);
    assert_eq!(exist(), [true, false], "ours");
    // A ttl of its own moves the time of the file so that PHP agrees with that, too.
    let short = Ttl::sliding(Duration::from_millis(1)).unwrap();
    sessions.touch(&key("young"), short).unwrap();
    until("it has expired", || sessions.peek(&key("young")).unwrap().is_none());
    let long = Ttl::sliding(Duration::from_secs(9_000)).unwrap();
    sessions.create(&key("long"), b"n|i:1;", long).unwrap();
    let modified = fs::metadata(root.join("sess_long")).unwrap().modified().unwrap();
    assert!(modified > SystemTime::now() + Duration::from_secs(7_000));
}

#[test]
fn depth_one_and_two_find_the_same_files_as_php() {
    if !has_php() {
        return;
    }
    for depth in [1, 2] {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("php");
        let options = format!("&depth={depth}");
        let error = open_with(&root, &options, Clock::system()).map(drop).unwrap_err().to_string();
        assert!(error.contains("missing") && error.contains("mkdir"), "{error}");
        for one in "0123456789abcdef".chars() {
            fs::create_dir_all(root.join(one.to_string())).unwrap();
            for two in "0123456789abcdef".chars().filter(|_| depth == 2) {
                fs::create_dir(root.join(format!("{one}/{two}"))).unwrap();
            }
        }
        let sessions = open_with(&root, &options, Clock::system()).unwrap();
        let save_path = format!("{depth};{}", root.display());
        run(php(&save_path, "ab12", "$_SESSION['n'] = 1;"));
        assert_eq!(sessions.peek(&key("ab12")).unwrap().unwrap().payload, b"n|i:1;");
        sessions.create(&key("cd34"), b"n|i:2;", ttl()).unwrap();
        assert_eq!(run(php(&save_path, "cd34", "echo $_SESSION['n'];")), "2");
        let mut listed = Vec::new();
        let mut cursor = None;
        loop {
            let page = sessions
                .list(cursor.as_ref(), &Filter { entries_max: 1, ..Filter::default() })
                .unwrap();
            listed.extend(page.entries.into_iter().map(|entry| entry.key.id().to_owned()));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(listed, ["ab12", "cd34"]);
        // PHP's own collection does nothing at a depth; this sweep does.
        let name = ["a/sess_ab12", "a/b/sess_ab12"][depth - 1];
        set_age(&root.join(name), Duration::from_secs(2_000));
        let swept = sessions.sweep(Budget { records_max: 100_000, time_max: WAIT }).unwrap();
        assert!(swept.complete && swept.removed == 1, "{swept:?}");
        assert!(sessions.begin(&key("a"), WAIT).is_err() || depth == 0);
    }
}

#[test]
fn increments_of_php_and_of_this_store_sum_up() {
    if !has_php() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("php");
    let sessions = open(&root);
    sessions.create(&key("shared"), b"n|i:0;", ttl()).unwrap();
    let code = "for ($i = 0; $i < 300; $i++) { $_SESSION['n']++; session_write_close(); \
                session_start(); }";
    let mut children: Vec<Child> = (0..3).map(|_| child("increment", &root)).collect();
    children
        .extend((0..3).map(|_| php(&root.display().to_string(), "shared", code).spawn().unwrap()));
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(sessions.peek(&key("shared")).unwrap().unwrap().payload, b"n|i:1800;");
}

#[test]
fn a_worker_in_a_closed_loop_does_not_starve_php() {
    if !has_php() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("php");
    open(&root).create(&key("shared"), b"n|i:1;", ttl()).unwrap();
    let mut looping = child("loop", &root);
    let code = "for ($i = 0; $i < 50; $i++) { session_write_close(); session_start(); }";
    let turns = || {
        let start = Instant::now();
        run(php(&root.display().to_string(), "shared", code));
        eprintln!("50 turns of PHP beside a closed loop: {:?}", start.elapsed());
        start.elapsed()
    };
    // Several times where other tests keep the processors busy.
    let in_time = (0..4).any(|_| turns() < Duration::from_secs(5));
    fs::write(root.with_extension("done"), "").unwrap();
    assert!(looping.wait().unwrap().success());
    assert!(in_time, "not once of four times");
}

#[test]
fn a_writer_killed_at_any_moment_leaves_the_old_or_the_new_payload() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("php");
    let sessions = open(&root);
    let whole = |payload: &[u8]| {
        let text = String::from_utf8(payload.to_vec()).unwrap();
        let (length, text) = text.strip_prefix("t|s:").unwrap().split_once(':').unwrap();
        let text = text.strip_prefix('"').unwrap().strip_suffix("\";").unwrap();
        text.len().to_string() == length && text.bytes().all(|byte| byte == text.as_bytes()[0])
    };
    for round in 0..30 {
        let mut writer = child("churn", &root);
        let version =
            sessions.peek(&key("shared")).unwrap().map_or(0, |record| record.head.version);
        until("the child writes", || {
            let record = sessions.peek(&key("shared")).unwrap();
            assert!(
                record.as_ref().is_none_or(|record| whole(&record.payload)),
                "a reader saw a torn payload"
            );
            record.is_some_and(|record| record.head.version > version + 3)
        });
        std::thread::sleep(Duration::from_micros(round * 37));
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert!(whole(&sessions.peek(&key("shared")).unwrap().unwrap().payload));
        let begun = sessions.begin(&key("shared"), WAIT).unwrap();
        assert!(whole(&begun.record.unwrap().payload));
    }
    let user = fs::metadata(root.join("sess_shared")).unwrap().uid();
    let mut redos = fs::read_dir(root.join(format!(".sessile.{user}/session/redo"))).unwrap();
    let is_redo = |entry: fs::DirEntry| entry.file_name() == "id_shared";
    assert!(!redos.any(|entry| is_redo(entry.unwrap())), "the last begin finished what was left");
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("php");
    for options in ["&ids=hashed", "&depth=9", "&maxlifetime=0"] {
        let error = open_with(&root, options, Clock::system()).map(drop).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::InvalidUrl, "{options}");
    }
    let own =
        sessile_stores::open(&format!("files:{}?depth=1", root.display()), &Context::default());
    assert_eq!(*own.map(drop).unwrap_err().kind(), ErrorKind::InvalidUrl);
    let own = base.path().join("own");
    sessile_stores::open(&format!("files:{}", own.display()), &Context::default()).unwrap();
    assert!(
        open_with(&own, "", Clock::system())
            .map(drop)
            .unwrap_err()
            .to_string()
            .contains("own mode")
    );
}

#[test]
fn root_gives_its_files_to_the_owner_of_the_directory() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("php");
    fs::create_dir(&root).unwrap();
    if chown(&root, Some(33), Some(33)).is_err() {
        eprintln!("skipped: needs root");
        return;
    }
    let sessions = open(&root);
    sessions.create(&key("created"), b"n|i:1;", ttl()).unwrap();
    sessions.begin(&key("begun"), WAIT).unwrap().lease.commit(b"n|i:1;", ttl()).unwrap();
    sessions.destroy(&key("begun")).unwrap();
    let owner = |name: &str| fs::metadata(root.join(name)).unwrap().uid();
    assert_eq!((owner("sess_created"), owner(".sessile.0")), (33, 0));
}

/// Each page of a listing read all names of the directory: to copy 550,000 sessions took hours.
#[test]
fn the_pages_of_a_listing_share_one_look_at_the_directory() {
    let folder = tempfile::tempdir().unwrap();
    let sessions = open(folder.path());
    let create = |id: &str| {
        sessions.begin(&key(id), WAIT).unwrap().lease.commit(b"n|i:1;", ttl()).unwrap();
    };
    ["a", "c", "e", "g"].into_iter().for_each(create);
    let filter = Filter { entries_max: 2, ..Filter::default() };
    let page = |cursor: Option<&Cursor>| {
        let page = sessions.list(cursor, &filter).unwrap();
        let ids = page.entries.iter().map(|entry| entry.key.id().to_owned());
        (ids.collect::<Vec<String>>(), page.next)
    };
    let (first, next) = page(None);
    assert_eq!(first, ["a", "c"]);
    // What comes after the look may be missed, and what has ended is not shown.
    create("d");
    sessions.destroy(&key("g")).unwrap();
    let (second, next) = page(next.as_ref());
    assert_eq!(second, ["e"]);
    assert_eq!(page(next.as_ref()).0, Vec::<String>::new());
    assert_eq!(page(None).0, ["a", "c"], "a new listing looks anew");
}

/// Any user may put a file into Debian's directory: root's `sessile stat` read it into memory.
#[test]
fn a_file_that_cannot_be_read_is_listed_and_takes_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let sessions = open(folder.path());
    sessions.create(&key("whole"), b"n|i:1;", ttl()).unwrap();
    let huge = folder.path().join("sess_huge");
    fs::File::create_new(&huge).unwrap().set_len(1 << 40).unwrap();
    let (page, stat) = (sessions.list(None, &Filter::default()), sessions.stat().unwrap());
    let found: Vec<(String, u64)> = page
        .unwrap()
        .entries
        .iter()
        .map(|entry| (entry.key.id().to_owned(), entry.payload_bytes))
        .collect();
    assert_eq!(found, [("huge".to_owned(), 1 << 40), ("whole".to_owned(), 6)]);
    assert_eq!(stat.sessions, 2);
    let limit = 64 << 20;
    let refused = ErrorKind::TooLarge { size: 1 << 40, limit };
    assert_eq!(*sessions.peek(&key("huge")).unwrap_err().kind(), refused);
    assert_eq!(*sessions.begin(&key("huge"), WAIT).unwrap_err().kind(), refused);
}
