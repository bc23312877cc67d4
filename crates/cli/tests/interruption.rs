//! Ctrl-C, SIGTERM and the death of a server leave the results of a measurement, and nothing else.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use sessile_fixtures::{ServerKind, Web};

/// A generous deadline: other tests may load the machine.
const WITHIN: Duration = Duration::from_secs(120);

/// A measurement in its own process group, as a shell starts it, with a mark that identifies its
/// processes.
struct Run {
    child: Child,
    mark: String,
    said: Receiver<String>,
    dir: tempfile::TempDir,
    /// The private directories of its processes in shared memory.
    shared: Vec<PathBuf>,
}

impl Run {
    fn start(name: &str, arguments: &[&str]) -> Run {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let disk = dir.path().join("disk");
        fs::create_dir(&disk).unwrap();
        let mark = format!("SESSILE_TEST_MARK={name}-{}", std::process::id());
        let (variable, value) = mark.split_once('=').unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_sessile"))
            .args(arguments)
            .arg("--export-json")
            .arg(dir.path().join("out.json"))
            .env("SESSILE_BENCH_ALLOW_DEBUG", "1")
            .env("SESSILE_DISK", &disk)
            .env(variable, value)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let (sender, said) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Run { child, mark, said, dir, shared: Vec::new() }
    }

