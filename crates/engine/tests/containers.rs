//! What a container may lack or see differently. A program of its own, which runs itself again in
//! other namespaces; only root may make those.

#![allow(clippy::unwrap_used, reason = "a test without the test harness is not recognised as one")]

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use sessile_core::{Clock, ErrorKind, Key, Lease, Limits, Sessions, Ttl};
use sessile_engine::{EngineOptions, open};

const OPENS: &str = "opens";
const HIDES: &str = "hides";
const SERVES: &str = "serves";
const SERVES_WITHOUT_PROC: &str = "serves-without-proc";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, what, path] = &arguments[..]
        && what == OPENS
    {
        let opened = open(Path::new(path), Clock::system(), &EngineOptions::default());
        println!("{}", opened.err().map_or("opened", |error| error.kind().code()));
        return;
    }
    if let [_, what, path] = &arguments[..]
        && [SERVES, SERVES_WITHOUT_PROC].contains(&what.as_str())
    {
        serve(Path::new(path), what == SERVES_WITHOUT_PROC);
        return;
    }
    if let [_, what, path] = &arguments[..]
        && what == HIDES
    {
        hide_stores(Path::new(path));
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root may make the namespaces of these tests");
        return;
    }
    without_proc_opening_is_refused();
    println!("test without_proc_opening_is_refused ... ok");
    only_a_dead_owner_loses_its_lock();
    println!("test only_a_dead_owner_loses_its_lock ... ok");
    a_store_out_of_sight_keeps_its_control_plane();
    println!("test a_store_out_of_sight_keeps_its_control_plane ... ok");
}

/// Runs this program in a mount namespace of its own, after a command of the shell.
fn in_mount_namespace(before: &str, what: &str, path: &Path) -> Output {
    let script = format!("{before} && exec timeout 20 \"$0\" {what} \"$1\"");
    Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .arg(path)
        .output()
        .unwrap()
}

/// The name of the control plane was made anew without an end.
fn without_proc_opening_is_refused() {
    for parent in ["/dev/shm", "/var/tmp"] {
        let folder = tempfile::TempDir::new_in(parent).unwrap();
        let store = folder.path().join("store");
        let start = Instant::now();
        let output = in_mount_namespace("umount -l /proc", OPENS, &store);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.trim(), ErrorKind::Unsupported.code(), "{parent}: {output:?}");
        assert!(start.elapsed() < Duration::from_secs(10));
        // The refused process leaves nothing that keeps others out.
        let opened = open(&store, Clock::system(), &EngineOptions::default()).unwrap();
        drop(opened);
        if let Ok(text) = std::fs::read_to_string(store.join("plane")) {
            let control = text.lines().next().unwrap().strip_prefix("control ").unwrap();
            std::fs::remove_dir_all(control).unwrap();
        }
    }
}

/// Carries out what it reads, a word a line, and answers with a line.
fn serve(path: &Path, loses_proc: bool) {
    let engine = open(path, Clock::system(), &EngineOptions::default()).unwrap();
    let sessions = Sessions::new("sessile", engine, Limits::default());
    if loses_proc {
        umount2("/proc", MntFlags::MNT_DETACH).unwrap();
    }
    let key = Key::session("one").unwrap();
    let mut lease: Option<Lease> = None;
    for line in std::io::stdin().lines() {
        let done = match line.unwrap().as_str() {
            COMMIT => {
                let ttl = Ttl::sliding(Duration::from_secs(600)).unwrap();
                lease.take().unwrap().commit(b"payload", ttl)
            }
            wait_ms => sessions
                .begin(&key, Duration::from_millis(wait_ms.parse().unwrap()))
                .map(|begun| lease = Some(begun.lease)),
        };
        println!("{}", done.err().map_or(DONE, |error| error.kind().code()));
    }
}

const COMMIT: &str = "commit";
const DONE: &str = "done";
const AT_ONCE: &str = "0";
/// Long enough for a waiter to ask whether the owner is dead.
const MOMENT: &str = "50";
const LONG: &str = "10000";

/// A process that does nothing, in namespaces of its own.
struct Namespaces {
    unshare: Child,
    inside: String,
}

