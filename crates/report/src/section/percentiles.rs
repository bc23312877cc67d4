//! Percentile curves: how long the median request takes, and how long the slowest of a thousand.

use maud::{Markup, html};
use sessile_bench::report::Row;

use super::{KINDS, not_run};
use crate::DrawError;
use crate::chart::{Axis, Curve, Curves, Words};
use crate::ids::Ids;
use crate::number::{figure, of, time};
use crate::runs::{Run, Runs};
use crate::table::{Table, right, text};

const NAMES: [&str; 6] = ["min", "p50", "p90", "p99", "p99.9", "max"];

pub(super) fn body(runs: &Runs<'_>, ids: &Ids) -> Result<Markup, DrawError> {
    let closed: Vec<Run<'_>> =
        runs.of_experiment("cycle").into_iter().filter(|run| run.report.settings.rate.is_none()).collect();
    Ok(html! {
        p {
            "The same locked requests as above, by how long they took: half of them less than p50, all but one in a hundred less than p99. "
            "The slow end is what visitors notice. Lower is better."
        }
        @if closed.is_empty() { (not_run(runs, "cycle")) }
        @for run in &closed { (of_run(run, "", ids)?) }
    })
}

/// A chart for each number of workers and each of the two tables; `what` says from when latency counts.
pub(super) fn of_run(run: &Run<'_>, what: &str, ids: &Ids) -> Result<Markup, DrawError> {
    let mut figures = Vec::new();
    for (kind, place) in KINDS {
        for workers in run.distinct(|row| row.workers) {
            let here =
                |row: &&&Row| row.kind == kind && row.workers == workers && row.op == "cycle" && row.failed.is_none();
            let rows: Vec<&Row> = run.rows.iter().filter(here).copied().collect();
            if !rows.is_empty() {
                let title = format!("{place}, {}{what}", of(workers, "worker"));
                figures.push(html! { h3 { (title) } (one(run, &rows, &title, ids)?) });
            }
        }
    }
    Ok(html! { @for figure in figures { (figure) } })
}

fn one(run: &Run<'_>, rows: &[&Row], title: &str, ids: &Ids) -> Result<Markup, DrawError> {
    let names = NAMES.map(str::to_owned);
    let all = rows.iter().flat_map(|row| values(row));
    let curves = Curves {
        words: Words {
            title: format!("Latency by percentile: {title}"),
            description:
                "A curve for each contender from its fastest to its slowest request; its values are in the table below."
                    .to_owned(),
        },
        x: Axis::named("percentile of requests", &names),
        y: Axis::logarithmic("latency", all, time),
        curves: rows
            .iter()
            .map(|row| Curve {
                name: row.title(),
                number: run.number(row),
                values: values(row).into_iter().enumerate().map(|(at, us)| (at as f64, us)).collect(),
            })
            .collect(),
    };
    let columns: Vec<&str> = std::iter::once("store").chain(NAMES).collect();
    let mut table = Table::new(format!("Latency in microseconds: {title}"), &columns);
    for row in rows {
        table.row(std::iter::once(text(row.title())).chain(values(row).map(|us| right(figure(us)))).collect());
    }
    Ok(html! { figure { (curves.draw(ids)?) (table.folded(ids)) } })
}

fn values(row: &Row) -> [f64; 6] {
    let latency = row.latency_us;
    [latency.min, latency.p50, latency.p90, latency.p99, latency.p999, latency.max]
}
