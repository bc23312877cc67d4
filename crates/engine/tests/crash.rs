//! Death between any two writes: every operation is killed before its first, second, third ...
//! write to shared memory, until it survives. After each death another process must find the old or
//! the new session, within a short time, with nothing lost, stuck or leaked. On a disk a write to
//! the log counts like one to memory, and a copy of the directory is opened after each death as if
//! the control plane had been lost just then: what a rebuild makes of it must be the old or the new
//! session, too. A program of its own, because only a process with one thread may fork.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test without the test harness is not recognised as one"
)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use sessile_core::{Budget, Clock, Key, Limits, Sessions, Timestamp, Ttl};
use sessile_engine::{EngineOptions, SyncMode, crash, open};

/// A lock that takes so long never comes.
const STUCK: Duration = Duration::from_secs(10);
/// A dead owner is noticed after the first sleep of a waiter. What takes longer than this is done
/// again, since a busy machine may have added it.
const SLOW: Duration = Duration::from_secs(1);
/// The same death is slow by itself when it is slow so often.
const ATTEMPTS: u32 = 3;
const START: Timestamp = Timestamp::from_ms(1_800_000_000_000);
/// No operation here writes so often.
const WRITES_MAX: u64 = 60_000;

struct Ground {
    sessions: Sessions,
    clock: Clock,
    keys: u64,
    /// The directory, if it is on a disk.
    disk: Option<PathBuf>,
}

/// One operation and what must hold of the session when its process died on the way.
struct Case {
    name: &'static str,
    /// What the session contains before; `None` when there is none.
    before: Option<usize>,
    operation: fn(&Sessions, &Key, &Clock),
    /// What it may contain afterwards, besides what it contained before.
    after: Option<usize>,
    /// Every so many writes: large payloads have thousands that are all alike.
    stride: u64,
    /// With the child's entry into the table of processes, and the first segment of its size.
    fresh: bool,
}

const CASES: &[Case] = &[
    Case {
        name: "create",
        before: None,
        operation: create_small,
        after: Some(300),
        stride: 1,
        fresh: false,
    },
    Case {
        name: "create_by_a_fresh_child",
        before: None,
        operation: create_small,
        after: Some(300),
        stride: 29,
        fresh: true,
    },
    Case {
        name: "create_in_chunks",
        before: None,
        operation: create_large,
        after: Some(150_000),
        stride: 997,
        fresh: false,
    },
    Case {
        name: "commit",
        before: Some(200),
        operation: commit_small,
        after: Some(300),
        stride: 1,
        fresh: false,
    },
    Case {
        name: "commit_a_first_record",
        before: None,
        operation: commit_small,
        after: Some(300),
        stride: 1,
        fresh: false,
    },
    Case {
        name: "commit_chunks_over_chunks",
        before: Some(140_000),
        operation: commit_large,
        after: Some(150_000),
        stride: 997,
        fresh: false,
    },
    Case {
        name: "commit_small_over_chunks",
        before: Some(140_000),
        operation: commit_small,
        after: Some(300),
        stride: 1,
        fresh: false,
    },
    Case {
        name: "touch",
        before: Some(200),
        operation: touch,
        after: Some(200),
        stride: 1,
        fresh: false,
    },
    Case {
        name: "release",
        before: Some(200),
        operation: release,
        after: Some(200),
        stride: 1,
        fresh: false,
    },
    Case {
        name: "release_of_nothing",
        before: None,
        operation: release,
        after: None,
        stride: 1,
        fresh: false,
    },
    Case {
        name: "destroy",
        before: Some(200),
        operation: destroy,
        after: None,
        stride: 1,
        fresh: false,
    },
    Case {
        name: "destroy_chunks",
        before: Some(140_000),
        operation: destroy,
        after: None,
        stride: 1,
        fresh: false,
    },
    Case {
        name: "regenerate",
        before: Some(200),
        operation: regenerate,
        after: Some(200),
        stride: 1,
        fresh: false,
    },
    Case {
        name: "sweep_of_an_expired_one",
        before: Some(200),
        operation: sweep_later,
        after: None,
        stride: 61,
        fresh: false,
    },
];

