//! Owners of locks that are hard to see die: unreaped, outlived by a child that holds their files,
//! or only stopped. A program of its own, because only a process with one thread may fork.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test without the test harness is not recognised as one"
)]

use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, pause, pipe, read, write};
use sessile_core::{Clock, ErrorKind, Key, Limits, Sessions, Ttl};
use sessile_engine::{EngineOptions, open};

/// The bar is 200 ms on a quiet machine; a busy one may take a few seconds, a lock that is stuck is
/// so for ever.
const FREE_WITHIN: Duration = Duration::from_secs(5);
/// What takes longer than this is done again, and may not take longer each time.
const SLOW: Duration = Duration::from_millis(500);
const ATTEMPTS: usize = 3;

fn main() {
    let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let engine =
        open(&folder.path().join("store"), Clock::system(), &EngineOptions::default()).unwrap();
    let sessions = Sessions::new("sessile", engine, Limits::default());
    /// Says how long the lock was not free after its owner had died.
    type Case = fn(&Sessions, &Key) -> Duration;
    let cases: [(&str, Case); 7] = [
        ("a_killed_owner_that_nobody_reaps_is_dead", a_killed_owner_that_nobody_reaps_is_dead),
        (
            "a_child_that_never_used_the_store_does_not_keep_its_parent_alive",
            a_silent_child_does_not_keep_its_parent_alive,
        ),
        (
            "a_stopped_owner_keeps_its_lock_and_is_named",
            a_stopped_owner_keeps_its_lock_and_is_named,
        ),
        ("a_waiter_sleeps_while_the_owner_sleeps", a_waiter_sleeps_while_the_owner_sleeps),
        (
            "a_forked_child_leaves_its_parents_lease_alone",
            a_forked_child_leaves_its_parents_lease_alone,
        ),
        ("five_hundred_idle_processes_are_in_nobodys_way", five_hundred_idle_processes),
        ("a_storm_of_forks_loses_no_change", a_storm_of_forks_loses_no_change),
    ];
    for (name, case) in cases {
        let waited = |attempt: usize| {
            let key = Key::session(&format!("{}{attempt}", &name[..20])).unwrap();
            sessions.create(&key, b"before", ttl()).unwrap();
            let waited = case(&sessions, &key);
            let verified = sessions.verify(&mut |_| ()).unwrap();
            assert!(verified.problems.is_empty(), "{name}: {:?}", verified.problems);
            waited
        };
        assert!(
            (0..ATTEMPTS).any(|attempt| waited(attempt) < SLOW),
            "{name}: the lock was free after {SLOW:?} only"
        );
        println!("test {name} ... ok");
    }
}

fn ttl() -> Ttl {
    Ttl::sliding(Duration::from_secs(600)).unwrap()
}

fn forked(child: impl FnOnce()) -> Pid {
    // SAFETY: this program has one thread, so the child may do whatever its parent may.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            child();
            // SAFETY: ends the child at once, without the destructors of its parent's values.
            unsafe { libc::_exit(0) }
        }
    }
}

/// A child that holds the lock; returns when it has it. `then` is what it does while it holds it.
fn holder(sessions: &Sessions, key: &Key, then: impl FnOnce()) -> Pid {
    let (ready, tell) = pipe().unwrap();
    let pid = forked(|| {
        let begun = sessions.begin(key, Duration::ZERO).unwrap();
        then();
        write(&tell, b"x").unwrap();
        pause();
        drop(begun);
    });
    assert_eq!(read(&ready, &mut [0]).unwrap(), 1);
    pid
}

fn free_in_time(sessions: &Sessions, key: &Key) -> Duration {
    let start = Instant::now();
    let begun = sessions.begin(key, Duration::from_secs(20)).unwrap();
    let waited = start.elapsed();
    assert!(waited < FREE_WITHIN, "the lock was stuck for {waited:?}");
    assert_eq!(begun.record.unwrap().payload, b"before");
    waited
}

fn a_killed_owner_that_nobody_reaps_is_dead(sessions: &Sessions, key: &Key) -> Duration {
    let pid = holder(sessions, key, || ());
    kill(pid, Signal::SIGKILL).unwrap();
    let waited = free_in_time(sessions, key);
    assert!(matches!(waitpid(pid, None).unwrap(), WaitStatus::Signaled(..)));
    waited
}

/// The child would have the beacon of its parent, and the kernel go on showing it as locked. Nobody
/// reaps the parent meanwhile, so its pid stays, too.
fn a_silent_child_does_not_keep_its_parent_alive(sessions: &Sessions, key: &Key) -> Duration {
    let (from, to) = pipe().unwrap();
    let parent = holder(sessions, key, || {
        let silent = forked(|| {
            pause();
        });
        write(&to, &silent.as_raw().to_le_bytes()).unwrap();
    });
    let mut bytes = [0; 4];
    assert_eq!(read(&from, &mut bytes).unwrap(), 4);
    let silent = Pid::from_raw(i32::from_le_bytes(bytes));
    kill(parent, Signal::SIGKILL).unwrap();
    let waited = free_in_time(sessions, key);
    kill(silent, None).unwrap(); // it lives
    waitpid(parent, None).unwrap();
    kill(silent, Signal::SIGKILL).unwrap();
    waited
}

