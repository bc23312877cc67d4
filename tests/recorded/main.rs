//! The tables of figures in the documents are generated from `bench/record/`.
//!
//! `UPDATE_TABLES=1 cargo test -p sessile-tests --test recorded` rewrites them after a new record.
//! A document marks a table with `<!-- NAME, from the record -->` and
//! `<!-- end NAME, from the record -->`. The text around a table is not checked.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod tables;

use sessile_results::Row;
use sessile_results::{Collection, Report};
use sessile_tests::{markdown, root};

/// The result of a full run.
const RECORD: &str = "bench/record/all.json";
/// Perl, and PHP with half a million sessions.
const LANGUAGES: &str = "bench/record/languages.json";

/// A table: document, name, renderer, and record.
type Table = (&'static str, &'static str, fn(&Collection) -> String, &'static str);

const TABLES: &[Table] = &[
    ("README.md", "default tier", tables::default_tier, RECORD),
    ("bench/record/README.md", "cycle", tables::cycle, RECORD),
    ("bench/SOURCES.md", "pages", tables::pages, RECORD),
    ("bench/SOURCES.md", "visitors", tables::visitors, RECORD),
    ("bench/SOURCES.md", "starts", tables::gc::starts, LANGUAGES),
    ("bench/SOURCES.md", "deletion", tables::gc::deletion, RECORD),
    ("bench/SOURCES.md", "perl", tables::perl, LANGUAGES),
    ("bench/SOURCES.md", "rebuild", tables::rebuild, RECORD),
    ("bench/SOURCES.md", "oversize", tables::oversize, RECORD),
    ("bench/SOURCES.md", "ops", tables::ops, RECORD),
    ("bench/SOURCES.md", "ops as published", tables::ops_as_published, RECORD),
];

fn record(path: &str) -> Collection {
    Collection::from_json(&std::fs::read_to_string(root().join(path)).unwrap()).unwrap()
}

/// The document with the new table; `None` if it has no mark.
fn with_table(document: &str, name: &str, table: &str) -> Option<String> {
    let (range, _) = markdown::marked(document, &format!("{name}, from the record"))?;
    let mut text = document.to_owned();
    text.replace_range(range, table);
    Some(text)
}

#[test]
fn the_tables_of_the_documents_are_those_of_the_record() {
    let update = std::env::var_os("UPDATE_TABLES").is_some_and(|value| value == "1");
    let mut stale = Vec::new();
    for (document, name, table, from) in TABLES {
        let path = root().join(document);
        let text = std::fs::read_to_string(&path).unwrap();
        let wanted = with_table(&text, name, &table(&record(from)))
            .unwrap_or_else(|| panic!("{document} has no place for {name:?}"));
        if update {
            std::fs::write(&path, wanted).unwrap();
        } else if text != wanted {
            stale.push(format!("{document}: {name} of {from}"));
        }
    }
    assert!(
        stale.is_empty(),
        "not those of the record: {stale:?}; `UPDATE_TABLES=1 cargo test -p sessile-tests --test \
         recorded`"
    );
}

#[test]
fn the_record_is_of_a_whole_run_without_faults_in_a_release_build() {
    let record = record(RECORD);
    assert!(!record.interrupted && record.left_out.is_empty(), "{:?}", record.left_out);
    for part in &record.parts {
        assert_eq!(part.state, sessile_results::PartState::Done, "{}", part.title());
    }
    for run in &record.runs {
        let title = run.experiment().unwrap_or_default();
        assert_eq!(run.environment.build, "release", "{title}");
        let could_be_there = |reason: &str| {
            ["not installed", "is not built:"].iter().any(|why| reason.contains(why))
        };
        let lacking: Vec<_> =
            run.left_out.iter().filter(|left| could_be_there(&left.reason)).collect();
        assert!(lacking.is_empty(), "{title}: {lacking:?}");
        let bad: Vec<String> = run
            .bad_rows()
            .map(|row| format!("{title}: {} {}", row.subject.title(), row.question.op))
            .collect();
        assert_eq!(bad, Vec::<String>::new());
    }
}

/// The titles of rows whose ranges do not overlap once the drift of the machine's speed is taken
/// out (the median ratio of all rows), that drift, and the number of rows.
fn apart(one: &Report, other: &Report) -> (Vec<String>, f64, usize) {
    let rows = one.results.iter().filter_map(|row| {
        let same = |it: &&Row| {
            it.subject.title() == row.subject.title()
                && it.question.op == row.question.op
                && it.question.workers == row.question.workers
        };
        Some((row, other.results.iter().find(same)?))
    });
    let rows: Vec<(&Row, &Row)> = rows.collect();
    let rates = |row: &Row| row.figures.ops_per_second;
    let mut ratios: Vec<f64> =
        rows.iter().map(|(one, other)| rates(other).median / rates(one).median).collect();
    ratios.sort_by(f64::total_cmp);
    let drift = ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN);
    let apart = rows.iter().filter(|(one, other)| {
        let (one, other) = (rates(one), rates(other));
        one.low * drift > other.high || other.low > one.high * drift
    });
    let name = |row: &Row| format!("{}@{}", row.subject.title(), row.question.workers);
    (apart.map(|(row, _)| name(row)).collect(), drift, rows.len())
}

/// The second was measured right after the first.
#[test]
fn two_recorded_runs_with_the_same_seed_agree_in_nine_rows_of_ten() {
    let (first, second) = (record(RECORD), record("bench/record/cycle-again.json"));
    let (first, second) = (&first.runs[0], &second.runs[0]);
    assert_eq!(
        (first.seed, first.experiment(), first.flags()),
        (second.seed, second.experiment(), second.flags())
    );
    let (apart_rows, drift, rows) = apart(first, second);
    assert_eq!(rows, first.results.len(), "the second run lacks rows");
    assert!((0.9..1.1).contains(&drift), "the machine's speed was {drift} times the first");
    assert!(apart_rows.len() * 10 <= rows, "of {rows} rows {apart_rows:?} are apart");
    let mut slower = second.clone();
    for row in slower.results.iter_mut().step_by(3) {
        let rates = &mut row.figures.ops_per_second;
        (rates.high, rates.median, rates.low) = (rates.low * 0.5, rates.low * 0.5, rates.low * 0.5);
    }
    assert!(apart(first, &slower).0.len() * 10 > rows, "nothing is ever apart");
}

#[test]
fn a_figure_that_was_typed_is_noticed() {
    let document =
        "before\n<!-- x, from the record -->\n| 1 |\n<!-- end x, from the record -->\nafter\n";
    assert_eq!(with_table(document, "x", "| 1 |\n").unwrap(), document);
    assert_ne!(with_table(document, "x", "| 2 |\n").unwrap(), document);
    assert_eq!(with_table(document, "y", "| 1 |\n"), None);
}
