//! The contenders that were left out, with the reasons.

use maud::{Markup, html};

use crate::ids::ElementIds;
use crate::runs::PageReports;
use crate::table::{HtmlTable, text};

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let mut table = HtmlTable::new(
        "Contenders that have no row, or no row at some number of workers",
        &["contender", "experiment", "reason"],
    )
    .wordy();
    let mut shown: Vec<(String, String, &str)> = Vec::new();
    for report in runs.reports {
        for left in &report.left_out {
            shown.push((left.title(), PageReports::name(report), &left.reason));
        }
    }
    for left in runs.left_out {
        shown.push(("all".to_owned(), left.experiment.clone(), &left.reason));
    }
    shown.dedup();
    for (contender, experiment, reason) in shown {
        table.row(vec![text(contender), text(experiment), text(reason)]);
    }
    html! {
        @if table.is_empty() { p { "Nothing was left out." } }
        @else { (table.draw(ids)) }
    }
}
