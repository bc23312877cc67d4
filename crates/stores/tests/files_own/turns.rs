//! Waiting for the lock of one session in the store's own mode: in turn, asleep, and held up by
//! nobody.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Child;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::time::{ClockId, clock_gettime};

use super::{WAIT, child, key, open_at, ttl, until, within_once};

/// How many are in the queue, of all processes: the kernel lists their locks.
fn waiting(root: &Path) -> usize {
    let inode = format!(":{} ", fs::metadata(root.join("waiting")).unwrap().ino());
    fs::read_to_string("/proc/locks").unwrap().lines().filter(|line| line.contains(&inode)).count()
}

/// Ends with the test also when that fails: a stopped process would stay for ever.
struct Leashed(Child);

impl Drop for Leashed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn waiters_are_served_in_the_order_of_their_arrival_and_each_is_woken_when_its_turn_comes() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    let (mut times, mut orders) = (Vec::new(), Vec::new());
    // On a busy machine one who gets no processor for 50 ms is passed, as if he were stopped.
    // Chance alone would not find the order of eight in any round, nor eight turns in the time of
    // one look.
    let in_order = |orders: &[Vec<usize>]| orders.iter().any(|order| order.is_sorted());
    let in_time = |times: &[Duration]| times.iter().any(|time| *time < Duration::from_millis(25));
    for _ in 0..20 {
        let begun = sessions.begin(&key("shared"), WAIT).unwrap();
        let served = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (sessions, served) = (&sessions, &served);
                scope.spawn(move || {
                    let begun = sessions.begin(&key("shared"), WAIT).unwrap();
                    served.lock().unwrap().push(number);
                    begun.lease.commit(b"x", ttl()).unwrap();
                });
                until("it waits", || waiting(&root) == number + 1);
            }
            // By then whoever is not the first looks by himself only every 100 ms.
            std::thread::sleep(Duration::from_millis(90));
            let start = Instant::now();
            begun.lease.commit(b"x", ttl()).unwrap();
            until("all were served", || served.lock().unwrap().len() == 8);
            times.push(start.elapsed());
        });
        orders.push(served.into_inner().unwrap());
        assert_eq!(waiting(&root), 0);
        if in_order(&orders) && in_time(&times) {
            break;
        }
    }
    assert!(in_order(&orders), "{orders:?}");
    assert!(in_time(&times), "eight turns took {times:?}");
}

#[test]
fn a_killed_waiter_holds_up_nobody() {
    within_once("the one behind a killed one", Duration::from_millis(200), behind_a_killed_waiter);
}

fn behind_a_killed_waiter() -> Duration {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    let begun = sessions.begin(&key("shared"), WAIT).unwrap();
    let mut first = child("hold", &root);
    until("the first waits", || waiting(&root) == 1);
    let waiter = {
        let sessions = sessions.clone();
        std::thread::spawn(move || {
            sessions.begin(&key("shared"), WAIT).map(drop).unwrap();
            Instant::now()
        })
    };
    until("the second waits", || waiting(&root) == 2);
    let mut third = child("hold", &root);
    until("the third waits", || waiting(&root) == 3);
    // One that is ahead of others, and one that is the last; one just before the turn is his.
    third.kill().unwrap();
    third.wait().unwrap();
    first.kill().unwrap();
    begun.lease.release().unwrap();
    let released = Instant::now();
    let waited = waiter.join().unwrap().saturating_duration_since(released);
    first.wait().unwrap();
    assert_eq!(waiting(&root), 0);
    waited
}

#[test]
fn a_stopped_waiter_is_waited_for_once_and_then_passed_by() {
    let longest = "the first to pass it, and ten who came after that";
    within_once(longest, Duration::from_millis(200), beside_a_stopped_waiter);
}

/// The longer time of two: that of the first begin, which passes the stopped one, and that of ten
/// more.
fn beside_a_stopped_waiter() -> Duration {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    let begun = sessions.begin(&key("shared"), WAIT).unwrap();
    let mut first = Leashed(child("hold", &root));
    until("the first waits", || waiting(&root) == 1);
    let pid = first.0.id();
    kill(Pid::from_raw(pid.try_into().unwrap()), Signal::SIGSTOP).unwrap();
    let state = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    until("it is stopped, and not about to be", || state().contains(") T "));
    begun.lease.release().unwrap();

    let start = Instant::now();
    sessions.begin(&key("shared"), WAIT).unwrap().lease.release().unwrap();
    let passed = start.elapsed();
    assert!(
        passed >= Duration::from_millis(25),
        "the lock was free, but it was the turn of another: {passed:?}"
    );
    let start = Instant::now();
    for _ in 0..10 {
        sessions.begin(&key("shared"), WAIT).unwrap().lease.release().unwrap();
    }
    let more = start.elapsed();
    // Another process knows nothing of that; its patience is shorter here than what it would wait
    // for a turn, and once of several times it has its share of the processor.
    let other = open_at(&root).unwrap();
    let free = || other.begin(&key("shared"), Duration::from_millis(5)).is_ok();
    assert!((0..12).any(|_| free()), "the lock is free");

    kill(Pid::from_raw(pid.try_into().unwrap()), Signal::SIGCONT).unwrap();
    until("the first goes on and has its turn", || root.with_extension("held").exists());
    fs::write(root.with_extension("done"), "").unwrap();
    assert!(first.0.wait().unwrap().success());
    passed.max(more)
}

/// Of a program that is not optimised, on a machine that may be busy. Whoever did not sleep would
/// need a second.
#[test]
fn whoever_waits_sleeps() {
    within_once(
        "processor time of a waiter in 1 s",
        Duration::from_millis(20),
        processor_time_of_waiters,
    );
}

fn processor_time_of_waiters() -> Duration {
    let base = tempfile::tempdir().unwrap();
    let sessions = open_at(&base.path().join("files")).unwrap();
    let begun = sessions.begin(&key("shared"), WAIT).unwrap();
    let used = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap())
    };
    let times: Vec<Duration> = std::thread::scope(|scope| {
        let wait = || {
            let before = used();
            sessions.begin(&key("shared"), WAIT).map(drop).unwrap();
            used() - before
        };
        let waiters: Vec<_> = (0..4).map(|_| scope.spawn(wait)).collect();
        std::thread::sleep(Duration::from_secs(1)); // the length of the measurement
        drop(begun);
        waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect()
    });
    eprintln!("processor time of four waiters in 1 s: {times:?}");
    times.into_iter().max().unwrap()
}
