//! Requests at a fixed rate: the latency from the moment when a request is due.

use maud::{Markup, html};
use sessile_results::number::{count, time};
use sessile_results::statistics::is_told;
use sessile_results::tables::throughput;
use sessile_results::{KINDS, Row};

use super::{CURVES, conditions, curves, not_run, wrong_ones};
use crate::chart::{Axis, ChartText, Curves};
use crate::ids::ElementIds;
use crate::runs::{ExperimentRows, PageReports, most_workers, tiers};
use crate::table::draw;

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let mut paced = runs.by_tier("cycle", |report| report.settings.rate.is_some());
    paced.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    html! {
        p {
            "A closed loop asks again when it has its answer, so a store that stalls is asked "
            "less. Here requests are due at a fixed rate, and "
            "latency counts from the moment when a request was due: this is what a visitor waits."
        }
        @if paced.is_empty() { (not_run(runs, "cycle --rate 1000")) }
        @for tier in tiers(&paced) { (by_rate(&paced, tier, ids)) }
        @for run in &paced {
            h3 { (title(run)) (run.tier_suffix) }
            (conditions(run))
            (draw(throughput::table(&run.rows, &title(run), Some(rate(run))), ids))
        }
    }
}

fn rate(run: &ExperimentRows<'_>) -> f64 {
    run.report.settings.rate.unwrap_or_default()
}

fn title(run: &ExperimentRows<'_>) -> String {
    format!("{} requests a second of each worker", count(rate(run)))
}

/// The 99th percentile by rate, if a tier has several rates.
fn by_rate(all: &[ExperimentRows<'_>], tier: &str, ids: &ElementIds) -> Markup {
    let runs: Vec<&ExperimentRows<'_>> = all
        .iter()
        .filter(|run| run.rows.iter().all(|row| row.question.durability == tier))
        .collect();
    if runs.len() < 2 {
        return html! {};
    }
    let beside = runs.first().map_or("", |run| run.tier_suffix.as_str());
    let figures = KINDS.into_iter().filter_map(|(kind, place)| {
        let here = |row: &&Row| row.question.op == "cycle" && row.subject.kind == kind;
        let mut points: Vec<(f64, &Row)> = Vec::new();
        for run in &runs {
            // Fewer workers at a higher rate are another question, even for the same total.
            let most = most_workers(&run.rows);
            let with_most = run.rows.iter().copied().filter(|row| row.question.workers == most);
            points.extend(with_most.filter(here).map(|row| (rate(run) * most as f64, row)));
        }
        let rows: Vec<&Row> = points.iter().map(|(_, row)| *row).collect();
        let due = |row: &Row| {
            let own = points.iter().find(|(_, other)| std::ptr::eq(*other, row));
            own.map_or(0.0, |(due, _)| *due)
        };
        let which = |row: &Row| format!("{} a second due", count(due(row)));
        let run = runs.first().filter(|_| !rows.is_empty())?;
        let rates: Vec<f64> = points.iter().map(|(due, _)| *due).collect();
        let chart = Curves {
            words: ChartText {
                title: format!(
                    "The 99th percentile of latency by the rate of requests, {place}{beside}"
                ),
                description: CURVES.to_owned(),
            },
            x: Axis::fitting("requests due a second, of all workers", &rates),
            y: Axis::logarithmic(
                "p99 from when a request was due",
                rows.iter().filter_map(|row| p99(row)),
                time,
            ),
            curves: curves(run, &rows, &due, &p99),
        };
        Some(html! {
            h3 { (place) ", by the rate of requests" (beside) }
            @if !chart.curves.is_empty() { figure { (chart.draw(ids)) } }
            (wrong_ones(&rows, &which))
        })
    });
    html! { @for figure in figures { (figure) } }
}

fn p99(row: &Row) -> Option<f64> {
    (row.outcome.failed.is_none() && is_told(0.99, row.figures.operations))
        .then_some(row.figures.latency_us.p99)
}
