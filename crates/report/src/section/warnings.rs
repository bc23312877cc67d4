//! Warnings about figures, and every failed row.

use maud::{Markup, html};
use sessile_results::Report;
use sessile_results::Row;
use sessile_results::grouping::{distinct, grouped};
use sessile_results::number::with_noun;
use sessile_results::table::{bad, right, text};

use super::prose;
use crate::ids::ElementIds;
use crate::runs::PageReports;
use crate::table::{HtmlCell, HtmlTable};

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let warnings = warnings(runs);
    let failed = failed(runs);
    html! {
        ul.notes {
            li {
                strong { "Compare within a durability tier." } " A store that writes to the disk "
                "on each commit is slower than one that promises nothing, and it should be."
            }
            li {
                strong { "Compare within a table." } " A store inside the process and a store "
                "behind a socket answer different questions."
            }
            li {
                strong { "Look at the interval." } " A difference smaller than the spread of the "
                "rounds is no difference."
            }
            li {
                strong { "Rows that are no stores are yardsticks:" } " " code { "null" }
                " measures the harness, " code { "limit" } " is what memory allows when nothing is "
                "kept safe, " code { "lmdb" } " is an embedded database with the cheapest lock, "
                "and those named for what they do on a server repeat what other handlers do."
            }
            @if runs.interrupted {
                li.warning {
                    strong { "Warning: " } "the measurement was interrupted; what was not measured "
                    "to the end is missing"
                }
            }
            @for (warning, names) in &warnings {
                li.warning { strong { "Warning, " (names.join(", ")) ": " } (prose(warning)) }
            }
        }
        @if failed.is_empty() { p { "No row has errors, misses or lost updates." } }
        @else { (failed.draw(ids)) }
    }
}

fn warnings<'a>(runs: &PageReports<'a>) -> Vec<(&'a String, Vec<String>)> {
    let of_report = |report: &'a Report| {
        report.warnings.iter().map(|warning| (warning, PageReports::name(report)))
    };
    let warnings = grouped(runs.reports.iter().flat_map(of_report));
    warnings.into_iter().map(|(warning, names)| (warning, distinct(names))).collect()
}

fn failed<'a>(runs: &PageReports<'a>) -> HtmlTable {
    let of_report = |report: &'a Report| report.bad_rows().map(move |row| (report, row));
    let bad_rows: Vec<(&Report, &Row)> = runs.reports.iter().flat_map(of_report).collect();
    let caption = format!(
        "{} in which something went wrong; a failure is a result, and stands in its place below \
         too",
        with_noun(bad_rows.len(), "row")
    );
    let tiers = distinct(bad_rows.iter().map(|(_, row)| &row.question.durability));
    let several = tiers.len() > 1;
    let tier: &[&str] = if several { &["tier"] } else { &[] };
    let columns =
        [&["store", "experiment"], tier, &["operation", "workers", "what", "why"]].concat();
    let mut table = HtmlTable::new(caption, &columns).wordy();
    for (report, row) in bad_rows {
        let what = if row.outcome.failed.is_some() {
            "failed".to_owned()
        } else {
            row.fault_counts().unwrap_or_default()
        };
        let mut cells = vec![text(row.subject.title()), text(report.title_of(row))];
        cells.extend(several.then(|| text(&row.question.durability)));
        cells.extend([
            text(&row.question.op),
            right(row.question.workers),
            bad(what),
            text(row.outcome.why()),
        ]);
        table.row(cells.into_iter().map(HtmlCell::from).collect());
    }
    table
}
