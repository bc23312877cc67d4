//! The benchmark results as one HTML page.
//!
//! [`html`] takes the results of several experiments. Each file of `section` selects rows and makes
//! a part of the page from tables (`table`) and charts (`chart`). `page` adds head and contents. A
//! section says if its experiment was not run.
//!
//! Invariants: the page needs no network and no JavaScript, which a content security policy
//! enforces; all text from results is escaped; a failed row is shown in place of its figure.
//! Figures are those of `sessile-results`, verdicts those of `sessile-advice`.

#![forbid(unsafe_code)]

mod chart;
mod ids;
mod ink;
mod missing;
mod page;
mod runs;
mod section;
mod table;

use sessile_results::Collection;
use sessile_stores::StoreEntry;

use crate::ids::ElementIds;
use crate::runs::PageReports;

/// The page of these results, in any order, and of what these stores can do.
/// Several runs of one experiment follow each other.
/// Missing experiments are named in their sections, with the reason if known.
pub fn html(results: &Collection, stores: &'static [StoreEntry]) -> String {
    let runs = PageReports::of(results, stores);
    let ids = ElementIds::default();
    let overview = section::overview(&runs, &ids);
    let sections = section::all(&runs, &ids);
    let page = page::page(&runs, &overview, &sections).into_string();
    // HTML does without them: a tenth of the page.
    ["</td>", "</th>", "</tr>"].iter().fold(page, |page, end| page.replace(end, ""))
}
