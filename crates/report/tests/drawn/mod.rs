//! The page of real results, whole or with a row changed: `small.json` is one short run of every experiment but `rebuild` on a
//! busy machine of two processors, a part of its contenders; `perl`, `faults` and `ops` as published are of a debug build,
//! which the page must say. No test is here.

use sessile_bench::Collection;
use sessile_bench::report::Row;

const SMALL: &str = include_str!("../small.json");

pub fn small() -> Collection {
    Collection::from_json(SMALL).unwrap()
}

pub fn page(results: &Collection) -> String {
    sessile_report::html(results).unwrap()
}

/// The page with one row of an experiment changed.
pub fn with(experiment: &str, change: impl Fn(&mut Row)) -> String {
    let mut results = small();
    let row = results.runs.iter_mut().flat_map(|run| &mut run.results).find(|row| row.experiment == experiment);
    change(row.unwrap());
    page(&results)
}

/// What stands in one section.
pub fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let from = page.find(&format!("<section id=\"{id}\"")).unwrap_or_else(|| panic!("no section {id}"));
    let rest = &page[from..];
    &rest[..rest.find("</section>").unwrap()]
}
