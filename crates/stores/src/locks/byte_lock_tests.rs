//! Processes are real ones: this test binary started again, told by its environment what to do.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::*;

const PATH: &str = "SESSILE_TEST_LOCK_FILE";
const ROLE: &str = "SESSILE_TEST_LOCK_ROLE";
const LONG: Duration = Duration::from_secs(30);

struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(TempDir::new().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("locks")
    }

    fn locks(&self) -> ByteLocks {
        ByteLocks::new(self.file(), self.0.path().into())
    }

    fn spawn(&self, role: &str) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["locks::byte_lock::tests::as_a_process", "--exact", "--ignored", "--nocapture"])
            .env(PATH, self.file())
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

fn name() -> LockName {
    LockName::new("session", "some id")
}

fn granted(wait: io::Result<Acquired>) -> ByteLock {
    match wait.unwrap() {
        Acquired::Granted(lock) => lock,
        Acquired::TimedOut(holder) => panic!("held by {holder:?}"),
    }
}

fn await_line(child: &mut Child, wanted: &str) {
    let out = BufReader::new(child.stdout.as_mut().unwrap());
    assert!(
        out.lines().map_while(Result::ok).any(|line| line.contains(wanted)),
        "the child never said {wanted:?}"
    );
}

#[test]
#[ignore = "started by the other tests"]
fn as_a_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let file = PathBuf::from(std::env::var_os(PATH).unwrap());
    let locks = ByteLocks::new(file.clone(), file);
    match role.as_str() {
        "hold" => {
            let _lock = granted(locks.acquire(name(), LONG));
            println!("holding");
            let _ = io::stdin().read(&mut [0]);
            std::thread::sleep(LONG); // until killed
        }
        "cycle" => {
            // All start together, when the parent lets go of the gate.
            drop(granted(locks.acquire(LockName::new("", "gate"), LONG)));
            let (end, mut cycles) = (Instant::now() + Duration::from_secs(2), 0);
            while Instant::now() < end {
                let _lock = granted(locks.acquire(name(), LONG));
                cycles += 1;
            }
            println!("cycles {cycles}");
        }
        other => panic!("unknown role {other}"),
    }
}

#[test]
fn a_holder_excludes_threads_of_its_own_process_and_is_named() {
    let scratch = Scratch::new();
    let lock = granted(scratch.locks().acquire(name(), Duration::ZERO));
    let Acquired::TimedOut(Some(holder)) =
        scratch.locks().acquire(name(), Duration::from_millis(20)).unwrap()
    else {
        panic!("the lock was granted twice, or its holder is not known")
    };
    assert_eq!(holder.pid, std::process::id());
    assert!(holder.held <= Duration::from_secs(5), "{holder:?}");
    assert!(scratch.locks().holder(LockName::new("session", "another id")).unwrap().is_none());
    drop(lock);
    assert!(scratch.locks().holder(name()).unwrap().is_none());
}

#[test]
fn every_window_lies_inside_the_file_and_apart_from_its_neighbours() {
    for hash in [0, 1 << (64 - HOLDER_HASH_BITS), u64::MAX] {
        let name = LockName(hash);
        let (first, last) = (name.base() - (1 << PID_BITS) + 1, name.base() + (1 << PID_BITS) - 1);
        assert!(first > 0 && last < WAITERS, "{first} {last}");
        assert!(
            name.queue() >= WAITERS && name.queue().checked_add((1 << TICKET_BITS) - 1).is_some()
        );
    }
    assert_eq!(
        LockName(1 << (64 - HOLDER_HASH_BITS)).base() - LockName(0).base(),
        1 << WINDOW_BITS
    );
}

#[test]
fn those_who_came_before_are_counted_across_the_end_of_the_ring() {
    let scratch = Scratch::new();
    let locks = scratch.locks();
    let (mine, other, third) =
        (locks.open().unwrap(), locks.open().unwrap(), locks.open().unwrap());
    let last = (1 << TICKET_BITS) - 1;
    assert!(try_lock(&mine, F_WRLCK, name().queue() + 5, 1).unwrap());
    assert!(ahead_of(&mine, name(), 5).unwrap() == Ahead::Nobody);
    assert!(try_lock(&other, F_WRLCK, name().queue() + 6, 1).unwrap());
    assert!(
        ahead_of(&mine, name(), 5).unwrap() == Ahead::Nobody,
        "a later one counts as an earlier one"
    );
    assert!(try_lock(&other, F_WRLCK, name().queue() + last, 1).unwrap());
    assert!(ahead_of(&mine, name(), 5).unwrap() == Ahead::One);
    assert!(try_lock(&third, F_WRLCK, name().queue() + 2, 1).unwrap());
    assert!(ahead_of(&mine, name(), 5).unwrap() == Ahead::Several);
}

#[test]
fn a_killed_holder_is_succeeded_at_once() {
    let scratch = Scratch::new();
    let mut child = scratch.spawn("hold");
    await_line(&mut child, "holding");
    let holder = scratch.locks().holder(name()).unwrap().unwrap();
    assert_eq!(holder.pid, child.id());
    assert!(matches!(
        scratch.locks().acquire(name(), Duration::ZERO).unwrap(),
        Acquired::TimedOut(Some(_))
    ));
    child.kill().unwrap();
    let killed = Instant::now();
    drop(granted(scratch.locks().acquire(name(), LONG)));
    assert!(killed.elapsed() < LONG / 3, "{:?}", killed.elapsed());
    child.wait().unwrap();
}

#[test]
fn a_stopped_waiter_does_not_stop_those_behind_it() {
    let scratch = Scratch::new();
    let locks = scratch.locks();
    let stopped = locks.open().unwrap();
    take_ticket(&stopped, name()).unwrap(); // and never looks again
    let start = Instant::now();
    drop(granted(locks.acquire(name(), LONG)));
    assert!(start.elapsed() >= PATIENCE && start.elapsed() < LONG / 2, "{:?}", start.elapsed());
}

#[test]
fn eight_processes_in_a_closed_loop_get_equal_shares() {
    // Whom other tests keep off the processor gets less, too: once of five times it is the lock
    // alone.
    let fair = |cycles: &[u64]| {
        let sum = cycles.iter().sum::<u64>();
        sum >= 8 * 10 && cycles.iter().all(|count| *count >= sum / 8 / 2)
    };
    assert!(
        (0..5).any(|_| fair(&cycles_of_eight())),
        "somebody got less than half of the mean, or all nothing, five times"
    );
}

fn cycles_of_eight() -> Vec<u64> {
    let scratch = Scratch::new();
    let gate = granted(scratch.locks().acquire(LockName::new("", "gate"), LONG));
    let children: Vec<Child> = (0..8).map(|_| scratch.spawn("cycle")).collect();
    drop(gate);
    let mut cycles: Vec<u64> = Vec::new();
    for child in children {
        let out = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let count = out.split("cycles ").nth(1).unwrap().split_whitespace().next().unwrap();
        cycles.push(count.parse().unwrap());
    }
    println!("cycles of 8 processes in 2 s: {cycles:?}");
    cycles
}