fn main() {
    for parent in ["/dev/shm", "/var/tmp"] {
        println!("in {parent}");
        let folder = tempfile::TempDir::new_in(parent).unwrap();
        for case in CASES {
            let start = Instant::now();
            let mut ground = reopen(&folder.path().join(case.name));
            let deaths = every_death(&mut ground, case);
            everything_goes(&ground, case.name);
            assert!(deaths >= 1, "{}: only {deaths} deaths", case.name);
            println!(
                "test {} ... ok ({deaths} deaths, {:.1} s)",
                case.name,
                start.elapsed().as_secs_f64()
            );
        }
        let deaths = deaths_in_destroy_of_an_old_id(&folder.path().join("old-id"));
        println!("test destroy_of_an_old_id ... ok ({deaths} deaths)");
        let deaths = deaths_in_compaction(&folder.path().join("compaction"));
        println!("test compaction ... ok ({deaths} deaths)");
    }
}

fn reopen(path: &Path) -> Ground {
    let clock = Clock::manual(START);
    let sessions = opened(path, &clock);
    let disk = path.join("plane").exists().then(|| path.to_owned());
    Ground { sessions, clock, keys: 0, disk }
}

fn opened(path: &Path, clock: &Clock) -> Sessions {
    // Synced by nobody, so that what is emptied is used again at once.
    let options = EngineOptions { sync: Some(SyncMode::Never), ..EngineOptions::default() };
    Sessions::new("sessile", open(path, clock.clone(), &options).unwrap(), Limits::default())
}

fn remove_control(store: &Path) {
    let text = std::fs::read_to_string(store.join("plane")).unwrap();
    std::fs::remove_dir_all(text.lines().next().unwrap().strip_prefix("control ").unwrap())
        .unwrap();
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.disk.iter().for_each(|store| remove_control(store));
    }
}

/// What a rebuild would make of the directory now.
fn rebuilt<T>(ground: &Ground, look: impl FnOnce(&Sessions) -> T) -> Option<T> {
    let store = ground.disk.as_ref()?;
    let copy = tempfile::TempDir::new_in("/var/tmp").unwrap();
    for name in ["format", "bins", "data"] {
        std::fs::copy(store.join(name), copy.path().join(name)).unwrap();
    }
    let sessions = opened(copy.path(), &ground.clock);
    let verified = sessions.verify(&mut |_| ()).unwrap();
    assert!(verified.problems.is_empty(), "after a rebuild: {:?}", verified.problems);
    let seen = look(&sessions);
    drop(sessions);
    remove_control(copy.path());
    Some(seen)
}

fn ttl() -> Ttl {
    Ttl::sliding(Duration::from_secs(600)).unwrap()
}

fn payload(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at * 7 + bytes) % 251) as u8).collect()
}

fn create_small(sessions: &Sessions, key: &Key, _: &Clock) {
    sessions.create(key, &payload(300), ttl()).unwrap();
}

fn create_large(sessions: &Sessions, key: &Key, _: &Clock) {
    sessions.create(key, &payload(150_000), ttl()).unwrap();
}

fn commit_small(sessions: &Sessions, key: &Key, _: &Clock) {
    sessions.begin(key, STUCK).unwrap().lease.commit(&payload(300), ttl()).unwrap();
}

fn commit_large(sessions: &Sessions, key: &Key, _: &Clock) {
    sessions.begin(key, STUCK).unwrap().lease.commit(&payload(150_000), ttl()).unwrap();
}

fn touch(sessions: &Sessions, key: &Key, _: &Clock) {
    sessions.touch(key, ttl()).unwrap();
}

fn release(sessions: &Sessions, key: &Key, _: &Clock) {
    sessions.begin(key, STUCK).unwrap().lease.release().unwrap();
}

fn destroy(sessions: &Sessions, key: &Key, _: &Clock) {
    sessions.destroy(key).unwrap();
}

fn regenerate(sessions: &Sessions, key: &Key, _: &Clock) {
    let mut begun = sessions.begin(key, STUCK).unwrap();
    let new = Key::session(&format!("{}-new", key.id())).unwrap();
    begun.lease.regenerate(&new, Duration::from_secs(30)).unwrap();
    begun.lease.release().unwrap();
}

fn sweep_later(sessions: &Sessions, _: &Key, clock: &Clock) {
    // On a disk a record stays a sixteenth of its time longer.
    clock.advance(Duration::from_secs(700));
    sweep_all(sessions);
}

fn sweep_all(sessions: &Sessions) {
    for _ in 0..10_000 {
        if sessions.sweep(Budget::default()).unwrap().complete {
            return;
        }
    }
    panic!("the sweep does not end");
}

