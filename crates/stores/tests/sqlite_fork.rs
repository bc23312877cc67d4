//! What a forked child does with a store that its parent has used. A program of its own instead of
//! test functions, because only a process with a single thread may fork and go on.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test without the test harness is not recognised as one"
)]

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use sessile_core::{ErrorKind, Key, Sessions, Ttl};
use sessile_stores::{Context, open};

const WAIT: Duration = Duration::from_secs(60);

type Case = fn(&Sessions, &Path);

fn main() {
    let folder = tempfile::TempDir::new().unwrap();
    let cases: [(&str, Case); 6] = [
        ("a_child_takes_locks_of_its_own", a_child_takes_locks_of_its_own),
        ("parent_and_children_lose_no_increment", parent_and_children_lose_no_increment),
        (
            "a_child_neither_uses_nor_frees_its_parents_lease",
            a_child_neither_uses_nor_frees_its_parents_lease,
        ),
        ("a_child_outlives_its_parent", a_child_outlives_its_parent),
        (
            "a_child_that_opens_the_store_itself_takes_locks",
            a_child_that_opens_the_store_itself_takes_locks,
        ),
        (
            "a_child_of_a_process_with_threads_never_hangs",
            a_child_of_a_process_with_threads_never_hangs,
        ),
    ];
    for (name, case) in cases {
        let file = folder.path().join(format!("{name}.db"));
        let sessions = reopen(&file);
        sessions.create(&key("warm"), b"1", ttl()).unwrap(); // leaves an idle connection
        case(&sessions, &file);
        println!("test {name} ... ok");
    }
}

fn reopen(file: &Path) -> Sessions {
    open(&format!("sqlite:{}", file.display()), &Context::default()).unwrap()
}

fn key(id: &str) -> Key {
    Key::session(id).unwrap()
}

fn ttl() -> Ttl {
    Ttl::sliding(Duration::from_secs(600)).unwrap()
}

/// Runs `child` in a forked child, which then ends without running the destructors of its parent's
/// values.
fn forked(child: impl FnOnce()) -> Pid {
    // SAFETY: this program has one thread, so the child may do whatever its parent may.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            std::process::exit(i32::from(ran.is_err()))
        }
    }
}

fn join(child: Pid) {
    assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
}

fn increment(sessions: &Sessions, times: u32) {
    for _ in 0..times {
        let begun = sessions.begin(&key("sum"), WAIT).unwrap();
        let sum = begun
            .record
            .map_or(0, |record| String::from_utf8(record.payload).unwrap().parse().unwrap());
        begun.lease.commit((sum + 1_u32).to_string().as_bytes(), ttl()).unwrap();
    }
}

/// Whether this process holds SQLite's shared lock on the database, by the word of the kernel.
fn holds_a_lock_on(file: &Path) -> bool {
    let inode = format!(":{}", std::fs::metadata(file).unwrap().ino());
    let pid = std::process::id().to_string();
    std::fs::read_to_string("/proc/locks").unwrap().lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words[1] == "POSIX" && words[4] == pid && words[5].ends_with(&inode)
    })
}

/// A child that only forgot its parent's connections would open new ones that hold no lock at all,
/// because SQLite believes that the inherited entry of its list of files holds them already.
fn a_child_takes_locks_of_its_own(sessions: &Sessions, file: &Path) {
    let twin = reopen(file); // a second pool on the same file must be cleaned too
    assert!(twin.peek(&key("warm")).unwrap().is_some());
    assert!(holds_a_lock_on(file), "the test looks for the wrong lock");
    join(forked(|| {
        assert!(!holds_a_lock_on(file));
        increment(sessions, 1);
        assert!(holds_a_lock_on(file), "the child works without SQLite's lock");
    }));
    assert!(holds_a_lock_on(file), "the child freed its parent's lock");
    increment(sessions, 1);
    assert_eq!(twin.peek(&key("sum")).unwrap().unwrap().payload, b"2");
}

