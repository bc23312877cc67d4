//! Every `sessile` command line of the documents and the Makefile is valid.
//!
//! Each line is run with `--help` added: the command refuses unknown arguments before it prints the
//! help, and measures nothing.

#![allow(
    clippy::unwrap_used,
    reason = "clippy knows test functions only, and these serve tests only"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use sessile_tests::markdown::{code_lines, code_spans};
use sessile_tests::{SourceFile, files, root};

/// The arguments of a command line, and its place.
struct Call {
    place: String,
    arguments: Vec<String>,
}

fn calls(file: &SourceFile) -> Vec<Call> {
    let markdown = file.ends_with(&[".md"]);
    let lines: Vec<(usize, &str)> = if markdown {
        let pieces = code_spans(&file.text).into_iter().chain(code_lines(&file.text));
        pieces.map(|piece| (piece.line, piece.text)).collect()
    } else {
        file.text.lines().enumerate().map(|(index, line)| (index + 1, line.trim())).collect()
    };
    let of_ours = |line: &str| {
        let line = line.trim_start_matches("$ ").trim_start_matches("target/release/");
        line.strip_prefix("sessile ").map(arguments)
    };
    let found = lines.into_iter().filter_map(|(line, text)| Some((line, of_ours(text)?)));
    found
        .map(|(line, arguments)| Call { place: format!("{}:{line}", file.path), arguments })
        .collect()
}

/// Words up to a comment or a pipe; these lines need no shell.
fn arguments(line: &str) -> Vec<String> {
    let words = line.split_whitespace().take_while(|word| !word.starts_with('#') && *word != "|");
    words.map(|word| word.trim_matches(['\'', '"']).to_owned()).collect()
}

/// Builds the command with the profile and target directory of this test.
fn build() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let profile = deps.ancestors().nth(2).unwrap().to_owned();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root()).args([
        "build",
        "--quiet",
        "--workspace",
        "--bin",
        "sessile",
        "--target-dir",
    ]);
    cargo.arg(profile.parent().unwrap());
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    // Variables that cargo sets for this test: the build script of ring takes them for a change and
    // rebuilds ring and all its dependents, here and after the tests.
    let ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        cargo.env_remove(name);
    }
    assert!(cargo.status().unwrap().success(), "the command does not build");
    profile.join("sessile")
}

/// The command's error about these arguments, if any.
fn complaint(command: &Path, arguments: &[String]) -> Option<String> {
    let output = Command::new(command).args(arguments).arg("--help").output().unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn every_command_line_in_the_documents_is_understood() {
    let all = files().unwrap().into_iter();
    let texts =
        all.filter(|file| file.ends_with(&[".md", "Makefile"]) && file.path != "CHANGELOG.md");
    let calls: Vec<Call> = texts.flat_map(|file| calls(&file)).collect();
    assert!(calls.len() > 5, "no command lines are found, so this checks nothing");
    if !root().join("crates/cli").exists() {
        eprintln!(
            "skipped: {} command lines are not tried, the command is not here yet",
            calls.len()
        );
        return;
    }
    let command = build();
    let refused =
        calls.iter().filter_map(|call| Some((call, complaint(&command, &call.arguments)?)));
    let faults: Vec<String> = refused
        .map(|(call, why)| format!("{}: sessile {}\n{why}", call.place, call.arguments.join(" ")))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));

    for wrong in ["bench cycle --no-such-flag", "no-such-verb", "bench no-such-experiment"] {
        assert!(complaint(&command, &arguments(wrong)).is_some(), "sessile {wrong} is not refused");
    }
}

#[test]
fn command_lines_are_found_in_spans_blocks_and_recipes() {
    let document =
        |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
    let text = "Run `sessile stores --json`, not `sessile-core`.\n```sh\n$ sessile bench cycle \
                --quick  # quick\n```\n";
    let found = calls(&document("a.md", text));
    let lines: Vec<String> = found.iter().map(|call| call.arguments.join(" ")).collect();
    assert_eq!(lines, ["stores --json", "bench cycle --quick"]);
    assert_eq!(calls(&document("Makefile", "run:\n\ttarget/release/sessile bench gc\n")).len(), 1);
}
