//! Results that cannot be written are not lost.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod started;

use std::path::Path;
use std::process::Output;

use started::{sessile, stderr, stdout};

/// A full device under two paths: two outputs to one path are refused.
const FULL: [&str; 2] = ["/dev/full", "/dev/../dev/full"];
const BRIEF: [&str; 8] =
    ["--workers", "1", "--sessions", "50", "--duration", "0.05s", "--payload", "100"];

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// The exit code is 3, with an error for each of these outputs.
fn is_refused_by_the_disk(output: &Output, outputs: &[&str]) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(3), "{message}");
    for name in outputs {
        assert!(message.contains(&format!("cannot write {name}: ")), "{message}");
    }
}

#[test]
fn an_output_that_cannot_be_written_takes_nothing_from_the_others_or_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("cycle.html");
    let page_name = page.to_str().unwrap();
    let flags = ["bench", "cycle", "--stores", "memory", "--rounds", "1"];
    let files = ["--export-json", FULL[0], "--export-markdown", FULL[1], "--report", page_name];
    let output = sessile(&[&flags[..], &BRIEF, &files].concat());
    is_refused_by_the_disk(&output, &FULL);
    assert!(read(&page).contains("</html>"));
    assert!(stdout(&output).contains("memory"), "the table: {}", stdout(&output));

    let output = sessile(
        &[&flags[..], &BRIEF, &["--export-json", FULL[0], "--export-markdown", "-"]].concat(),
    );
    is_refused_by_the_disk(&output, &FULL[..1]);
    assert!(stdout(&output).starts_with("### sessile bench cycle"), "{}", stdout(&output));
}

#[test]
fn of_all_experiments_the_other_files_are_written_and_without_any_the_tables_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let [markdown, page] = ["all.md", "all.html"].map(|name| dir.path().join(name));
    let [markdown_name, page_name] = [&markdown, &page].map(|path| path.to_str().unwrap());
    let run = |files: &[&str]| {
        let flags = ["bench", "all", "--quick", "--only", "oversize", "--stores", "memory"];
        sessile(&[&flags[..], files].concat())
    };
    let some =
        run(&["--export-json", FULL[0], "--report", page_name, "--export-markdown", markdown_name]);
    is_refused_by_the_disk(&some, &FULL[..1]);
    assert!(read(&markdown).contains("memory"), "{}", read(&markdown));
    assert!(read(&page).contains("</html>"));
    assert!(
        !stdout(&some).contains("== oversize") && stdout(&some).contains("oversize"),
        "{}",
        stdout(&some)
    );

    let none = run(&["--export-json", FULL[0], "--export-markdown", FULL[1]]);
    is_refused_by_the_disk(&none, &FULL);
    assert!(
        stdout(&none).contains("\n== oversize\n"),
        "nobody else keeps the rows: {}",
        stdout(&none)
    );
}

/// "- cannot be read: No such file" was the answer.
#[test]
fn a_series_does_not_go_on_with_what_went_to_standard_output() {
    let output = sessile(&["bench", "all", "--export-json", "-", "--resume"]);
    let why = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{why}");
    assert!(why.contains("--resume and --export-json - exclude each other"), "{why}");
}

#[test]
fn of_two_programs_the_comparison_is_shown_when_neither_result_can_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let markdown = dir.path().join("new.md");
    let flags = [
        "bench",
        "ops",
        "--stores",
        "memory",
        "--rounds",
        "7",
        "--baseline",
        env!("CARGO_BIN_EXE_sessile"),
    ];
    let files = [
        "--export-json",
        FULL[0],
        "--export-baseline",
        FULL[1],
        "--export-markdown",
        markdown.to_str().unwrap(),
    ];
    let output = sessile(&[&flags[..], &BRIEF, &files].concat());
    is_refused_by_the_disk(&output, &FULL);
    assert!(read(&markdown).contains("memory"), "{}", read(&markdown));
    assert!(stdout(&output).contains("new/old"), "{}", stdout(&output));
}