/// Kills the operation before its n-th write for every n until it survives; returns how often it
/// died.
fn every_death(ground: &mut Ground, case: &Case) -> usize {
    for (at, bytes) in [77, 200, 300, 150_000].into_iter().enumerate().filter(|_| !case.fresh) {
        ground
            .sessions
            .create(&Key::session(&format!("warm-{at}")).unwrap(), &payload(bytes), ttl())
            .unwrap();
    }
    for (deaths, writes) in
        (0..WRITES_MAX).step_by(usize::try_from(case.stride).unwrap()).enumerate()
    {
        let mut attempts = (0..ATTEMPTS).map(|_| death(ground, case, writes));
        let Some((survived, _)) = attempts.find(|(_, waited)| *waited < SLOW) else {
            panic!(
                "{} killed at write {writes}: {ATTEMPTS} times the lock was free after {SLOW:?} \
                 only",
                case.name
            );
        };
        if survived {
            return deaths;
        }
    }
    panic!("{} writes more than {WRITES_MAX} times", case.name);
}

/// Whether the operation was over before so many writes, and how long somebody else waited for the
/// lock after that.
fn death(ground: &mut Ground, case: &Case, writes: u64) -> (bool, Duration) {
    ground.keys += 1;
    let id = ground.keys;
    let key = Key::session(&format!("key-{id}")).unwrap();
    if let Some(bytes) = case.before {
        ground.sessions.create(&key, &payload(bytes), ttl()).unwrap();
    }
    // The clock of a child is its own copy of a value in shared ownership, so it moves only there.
    let registers = || {
        drop(ground.sessions.peek(&key).unwrap());
        // A segment of the log to append to: its two thousand stamps are cleared by one write each.
        if ground.disk.is_some() {
            ground
                .sessions
                .create(&Key::session(&format!("child-{id}")).unwrap(), b"", ttl())
                .unwrap();
        }
    };
    let operation = || (case.operation)(&ground.sessions, &key, &ground.clock);
    let survived = if case.fresh {
        !dies(writes, || (), operation)
    } else {
        !dies(writes, registers, operation)
    };
    (survived, judge(ground, case, &key, writes))
}

/// Runs an operation in a child that dies before its n-th write. True when it died.
fn dies(writes: u64, warm_up: impl FnOnce(), operation: impl FnOnce()) -> bool {
    // SAFETY: this program has one thread, so the child may do whatever its parent may.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            warm_up();
            crash::after(writes);
            operation();
            // SAFETY: ends the child at once, without the destructors of its parent's values.
            unsafe { nix::libc::_exit(0) }
        }
        ForkResult::Parent { child } => match waitpid(child, None).unwrap() {
            WaitStatus::Signaled(_, Signal::SIGKILL, _) => true,
            WaitStatus::Exited(_, 0) => false,
            other => panic!("the child ended as {other:?}"),
        },
    }
}

/// Says how long it waited for the lock.
fn judge(ground: &Ground, case: &Case, key: &Key, writes: u64) -> Duration {
    let name = format!("{} killed at write {writes}", case.name);
    let after_rebuild =
        rebuilt(ground, |sessions| sessions.peek(key).unwrap().map(|record| record.payload));
    if let Some(found) = after_rebuild {
        let bytes = found.as_ref().map(Vec::len);
        assert!(
            bytes == case.before || bytes == case.after,
            "{name}: a rebuild found {bytes:?} bytes"
        );
        assert!(
            found.is_none_or(|found| found == payload(found.len())),
            "{name}: a rebuild found another payload"
        );
    }
    let start = Instant::now();
    let begun =
        ground.sessions.begin(key, STUCK).unwrap_or_else(|error| panic!("{name}: {error:#}"));
    let waited = start.elapsed();
    assert!(waited < STUCK, "{name}: the lock was stuck");
    let found = begun.record.as_ref().map(|record| record.payload.len());
    assert!(found == case.before || found == case.after, "{name}: found {found:?} bytes");
    if let Some(record) = &begun.record {
        assert!(
            record.payload == payload(record.payload.len()),
            "{name}: the payload is not what was written"
        );
    }
    begun.lease.commit(&payload(77), ttl()).unwrap_or_else(|error| panic!("{name}: {error:#}"));
    let read =
        ground.sessions.peek(key).unwrap().unwrap_or_else(|| panic!("{name}: a commit was lost"));
    assert_eq!(read.payload.len(), 77, "{name}: a commit was lost");
    sweep_all(&ground.sessions); // looks for dead processes, too
    let verified = ground.sessions.verify(&mut |_| ()).unwrap();
    assert!(verified.problems.is_empty(), "{name}: {:?}", verified.problems);
    waited
}