/// A worker that opens a store of its own instead of using its parent's inherits SQLite's list of
/// files all the same. It worked without any lock, since only a pool that was itself inherited
/// cleaned up.
fn a_child_that_opens_the_store_itself_takes_locks(_: &Sessions, file: &Path) {
    let file = &file.with_extension("second.db");
    let mut inherited = Some(reopen(file));
    increment(inherited.as_ref().unwrap(), 1);
    for drops_it in [false, true] {
        join(forked(|| {
            drop(inherited.take_if(|_| drops_it));
            let own = reopen(file);
            increment(&own, 1);
            assert!(holds_a_lock_on(file), "the child works without SQLite's lock");
        }));
    }
    assert_eq!(inherited.unwrap().peek(&key("sum")).unwrap().unwrap().payload, b"3");
}

fn parent_and_children_lose_no_increment(sessions: &Sessions, _: &Path) {
    let children: Vec<Pid> = (0..4).map(|_| forked(|| increment(sessions, 100))).collect();
    increment(sessions, 100);
    children.into_iter().for_each(join);
    assert_eq!(sessions.peek(&key("sum")).unwrap().unwrap().payload, b"500");
}

fn a_child_neither_uses_nor_frees_its_parents_lease(sessions: &Sessions, _: &Path) {
    let (mut dropped, mut committed) =
        (sessions.begin(&key("a"), WAIT).ok(), sessions.begin(&key("b"), WAIT).ok());
    let parent = std::process::id();
    join(forked(|| {
        drop(dropped.take());
        let error = committed.take().unwrap().lease.commit(b"of the child", ttl()).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Stale);
        for id in ["a", "b"] {
            match sessions.begin(&key(id), Duration::ZERO).unwrap_err().kind() {
                ErrorKind::LockTimeout { holder, .. } => assert_eq!(holder.pid, Some(parent)),
                other => panic!("{other:?}"),
            }
        }
    }));
    for begun in [dropped, committed].into_iter().flatten() {
        begun.lease.commit(b"of the parent", ttl()).unwrap();
    }
    assert_eq!(sessions.peek(&key("b")).unwrap().unwrap().payload, b"of the parent");
}

/// The last one who closes a log may delete it: not while a grandchild that inherited its place
/// still writes.
fn a_child_outlives_its_parent(sessions: &Sessions, file: &Path) {
    let (mut finished, finish) = std::io::pipe().unwrap();
    join(forked(|| {
        forked(|| increment(sessions, 300));
    }));
    drop(finish);
    let other = reopen(file);
    increment(&other, 300);
    // The end of the pipe is the end of the grandchild.
    std::io::copy(&mut finished, &mut std::io::sink()).unwrap();
    assert_eq!(other.peek(&key("sum")).unwrap().unwrap().payload, b"600");
}

/// A mutex that another thread held at the moment of the fork stays locked in the child for ever.
/// One of the pool's did: of 400 children of a parent whose threads look up sessions, several
/// waited for it until they were killed.
fn a_child_of_a_process_with_threads_never_hangs(sessions: &Sessions, _: &Path) {
    let done = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(relaxed) {
                    sessions.peek(&key("none")).unwrap();
                }
            });
        }
        let mut hung = 0;
        for _ in 0..400 {
            // SAFETY: the child only does what a worker would that was forked from such a process:
            // it uses the store. glibc makes its allocator usable there; the child ends without
            // running any destructor.
            let child = match unsafe { fork() }.unwrap() {
                ForkResult::Parent { child } => child,
                ForkResult::Child => {
                    let told = |kind: &ErrorKind| *kind == ErrorKind::Incompatible;
                    let good = sessions
                        .peek(&key("warm"))
                        .map_or_else(|error| told(error.kind()), |found| found.is_some());
                    // SAFETY: ends the process.
                    unsafe { nix::libc::_exit(i32::from(!good)) }
                }
            };
            let deadline = Instant::now() + Duration::from_secs(30);
            let mut ended = WaitStatus::StillAlive;
            while ended == WaitStatus::StillAlive && Instant::now() < deadline {
                ended = waitpid(child, Some(WaitPidFlag::WNOHANG)).unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
            if ended == WaitStatus::StillAlive {
                hung += 1;
                kill(child, Signal::SIGKILL).unwrap();
                waitpid(child, None).unwrap();
            } else {
                assert_eq!(ended, WaitStatus::Exited(child, 0));
            }
            if hung > 2 {
                break;
            }
        }
        done.store(true, relaxed);
        assert_eq!(hung, 0, "children that hung");
    });
}
