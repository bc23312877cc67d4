//! `make bench` measures for hours: a failed experiment is reported at the end and stops no other.

#![allow(
    clippy::unwrap_used,
    reason = "clippy knows test functions only, and these serve tests only"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use sessile_tests::root;

/// Runs the script with a command that records its arguments and fails with `code` at `ops`.
fn run(name: &str, code: u8) -> (Output, Vec<String>) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir(&dir).unwrap();
    let (command, asked) = (dir.join("sessile"), dir.join("asked"));
    let text = format!(
        "#!/bin/sh\necho \"$2\" >>'{}'\ntest \"$2\" != ops || exit {code}\n",
        asked.display()
    );
    fs::write(&command, text).unwrap();
    fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).unwrap();
    let script = root().join("scripts/bench.sh");
    let output =
        Command::new("sh").arg(script).arg(dir.join("out")).arg(&command).output().unwrap();
    (output, fs::read_to_string(asked).unwrap().lines().map(str::to_owned).collect())
}

#[test]
fn a_bad_row_stops_nothing_and_fails_in_the_end() {
    let (output, asked) = run("bad-row", 1);
    assert!(asked.len() > 2 && asked[1] == "ops", "{asked:?}");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "failed: ops\n");
}

#[test]
fn an_interrupt_stops_the_rest() {
    let (output, asked) = run("interrupt", 130);
    assert_eq!(asked.last().unwrap(), "ops");
    assert_eq!(output.status.code(), Some(130));
}

#[test]
fn without_a_bad_row_it_succeeds() {
    assert_eq!(run("good", 0).0.status.code(), Some(0));
}