/// Everything expires: then nothing may be left, and all but a little memory is given back.
fn everything_goes(ground: &Ground, name: &str) {
    ground.clock.advance(Duration::from_secs(3 * 3_600));
    sweep_all(&ground.sessions);
    sweep_all(&ground.sessions);
    let verified = ground.sessions.verify(&mut |_| ()).unwrap();
    assert!(verified.problems.is_empty() && verified.checked == 0, "{name}: {verified:?}");
    let open = ground
        .sessions
        .details()
        .unwrap()
        .into_iter()
        .find(|detail| detail.0 == "segments_open")
        .unwrap();
    // In a log this process goes on appending to one segment of each kind, and one may be left by a
    // child.
    let most = if ground.disk.is_some() { 3 } else { 0 };
    let open = match open.1 {
        sessile_core::Detail::Count(open) => open,
        other => panic!("{other:?}"),
    };
    assert!(open <= most, "{name}: {open} segments are left");
}

/// A log-out with an id within its grace, killed and repeated: once it is acknowledged the session
/// is gone. The old id got its tombstone first, and then nothing led to the session any more that
/// still lived.
fn deaths_in_destroy_of_an_old_id(path: &Path) -> u64 {
    let ground = reopen(path);
    for writes in 0.. {
        let [old, new] = ["old", "new"].map(|id| Key::session(&format!("{id}-{writes}")).unwrap());
        ground.sessions.create(&old, &payload(200), ttl()).unwrap();
        let mut begun = ground.sessions.begin(&old, STUCK).unwrap();
        begun.lease.regenerate(&new, Duration::from_secs(30)).unwrap();
        begun.lease.commit(&payload(200), ttl()).unwrap();
        let registers = || drop(ground.sessions.peek(&old).unwrap());
        let prepares = || {
            registers();
            if ground.disk.is_some() {
                ground
                    .sessions
                    .create(&Key::session(&format!("child-{writes}")).unwrap(), b"", ttl())
                    .unwrap();
            }
        };
        let survived = !dies(writes, prepares, || ground.sessions.destroy(&old).unwrap());
        if !survived {
            ground.sessions.destroy(&old).unwrap();
        }
        assert!(
            ground.sessions.peek(&new).unwrap().is_none(),
            "killed at write {writes}: the session is still there"
        );
        let back = rebuilt(&ground, |sessions| sessions.peek(&new).unwrap().is_some());
        assert!(back != Some(true), "killed at write {writes}: a rebuild brings the session back");
        sweep_all(&ground.sessions);
        assert!(
            ground.sessions.verify(&mut |_| ()).unwrap().problems.is_empty(),
            "killed at write {writes}"
        );
        if survived {
            return writes;
        }
    }
    unreachable!("a destroy writes less than 2^64 times")
}

/// Dies at every write of a sweep that moves records out of sparse segments.
fn deaths_in_compaction(path: &Path) -> u64 {
    let ground = reopen(path);
    let key = |at: u64| Key::session(&format!("kept-{at}")).unwrap();
    let long = Ttl::sliding(Duration::from_secs(36_000)).unwrap();
    let mut deaths = 0;
    for round in 0.. {
        // 400 records fill several segments; all but each eighth expire, so that the rest has to
        // move.
        for at in 0..400 {
            if at % 8 == 0 {
                ground
                    .sessions
                    .begin(&key(at), STUCK)
                    .unwrap()
                    .lease
                    .commit(&payload(1_500), long)
                    .unwrap();
            } else {
                let passing = Key::session(&format!("passing-{round}-{at}")).unwrap();
                ground.sessions.create(&passing, &payload(1_500), ttl()).unwrap();
            }
        }
        ground.clock.advance(Duration::from_secs(700));
        let survived = !dies(round * 503, || (), || sweep_all(&ground.sessions));
        sweep_all(&ground.sessions);
        for at in (0..400).step_by(8) {
            let read = ground
                .sessions
                .peek(&key(at))
                .unwrap()
                .unwrap_or_else(|| panic!("round {round}: {at} is lost"));
            assert!(read.payload == payload(1_500), "round {round}: {at} is torn");
        }
        let verified = ground.sessions.verify(&mut |_| ()).unwrap();
        assert!(verified.problems.is_empty(), "round {round}: {:?}", verified.problems);
        rebuilt(&ground, |sessions| {
            for at in (0..400).step_by(8) {
                let read = sessions
                    .peek(&key(at))
                    .unwrap()
                    .unwrap_or_else(|| panic!("round {round}: {at} is lost"));
                assert!(read.payload == payload(1_500), "round {round}: {at} is torn");
            }
        });
        if survived {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 20, "only {deaths} deaths in compaction");
    ground.clock.advance(Duration::from_secs(40_000));
    everything_goes(&ground, "compaction");
    deaths
}
