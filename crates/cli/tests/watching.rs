//! The verbs that look at a store in use: doctor, locks, top, metrics, serve; and the units.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod started;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sessile_core::{Key, Sessions, Ttl};
use sessile_stores::Context;
use started::{sessile, stderr, stdout};

const SECRET: &str = "secret1234567890";

/// Of a clone below /tmp, the doctor would have something to say about the place.
fn on_disk() -> tempfile::TempDir {
    let target = env!("CARGO_TARGET_TMPDIR");
    let is_cleaned = target.starts_with("/tmp/") || target.starts_with("/var/tmp/");
    tempfile::tempdir_in(if is_cleaned { "/srv" } else { target }).unwrap()
}

/// A store with one session, and its URL.
fn store(dir: &tempfile::TempDir) -> (String, Sessions, Key) {
    let url = format!("sqlite:{}/sessions.db", dir.path().display());
    let sessions = sessile_stores::open(&url, &Context::default()).unwrap();
    let key = Key::session(SECRET).unwrap();
    let hour = Ttl::sliding(Duration::from_secs(3_600)).unwrap();
    sessions.create(&key, b"cart", hour).unwrap();
    (url, sessions, key)
}

fn digest() -> String {
    use std::process::Command;
    let line = format!("printf %s {SECRET} | sha256sum | cut -c1-12");
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn doctor_has_the_codes_of_monitoring_and_says_what_to_do() {
    let dir = on_disk();
    let (url, _sessions, _) = store(&dir);
    let sound = sessile(&["doctor", &url]);
    assert_eq!(sound.status.code(), Some(0), "{}{}", stdout(&sound), stderr(&sound));
    assert!(stdout(&sound).ends_with(" is sound\n"), "{}", stdout(&sound));

    let weak = sessile(&["doctor", &url, "--keep", "commit", "--json"]);
    assert_eq!(weak.status.code(), Some(2), "{}", stderr(&weak));
    let json: serde_json::Value = serde_json::from_slice(&weak.stdout).unwrap();
    assert_eq!(json["worst"], "critical");
    assert_eq!(json["findings"][0]["code"], "weaker-tier");
    assert!(json["findings"][0]["fix"].as_str().unwrap().contains("durability=commit"));

    use std::os::unix::fs::PermissionsExt;
    let folder = on_disk();
    let files = format!("files:{}/files", folder.path().display());
    drop(sessile_stores::open(&files, &Context::default()).unwrap());
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path().join("files"), open).unwrap();
    let warned = sessile(&["doctor", &files]);
    assert_eq!(warned.status.code(), Some(1), "{}", stdout(&warned));
    assert!(stdout(&warned).starts_with("warning readable-by-others: "), "{}", stdout(&warned));

    assert_eq!(sessile(&["doctor", "mongo://host/"]).status.code(), Some(3));
    assert_eq!(sessile(&["doctor", "redis+unix:/nowhere"]).status.code(), Some(2));
}

#[test]
fn a_held_lock_is_shown_with_a_digest_and_its_process() {
    let dir = on_disk();
    let (url, sessions, key) = store(&dir);
    assert_eq!(stdout(&sessile(&["locks", &url])), "0 locks held\n");
    let begun = sessions.begin(&key, Duration::ZERO).unwrap();
    let text = stdout(&sessile(&["locks", &url]));
    assert!(text.contains(&digest()), "{text}");
    assert!(text.contains(&format!("pid {}", std::process::id())), "{text}");
    assert!(!text.contains(SECRET), "{text}");
    let json: serde_json::Value =
        serde_json::from_slice(&sessile(&["locks", &url, "--json"]).stdout).unwrap();
    assert_eq!(json["locks"][0]["session"], digest().as_str());
    assert_eq!(json["locks"][0]["pid"], std::process::id());
    drop(begun);
    assert_eq!(sessile(&["locks", "memory:"]).status.code(), Some(4));
}

#[test]
fn metrics_and_top_show_what_another_process_did_and_no_id() {
    let dir = on_disk();
    let (url, sessions, key) = store(&dir);
    let begun = sessions.begin(&key, Duration::ZERO).unwrap();
    let metrics = stdout(&sessile(&["metrics", &url]));
    for line in
        ["sessile_up{", "sessile_requests_total{", "sessile_hits_total{", "sessile_sessions{"]
    {
        let found = metrics.lines().find(|found| found.starts_with(line));
        assert!(found.is_some_and(|found| found.ends_with("\"} 1")), "{line}: {metrics}");
    }
    assert!(metrics.contains("sessile_locks_held{store="), "{metrics}");
    let top = stdout(&sessile(&["top", &url, "--once"]));
    assert!(top.contains("requests") && top.contains(&digest()), "{top}");
    assert!(!metrics.contains(SECRET) && !top.contains(SECRET));
    drop(begun);
}

struct Running(Child, BufReader<Box<dyn Read>>);

