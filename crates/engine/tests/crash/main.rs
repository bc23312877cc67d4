//! Every step: each operation is stopped before its first, second, third ... write to shared
//! memory, until it ends by itself. While it is stopped, other sessions go on. Then it is killed:
//! another process must find the old or the new session, within a short time, with nothing lost,
//! stuck or leaked. On a disk a write to the log counts like one to memory, and a copy of the
//! directory is opened after each death as if the control plane had been lost just then: a rebuild
//! finds the old or the new session, too. A program of its own, because only a process with one
//! thread may fork.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test without the test harness is not recognised as one"
)]

mod cases;
mod compaction;
mod old_id;
mod rebuild;
mod takeover;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use sessile_core::{Budget, Clock, Key, Limits, Sessions, Timestamp, Ttl};
use sessile_engine::{EngineOptions, SyncMode, crash, open};

use cases::{CASES, Case};

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

/// Where stores are made, when their logs are synced, and which part of the steps is tried.
#[derive(Clone, Copy)]
struct Tier {
    parent: &'static str,
    sync: SyncMode,
    one_in: u64,
    all: bool,
}

/// Each step, and not only a part of them where a death takes longer: `make kill-steps`.
const ALL_STEPS: &str = "SESSILE_ALL_STEPS";

fn tiers() -> [Tier; 3] {
    let all = std::env::var_os(ALL_STEPS).is_some();
    let tier =
        |parent, sync, one_in| Tier { parent, sync, one_in: if all { 1 } else { one_in }, all };
    [
        tier("/dev/shm", SyncMode::Never, 1),
        // Synced by nobody, so that what is emptied is used again at once.
        tier("/var/tmp", SyncMode::Never, 2),
        tier("/var/tmp", SyncMode::EachChange, 7),
    ]
}

struct Ground {
    sessions: Sessions,
    clock: Clock,
    tier: Tier,
    keys: u64,
    /// The directory, if it is on a disk.
    disk: Option<PathBuf>,
}

fn main() {
    for tier in tiers() {
        println!("in {}, sync: {:?}", tier.parent, tier.sync);
        let folder = tempfile::TempDir::new_in(tier.parent).unwrap();
        let timed = |name: &str, run: &dyn Fn(&Path) -> u64| {
            let start = Instant::now();
            let deaths = run(&folder.path().join(name));
            assert!(deaths >= 1, "{name}: no step was found");
            println!("test {name} ... ok ({deaths} steps, {:.1?})", start.elapsed());
        };
        for case in CASES {
            timed(case.name, &|path| {
                let mut ground = Ground::new(path, tier);
                let deaths = every_death(&mut ground, case);
                everything_goes(&ground, case.name);
                deaths
            });
        }
        timed("destroy_of_an_old_id", &|path| old_id::deaths_in_destroy(path, tier));
        timed("takeover_from_a_dead_process", &|path| takeover::deaths(path, tier));
        timed("compaction", &|path| compaction::deaths(path, tier));
        if tier.parent == "/var/tmp" {
            timed("rebuild", &|path| rebuild::deaths(path, tier));
        }
    }
}

impl Ground {
    fn new(path: &Path, tier: Tier) -> Ground {
        let clock = Clock::manual(START);
        let sessions = opened(path, &clock, tier);
        let disk = path.join("plane").exists().then(|| path.to_owned());
        Ground { sessions, clock, tier, keys: 0, disk }
    }
}

