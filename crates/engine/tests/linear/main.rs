//! Histories of several processes that work on the same few sessions, and are killed now and then:
//! some order of the calls on each session explains all answers. In memory, and on a disk with each
//! change synced. A program of its own, because only a process with one thread may fork.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test without the test harness is not recognised as one"
)]

mod broken;
mod checker;

use std::fs::File;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use broken::prove_that_the_checker_can_fail;
use checker::{Answer, Call, Event, explain};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{ForkResult, Pid, fork};
use sessile_core::{Clock, Error, ErrorKind, Found, Key, OwnerChange, Store, Ttl};
use sessile_engine::{EngineOptions, SyncMode, open};

const PROCESSES: u64 = 5;
const SESSIONS: u64 = 3;
/// Of each process in a round.
const CALLS: u64 = 250;
const ROUNDS: u64 = 4;
/// Stores that are worked on at the same time: what needs a process that stands still between two
/// steps is found where processors are scarce.
const STORES: usize = 4;
/// Processes killed in a round; a call that is cut short makes the search longer.
const KILLED: usize = 2;

fn main() {
    prove_that_the_checker_can_fail();
    let stores: Vec<Pid> = (0..STORES).map(|_| in_child(work_and_judge)).collect();
    for store in stores {
        assert_eq!(waitpid(store, None).unwrap(), WaitStatus::Exited(store, 0), "see above");
    }
}

/// The child ends as what it does ends.
fn in_child(work: impl FnOnce()) -> Pid {
    // SAFETY: this program has one thread, so the child may do whatever its parent may.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            // One that unwound would remove the parent's directory.
            let failed = catch_unwind(AssertUnwindSafe(work)).is_err();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(failed.into()) }
        }
    }
}

fn work_and_judge() {
    let mut calls = 0;
    for (parent, sync) in [("/dev/shm", None), ("/var/tmp", Some(SyncMode::EachChange))] {
        let folder = tempfile::TempDir::new_in(parent).unwrap();
        let path = folder.path().join("store");
        for round in 0..ROUNDS {
            calls += judge(&path, folder.path(), sync, round);
        }
        if let Ok(text) = std::fs::read_to_string(path.join("plane")) {
            let control = text.lines().next().unwrap().strip_prefix("control ").unwrap();
            std::fs::remove_dir_all(control).unwrap();
        }
    }
    println!("{calls} calls of {PROCESSES} processes, some killed, are explained");
}

