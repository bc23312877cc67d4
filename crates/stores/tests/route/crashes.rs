//! Processes that are killed between two steps. A child is this binary with a role; the gate of a
//! file, which the test holds, keeps it at the step where it is to die.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use sessile_core::{Budget, Clock};
use sessile_stores::Context;

use crate::setup::support::patience::until;
use crate::setup::{Pair, WAIT, commit, hour, key, large, open, payload_of, ttl};

const ROLE: &str = "SESSILE_TEST_ROLE";
const URL: &str = "SESSILE_TEST_URL";

/// Not a test: what a child does. Without a role it does nothing.
#[test]
fn role_of_a_child() {
    let (Ok(role), Ok(url)) = (std::env::var(ROLE), std::env::var(URL)) else { return };
    let store = open(&url);
    let begun = store.begin(&key("a"), WAIT).unwrap();
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    assert_eq!(role, "commit");
    // Killed before it returns.
    drop(begun.lease.commit(&large(2), ttl(60)));
}

struct Doomed(Child, ChildStdin);

impl Doomed {
    /// A child that holds the lease of the session and is ready to commit.
    fn start(url: &str) -> Doomed {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "crashes::role_of_a_child", "--nocapture"])
            .env(ROLE, "commit")
            .env(URL, url);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(said.into_iter().any(|line| line.ends_with("ready")), "the child ended");
        let stdin = child.stdin.take().unwrap();
        Doomed(child, stdin)
    }

    fn commit(&mut self) {
        self.1.write_all(b"go\n").unwrap();
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Keeps whoever wants to change this file waiting, as somebody does who was stopped while he
/// changed it.
fn gate_of(root: &Path, name: &str) -> File {
    let file = File::options().read(true).write(true).open(find(root, name).unwrap()).unwrap();
    let byte = |what: libc::c_int| what as libc::c_short;
    let gate = libc::flock {
        l_type: byte(libc::F_WRLCK),
        l_whence: byte(libc::SEEK_SET),
        l_start: 0,
        l_len: 1,
        l_pid: 0,
    };
    fcntl(&file, FcntlArg::F_OFD_SETLK(&gate)).unwrap();
    file
}

fn find(root: &Path, name: &str) -> Option<PathBuf> {
    std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).find_map(|path| {
        if path.is_dir() { find(&path, name) } else { path.ends_with(name).then_some(path) }
    })
}

fn sweep_at(url: &str, clock: Clock) {
    let store = sessile_stores::open(url, &Context { clock }).unwrap();
    while !store
        .sweep(Budget { records_max: 1_000, time_max: Duration::from_secs(5) })
        .unwrap()
        .complete
    {}
}

/// Longer than the life of what the child writes, shorter than that of what the test writes.
fn after_the_life_of_the_orphan() -> Clock {
    Clock::ahead_of_system(Duration::from_secs(60 + 600 + 5))
}

#[test]
fn a_process_killed_between_payload_and_stub_leaves_the_old_value_and_a_sweep_removes_the_rest() {
    let pair = Pair::new();
    let store = pair.open();
    commit(&store, "a", &large(1));
    let mut doomed = Doomed::start(&pair.url());
    let gate = gate_of(&pair.dir.path().join("home"), "a");
    doomed.commit();
    until("the second large payload is there", || pair.parts().len() == 2);
    doomed.kill();
    drop(gate);
    assert_eq!(payload_of(&store, "a"), Some(large(1)));
    let begun = store.begin(&key("a"), WAIT).unwrap();
    assert_eq!(begun.record.unwrap().payload, large(1));
    begun.lease.commit(&large(3), hour()).unwrap();
    // What the dead one left ends with the life that it had given it, and no earlier.
    sweep_at(&pair.url(), Clock::system());
    assert_eq!(pair.parts().len(), 2);
    sweep_at(&pair.url(), after_the_life_of_the_orphan());
    assert_eq!((pair.parts().len(), payload_of(&store, "a")), (1, Some(large(3))));
}

#[test]
fn a_process_killed_between_the_stub_and_the_removal_of_the_old_payload_leaves_the_new_value() {
    let pair = Pair::new();
    let store = pair.open();
    store.create(&key("a"), &large(1), ttl(60)).unwrap();
    let (old, stub) = (pair.parts().remove(0), payload_of(&pair.home(), "a"));
    let mut doomed = Doomed::start(&pair.url());
    let gate = gate_of(&pair.dir.path().join("large"), old.id());
    doomed.commit();
    until("the stub is the new one", || payload_of(&pair.home(), "a") != stub);
    doomed.kill();
    drop(gate);
    assert_eq!(pair.parts().len(), 2, "it was killed before it removed the old one");
    assert_eq!(payload_of(&store, "a"), Some(large(2)));
    commit(&store, "a", &large(3));
    sweep_at(&pair.url(), after_the_life_of_the_orphan());
    assert_eq!((pair.parts().len(), payload_of(&store, "a")), (1, Some(large(3))));
}