fn opened(path: &Path, clock: &Clock, tier: Tier) -> Sessions {
    let options = EngineOptions { sync: Some(tier.sync), ..EngineOptions::default() };
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
    let sessions = opened(copy.path(), &ground.clock, ground.tier);
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
fn every_death(ground: &mut Ground, case: &Case) -> u64 {
    for (at, bytes) in [77, 200, 300, 150_000].into_iter().enumerate().filter(|_| !case.fresh) {
        ground
            .sessions
            .create(&Key::session(&format!("warm-{at}")).unwrap(), &payload(bytes), ttl())
            .unwrap();
    }
    let stride = usize::try_from(case.stride * ground.tier.one_in).unwrap();
    for (deaths, writes) in (0..WRITES_MAX).step_by(stride).enumerate() {
        let mut attempts = (0..ATTEMPTS).map(|_| death(ground, case, writes));
        let Some((survived, _)) = attempts.find(|(_, waited)| *waited < SLOW) else {
            panic!(
                "{} killed at write {writes}: {ATTEMPTS} times the lock was free after {SLOW:?} \
                 only",
                case.name
            );
        };
        if survived {
            return deaths as u64;
        }
    }
    panic!("{} writes more than {WRITES_MAX} times", case.name);
}

/// Whether the operation was over before so many writes, and how long another process waited: for
/// other sessions while it was stopped, or for this one after that.
fn death(ground: &mut Ground, case: &Case, writes: u64) -> (bool, Duration) {
    ground.keys += 1;
    let id = ground.keys;
    let key = Key::session(&format!("key-{id}")).unwrap();
    if let Some(bytes) = case.before {
        ground.sessions.create(&key, &payload(bytes), ttl()).unwrap();
    }
    // The clock of a child is its own copy of a value in shared ownership, so it moves only there.
    let warm_up = || {
        if !case.fresh {
            registers(ground, &format!("child-{id}"));
        }
    };
    let name = format!("{} stopped at write {writes}", case.name);
    let mut waited_beside = Duration::ZERO;
    let survived = !dies(
        writes,
        warm_up,
        || (case.operation)(&ground.sessions, &key, &ground.clock),
        || waited_beside = others_go_on(ground, case, &key, &name),
    );
    (survived, judge(ground, case, &key, &name).max(waited_beside))
}

/// Enters a child into the table of processes and, on a disk, gives it a segment of the log to
/// append to: its two thousand stamps are cleared by one write each.
fn registers(ground: &Ground, id: &str) {
    let key = Key::session(id).unwrap();
    drop(ground.sessions.peek(&key).unwrap());
    if ground.disk.is_some() {
        ground.sessions.create(&key, b"", ttl()).unwrap();
    }
}

/// Runs an operation in a child that stops before its n-th write, and is killed then. True when it
/// was.
fn dies(
    writes: u64,
    warm_up: impl FnOnce(),
    operation: impl FnOnce(),
    beside: impl FnOnce(),
) -> bool {
    // SAFETY: this program has one thread, so the child may do whatever its parent may.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            warm_up();
            crash::stop_after(writes);
            operation();
            // SAFETY: ends the child at once, without the destructors of its parent's values.
            unsafe { nix::libc::_exit(0) }
        }
        ForkResult::Parent { child } => was_stopped(child, beside),
    }
}

fn was_stopped(child: Pid, beside: impl FnOnce()) -> bool {
    match waitpid(child, Some(WaitPidFlag::WUNTRACED)).unwrap() {
        WaitStatus::Stopped(_, Signal::SIGSTOP) => {
            beside();
            kill(child, Signal::SIGKILL).unwrap();
            let ended = waitpid(child, None).unwrap();
            assert!(matches!(ended, WaitStatus::Signaled(_, Signal::SIGKILL, _)), "{ended:?}");
            true
        }
        WaitStatus::Exited(_, 0) => false,
        other => panic!("the child ended as {other:?}"),
    }
}

/// A stopped process stops nobody who wants another session, and its own session can be read.
/// Returns how long the longest of these took.
fn others_go_on(ground: &Ground, case: &Case, key: &Key, name: &str) -> Duration {
    let (start, sessions) = (Instant::now(), &ground.sessions);
    let other = Key::session(&format!("{}-beside", key.id())).unwrap();
    let begun = sessions.begin(&other, STUCK).unwrap_or_else(|error| panic!("{name}: {error:#}"));
    begun.lease.commit(&payload(300), ttl()).unwrap_or_else(|error| panic!("{name}: {error:#}"));
    let read = sessions.peek(&other).unwrap().map(|record| record.payload);
    assert!(read == Some(payload(300)), "{name}: another session is not what was stored");
    sessions.destroy(&other).unwrap_or_else(|error| panic!("{name}: {error:#}"));
    let bytes = sessions.peek(key).unwrap().map(|record| record.payload.len());
    assert!(bytes == case.before || bytes == case.after, "{name}: {bytes:?} bytes are read");
    start.elapsed()
}

/// Says how long it waited for the lock.
fn judge(ground: &Ground, case: &Case, key: &Key, name: &str) -> Duration {
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
    is_sound(&ground.sessions, name);
    waited
}

fn is_sound(sessions: &Sessions, name: &str) {
    let verified = sessions.verify(&mut |_| ()).unwrap();
    assert!(verified.problems.is_empty(), "{name}: {:?}", verified.problems);
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
