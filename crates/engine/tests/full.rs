//! A file system that is physically full: a small tmpfs, and a small disk. Every session that was
//! taken stays readable, what is refused says so, everybody can log out, and after that there is
//! room again. A program of its own, because it mounts them in a namespace of its own; where that
//! is not allowed it says which part was skipped.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test without the test harness is not recognised as one"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use sessile_core::{Budget, Clock, Error, Key, Limits, Result, Sessions, Ttl};
use sessile_engine::{EngineOptions, open};

const MIB: u64 = 1 << 20;
const MEMORY_BYTES: u64 = 16 * MIB;
const DISK_BYTES: u64 = 32 * MIB;
const USUAL_BYTES: usize = 1_500;
/// So small that a tombstone takes as much as is gained.
const SMALL_BYTES: usize = 60;
const ROOM_WAIT_MAX: Duration = Duration::from_secs(20);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["inside"] => return inside(),
        ["worker", path, first, count] => {
            return worker(Path::new(path), first.parse().unwrap(), count.parse().unwrap());
        }
        _ => {}
    }
    let user = if nix::unistd::geteuid().is_root() { "-m" } else { "-rm" };
    let program = std::env::current_exe().unwrap();
    match Command::new("unshare").arg(user).arg(program).arg("inside").status() {
        Ok(status) if status.success() => {}
        // unshare(1) has a message of its own.
        Ok(status) if status.code() == Some(1) => {
            println!("skipped: full file systems (no namespace to mount them in)")
        }
        Ok(status) => panic!("the test of full file systems ended with {status}"),
        Err(error) => println!("skipped: full file systems (unshare: {error})"),
    }
}

fn inside() {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let (memory, image, disk) =
        (folder.path().join("memory"), folder.path().join("image"), folder.path().join("disk"));
    std::fs::create_dir(&memory).unwrap();
    std::fs::create_dir(&disk).unwrap();
    let size = format!("size={MEMORY_BYTES}");
    if mounted(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&memory)) {
        each_on(&memory, "tmpfs");
    }
    std::fs::File::create(&image).unwrap().set_len(DISK_BYTES).unwrap();
    if mounted(Command::new("mkfs.ext4").arg("-q").arg(&image))
        && mounted(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&disk))
    {
        each_on(&disk, "disk");
        assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    }
}

fn mounted(command: &mut Command) -> bool {
    let done = command.status().is_ok_and(|status| status.success());
    if !done {
        println!(
            "skipped: a full file system ({} is not possible here)",
            command.get_program().display()
        );
    }
    done
}

type Test = fn(&mut Full);

fn each_on(file_system: &Path, name: &str) {
    let tests: [(&str, Test, usize); 5] = [
        ("refuses_and_keeps_every_session", refuses_and_keeps_every_session, USUAL_BYTES),
        ("lets_everybody_log_out", lets_everybody_log_out, USUAL_BYTES),
        ("lets_everybody_log_out", lets_everybody_log_out, SMALL_BYTES),
        (
            "lets_everybody_log_out_by_many_processes",
            lets_everybody_log_out_by_many_processes,
            USUAL_BYTES,
        ),
        (
            "has_room_for_others_after_most_have_logged_out",
            has_room_for_others_after_most_have_logged_out,
            USUAL_BYTES,
        ),
    ];
    for (test, run, payload_bytes) in tests {
        let start = Instant::now();
        let mut full = Full::new(file_system.join("store"), payload_bytes);
        run(&mut full);
        let (count, took, most) = (full.count, start.elapsed(), full.most);
        println!(
            "test a_full_{name}_{test} ... ok ({count} of {payload_bytes} bytes, {took:.1?}, a \
             log-out {most:.1?})"
        );
    }
}

/// A store of sessions 0 to `count` on a file system without room for another one.
struct Full {
    path: PathBuf,
    sessions: Option<Sessions>,
    payload_bytes: usize,
    count: usize,
    /// What the longest log-out took.
    most: Duration,
}

impl Drop for Full {
    fn drop(&mut self) {
        self.sessions = None;
        if self.path.join("plane").exists() {
            let _ = std::fs::remove_dir_all(control_of(&self.path));
        }
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn opened(path: &Path) -> Option<Sessions> {
    // The limit is far away: the file system is what refuses.
    let options = EngineOptions { size_bytes_max: 1 << 30, ..EngineOptions::default() };
    Some(Sessions::new(
        "sessile",
        open(path, Clock::system(), &options).unwrap(),
        Limits::default(),
    ))
}

fn key(number: usize) -> Key {
    Key::session(&format!("session-{number}")).unwrap()
}

fn ttl() -> Ttl {
    Ttl::sliding(Duration::from_secs(600)).unwrap()
}

fn payload(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + number) as u8).collect()
}

impl Full {
    fn new(path: PathBuf, payload_bytes: usize) -> Full {
        let mut full =
            Full { sessions: opened(&path), path, payload_bytes, count: 0, most: Duration::ZERO };
        full.count = full.create_from(0);
        assert!(full.count > 4_000, "only {} sessions", full.count);
        full
    }

    fn sessions(&self) -> &Sessions {
        self.sessions.as_ref().unwrap()
    }

    fn create(&self, number: usize) -> Result<()> {
        self.sessions().create(&key(number), &payload(number, self.payload_bytes), ttl())
    }

