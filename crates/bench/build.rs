//! Tells the program which commit it was built from, and with which flags, for the environment of a
//! result. Without git or a repository the commit is unknown.

#![forbid(unsafe_code)]

use std::process::Command;

/// Without a lock on the index, which a git command of the user may hold.
const CHANGES: [&str; 4] = ["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"];

fn main() {
    // The commit, and whether sources differ from it, can change with any of these.
    println!("cargo::rerun-if-changed=..");
    if let Some(log) = output("git", &["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = output("git", &["rev-parse", "--short=12", "HEAD"]);
    let changes = output("git", &CHANGES);
    let changed = if changes.is_some_and(|it| !it.is_empty()) { ", changed" } else { "" };
    let commit = commit.map_or("unknown".to_owned(), |commit| format!("{commit}{changed}"));
    println!("cargo::rustc-env=SESSILE_COMMIT={commit}");

    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let version = output(&variable("RUSTC"), &["--version"]).unwrap_or_default();
    let version: Vec<&str> = version.split(' ').take(2).collect();
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    // A directory of the builder is nobody's business.
    let flags: Vec<&str> = flags.split('\u{1f}').filter(|flag| !flag.contains('/')).collect();
    let (version, flags) = (version.join(" "), flags.join(" "));
    let (target, level) = (variable("TARGET"), variable("OPT_LEVEL"));
    let words = format!("{version}, {target}, opt-level {level} {flags}");
    println!("cargo::rustc-env=SESSILE_BUILD_FLAGS={}", words.trim_end());
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