    /// Waits for a condition, and records the directories meanwhile.
    fn until(&mut self, what: &str, is_so: impl Fn(&Run) -> bool) {
        let start = Instant::now();
        loop {
            self.look();
            if is_so(self) {
                return;
            }
            assert!(
                self.child.try_wait().unwrap().is_none(),
                "it ended before {what}: {:?}",
                self.lines()
            );
            assert!(start.elapsed() < WITHIN, "{what}: not within {WITHIN:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// All lines of standard error so far.
    fn lines(&self) -> Vec<String> {
        self.said.try_iter().collect()
    }

    /// Its processes with any parent: id and command line.
    fn processes(&self) -> Vec<(u32, String)> {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let read = |pid: u32, file: &str| {
            String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default())
                .replace('\0', " ")
        };
        // Redis writes its title over its environment, with a socket in our directory.
        let dir = self.dir.path().display().to_string();
        let ours = ids.filter(|pid| {
            read(*pid, "environ").contains(&self.mark) || read(*pid, "cmdline").contains(&dir)
        });
        let ours = ours.filter(|pid| *pid != std::process::id());
        ours.map(|pid| (pid, read(pid, "cmdline"))).collect()
    }

    /// A matching process; not the shell that guards a server.
    fn process(&self, words: &str) -> Option<u32> {
        let is = |line: &str| line.contains(words) && !line.starts_with("/bin/sh");
        self.processes().into_iter().find(|(_, line)| is(line)).map(|(pid, _)| pid)
    }

    /// Records its private directories in shared memory: their owners keep a lock file open.
    fn look(&mut self) {
        for link in
            fs::read_dir(format!("/proc/{}/fd", self.child.id())).into_iter().flatten().flatten()
        {
            let Ok(file) = fs::read_link(link.path()) else { continue };
            let dir = file
                .parent()
                .filter(|dir| dir.parent() == Some(Path::new("/dev/shm")))
                .map(Path::to_owned);
            self.shared.extend(dir.filter(|dir| !self.shared.contains(dir)));
        }
    }

    fn signal(&self, signal: &str, whole_group: bool) {
        let target =
            if whole_group { format!("-{}", self.child.id()) } else { self.child.id().to_string() };
        assert!(Command::new("kill").args([signal, "--", &target]).status().unwrap().success());
    }

    fn end(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < WITHIN, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn json(&self) -> serde_json::Value {
        let text = fs::read_to_string(self.dir.path().join("out.json"));
        // The file may be empty for a moment: the command first tests whether it can be written.
        let text = text.ok().filter(|text| !text.is_empty());
        text.map_or(serde_json::Value::Null, |text| serde_json::from_str(&text).unwrap())
    }

    fn nothing_is_left(&self) {
        let start = Instant::now();
        // A killed process exists for another moment.
        while !self.processes().is_empty() && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(self.processes(), [], "processes are left");
        let files: Vec<PathBuf> = fs::read_dir(self.dir.path().join("disk"))
            .unwrap()
            .map(|it| it.unwrap().path())
            .collect();
        assert_eq!(files, Vec::<PathBuf>::new(), "directories are left");
        assert!(
            !self.shared.is_empty(),
            "no directory in shared memory was seen, so this checks nothing"
        );
        let left: Vec<&PathBuf> = self.shared.iter().filter(|dir| dir.exists()).collect();
        assert_eq!(left, Vec::<&PathBuf>::new(), "directories are left in shared memory");
        let beside: Vec<String> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(beside.iter().all(|name| name == "disk" || name == "out.json"), "{beside:?}");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn rows(report: &serde_json::Value) -> Vec<&serde_json::Value> {
    report["results"].as_array().unwrap().iter().collect()
}

/// True if something is not installed, which is reported; in CI it is a failure.
fn missing(what: &str, is_there: bool) -> bool {
    if !is_there {
        assert!(std::env::var_os("CI").is_none(), "{what} is not installed");
        eprintln!("SKIPPED: {what} is not installed");
    }
    !is_there
}

fn installed(server: &str) -> bool {
    ServerKind::by_name(server).and_then(ServerKind::find).is_some()
}

/// Like a terminal, this also signals the workers and servers.
#[test]
fn ctrl_c_in_the_middle_of_all_keeps_what_was_measured_and_leaves_nothing() {
    if missing("redis-server", installed("redis-server")) {
        return;
    }
    let flags = [
        "bench",
        "all",
        "--quick",
        "--only",
        "oversize,cycle,contention",
        "--stores",
        "files,memory,redis",
    ];
    let mut run = Run::start("all", &flags);
    run.until("the plan is written", |run| run.json()["parts"].as_array().is_some());
    run.until("the first experiment is written", |run| {
        run.json()["runs"].as_array().is_some_and(|it| !it.is_empty())
    });
    let first = run.json();
    assert_eq!(first["parts"][0], serde_json::json!({ "experiment": "cycle", "state": "done" }));
    let parts = first["parts"].as_array().unwrap();
    assert!(parts[1..].iter().all(|part| part["state"] != "done"), "{first:#}");
    // The requested experiments, and one of them also in another tier and at a rate.
    assert_eq!(parts.len(), 5, "{first:#}");
    assert_eq!(first["runs"][0]["results"][0]["experiment"], "cycle");
    let pending = first["left_out"].as_array().unwrap();
    assert!(
        pending.iter().all(|left| left["reason"].as_str().unwrap().contains("not measured yet")),
        "{pending:?}"
    );
    // In the middle of the second one.
    run.until("workers of the next one", |run| run.process("bench-worker").is_some());
    run.signal("-INT", true);
    let status = run.end();
    let said = run.lines().join("\n");
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains("1 of 5 cycle: ") && said.contains("interrupted"), "{said}");
    let json = run.json();
    assert_eq!(json["interrupted"], true);
    let cycle = &json["runs"][0];
    assert_eq!(
        (&cycle["results"][0]["experiment"], &cycle["interrupted"]),
        (&"cycle".into(), &serde_json::Value::Null)
    );
    assert_eq!(rows(cycle).len(), rows(&first["runs"][0]).len());
    let left = json["left_out"].to_string();
    assert!(left.contains("contention") && left.contains("a signal came before it"), "{left}");
    let states: Vec<&str> =
        json["parts"].as_array().unwrap().iter().map(|it| it["state"].as_str().unwrap()).collect();
    assert!(
        states[0] == "done" && states[1] == "interrupted" && states[2] == "not-started",
        "{states:?}"
    );
    run.nothing_is_left();
}

#[test]
fn ctrl_c_keeps_the_whole_rounds_of_stores_with_and_without_a_server() {
    if missing("redis-server", installed("redis-server")) {
        return;
    }
    let flags = [
        "bench",
        "cycle",
        "--stores",
        "files#shm,redis",
        "--workers",
        "2",
        "--sessions",
        "100",
        "--duration",
        "0.1s",
    ];
    let mut run = Run::start("cycle", &[&flags[..], &["--rounds", "1000"]].concat());
    let busy = |run: &Run| {
        run.process("redis-server").and_then(sessile_fixtures::cpu_time)
            > Some(Duration::from_millis(500))
    };
    run.until("redis-server has something to do", busy);
    run.signal("-INT", true);
    let status = run.end();
    assert_eq!(status.code(), Some(130), "{:?}", run.lines());
    let json = run.json();
    let rounds: Vec<u64> = rows(&json).iter().map(|row| row["rounds"].as_u64().unwrap()).collect();
    assert!(
        rounds.len() == 2 && rounds[0] == rounds[1] && (1..1_000).contains(&rounds[0]),
        "{json:#}"
    );
    let fine = |row: &&serde_json::Value| {
        row["errors"] == 0 && row["misses"] == 0 && row["failed"].is_null()
    };
    assert!(json["interrupted"] == true && rows(&json).iter().all(fine), "{json:#}");
    run.nothing_is_left();
}

#[test]
fn a_server_that_is_killed_fails_its_rows_and_no_other() {
    if missing("redis-server", installed("redis-server")) {
        return;
    }
    let flags = [
        "bench",
        "cycle",
        "--stores",
        "redis,files#shm",
        "--workers",
        "1",
        "--sessions",
        "100",
        "--duration",
        "0.2s",
    ];
    let mut run = Run::start("killed", &[&flags[..], &["--rounds", "40"]].concat());
    let busy = |run: &Run| {
        run.process("redis-server").and_then(sessile_fixtures::cpu_time)
            > Some(Duration::from_millis(100))
    };
    run.until("redis-server has something to do", busy);
    let server = run.process("redis-server").unwrap();
    assert!(Command::new("kill").args(["-KILL", &server.to_string()]).status().unwrap().success());
    let status = run.end();
    assert_eq!(status.code(), Some(1), "{:?}", run.lines());
    let json = run.json();
    let of =
        |store: &str| rows(&json).into_iter().find(|row| row["store"] == store).unwrap().clone();
    assert_eq!(of("redis")["failed"], "its server ended during the measurement", "{json:#}");
    let files = of("files");
    assert!(files["rounds"] == 40 && files["errors"] == 0 && files["failed"].is_null(), "{json:#}");
    run.nothing_is_left();
}

#[test]
fn sigterm_keeps_the_whole_rounds_of_lifecycle() {
    let ab = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .any(|dir| dir.join("ab").is_file());
    if missing("ab, nginx or php-fpm", ab && Web::missing().is_empty()) {
        return;
    }
    let flags = [
        "bench",
        "lifecycle",
        "--stores",
        "php-files#default",
        "--workers",
        "4",
        "--sessions",
        "30",
    ];
    let mut run = Run::start("lifecycle", &[&flags[..], &["--rounds", "200"]].concat());
    // 201 sessions exist after the warm-up, and each sample creates 31.
    run.until("three samples are made", |run| {
        sessions_in(&run.dir.path().join("disk")) > 201 + 3 * 31
    });
    run.signal("-TERM", false);
    let status = run.end();
    assert_eq!(status.code(), Some(130), "{:?}", run.lines());
    let json = run.json();
    let rows = rows(&json);
    let rounds = rows[0]["rounds"].as_u64().unwrap();
    assert!(rows.len() == 1 && (2..200).contains(&rounds), "{json:#}");
    assert_eq!(
        (&rows[0]["operations"], &rows[0]["failed"]),
        (&(rounds * 30).into(), &serde_json::Value::Null)
    );
    assert_eq!(json["interrupted"], true);
    run.nothing_is_left();
}

/// The visitors before the signal were dropped, and the pages before them kept.
#[test]
fn sigterm_keeps_the_whole_rounds_of_the_visitors() {
    let ab = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .any(|dir| dir.join("ab").is_file());
    if missing("ab, nginx or php-fpm", ab && Web::missing().is_empty()) {
        return;
    }
    let flags =
        ["bench", "lifecycle", "--stores", "php-files#shm", "--workers", "8", "--sessions", "100"];
    let mut run = Run::start("visitors", &[&flags[..], &["--rounds", "30"]].concat());
    // 201 sessions exist after the warm-up, each sample of pages creates 101, and 40 visitors come
    // before the measured ones.
    let begun = 201 + 30 * 101 + 40;
    run.until("visitors have come three times", |run| {
        run.shared.iter().map(|dir| sessions_in(dir)).sum::<usize>() > begun + 3 * 100
    });
    run.signal("-TERM", false);
    let status = run.end();
    assert_eq!(status.code(), Some(130), "{:?}", run.lines());
    let json = run.json();
    let rows = rows(&json);
    assert_eq!(
        rows.iter().map(|row| &row["op"]).collect::<Vec<_>>(),
        ["page", "visitors"],
        "{json:#}"
    );
    let rounds = rows[1]["rounds"].as_u64().unwrap();
    assert!(rows[0]["rounds"] == 30 && (2..30).contains(&rounds), "{json:#}");
    assert_eq!(
        (&rows[1]["operations"], &rows[1]["failed"]),
        (&(rounds * 100).into(), &serde_json::Value::Null)
    );
    assert_eq!(rows[1]["web"]["visitors"]["records"], rounds * 100);
    run.nothing_is_left();
}

/// PHP names session files sess_ID.
fn sessions_in(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_name().to_str() {
            Some(name) if name.starts_with("sess_") => 1,
            _ => sessions_in(&entry.path()),
        })
        .sum()
}
