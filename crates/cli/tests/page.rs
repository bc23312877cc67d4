//! `--report` and `sessile bench report`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod started;

use started::{sessile, stderr, stdout};

const BRIEF: [&str; 10] = [
    "--stores",
    "memory,limit",
    "--workers",
    "1",
    "--sessions",
    "50",
    "--duration",
    "0.02s",
    "--rounds",
    "2",
];

#[test]
fn a_run_leaves_a_page_and_the_same_can_be_drawn_again_from_its_result() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (json, first, again) = (place("r.json"), place("first.html"), place("again.html"));
    let output = sessile(
        &[&["bench", "cycle"][..], &BRIEF, &["--export-json", &json, "--report", &first]].concat(),
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = sessile(&["bench", "report", &json, "--output", &again]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let html = std::fs::read_to_string(&first).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("limit *"), "{html}");
    assert_eq!(html, std::fs::read_to_string(&again).unwrap());
}

/// `bench report r.json --output r.json` replaced the result by its page.
#[test]
fn a_page_does_not_replace_a_result_that_it_is_drawn_from() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (json, link, hard) = (place("r.json"), place("link"), place("hard"));
    std::fs::write(&json, "a result").unwrap();
    std::os::unix::fs::symlink(&json, &link).unwrap();
    std::fs::hard_link(&json, &hard).unwrap();
    for (input, output) in [(&json, &json), (&json, &link), (&link, &json), (&json, &hard)] {
        let refused = sessile(&["bench", "report", input, "--output", output]);
        let why = stderr(&refused);
        assert_eq!(refused.status.code(), Some(2), "{input} {output}: {why}");
        assert!(why.contains(&format!("{output} is read")), "{why}");
    }
    assert_eq!(std::fs::read_to_string(&json).unwrap(), "a result");
}

/// A row for each contender, and the machine; no id and no directory of the user.
#[test]
fn the_same_tables_can_be_pasted_into_an_issue() {
    let dir = tempfile::tempdir().unwrap();
    let (markdown, mine) =
        (dir.path().join("issue.md"), format!("files:{}#mine", dir.path().join("mine").display()));
    std::fs::create_dir(dir.path().join("mine")).unwrap();
    let stores = format!("memory,limit,{mine}");
    let flags = [
        "--stores",
        &stores,
        "--workers",
        "1",
        "--sessions",
        "50",
        "--duration",
        "0.02s",
        "--rounds",
        "2",
    ];
    let output = sessile(
        &[&["bench", "cycle"][..], &flags, &["--export-markdown", markdown.to_str().unwrap()]]
            .concat(),
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = std::fs::read_to_string(&markdown).unwrap();
    for line in [
        "### sessile bench cycle",
        "| memory ",
        "| limit ",
        "| files#mine ",
        "- `sessile bench cycle --stores ",
    ] {
        assert!(text.lines().any(|it| it.starts_with(line)), "{line}: {text}");
    }
    assert!(!text.contains(dir.path().to_str().unwrap()), "{text}");
    let is_id =
        |word: &str| word.len() >= 32 && word.chars().all(|letter| letter.is_ascii_hexdigit());
    assert!(!text.split(|letter: char| !letter.is_ascii_alphanumeric()).any(is_id), "{text}");
    let output = sessile(&[&["bench", "cycle"][..], &BRIEF, &["--export-markdown", "-"]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("### sessile bench cycle\n"), "{text}");
}

#[test]
fn several_results_make_one_page_and_it_may_go_to_standard_output() {
    let small = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/tests/small.json");
    let output = sessile(&["bench", "report", small, small, "--output", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).trim_end().ends_with("</html>"));
}

/// The page of a killed `bench all` must not look complete.
#[test]
fn the_file_of_a_run_that_did_not_end_makes_a_page_that_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("killed.json");
    let parts = r#"{ "schema": 1, "runs": [],
        "left_out": [{ "experiment": "gc", "reason": "not measured yet when this was written" }],
        "parts": [{ "experiment": "gc", "state": "running" }] }"#;
    std::fs::write(&json, parts).unwrap();
    let output = sessile(&["bench", "report", json.to_str().unwrap(), "--output", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let html = stdout(&output);
    assert!(html.contains("The measurement has not come to its end"), "{html}");
}

#[test]
fn what_is_no_result_is_exit_code_2_and_what_cannot_be_written_is_found_before_the_measurement() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(place("no.json"), "{}").unwrap();
    for wrong in [place("no.json"), place("missing.json")] {
        let output = sessile(&["bench", "report", &wrong, "--output", &place("page.html")]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
    assert!(!dir.path().join("page.html").exists());
    let nowhere = place("none/page.html");
    let output = sessile(&[&["bench", "cycle"][..], &BRIEF, &["--report", &nowhere]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let same = place("same");
    let output = sessile(
        &[&["bench", "cycle"][..], &BRIEF, &["--export-json", &same, "--report", &same]].concat(),
    );
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