impl Namespaces {
    fn new(kinds: &[&str]) -> Namespaces {
        let mut unshare = Command::new("unshare")
            .args(kinds)
            .args(["--fork", "--kill-child", "sh", "-c", "echo; exec sleep 1000"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(unshare.stdout.take().unwrap()).lines().next();
        assert!(said.is_some(), "unshare {kinds:?} has failed");
        let children = format!("/proc/{0}/task/{0}/children", unshare.id());
        let inside = std::fs::read_to_string(children).unwrap().trim().to_owned();
        Namespaces { unshare, inside }
    }

    fn container() -> Namespaces {
        Namespaces::new(&["--pid", "--mount", "--mount-proc"])
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

/// Which processes /proc shows.
#[derive(Clone, Copy, Debug)]
enum Proc {
    Own,
    /// Its numbers are those of the namespace around: one pid, two processes.
    OfParent,
    /// Of a namespace in which this process does not exist.
    Foreign,
    /// It goes away after the store was opened.
    Lost,
}

const PROCS: [Proc; 4] = [Proc::Own, Proc::OfParent, Proc::Foreign, Proc::Lost];

struct Opener {
    process: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Opener {
    fn new(
        pids: &Namespaces,
        proc: Proc,
        foreign: &Namespaces,
        time: Option<&Namespaces>,
        path: &Path,
    ) -> Opener {
        let mut command = Command::new("nsenter");
        command.arg(format!("--pid=/proc/{}/ns/pid", pids.inside));
        let mount_of = |of: &Namespaces| format!("--mount=/proc/{}/ns/mnt", of.inside);
        match proc {
            Proc::Own | Proc::Lost => command.arg(mount_of(pids)),
            Proc::OfParent => &mut command,
            Proc::Foreign => command.arg(mount_of(foreign)),
        };
        if let Some(time) = time {
            command.arg(format!("--time=/proc/{}/ns/time", time.inside));
        }
        let lost = matches!(proc, Proc::Lost);
        if lost {
            command.args(["unshare", "--mount"]);
        }
        let mut process = command
            .arg(std::env::current_exe().unwrap())
            .arg(if lost { SERVES_WITHOUT_PROC } else { SERVES })
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let commands = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap()).lines();
        Opener { process, commands, answers }
    }

    fn says(&mut self, command: &str) -> String {
        writeln!(self.commands, "{command}").unwrap();
        self.answers.next().unwrap().unwrap()
    }

    fn send(&self, signal: Signal) {
        killpg(Pid::from_raw(self.process.id().cast_signed()), signal).unwrap();
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.send(Signal::SIGKILL);
        self.process.wait().unwrap();
    }
}

/// What each /proc shows, and in which time namespace, made living owners look dead.
fn only_a_dead_owner_loses_its_lock() {
    let [here, there, foreign] = std::array::from_fn(|_| Namespaces::container());
    let later = Namespaces::new(&["--time", "--boottime", "1000000"]);
    let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let (mut rows, mut faults) = (0, Vec::new());
    for [holder_proc, waiter_proc] in PROCS.map(|one| PROCS.map(|other| [one, other])).concat() {
        for [pids_shared, time_shared] in [[true, true], [true, false], [false, true], [false; 2]] {
            rows += 1;
            let path = folder.path().join(rows.to_string());
            let holder = || Opener::new(&here, holder_proc, &foreign, None, &path);
            let pids = if pids_shared { &here } else { &there };
            let time = (!time_shared).then_some(&later);
            let waiter = || Opener::new(pids, waiter_proc, &foreign, time, &path);
            if let Some(fault) = fault_between(holder, waiter) {
                faults.push(format!(
                    "{fault}: holder's /proc {holder_proc:?}, waiter's {waiter_proc:?}, pid \
                     namespace shared: {pids_shared}, time namespace shared: {time_shared}"
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{} of {rows} rows:\n{}", faults.len(), faults.join("\n"));
}

fn fault_between(
    holder: impl FnOnce() -> Opener,
    waiter: impl FnOnce() -> Opener,
) -> Option<String> {
    let mut holder = holder();
    let held = holder.says(AT_ONCE);
    let mut waiter = waiter();
    let beside_living = waiter.says(MOMENT);
    holder.send(Signal::SIGSTOP);
    let beside_stopped = waiter.says(MOMENT);
    holder.send(Signal::SIGCONT);
    let committed = holder.says(COMMIT);
    let held_again = holder.says(AT_ONCE);
    holder.send(Signal::SIGKILL);
    let after_killed = waiter.says(LONG);
    let steps = [held, beside_living, beside_stopped, committed, held_again, after_killed];
    let wanted = [DONE, "lock-timeout", "lock-timeout", DONE, DONE, DONE];
    (steps != wanted).then(|| format!("{steps:?}"))
}

/// A control plane is removed with its store only; this one is not mounted, or not in the mount
/// namespace of the process that looks.
fn a_store_out_of_sight_keeps_its_control_plane() {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let output = in_mount_namespace("true", HIDES, folder.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn hide_stores(folder: &Path) {
    let control = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let open_at = |path: &Path| {
        let control = Some(control.path().to_owned());
        let options = EngineOptions { control, ..EngineOptions::default() };
        drop(open(path, Clock::system(), &options).unwrap());
    };
    let bind = |from: &Path, to: &Path| {
        mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
    };
    let [real, mounted, hidden, empty] =
        ["real", "mounted", "hidden", "empty"].map(|name| folder.join(name));
    for path in [&real, &mounted, &hidden, &empty] {
        std::fs::create_dir(path).unwrap();
    }
    bind(&real, &mounted);
    open_at(&mounted.join("store"));
    open_at(&hidden.join("store"));
    umount2(&mounted, MntFlags::MNT_DETACH).unwrap();
    bind(&empty, &hidden);
    open_at(&folder.join("another"));
    assert_eq!(std::fs::read_dir(control.path()).unwrap().count(), 3);
    umount2(&hidden, MntFlags::MNT_DETACH).unwrap();
    std::fs::remove_dir_all(hidden.join("store")).unwrap();
    open_at(&folder.join("another"));
    assert_eq!(std::fs::read_dir(control.path()).unwrap().count(), 2, "one store was removed");
}
