//! `sessile bench setup`. No test installs anything.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Programs are searched in `path` only, so most are missing, and the installation script stops at
/// once.
fn setup(path: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessile"));
    command
        .args(["bench", "setup"])
        .args(arguments)
        .env("PATH", path)
        .env("SESSILE_NO_INSTALL", "1");
    command.stdin(Stdio::null()).output().unwrap()
}

fn with_apt() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let apt = dir.path().join("apt-get");
    fs::write(&apt, "#!/bin/sh\nexit 99\n").unwrap();
    fs::set_permissions(apt, fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn what_is_missing_is_listed_with_its_package_and_for_whom() {
    let dir = with_apt();
    let output = setup(dir.path(), &[]);
    let (text, _) = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let (_, after) =
        text.split_once("missing: redis-server (Debian package redis-server)\n").unwrap();
    assert!(after.starts_with("    for redis, redis-four-trips, "), "{text}");
    assert!(
        text.lines().last().unwrap().starts_with("`sessile bench setup --install` installs: "),
        "{text}"
    );
    let json: serde_json::Value =
        serde_json::from_slice(&setup(dir.path(), &["--json"]).stdout).unwrap();
    let need = |name: &str| {
        json["needs"].as_array().unwrap().iter().find(|need| need["name"] == name).unwrap().clone()
    };
    assert_eq!(
        (&need("ab")["present"], &need("ab")["package"]),
        (&false.into(), &"apache2-utils".into())
    );
    assert!(need("PHP's extension sessile")["remedy"].as_str().unwrap().contains("make php"));
    let packages: Vec<&str> =
        json["packages"].as_array().unwrap().iter().filter_map(|it| it.as_str()).collect();
    assert!(packages.contains(&"redis-server") && packages.is_sorted(), "{packages:?}");
}

#[test]
fn nothing_is_installed_without_somebody_who_agrees() {
    let dir = with_apt();
    let (_, error) = said(&setup(dir.path(), &["--install"]));
    assert!(error.contains("give --yes"), "{error}");
    assert_eq!(setup(dir.path(), &["--install"]).status.code(), Some(2));
    assert_eq!(setup(dir.path(), &["--yes"]).status.code(), Some(2), "--yes alone says nothing");
}

#[test]
fn the_packages_are_handed_to_the_script_and_what_is_not_there_afterwards_is_told() {
    let dir = with_apt();
    let output = setup(dir.path(), &["--install", "--yes"]);
    let (text, error) = said(&output);
    assert_eq!(output.status.code(), Some(3), "{text}{error}");
    let handed = text.lines().find(|line| line.starts_with("Debian packages: ")).unwrap();
    assert!(handed.contains(" redis-server") && handed.contains("apache2-utils"), "{text}");
    assert!(
        text.contains("SESSILE_NO_INSTALL=1: nothing is installed; what needs it is left out"),
        "{text}"
    );
    assert!(error.contains("not installed: ") && error.contains("redis-server"), "{error}");
}

#[test]
fn without_apt_it_says_what_to_install() {
    let dir = tempfile::tempdir().unwrap();
    let (text, _) = said(&setup(dir.path(), &[]));
    assert!(text.lines().last().unwrap().starts_with("install what Debian has in: "), "{text}");
    let output = setup(dir.path(), &["--install", "--yes"]);
    let (_, error) = said(&output);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("no apt-get here") && error.contains("redis-server"), "{error}");
}
