//! `--baseline`: another program in the same rounds.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod started;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use started::{sessile, stderr, stdout};

/// This program under another name; it records the verb that started it.
fn other_program(dir: &Path) -> (PathBuf, PathBuf) {
    let (program, log) = (dir.join("before"), dir.join("started"));
    let text = format!(
        "#!/bin/sh\necho \"$1\" >>{}\nexec {} \"$@\"\n",
        log.display(),
        env!("CARGO_BIN_EXE_sessile")
    );
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    (program, log)
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn titles(result: &Value) -> Vec<(String, String, String)> {
    let word = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let rows = result["results"].as_array().unwrap().iter();
    let mut titles: Vec<_> =
        rows.map(|row| (word(row, "store"), word(row, "variant"), word(row, "op"))).collect();
    titles.sort();
    titles
}

#[test]
fn the_other_program_has_workers_of_its_own_and_a_result_that_belongs_to_this_one() {
    let dir = tempfile::tempdir().unwrap();
    let (program, log) = other_program(dir.path());
    let [old, new] = ["old.json", "new.json"].map(|name| dir.path().join(name));
    let [program, old_name, new_name] =
        [&program, &old, &new].map(|path| path.to_str().unwrap().to_owned());
    let brief = [
        "--workers",
        "1",
        "--sessions",
        "50",
        "--duration",
        "0.05s",
        "--rounds",
        "7",
        "--payload",
        "100",
    ];
    let flags = ["bench", "ops", "--stores", "memory,sqlite,null", "--baseline", &program];
    let files = ["--export-json", &new_name, "--export-baseline", &old_name];
    let output = sessile(&[&flags[..], &brief, &files].concat());
    let said = stdout(&output);
    // On a loaded machine either may be slower.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}{}", stderr(&output));
    assert!(said.contains("new/old") && said.contains("Measured in the same rounds"), "{said}");
    let starts = std::fs::read_to_string(log).unwrap();
    let workers = starts.lines().filter(|verb| *verb != "bench").count();
    assert_eq!(workers, 2, "one for each store and none for the reference row: {starts}");

    let (old, new) = (read(&old), read(&new));
    assert_eq!(titles(&old), titles(&new));
    assert!(titles(&new).iter().all(|(_, variant, _)| variant == "default"), "{new}");
    assert!(old["settings"]["baseline"].is_string());
    assert_eq!(old["settings"]["baseline"], new["settings"]["baseline"]);
    assert_ne!(old["results"], new["results"]);
    let compared = stdout(&sessile(&["bench", "compare", &old_name, &new_name]));
    assert!(compared.contains("Measured in the same rounds"), "{compared}");
}

/// A program that reports a build, and of whose workers only the first one starts.
fn broken_program(dir: &Path, build: &str) -> PathBuf {
    let (program, started) = (dir.join(build), dir.join("started"));
    let environment =
        stdout(&sessile(&["bench", "environment"])).replace("\"debug\"", &format!("\"{build}\""));
    let (started, real) = (started.display(), env!("CARGO_BIN_EXE_sessile"));
    let worker = format!("mkdir {started} 2>/dev/null || exit 1\nexec {real} \"$@\"");
    let text = format!(
        "#!/bin/sh\nif [ \"$1\" = bench ]; then\ncat \
         <<'END'\n{environment}\nEND\nexit\nfi\n{worker}\n"
    );
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    program
}

/// As a gate it reported that no store was slower, but had not compared all.
#[test]
fn a_store_that_the_other_program_cannot_measure_is_a_failure_and_another_kind_of_build_is_refused()
{
    let dir = tempfile::tempdir().unwrap();
    let brief = [
        "--workers",
        "1",
        "--sessions",
        "50",
        "--duration",
        "0.05s",
        "--rounds",
        "5",
        "--payload",
        "100",
    ];
    let measure = |build: &str| {
        let program = broken_program(dir.path(), build);
        let flags = [
            "bench",
            "cycle",
            "--stores",
            "memory,sqlite",
            "--baseline",
            program.to_str().unwrap(),
        ];
        sessile(&[&flags[..], &brief].concat())
    };
    let failed = measure("debug");
    assert_eq!(failed.status.code(), Some(1), "{}", stderr(&failed));
    assert!(
        stderr(&failed).contains("cycle: sqlite cycle@1: it was bad in OLD"),
        "{}",
        stderr(&failed)
    );
    let refused = measure("release");
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("it is a release build and this is a debug build"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn what_cannot_be_a_baseline_is_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let (program, _) = other_program(dir.path());
    let (program, sessions) = (program.to_str().unwrap(), dir.path().join("sessions"));
    let url = format!("files:{}", sessions.display());
    let [json, again] = ["new.json", "again.json"].map(|name| dir.path().join(name));
    std::os::unix::fs::symlink("new.json", &again).unwrap();
    let [json, again] = [&json, &again].map(|path| path.to_str().unwrap());
    let brief =
        ["cycle", "--stores", "memory", "--sessions", "9", "--rounds", "1", "--duration", "0.01s"];
    let two_names =
        [&brief[..], &["--baseline", program, "--export-json", json, "--export-baseline", again]]
            .concat();
    let its_program = [&brief[..], &["--baseline", program, "--export-json", program]].concat();
    let of_baseline = [&brief[..], &["--baseline", program, "--export-baseline", program]].concat();
    let two_outputs = [&brief[..], &["--export-markdown", json, "--export-json", again]].concat();
    for (flags, why) in [
        (&["cycle", "--baseline", "/bin/true"][..], "does not answer"),
        (&["cycle", "--baseline", "/nowhere/sessile"], "cannot be started"),
        (&["gc", "--baseline", program], "unexpected argument"),
        (&["cycle", "--baseline", program, "--stores", &url], "private stores"),
        (&["cycle", "--export-baseline", "old.json"], "--baseline"),
        (
            &["cycle", "--baseline", program, "--export-json", "-", "--export-baseline", "-"],
            "a file of its own",
        ),
        (&two_names, "a file of its own"),
        (&two_outputs, "name the same file"),
        (&its_program, "is read, and the result would replace it"),
        (&of_baseline, "is read, and the result would replace it"),
    ] {
        let output = sessile(&[&["bench"], flags].concat());
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(stderr(&output).contains(why), "{flags:?}: {}", stderr(&output));
    }
    assert!(!sessions.exists());
}
