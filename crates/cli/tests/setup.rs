//! `sessile bench setup`.

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

/// Programs are searched in `path` only, so most are missing.
fn setup(path: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessile"));
    command.args(["bench", "setup"]).args(arguments).env("PATH", path);
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
    let line = text.lines().last().unwrap();
    assert!(line.starts_with("to install them: sudo apt-get install "), "{text}");
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
fn without_apt_it_says_what_to_install() {
    let dir = tempfile::tempdir().unwrap();
    let (text, _) = said(&setup(dir.path(), &[]));
    assert!(text.lines().last().unwrap().starts_with("install what Debian has in: "), "{text}");
}