    /// There is room for another one. Each call makes a bounded part of it: a slow disk needs
    /// several.
    fn create_another(&self) {
        let start = Instant::now();
        while let Err(error) = self.create(self.count) {
            let refused = error.kind().code() == "full" && start.elapsed() < ROOM_WAIT_MAX;
            assert!(refused, "no room for another one: {error:#}");
        }
    }

    /// Creates until there is no room. Returns the number of the first that was refused.
    fn create_from(&self, first: usize) -> usize {
        let refused = |number: usize| self.create(number).err().map(|error: Error| (number, error));
        let (number, error) = (first..1 << 20).find_map(refused).unwrap();
        assert_eq!(error.kind().code(), "full", "{error:#}");
        number
    }

    fn destroy(&mut self, numbers: impl Iterator<Item = usize>) {
        for number in numbers {
            let start = Instant::now();
            let done = self.sessions().destroy(&key(number));
            self.most = self.most.max(start.elapsed());
            done.unwrap_or_else(|error| {
                panic!("session {number} of {} cannot log out: {error:#}", self.count)
            });
        }
    }

    /// The sessions below `end` are just those that were kept, and everything is in order.
    fn check(&self, end: usize, kept: impl Fn(usize) -> bool, when: &str) {
        for number in 0..end {
            let found = self
                .sessions()
                .peek(&key(number))
                .unwrap_or_else(|error| panic!("{when}: {number}: {error:#}"));
            let bytes = found.as_ref().map(|record| record.payload.len());
            let right = found.map(|record| record.payload)
                == kept(number).then(|| payload(number, self.payload_bytes));
            assert!(right, "{when}: session {number} has {bytes:?} bytes");
        }
        let verified = self.sessions().verify(&mut |_| ()).unwrap();
        assert!(verified.problems.is_empty(), "{when}: {:?}", verified.problems);
    }

    /// As by processes that come later; on a disk also after the control plane was lost.
    fn open_again(&mut self, lost: bool) {
        self.sessions = None;
        if lost && self.path.join("plane").exists() {
            std::fs::remove_dir_all(control_of(&self.path)).unwrap();
        }
        self.sessions = opened(&self.path);
    }
}

fn control_of(store: &Path) -> PathBuf {
    let text = std::fs::read_to_string(store.join("plane")).unwrap();
    PathBuf::from(text.lines().next().unwrap().strip_prefix("control ").unwrap())
}

fn refuses_and_keeps_every_session(full: &mut Full) {
    full.check(full.count, |_| true, "full");
    for number in 0..5 {
        let begun = full.sessions().begin(&key(number), Duration::ZERO).unwrap();
        let error = begun.lease.commit(&payload(number, 8 << 20), ttl()).unwrap_err();
        assert_eq!(error.kind().code(), "full", "{error:#}");
    }
    full.check(full.count, |_| true, "after commits that were refused");
    // One after the other: what one has let go of is not what the next one may have.
    let mut next = full.count;
    for number in 0..20 {
        full.destroy(std::iter::once(number));
        next = full.create_from(next);
    }
    full.open_again(true);
    full.check(
        next,
        |number| number >= 20,
        "after some have logged out and others tried to come in",
    );
}

/// Each time a few of each part of the store log out, the worst there is for who wants to regain
/// whole parts.
const ROUNDS: usize = 16;

fn lets_everybody_log_out(full: &mut Full) {
    for round in 0..ROUNDS {
        full.destroy((round..full.count).step_by(ROUNDS));
        if round % 4 == 3 {
            full.open_again(round % 8 == 7);
            full.check(full.count, |number| number % ROUNDS > round, "after some have logged out");
        }
    }
    full.create_another();
}

const WORKERS: usize = 6;

fn lets_everybody_log_out_by_many_processes(full: &mut Full) {
    let (program, count) = (std::env::current_exe().unwrap(), full.count.to_string());
    let worker = |first: usize| {
        let arguments = [Path::new("worker").as_os_str(), full.path.as_os_str()];
        Command::new(&program).args(arguments).args([&first.to_string(), &count]).spawn().unwrap()
    };
    let workers: Vec<Child> = (0..WORKERS).map(worker).collect();
    for mut worker in workers {
        assert!(worker.wait().unwrap().success(), "a worker was refused");
    }
    full.open_again(true);
    full.check(full.count, |_| false, "after all have logged out");
    full.create_another();
}

fn worker(path: &Path, first: usize, count: usize) {
    let sessions = opened(path).unwrap();
    let round = |round| (first + WORKERS * round..count).step_by(WORKERS * ROUNDS);
    for number in (0..ROUNDS).flat_map(round) {
        let done = sessions.destroy(&key(number));
        done.unwrap_or_else(|error| {
            panic!("session {number} of {count} cannot log out: {error:#}")
        });
    }
}

fn has_room_for_others_after_most_have_logged_out(full: &mut Full) {
    let (count, more) = (full.count, full.count / 4);
    full.destroy((0..count).filter(|number| number % 4 != 0));
    while !full
        .sessions()
        .sweep(Budget { records_max: 1_000, time_max: Duration::from_secs(1) })
        .unwrap()
        .complete
    {}
    for number in count..count + more {
        let done = full.create(number);
        done.unwrap_or_else(|error| panic!("room for {} of {more}: {error:#}", number - count));
    }
    let kept = |number| number >= count || number % 4 == 0;
    full.check(count + more, kept, "with others");
    let end = full.create_from(count + more);
    full.open_again(true);
    full.check(end, kept, "full again");
    full.destroy(0..end);
    full.open_again(true);
    full.check(end, |_| false, "after all have logged out");
}
