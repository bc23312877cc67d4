//! What a container may lack or see differently. A program of its own, which runs itself again in
//! other namespaces; only root may make those.

#![allow(clippy::unwrap_used, reason = "a test without the test harness is not recognised as one")]

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use sessile_core::{Clock, ErrorKind};
use sessile_engine::{EngineOptions, open};

const OPENS: &str = "opens";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, what, path] = &arguments[..]
        && what == OPENS
    {
        let opened = open(Path::new(path), Clock::system(), &EngineOptions::default());
        println!("{}", opened.err().map_or("opened", |error| error.kind().code()));
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root may make the namespaces of these tests");
        return;
    }
    without_proc_opening_is_refused();
    println!("test without_proc_opening_is_refused ... ok");
}

/// Runs this program in a mount namespace of its own, after a command of the shell.
fn in_mount_namespace(before: &str, path: &Path) -> Output {
    let script = format!("{before} && exec timeout 20 \"$0\" {OPENS} \"$1\"");
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
        let output = in_mount_namespace("umount -l /proc", &store);
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
