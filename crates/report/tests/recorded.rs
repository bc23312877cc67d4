//! The recorded results of the repository can be read and drawn.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::path::{Path, PathBuf};

use sessile_results::Collection;
use sessile_stores::registry::STORES;

fn place() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/record")
}

fn recorded(path: &Path) -> Collection {
    let text = std::fs::read_to_string(path).unwrap();
    Collection::from_json(&text).unwrap_or_else(|why| panic!("{}: {}", path.display(), why.0))
}

fn page(results: &Collection) -> String {
    sessile_report::html(results, STORES)
}

/// One of them had been written by a PHP program in its own form, and nobody had drawn it.
#[test]
fn every_recorded_result_is_read_and_makes_a_page() {
    let files = std::fs::read_dir(place()).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|it| it == "json")).collect();
    assert!(files.len() >= 2, "{files:?}");
    for path in files {
        let results = recorded(&path);
        assert!(
            results.runs.iter().all(|run| !run.results.is_empty()),
            "{} has no rows",
            path.display()
        );
        assert!(page(&results).trim_end().ends_with("</html>"), "{}", path.display());
    }
}

/// The page of all experiments had grown to 1.2 MB.
#[test]
fn the_page_of_all_experiments_has_at_most_300_kb() {
    let page = page(&recorded(&place().join("all.json")));
    assert!(page.len() <= 300_000, "{}", page.len());
}

#[test]
fn the_record_of_the_languages_shows_the_longest_start_of_phps_files() {
    let page = page(&recorded(&place().join("languages.json")));
    let section = page.split("<section id=\"languages\"").nth(1).unwrap();
    let line = |op: &str| {
        let of = |line: &&str| line.contains("php#files<") && line.contains(op);
        let mut lines = section.split("<tr>").filter(of);
        lines.find(|line| line.contains("550,000")).unwrap_or_else(|| panic!("no {op}: {section}"))
    };
    assert!(line(">start-gc-0.1<").contains(">523") && line(">start-gc-0<").contains(">494"));
}
