//! References of documents and comments exist: paths, links, make targets, records of measurements.
//! The map of CONTRIBUTING.md is complete. Not here: whether a figure is the recorded one.

#![allow(
    clippy::unwrap_used,
    reason = "clippy knows test functions only, and these serve tests only"
)]

use std::path::Path;

use sessile_tests::markdown::{Piece, code_lines, code_spans, links};
use sessile_tests::{SourceFile, files, root};

/// The Markdown documents, except the changelog, which may name files that are gone.
fn documents() -> Vec<SourceFile> {
    let all = files().unwrap().into_iter();
    let documents: Vec<_> =
        all.filter(|file| file.ends_with(&[".md"]) && file.path != "CHANGELOG.md").collect();
    assert!(documents.len() > 5, "the documents are gone, so this checks nothing");
    documents
}

/// The comments of the code as documents, with code replaced by empty lines.
fn comments() -> Vec<SourceFile> {
    let comment = |line: &str| {
        if line.trim_start().starts_with("//") { line.to_owned() } else { String::new() }
    };
    let code = files().unwrap().into_iter().filter(|file| file.ends_with(&[".rs"]));
    code.map(|file| SourceFile {
        text: file.text.lines().map(|line| comment(line) + "\n").collect(),
        ..file
    })
    .collect()
}

/// Whether a code span names a file or directory of this repository.
fn is_repository_path(text: &str, top: &[String]) -> bool {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    let first = text.split('/').next().unwrap_or_default();
    let at_top = text.contains('/') && top.iter().any(|name| name == first);
    let document = !text.contains('/') && (text.ends_with(".md") || text.ends_with(".toml"));
    plain && !text.starts_with(['/', '.']) && (at_top || document)
        || text.starts_with(".ci/")
        || ["docs/", "crates/", "scripts/", "tests/"]
            .iter()
            .any(|place| plain && text.starts_with(place))
}

fn missing_paths(file: &SourceFile, top: &[String]) -> Vec<String> {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    // A page beside the code, as crates/engine/DESIGN.md, is named from all folders of its crate.
    let exists =
        |path: &str| folder.ancestors().any(|above| root().join(above).join(path).exists());
    let named =
        code_spans(&file.text).into_iter().filter(|span| is_repository_path(span.text, top));
    // Tests run without a network, and rustdoc checks links to Rust items.
    let elsewhere =
        |target: &str| target.contains("://") || target.contains("::") || target.starts_with('#');
    let linked = links(&file.text).into_iter().filter(|link| !elsewhere(link.text));
    let linked =
        linked.map(|link| Piece { text: link.text.split('#').next().unwrap_or_default(), ..link });
    let missing = named.chain(linked).filter(|piece| !exists(piece.text));
    missing
        .map(|piece| format!("{}:{}: {} does not exist", file.path, piece.line, piece.text))
        .collect()
}

/// The `make` targets in code spans and at the start of code lines of a document.
fn make_targets(document: &str) -> Vec<Piece<'_>> {
    let pieces = code_spans(document).into_iter().chain(code_lines(document));
    let calls = pieces
        .filter_map(|piece| piece.text.strip_prefix("make ").map(|text| Piece { text, ..piece }));
    let words = calls.map(|piece| Piece {
        text: piece.text.split([' ', '#']).next().unwrap_or_default(),
        ..piece
    });
    words.filter(|piece| piece.text.chars().all(|c| c.is_ascii_lowercase() || c == '-')).collect()
}

fn unknown_targets(file: &SourceFile, makefile: &str) -> Vec<String> {
    let known = |target: &str| makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
    let unknown = make_targets(&file.text).into_iter().filter(|piece| !known(piece.text));
    unknown
        .map(|piece| {
            format!("{}:{}: no target {:?} in the Makefile", file.path, piece.line, piece.text)
        })
        .collect()
}

fn top_level() -> Vec<String> {
    let entries = std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| name.to_string_lossy().into_owned());
    // Documents name build output, which may not exist yet.
    names.filter(|name| name != "target" && name != "bench-out").collect()
}

fn document(text: &str) -> SourceFile {
    SourceFile { path: "docs/x.md".to_owned(), text: text.to_owned() }
}

