//! The page of real results, with or without a change. `small.json` is a short run of every
//! experiment but `rebuild` on a busy machine with two processors and some of its contenders;
//! `languages`, `faults` and `ops` as published are of a debug build, which the page must say. Has
//! no tests.

use sessile_results::Collection;
use sessile_results::Row;
use sessile_stores::registry::STORES;

const SMALL: &str = include_str!("../small.json");

pub fn small() -> Collection {
    Collection::from_json(SMALL).unwrap()
}

pub fn page(results: &Collection) -> String {
    sessile_report::html(results, STORES)
}

/// The page with one changed row of an experiment, of the most workers in its result.
pub fn with(experiment: &str, change: impl Fn(&mut Row)) -> String {
    let mut results = small();
    let rows = results.runs.iter_mut().map(|run| &mut run.results);
    let mut rows = rows.filter(|rows| rows.iter().any(|row| row.question.experiment == experiment));
    let rows = rows.next().unwrap();
    let most = rows.iter().map(|row| row.question.workers).max().unwrap();
    change(rows.iter_mut().find(|row| row.question.workers == most).unwrap());
    page(&results)
}

/// The content of a section.
pub fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let from =
        page.find(&format!("<section id=\"{id}\"")).unwrap_or_else(|| panic!("no section {id}"));
    let rest = &page[from..];
    &rest[..rest.find("</section>").unwrap()]
}