impl Running {
    fn start(arguments: &[&str], tells_on_stderr: bool) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sessile"));
        command.args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let told: Box<dyn Read> = if tells_on_stderr {
            Box::new(child.stderr.take().unwrap())
        } else {
            Box::new(child.stdout.take().unwrap())
        };
        Running(child, BufReader::new(told))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// As Ctrl-C does.
    fn interrupt(mut self) -> Option<i32> {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let code = self.0.wait().unwrap().code();
        std::mem::forget(self);
        code
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(address: &str, path: &str) -> String {
    let close = "Connection: close\r\n\r\n";
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{close}"))
}

#[test]
fn top_in_a_pipe_is_one_frame_each_second_until_nobody_reads() {
    let dir = on_disk();
    let (url, _sessions, _) = store(&dir);
    let mut top = Running::start(&["top", &url], false);
    for _ in 0..2 {
        while !top.line().starts_with("requests") {}
    }
    assert_eq!(top.interrupt(), Some(0));
}

#[test]
fn metrics_are_served_and_nothing_else() {
    let dir = on_disk();
    let (url, _sessions, _) = store(&dir);
    let mut server = Running::start(&["metrics", &url, "--listen", "127.0.0.1:0"], true);
    let line = server.line();
    let address = line.split('/').nth(2).unwrap().to_owned();
    let answer = get(&address, "/metrics");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\nsessile_up{"), "{answer}");
    assert!(answer.contains("text/plain; version=0.0.4"), "{answer}");
    assert!(get(&address, "/other").starts_with("HTTP/1.1 404"));
    let close = "Connection: close\r\n\r\n";
    let foreign = ask(&address, &format!("GET /metrics HTTP/1.1\r\nHost: evil.test\r\n{close}"));
    assert!(foreign.starts_with("HTTP/1.1 421") && !foreign.contains("sessile_up"), "{foreign}");
    for length in ["2000", "9223372036854775808"] {
        let request = format!("Host: {address}\r\nContent-Length: {length}\r\n\r\n");
        let answer = ask(&address, &format!("GET /metrics HTTP/1.1\r\n{request}"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{length}: {answer}");
    }
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn the_page_answers_only_to_its_token_its_name_and_readers() {
    let dir = on_disk();
    let (url, sessions, key) = store(&dir);
    let begun = sessions.begin(&key, Duration::ZERO).unwrap();
    let mut server = Running::start(&["serve", &url], false);
    let line = server.line();
    let mut parts = line.split('/').skip(2);
    let (address, token) = (parts.next().unwrap().to_owned(), parts.next().unwrap().to_owned());
    assert_eq!(token.len(), 32, "{line}");
    let page = get(&address, &format!("/{token}/"));
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<svg"), "{page}");
    for header in ["default-src 'none'", "Referrer-Policy: no-referrer", "Refresh: 10", "nosniff"] {
        assert!(page.contains(header), "{header}: {page}");
    }
    let locks = get(&address, &format!("/{token}/locks"));
    assert!(locks.contains(&digest()), "{locks}");
    for (page, text) in [("check", "checked, 0 problems"), ("doctor", "No findings.")] {
        let (start, path) = (Instant::now(), format!("/{token}/{page}"));
        while !get(&address, &path).contains(text) {
            assert!(start.elapsed() < Duration::from_secs(120), "{}", get(&address, &path));
        }
    }
    assert!(!page.contains(SECRET) && !locks.contains(SECRET));
    for path in ["/", "/00000000000000000000000000000000/", "/metrics", &format!("/{token}x/")] {
        assert!(get(&address, path).starts_with("HTTP/1.1 404"), "{path}");
    }
    let close = "Connection: close\r\n\r\n";
    let posted = ask(&address, &format!("POST /{token}/ HTTP/1.1\r\nHost: {address}\r\n{close}"));
    assert!(posted.starts_with("HTTP/1.1 405"), "{posted}");
    let foreign = ask(&address, &format!("GET /{token}/ HTTP/1.1\r\nHost: evil.test\r\n{close}"));
    assert!(foreign.starts_with("HTTP/1.1 421"), "{foreign}");
    assert_eq!(server.interrupt(), Some(0));
    drop(begun);
}

#[test]
fn a_token_of_a_file_is_used_and_a_short_one_refused() {
    let dir = on_disk();
    let (url, _sessions, _) = store(&dir);
    let file = dir.path().join("token");
    let path = file.display().to_string();
    std::fs::write(&file, "short\n").unwrap();
    assert_eq!(sessile(&["serve", &url, "--token-file", &path]).status.code(), Some(2));
    std::fs::write(&file, "0123456789abcdefX\n").unwrap();
    let mut server = Running::start(&["serve", &url, "--token-file", &path], false);
    assert!(server.line().ends_with("/0123456789abcdefX/"));
}

#[test]
fn the_units_of_systemd_are_sound() {
    let units = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
    let Ok(version) = Command::new("systemd-analyze").arg("--version").output() else {
        println!("skipped: systemd-analyze is not installed (package systemd)");
        assert!(std::env::var_os("CI").is_none(), "CI has all that the tests need");
        return;
    };
    assert!(version.status.success());
    // The program is where the package puts it, which is not here: a copy names another one.
    let dir = on_disk();
    let mut files = Vec::new();
    for unit in std::fs::read_dir(units).unwrap() {
        let unit = unit.unwrap();
        let text = std::fs::read_to_string(unit.path()).unwrap();
        let copy = dir.path().join(unit.file_name());
        std::fs::write(&copy, text.replace("/usr/bin/sessile", "/bin/true")).unwrap();
        files.push(copy);
    }
    assert!(files.len() >= 3);
    files.retain(|file| file.extension().is_some());
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().replace('@', "@shop");
        let instance = file.with_file_name(name);
        std::fs::copy(&file, &instance).unwrap();
        let mut analyze = Command::new("systemd-analyze");
        let output = analyze.args(["verify", "--man=no"]).arg(&instance).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    }
}
