//! Sessions of web frameworks in Python, Node and Perl, each in its own runtime.

use maud::{Markup, html};

use super::{not_run, went_wrong};
use crate::ids::ElementIds;
use crate::number::short;
use crate::runs::{ExperimentRows, PageReports};
use crate::table::{HtmlTable, TableCell, right, text};

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let measured = runs.by_tier("languages", |_| true);
    html! {
        p {
            "Each language opens, changes and saves one session through the session classes of its "
            "frameworks, and counts what it reads. Compare rows of one framework. Floors keep "
            "nothing: they are what a framework or its serialiser takes whatever keeps sessions."
        }
        @if measured.is_empty() { (not_run(runs, "languages")) }
        @for run in &measured { (times(run).draw(ids)) }
    }
}

fn times(run: &ExperimentRows<'_>) -> HtmlTable {
    let columns = ["store", "op", "fastest round", "median", "times ours", "went wrong"];
    let caption = "A request, in microseconds";
    let mut table = HtmlTable::new(format!("{caption}{}", run.tier_suffix), &columns);
    for row in &run.rows {
        let mut cells = vec![text(row.title()), text(&row.op)];
        if row.failed.is_some() {
            cells.push(TableCell::Bad("failed".to_owned()));
            cells.extend([TableCell::Empty, TableCell::Empty]);
        } else {
            let times = row.times_ours(&run.rows).map_or(TableCell::Empty, |it| right(short(it)));
            let [fastest, median] = [row.latency_us.min, row.latency_us.p50].map(short).map(right);
            cells.extend([fastest, median, times]);
        }
        cells.push(went_wrong(row));
        table.row(cells);
    }
    table
}