#[test]
fn every_path_that_a_document_names_exists() {
    let top = top_level();
    let texts = documents().into_iter().chain(comments());
    let faults: Vec<String> = texts.flat_map(|file| missing_paths(&file, &top)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_path_that_does_not_exist_is_noticed() {
    let top = top_level();
    for bad in
        ["see `crates/nowhere.rs`", "see `MISSING.md`", "[this](nowhere.md)", "`.ci/nothing`"]
    {
        assert_eq!(missing_paths(&document(bad), &top).len(), 1, "{bad}");
    }
    for good in [
        "`crates/core/src/store.rs`",
        "[web](https://example.org/x.md)",
        "`GET /x`",
        "`files:/var/x`",
        "`a/b`",
    ] {
        assert_eq!(missing_paths(&document(good), &top), Vec::<String>::new(), "{good}");
    }
}

#[test]
fn every_make_target_that_a_document_names_exists() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    let faults: Vec<String> =
        documents().iter().flat_map(|file| unknown_targets(file, &makefile)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn an_unknown_make_target_is_noticed() {
    let makefile = "run: build ## Runs\n";
    assert_eq!(unknown_targets(&document("`make rnu`\n```sh\nmake tset\n```"), makefile).len(), 2);
    assert_eq!(
        unknown_targets(&document("`make run` and make sense of it"), makefile),
        Vec::<String>::new()
    );
}

/// The folders whose entries CONTRIBUTING.md names in its map.
const MAPPED_FOLDERS: &[&str] = &["crates", "bindings"];

/// The folders that the map does not name. A map that leaves out a crate misleads a newcomer.
fn unmapped<'a>(folders: &'a [String], map: &str) -> Vec<&'a str> {
    let named = |folder: &str| map.contains(&format!("\n| `{folder}/` |"));
    folders.iter().map(String::as_str).filter(|folder| !named(folder)).collect()
}

#[test]
fn the_map_of_the_repository_names_every_crate_and_binding() {
    let mut folders = Vec::new();
    for parent in MAPPED_FOLDERS {
        for entry in std::fs::read_dir(root().join(parent)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(format!("{parent}/{}", entry.file_name().to_string_lossy()));
            }
        }
    }
    assert!(folders.len() > 5, "the crates are gone, so this checks nothing");
    let map = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    assert_eq!(unmapped(&folders, &map), Vec::<&str>::new(), "add a line to the map");
}

#[test]
fn a_crate_without_a_line_in_the_map_is_noticed() {
    let folders = ["crates/core".to_owned(), "crates/new".to_owned()];
    let map = "| place | content |\n| `crates/core/` | the contract |\n";
    assert_eq!(unmapped(&folders, map), ["crates/new"]);
}

const RECORD: &str = "bench/record/";
/// Dated pages, which give the circumstances of their figures.
const DATED: &str = "docs/decisions/";

/// Lines with a measured number, in a document that does not name a record.
fn unrecorded(file: &SourceFile) -> Vec<String> {
    if file.path.starts_with(DATED) || file.text.contains(RECORD) {
        return Vec::new();
    }
    let says = |line: &&str| {
        let figure =
            ["Measured", "(measured"].iter().find_map(|word| Some(line.split_once(word)?.1));
        figure.is_some_and(|rest| rest.contains(|letter: char| letter.is_ascii_digit()))
    };
    file.text
        .lines()
        .filter(says)
        .map(|line| format!("{}: not in {RECORD}: {line}", file.path))
        .collect()
}

/// Results that the list of records does not name.
fn unlisted<'a>(recorded: impl IntoIterator<Item = &'a SourceFile>, list: &str) -> Vec<&'a str> {
    let paths = recorded.into_iter().map(|file| file.path.as_str());
    let names =
        paths.filter_map(|path| path.strip_prefix(RECORD)).filter(|name| *name != "README.md");
    names.filter(|name| !list.contains(&format!("| `{name}` |"))).collect()
}

#[test]
fn what_a_document_says_was_measured_is_recorded() {
    let faults: Vec<String> = documents().iter().flat_map(unrecorded).collect();
    assert!(
        faults.is_empty(),
        "say it without a number, or record it and name the record:\n{}",
        faults.join("\n")
    );
}

#[test]
fn every_recorded_result_is_listed_with_its_command_and_its_machine() {
    let files = files().unwrap();
    let list = files.iter().find(|file| file.path == "bench/record/README.md").unwrap();
    assert!(
        files.iter().filter(|file| file.path.starts_with(RECORD)).count() > 1,
        "nothing is recorded"
    );
    assert_eq!(
        unlisted(&files, &list.text),
        Vec::<&str>::new(),
        "bench/record/README.md does not say where these come from"
    );
}

#[test]
fn a_figure_without_a_record_and_a_record_without_a_line_are_noticed() {
    let told = document(
        "A lock is cheap. Measured with 8 processes: 40 us.\nIt takes 130 bytes (measured \
         with\n550,000).\n",
    );
    assert_eq!(unrecorded(&told).len(), 1, "a number on the next line is beyond what this sees");
    assert!(unrecorded(&document("Measured: 40 us, see `bench/record/cycle.json`.")).is_empty());
    assert!(unrecorded(&document("What was not measured comes after the 3 others.")).is_empty());
    let recorded = SourceFile { path: "bench/record/cycle.json".to_owned(), text: String::new() };
    assert_eq!(unlisted([&recorded], "| `gc.json` | make |"), ["cycle.json"]);
    assert!(unlisted([&recorded], "| `cycle.json` | sessile bench cycle |").is_empty());
}
