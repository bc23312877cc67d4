//! Other local users of the host, who may write where a store lies or plant something there first.
//!
//! Files of another user take root. Without it the tests say that they were skipped.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects")]

#[cfg(test)]
mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sessile_core::{Budget, Clock, Error, ErrorKind, Sessions, Swept};
use sessile_stores::Context;

use support::child::{role, run_as};
use support::{key, payload_of, ttl};

const NEIGHBOUR: u32 = 65_534;

/// Owner and mode of what somebody else may have planted.
const PLANTED: [(u32, u32); 4] = [(NEIGHBOUR, 0o700), (NEIGHBOUR, 0o777), (0, 0o777), (0, 0o720)];

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: needs root");
    }
    root
}

fn open(url: &str) -> Result<Sessions, Error> {
    sessile_stores::open(url, &Context::default())
}

fn give(path: &Path, owner: u32, mode: u32) {
    chown(path, Some(owner), Some(owner)).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[track_caller]
fn expect_denied(opened: Result<Sessions, Error>) {
    match opened {
        Err(error) => assert_eq!(*error.kind(), ErrorKind::Denied, "{error}"),
        Ok(_) => panic!("it was opened"),
    }
}

/// PHP's directory as Debian has it: everybody may make files in it, and only root list them.
fn debians_directory(base: &Path) -> PathBuf {
    let root = base.join("php");
    fs::create_dir(&root).unwrap();
    give(base, 0, 0o755);
    give(&root, 0, 0o1733);
    root
}

fn url(root: &Path) -> String {
    format!("files:{}?php=1", root.display())
}

/// In Debian's directory a local user could make `.sessile` first. There he saw which sessions were
/// in use, and wrote what their next request took for a commit of its own that was under way.
#[test]
fn phps_directory_is_refused_where_another_user_may_write_beside_the_sessions() {
    if !is_root() {
        return;
    }
    for (owner, mode) in PLANTED {
        let base = tempfile::tempdir().unwrap();
        let root = debians_directory(base.path());
        let beside = root.join(".sessile.0");
        fs::create_dir(&beside).unwrap();
        give(&beside, owner, mode);
        expect_denied(open(&url(&root)));
        assert_eq!(fs::read_dir(&beside).unwrap().count(), 0, "something was written into it");
    }
    let base = tempfile::tempdir().unwrap();
    let root = debians_directory(base.path());
    std::os::unix::fs::symlink(base.path(), root.join(".sessile.0")).unwrap();
    assert!(open(&url(&root)).is_err(), "a link");
}

#[test]
fn role_of_a_child() {
    let Some((role, root)) = role() else { return };
    let sessions = open(&url(&root)).unwrap();
    match role.as_str() {
        "log-in and log-out" => {
            for id in ["in", "out"] {
                sessions.create(&key(id), b"n|i:1;", ttl()).unwrap();
            }
            sessions.destroy(&key("out")).unwrap();
        }
        // Two hours later.
        "sweep" => {
            let clock = Clock::manual(Clock::system().now().plus(Duration::from_secs(7_200)));
            let sessions = sessile_stores::open(&url(&root), &Context { clock }).unwrap();
            assert_eq!(
                sessions.sweep(Budget::default()).unwrap(),
                Swept { complete: true, examined: 1, removed: 0 }
            );
        }
        role => unreachable!("unknown role {role}"),
    }
}

/// Each had to have a directory of his own before, because the first one kept `.sessile` for
/// himself; so root had to come last.
#[test]
fn users_share_phps_directory_and_root_may_come_first() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let root = debians_directory(base.path());
    let sessions = open(&url(&root)).unwrap();
    for user in [NEIGHBOUR, NEIGHBOUR - 1] {
        run_as(user, "log-in and log-out", &root);
        assert_eq!(payload_of(&sessions, "in").unwrap(), b"n|i:1;");
        sessions.destroy(&key("in")).unwrap();
        let past = root.join(format!(".sessile.{user}/session/past"));
        assert_eq!(fs::read_dir(&past).unwrap().count(), 1);
        // The user may not list the directory, but sweeps his own.
        run_as(user, "sweep", &root);
        assert_eq!(fs::read_dir(&past).unwrap().count(), 0);
    }
}

#[test]
fn a_directory_of_the_own_mode_into_which_others_may_write_is_refused() {
    if !is_root() {
        return;
    }
    for (owner, mode) in PLANTED {
        let base = tempfile::tempdir().unwrap();
        give(base.path(), owner, mode);
        expect_denied(open(&format!("files:{}", base.path().display())));
    }
}

/// Root, who runs beside PHP, trusts the owner of the directory and nobody else.
#[test]
fn root_works_in_a_directory_of_phps_user() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    give(base.path(), NEIGHBOUR, 0o700);
    let url = url(base.path());
    open(&url).unwrap().create(&key("one"), b"n|i:1;", ttl()).unwrap();
    let sessions = open(&url).unwrap();
    assert_eq!(payload_of(&sessions, "one").unwrap(), b"n|i:1;");
    give(&base.path().join(".sessile.0"), NEIGHBOUR, 0o700);
    expect_denied(open(&url));
}

fn sqlite(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("s.db").display())
}

/// A database in /tmp that another user had made, with a session for each id he liked.
#[test]
fn a_database_that_another_user_owns_or_may_write_is_refused_and_not_changed() {
    if !is_root() {
        return;
    }
    let beside = ["s.db", "s.db-wal", "s.db-shm", "s.db-journal", "s.db.locks"];
    for (name, (owner, mode)) in beside.into_iter().flat_map(|name| PLANTED.map(|it| (name, it))) {
        let base = tempfile::tempdir().unwrap();
        give(base.path(), 0, 0o1777);
        drop(open(&sqlite(base.path())).unwrap());
        let planted = base.path().join(name);
        if !planted.exists() {
            fs::write(&planted, "").unwrap();
        }
        give(&planted, owner, mode & 0o7666);
        let contents = || beside.map(|name| fs::read(base.path().join(name)).ok());
        let before = contents();
        expect_denied(open(&sqlite(base.path())));
        assert_eq!(contents(), before, "{name}");
    }
    let base = tempfile::tempdir().unwrap();
    drop(open(&sqlite(base.path())).unwrap());
    let (locks, elsewhere) = (base.path().join("s.db.locks"), base.path().join("elsewhere"));
    fs::rename(&locks, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &locks).unwrap();
    assert!(open(&sqlite(base.path())).is_err(), "a link");
}

/// The maintenance of a host: root's `sessile gc` for each site.
#[test]
fn root_works_on_a_database_of_the_owner_of_its_directory() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    give(base.path(), NEIGHBOUR, 0o700);
    drop(open(&sqlite(base.path())).unwrap());
    give(&base.path().join("s.db"), NEIGHBOUR, 0o600);
    for name in ["s.db-wal", "s.db-shm", "s.db.locks"] {
        fs::remove_file(base.path().join(name)).unwrap();
    }
    drop(open(&sqlite(base.path())).unwrap());
    for file in fs::read_dir(base.path()).unwrap().map(Result::unwrap) {
        let found = file.metadata().unwrap();
        assert_eq!((found.uid(), found.mode() & 0o077), (NEIGHBOUR, 0), "{:?}", file.file_name());
    }
    drop(open(&sqlite(base.path())).unwrap());
}
