//! Requests at a fixed rate: the latency from the moment when a request is due.

use maud::{Markup, html};
use sessile_bench::report::Row;
use sessile_bench::statistics::is_told;

use super::{KINDS, conditions, not_run, went_wrong, wrong_ones};
use crate::DrawError;
use crate::chart::{Axis, ChartText, Curve, Curves};
use crate::ids::ElementIds;
use crate::number::{count, time};
use crate::runs::{ExperimentRows, PageReports, tiers, titles};
use crate::table::{HtmlTable, TableCell, percentile, right, text};

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let mut paced = runs.by_tier("cycle", |report| report.settings.rate.is_some());
    let rate = |run: &ExperimentRows<'_>| run.report.settings.rate.unwrap_or_default();
    paced.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    Ok(html! {
        p {
            "A closed loop asks again when it has its answer, so a store that stalls is asked "
            "less. Here requests are due at a fixed rate, and "
            "latency counts from the moment when a request was due: this is what a visitor waits."
        }
        @if paced.is_empty() { (not_run(runs, "cycle --rate 1000")) }
        @for tier in tiers(&paced) { (by_rate(&paced, tier, ids)?) }
        @for run in &paced {
            h3 { (count(rate(run))) " requests a second of each worker" (run.tier_suffix) }
            (conditions(run))
            (table(run, rate(run)).draw(ids))
        }
    })
}

/// Stores that cannot sustain the rate are listed: their latency is that of a queue.
fn table(run: &ExperimentRows<'_>, rate: f64) -> HtmlTable {
    let columns = ["store", "due a second", "done a second", "p99", "p99.9", "went wrong"];
    let each = format!("{} a second each{}", count(rate), run.tier_suffix);
    let caption =
        format!("Done in time, and latency in microseconds from when a request was due, {each}");
    let mut table = HtmlTable::new(caption, &columns);
    for row in &run.rows {
        let due = rate * row.workers as f64;
        let mut cells = vec![text(row.shown_title()), right(count(due))];
        if row.failed.is_some() {
            cells.push(TableCell::Bad("failed".to_owned()));
            cells.extend((0..2).map(|_| TableCell::Empty));
        } else {
            let (done, latency) = (row.ops_per_second.median, row.latency_us);
            cells.push(if done < 0.95 * due {
                TableCell::Bad(format!("{}, fell behind", count(done)))
            } else {
                right(count(done))
            });
            let slow = [(latency.p99, 0.99), (latency.p999, 0.999)];
            cells.extend(slow.map(|(us, quantile)| percentile(us, quantile, row.operations)));
        }
        cells.push(went_wrong(row));
        table.row(cells);
    }
    table
}

/// The 99th percentile by rate, if a tier has several rates.
fn by_rate(all: &[ExperimentRows<'_>], tier: &str, ids: &ElementIds) -> Result<Markup, DrawError> {
    let runs: Vec<&ExperimentRows<'_>> =
        all.iter().filter(|run| run.rows.iter().all(|row| row.durability == tier)).collect();
    let mut figures = Vec::new();
    if runs.len() < 2 {
        return Ok(html! {});
    }
    let beside = runs.first().map_or("", |run| run.tier_suffix.as_str());
    for (kind, place) in KINDS {
        let here = |row: &&Row| row.op == "cycle" && row.kind == kind;
        let mut points: Vec<(f64, &ExperimentRows<'_>, &Row)> = Vec::new();
        for run in runs.iter().copied() {
            let due = |row: &Row| run.report.settings.rate.unwrap_or_default() * row.workers as f64;
            // Fewer workers at a higher rate are another question, even for the same total.
            let most = run.rows.iter().map(|row| row.workers).max().unwrap_or(0);
            let with_most = run.rows.iter().copied().filter(|row| row.workers == most);
            points.extend(with_most.filter(here).map(|row| (due(row), run, row)));
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if !points.is_empty() {
            let rows: Vec<&Row> = points.iter().map(|(.., row)| *row).collect();
            let due = |row: &Row| {
                let own = points.iter().find(|(.., other)| std::ptr::eq(*other, row));
                format!("{} a second due", count(own.map_or(0.0, |(due, ..)| *due)))
            };
            figures.push(html! {
                h3 { (place) ", by the rate of requests" (beside) }
                @let curves = curves(&points, &format!("{place}{beside}"));
                @if !curves.curves.is_empty() { figure { (curves.draw(ids)?) } }
                (wrong_ones(&rows, &due))
            });
        }
    }
    Ok(html! { @for figure in figures { (figure) } })
}

fn has_p99(row: &Row) -> bool {
    row.failed.is_none() && is_told(0.99, row.operations)
}

fn curves(points: &[(f64, &ExperimentRows<'_>, &Row)], place: &str) -> Curves {
    let titles = titles(&points.iter().map(|(.., row)| *row).collect::<Vec<&Row>>());
    let curve = |name: String| {
        let own = || points.iter().filter(|(.., row)| row.shown_title() == name);
        let number = own().next().map_or(0, |(_, run, row)| run.number(row));
        let sound = own().filter(|(.., row)| has_p99(row));
        let wrong = own().filter(|(.., row)| row.is_bad()).map(|(due, ..)| *due).collect();
        Curve {
            number,
            values: sound.map(|(due, _, row)| (*due, row.latency_us.p99)).collect(),
            wrong,
            name,
        }
    };
    let is_drawn = |curve: &Curve| !curve.values.is_empty() || !curve.wrong.is_empty();
    let rates: Vec<f64> = points.iter().map(|(due, ..)| *due).collect();
    Curves {
        words: ChartText {
            title: format!("The 99th percentile of latency by the rate of requests, {place}"),
            description: "A curve for each contender; its values are in the tables below."
                .to_owned(),
        },
        x: Axis::fitting("requests due a second, of all workers", &rates),
        y: Axis::logarithmic(
            "p99 from when a request was due",
            points.iter().filter(|(.., row)| has_p99(row)).map(|(.., row)| row.latency_us.p99),
            time,
        ),
        curves: titles.into_iter().map(curve).filter(is_drawn).collect(),
    }
}
