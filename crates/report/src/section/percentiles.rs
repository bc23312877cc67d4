//! Percentile curves: from the median request to the slowest of a thousand.

use maud::{Markup, html};
use sessile_bench::report::Row;

use super::{KINDS, not_run, went_wrong, wrong_ones};
use crate::DrawError;
use crate::chart::{Axis, ChartText, Curve, Curves};
use crate::ids::ElementIds;
use crate::number::{figure, time, with_noun};
use crate::runs::{ExperimentRows, PageReports};
use crate::table::{HtmlTable, TableCell, right, text};

const NAMES: [&str; 6] = ["min", "p50", "p90", "p99", "p99.9", "max"];

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let closed = runs.by_tier("cycle", |report| report.settings.rate.is_none());
    Ok(html! {
        p {
            "The same locked requests as above, by how long they took: half of them less than p50, "
            "all but one in a hundred less than p99. "
            "The slow end is what visitors notice. Lower is better."
        }
        @if closed.is_empty() { (not_run(runs, "cycle")) }
        @for run in &closed { (of_run(run, "", ids)?) }
    })
}

/// A chart of the most workers for each kind of row; `what` names the start of the latency.
pub(super) fn of_run(
    run: &ExperimentRows<'_>,
    what: &str,
    ids: &ElementIds,
) -> Result<Markup, DrawError> {
    let mut figures = Vec::new();
    for (kind, place) in KINDS {
        let here = |row: &&&Row| row.kind == kind && row.op == "cycle";
        let all: Vec<&Row> = run.rows.iter().filter(here).copied().collect();
        let Some(most) = all.iter().map(|row| row.workers).max() else { continue };
        let rows: Vec<&Row> = all.iter().filter(|row| row.workers == most).copied().collect();
        let title = format!("{place}, {}{what}{}", with_noun(most, "worker"), run.tier_suffix);
        let wrong = wrong_ones(&all, &|row| with_noun(row.workers, "worker"));
        figures.push(html! { h3 { (title) } (one(run, &rows, &title, ids)?) (wrong) });
    }
    Ok(html! { @for figure in figures { (figure) } })
}

fn one(
    run: &ExperimentRows<'_>,
    rows: &[&Row],
    title: &str,
    ids: &ElementIds,
) -> Result<Markup, DrawError> {
    let names = NAMES.map(str::to_owned);
    let all = rows.iter().filter(|row| row.failed.is_none()).flat_map(|row| values(row));
    let curves = Curves {
        words: ChartText {
            title: format!("Latency by percentile: {title}"),
            description:
                "A curve for each contender from its fastest to its slowest request; its values \
                 are in the table below."
                    .to_owned(),
        },
        x: Axis::named("percentile of requests", &names),
        y: Axis::logarithmic("latency", all, time),
        curves: rows.iter().map(|row| curve(run, row)).collect(),
    };
    let columns: Vec<&str> = std::iter::once("store").chain(NAMES).chain(["went wrong"]).collect();
    // The heading has the tier if there are several.
    let tier = run
        .tier()
        .filter(|_| run.tier_suffix.is_empty())
        .map_or(String::new(), |tier| format!(", tier {tier}"));
    let mut table = HtmlTable::new(format!("Latency in microseconds: {title}{tier}"), &columns);
    for row in rows {
        let figures = values(row)
            .map(|us| if row.failed.is_some() { TableCell::Empty } else { right(figure(us)) });
        table.row(
            std::iter::once(text(row.shown_title()))
                .chain(figures)
                .chain([went_wrong(row)])
                .collect(),
        );
    }
    Ok(html! { figure { (curves.draw(ids)?) (table.folded(ids)) } })
}

/// A failed row has no values, and a cross next to its name.
fn curve(run: &ExperimentRows<'_>, row: &Row) -> Curve {
    let values: Vec<(f64, f64)> =
        values(row).into_iter().enumerate().map(|(at, us)| (at as f64, us)).collect();
    let wrong = if row.is_bad() {
        values.last().map(|(at, _)| *at).into_iter().collect()
    } else {
        Vec::new()
    };
    let values = if row.failed.is_some() { Vec::new() } else { values };
    Curve { name: row.shown_title(), number: run.number(row), values, wrong }
}

fn values(row: &Row) -> [f64; 6] {
    let latency = row.latency_us;
    [latency.min, latency.p50, latency.p90, latency.p99, latency.p999, latency.max]
}