/// Runs a round on sessions of its own. Returns its calls.
fn judge(path: &Path, folder: &Path, sync: Option<SyncMode>, round: u64) -> usize {
    let seed = fastrand::u64(..);
    let log = |process: u64| folder.join(format!("said-{round}-{process}"));
    let children: Vec<Pid> = (0..PROCESSES)
        .map(|process| {
            let said = File::create(log(process)).unwrap();
            in_child(|| work(path, said, sync, (round, process), seed))
        })
        .collect();
    let mut random = fastrand::Rng::with_seed(seed);
    for child in &children[..KILLED] {
        std::thread::sleep(Duration::from_micros(random.u64(1_000..60_000)));
        kill(*child, Signal::SIGKILL).unwrap();
    }
    for child in children {
        let ended = waitpid(child, None).unwrap();
        let as_meant =
            matches!(ended, WaitStatus::Exited(_, 0) | WaitStatus::Signaled(_, Signal::SIGKILL, _));
        assert!(as_meant, "round {round}: a process ended as {ended:?}");
    }
    let mut sessions = vec![Vec::new(); SESSIONS as usize];
    for process in 0..PROCESSES {
        let text = std::fs::read_to_string(log(process)).unwrap();
        read_events(&text, process << 32, &mut sessions);
    }
    let calls = sessions.iter().map(Vec::len).sum();
    assert!(calls > 100, "round {round}: only {calls} calls");
    for (session, events) in sessions.into_iter().enumerate() {
        if let Err(why) = explain(events) {
            panic!("session {session} of round {round}, {sync:?}: {why}");
        }
    }
    calls
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

fn seen(found: &Found) -> String {
    let tag = |payload: &[u8]| u64::from_le_bytes(payload[..8].try_into().unwrap());
    let whole = |payload: &[u8]| payload[8..].iter().all(|byte| *byte == payload[0]);
    match &found.record {
        Some(record) if whole(&record.payload) => tag(&record.payload).to_string(),
        Some(_) => panic!("a payload is torn"),
        None => "-".to_owned(),
    }
}

fn answer(done: Result<String, Error>) -> String {
    match done {
        Ok(answer) => answer,
        Err(error) => match error.kind() {
            ErrorKind::LockTimeout { .. } | ErrorKind::Destroyed | ErrorKind::Exists => {
                "refused".to_owned()
            }
            _ => panic!("{error:#}"),
        },
    }
}

/// A process: it says each call before it makes it, and the answer afterwards.
fn work(
    path: &Path,
    mut said: File,
    sync: Option<SyncMode>,
    (round, process): (u64, u64),
    seed: u64,
) {
    let engine =
        open(path, Clock::system(), &EngineOptions { sync, ..Default::default() }).unwrap();
    let mut random = fastrand::Rng::with_seed(seed ^ process);
    let ttl = Ttl::sliding(Duration::from_secs(3_600)).unwrap();
    let done = |result: Result<(), Error>| result.map(|()| "done".to_owned());
    for step in 0..CALLS {
        let session = random.u64(0..SESSIONS);
        let key = Key::session(&format!("session-{round}-{session}")).unwrap();
        // Of a call, of a lease, and in a payload.
        let tag = process << 32 | step << 1;
        let bytes = if random.u8(0..20) == 0 { 70_000 } else { 100 };
        let payload = [&tag.to_le_bytes()[..], &vec![tag.to_le_bytes()[0]; bytes]].concat();
        let mut call = |number, what: &str, make: &mut dyn FnMut() -> Result<String, Error>| {
            let line = format!("call {number} {session} {what} {}\n", now());
            said.write_all(line.as_bytes()).unwrap();
            let answer = answer(make());
            said.write_all(format!("answer {} {answer}\n", now()).as_bytes()).unwrap();
        };
        match random.u8(0..100) {
            0..25 => call(tag, "peek", &mut || {
                engine.peek(&key).map(|found| format!("seen {}", seen(&found)))
            }),
            25..33 => call(tag, "destroy", &mut || done(engine.destroy(&key))),
            33..40 => call(tag, &format!("create {tag}"), &mut || {
                done(engine.create(&key, &payload, ttl))
            }),
            draw => {
                let mut held = None;
                call(tag, "begin", &mut || {
                    let (lease, fence, found) = engine.begin(&key, Duration::from_millis(200))?;
                    held = Some(lease);
                    Ok(format!("granted {fence} {}", seen(&found)))
                });
                if held.is_none() {
                    continue;
                }
                let mut lease = || held.take().unwrap();
                if draw < 48 {
                    let what = format!("release {tag}");
                    call(tag + 1, &what, &mut || done(engine.release(lease())));
                } else {
                    let what = format!("commit {tag} {tag}");
                    call(tag + 1, &what, &mut || {
                        done(engine.commit(lease(), &payload, ttl, OwnerChange::Keep))
                    });
                }
            }
        }
    }
}

fn read_events(text: &str, process: u64, sessions: &mut [Vec<Event>]) {
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let mut open: Option<(usize, Event)> = None;
    let (mut lease, mut last) = (None, 0);
    for line in whole {
        let words: Vec<&str> = line.split_whitespace().collect();
        let word = |at: usize| words[at].parse::<u64>().unwrap();
        let optional = |at: usize| words[at].parse::<u64>().ok();
        if words[0] == "call" {
            let (number, session, start) = (word(1), word(2) as usize, word(words.len() - 1));
            let call = match words[3] {
                "begin" => Call::Begin,
                "peek" => Call::Peek,
                "destroy" => Call::Destroy,
                "create" => Call::Create { tag: word(4) },
                "release" => Call::Release { lease: word(4) },
                _ => Call::Commit { lease: word(4), tag: word(5) },
            };
            last = start;
            open = Some((session, Event { number, call, answer: None, start, end: u64::MAX }));
            continue;
        }
        let (session, event) = open.take().unwrap();
        let answer = match words[2] {
            "granted" => Answer::Granted { fence: word(3), seen: optional(4) },
            "seen" => Answer::Seen(optional(3)),
            "done" => Answer::Done,
            _ => Answer::Refused,
        };
        lease = matches!(answer, Answer::Granted { .. }).then_some((session, event.number));
        sessions[session].push(Event { answer: Some(answer), end: word(1), ..event });
        last = word(1);
    }
    // Killed: its last call may have its effect later, and its lock is free some time.
    let number = process | u64::from(u32::MAX);
    if let Some((session, lease)) = lease {
        let call = Call::Release { lease };
        let end = u64::MAX;
        sessions[session].push(Event { number, call, answer: None, start: last, end });
    }
    if let Some((session, event)) = open
        && !matches!(event.call, Call::Begin | Call::Peek)
    {
        sessions[session].push(event);
    }
}