fn a_stopped_owner_keeps_its_lock_and_is_named(sessions: &Sessions, key: &Key) -> Duration {
    let pid = holder(sessions, key, || ());
    kill(pid, Signal::SIGSTOP).unwrap();
    assert!(matches!(waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap(), WaitStatus::Stopped(..)));
    let error = sessions.begin(key, Duration::from_millis(300)).err().unwrap();
    match error.kind() {
        ErrorKind::LockTimeout { holder, .. } => {
            assert_eq!(holder.pid, u32::try_from(pid.as_raw()).ok())
        }
        other => panic!("{other:?}"),
    }
    kill(pid, Signal::SIGKILL).unwrap();
    waitpid(pid, None).unwrap();
    free_in_time(sessions, key)
}

fn a_waiter_sleeps_while_the_owner_sleeps(sessions: &Sessions, key: &Key) -> Duration {
    let pid = holder(sessions, key, || ());
    let used = || {
        let before = cpu();
        assert!(sessions.begin(key, Duration::from_secs(1)).is_err());
        let used = cpu() - before;
        println!("  waiting for 1 s used {used:?} of CPU");
        used
    };
    // The bar is 2 ms in a release build. Time that a hypervisor takes for others may count as
    // used: once of five times.
    assert!(
        (0..5).any(|_| used() < Duration::from_millis(20)),
        "waiting for 1 s used so much CPU five times"
    );
    kill(pid, Signal::SIGKILL).unwrap();
    waitpid(pid, None).unwrap();
    free_in_time(sessions, key)
}

fn cpu() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
    Duration::from(time)
}

fn a_forked_child_leaves_its_parents_lease_alone(sessions: &Sessions, key: &Key) -> Duration {
    let begun = sessions.begin(key, Duration::ZERO).unwrap();
    let mut lease = Some(begun.lease);
    let child = forked(|| {
        let refused = lease.take().unwrap().commit(b"stolen", ttl()).unwrap_err();
        assert_eq!(refused.kind().code(), "stale");
        assert!(
            sessions.begin(key, Duration::from_millis(20)).is_err(),
            "the parent's lock was given back"
        );
    });
    assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
    lease.take().unwrap().commit(b"mine", ttl()).unwrap();
    assert_eq!(sessions.peek(key).unwrap().unwrap().payload, b"mine");
    Duration::ZERO
}

/// They are killed while they idle, and as many come after them: more than there are places for
/// processes that nobody gives back.
fn five_hundred_idle_processes(sessions: &Sessions, key: &Key) -> Duration {
    let mut waited = Duration::ZERO;
    for _ in 0..3 {
        let (ready, tell) = pipe().unwrap();
        let idle: Vec<Pid> = (0..500)
            .map(|_| {
                forked(|| {
                    assert!(sessions.peek(key).unwrap().is_some());
                    sessions.touch(key, ttl()).unwrap();
                    write(&tell, b"x").unwrap();
                    pause();
                })
            })
            .collect();
        let mut seen = [0; 500];
        let mut attached = 0;
        while attached < idle.len() {
            attached += read(&ready, &mut seen).unwrap();
        }
        waited = waited.max(free_in_time(sessions, key));
        idle.iter().for_each(|pid| kill(*pid, Signal::SIGKILL).unwrap());
        for pid in &idle {
            waitpid(*pid, None).unwrap();
        }
        waited = waited.max(free_in_time(sessions, key));
    }
    waited
}

/// Each parent has used the store before it forks, and each child does so at once.
fn a_storm_of_forks_loses_no_change(sessions: &Sessions, key: &Key) -> Duration {
    const PARENTS: u64 = 8;
    const CHILDREN: u64 = 50;
    let counter = Key::session("counted-by-forked-processes").unwrap();
    sessions.create(&counter, &0_u64.to_le_bytes(), ttl()).unwrap();
    let count = |sessions: &Sessions| {
        let begun = sessions.begin(&counter, Duration::from_secs(20)).unwrap();
        let payload = begun.record.unwrap().payload;
        let next = u64::from_le_bytes(payload.try_into().unwrap()) + 1;
        begun.lease.commit(&next.to_le_bytes(), ttl()).unwrap();
    };
    let parents: Vec<Pid> = (0..PARENTS)
        .map(|_| {
            forked(|| {
                count(sessions);
                let children: Vec<Pid> =
                    (0..CHILDREN).map(|_| forked(|| count(sessions))).collect();
                for child in children {
                    assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
                }
            })
        })
        .collect();
    for parent in parents {
        assert_eq!(waitpid(parent, None).unwrap(), WaitStatus::Exited(parent, 0));
    }
    let counted = sessions.peek(&counter).unwrap().unwrap().payload;
    assert_eq!(counted, (PARENTS * (CHILDREN + 1)).to_le_bytes());
    free_in_time(sessions, key)
}
