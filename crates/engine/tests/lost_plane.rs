//! All processes of a store on a disk are killed at a random moment while they write as fast as
//! they can, and the control plane is removed: every acknowledged change has to be there after the
//! rebuild. A program of its own, because only a process with one thread may fork.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test without the test harness is not recognised as one"
)]

use std::convert::Infallible;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use sessile_core::{Clock, Key, Limits, Sessions, Ttl};
use sessile_engine::{EngineOptions, open};

const ROUNDS: u64 = 16;
const CHILDREN: u64 = 3;
/// Of each child.
const SESSIONS: u64 = 30;
/// Every so many changes of a session are its end.
const DESTROYED_EVERY: u64 = 20;
const LONGEST: Duration = Duration::from_millis(250);

fn main() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let path = folder.path().join("store");
    // How many changes of each session were acknowledged.
    let said = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(folder.path().join("said"))
        .unwrap();
    said.set_len(CHILDREN * SESSIONS * 8).unwrap();
    for round in 0..ROUNDS {
        let children: Vec<Pid> =
            (0..CHILDREN).map(|child| writer(&path, &said, child, random.u64(..))).collect();
        std::thread::sleep(Duration::from_micros(random.u64(2_000..LONGEST.as_micros() as u64)));
        children.iter().for_each(|child| kill(*child, Signal::SIGKILL).unwrap());
        children.iter().for_each(|child| {
            let ended = waitpid(*child, None).unwrap();
            assert!(
                matches!(ended, WaitStatus::Signaled(..)),
                "seed {seed}, round {round}: a writer ended as {ended:?}"
            );
        });
        // Some rounds keep it.
        if round % 4 != 3 {
            remove_control(&path);
        }
        judge(&path, &said, &format!("seed {seed}, round {round}"));
    }
    let changes: u64 = (0..CHILDREN * SESSIONS).map(|number| acknowledged(&said, number)).sum();
    assert!(changes > 1_000, "only {changes} changes");
    remove_control(&path);
    println!(
        "test every_acknowledged_change_survives_a_lost_control_plane ... ok ({changes} changes)"
    );
}

fn opened(path: &Path) -> Result<Sessions, sessile_core::Error> {
    Ok(Sessions::new(
        "sessile",
        open(path, Clock::system(), &EngineOptions::default())?,
        Limits::default(),
    ))
}

fn remove_control(store: &Path) {
    // Killed before the store was there.
    let Ok(text) = std::fs::read_to_string(store.join("plane")) else { return };
    std::fs::remove_dir_all(text.lines().next().unwrap().strip_prefix("control ").unwrap())
        .unwrap();
}

fn key(number: u64) -> Key {
    Key::session(&format!("session-{number}")).unwrap()
}

/// What a session is after so many changes.
fn after(changes: u64, number: u64) -> Option<Vec<u8>> {
    let lives = !changes.is_multiple_of(DESTROYED_EVERY);
    let words = 10 + changes.wrapping_mul(number * 31 + 7) % 700;
    lives.then(|| (changes << 16 | number).to_le_bytes().repeat(words as usize))
}

fn acknowledged(said: &File, number: u64) -> u64 {
    let mut bytes = [0; 8];
    said.read_exact_at(&mut bytes, number * 8).unwrap();
    u64::from_le_bytes(bytes)
}

fn acknowledge(said: &File, number: u64, changes: u64) {
    said.write_all_at(&changes.to_le_bytes(), number * 8).unwrap();
}

/// A process that changes its sessions until it is killed.
fn writer(path: &Path, said: &File, child: u64, seed: u64) -> Pid {
    // SAFETY: this program has one thread, so the child may do whatever its parent may.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            // An error ends the child here: one that unwound would remove the parent's directory.
            let ended = write_until_killed(path, said, child, seed);
            eprintln!("a writer failed: {ended:?}");
            // SAFETY: ends the child at once; the parent finds that it did not end by a signal.
            unsafe { libc::_exit(1) }
        }
    }
}

fn write_until_killed(
    path: &Path,
    said: &File,
    child: u64,
    seed: u64,
) -> Result<Infallible, sessile_core::Error> {
    let mut random = fastrand::Rng::with_seed(seed);
    let sessions = opened(path)?;
    let ttl = Ttl::sliding(Duration::from_secs(600))?;
    loop {
        let number = child * SESSIONS + random.u64(0..SESSIONS);
        let changes = acknowledged(said, number) + 1;
        match after(changes, number) {
            None => sessions.destroy(&key(number))?,
            Some(payload) => sessions
                .begin(&key(number), Duration::from_secs(60))?
                .lease
                .commit(&payload, ttl)?,
        }
        acknowledge(said, number, changes);
    }
}

/// Each session is what was acknowledged last, or what the one change after that would have made of
/// it.
fn judge(path: &Path, said: &File, when: &str) {
    let sessions = opened(path).unwrap();
    let verified = sessions.verify(&mut |_| ()).unwrap();
    assert!(verified.problems.is_empty(), "{when}: {:?}", verified.problems);
    for number in 0..CHILDREN * SESSIONS {
        let changes = acknowledged(said, number);
        let found = sessions.peek(&key(number)).unwrap().map(|record| record.payload);
        if found == after(changes + 1, number) {
            acknowledge(said, number, changes + 1);
        } else {
            let is = found
                .as_ref()
                .map(|found| u64::from_le_bytes(found[..8].try_into().unwrap()) >> 16);
            assert!(
                found == after(changes, number),
                "{when}: session {number} lost change {changes}, has {is:?}"
            );
        }
    }
}
