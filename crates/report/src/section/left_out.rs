//! The contenders that were left out, with the reasons.

use std::collections::BTreeMap;

use maud::{Markup, html};
use sessile_results::table::text;

use crate::ids::ElementIds;
use crate::runs::PageReports;
use crate::table::HtmlTable;

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let mut table = HtmlTable::new(
        "Contenders that have no row, or no row at some number of workers",
        &["contender", "experiment", "reason"],
    )
    .wordy();
    let mut shown: BTreeMap<(String, &str), Vec<String>> = BTreeMap::new();
    for report in runs.reports {
        for left in &report.left_out {
            let of = shown.entry((left.title(), left.reason.as_str())).or_default();
            of.push(PageReports::name(report));
        }
    }
    for left in runs.left_out {
        shown.entry(("all".to_owned(), &left.reason)).or_default().push(left.experiment.clone());
    }
    for ((contender, reason), mut of) in shown {
        of.dedup();
        table.row([contender, of.join(", "), reason.to_owned()].map(|it| text(it).into()).to_vec());
    }
    html! {
        @if table.is_empty() { p { "Nothing was left out." } }
        @else { (table.draw(ids)) }
    }
}
