//! Operations per second: bars with the intervals of their rounds; embedded stores, stores over a
//! socket and durability tiers apart.

use maud::{Markup, html};
use sessile_results::grouping::distinct;
use sessile_results::table::ResultTable;
use sessile_results::tables::throughput;
use sessile_results::{KINDS, Row};

use super::{conditions, interval, not_run, published};
use crate::chart::{Bar, BarLength, BarRow, Bars, ChartText};
use crate::ids::ElementIds;
use crate::runs::{ExperimentRows, MARK, PageReports, most_rounds, most_workers, titles};
use crate::table::folded;

/// `cycle` in a closed loop.
pub(super) fn cycle(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let closed: Vec<ExperimentRows<'_>> = runs
        .of_experiment("cycle")
        .into_iter()
        .filter(|run| run.report.settings.rate.is_none())
        .collect();
    html! {
        p {
            "One cycle is what one request does: take the session's lock, read it, change it, "
            "write it back. This is the figure that "
            "matters for an application."
        }
        @if closed.is_empty() { (not_run(runs, "cycle")) }
        @for (number, run) in closed.iter().enumerate() { (drawn(run, number == 0, ids)) }
    }
}

pub(super) fn ops(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let (as_published, corrected): (Vec<ExperimentRows<'_>>, Vec<ExperimentRows<'_>>) =
        runs.of_experiment("ops").into_iter().partition(|run| run.report.settings.as_published);
    html! {
        p {
            "Each operation on its own, on sessions of 1,500 random characters unless said "
            "otherwise. A change is a locked read and "
            "write, because an unlocked one loses updates."
        }
        @if corrected.is_empty() { (not_run(runs, "ops")) }
        @for run in &corrected { (of_run(run, ids)) }
        (published::body(runs, &corrected, &as_published, ids))
    }
}

pub(super) fn of_run(run: &ExperimentRows<'_>, ids: &ElementIds) -> Markup {
    drawn(run, true, ids)
}

/// A chart, unless a table is enough, and a table for each way to the store and tier. Several
/// operations are bars of one chart, with the most workers; one operation has a bar for each number
/// of workers.
fn drawn(run: &ExperimentRows<'_>, chart: bool, ids: &ElementIds) -> Markup {
    let ops = distinct(run.rows.iter().map(|row| row.op.clone()));
    let most = most_workers(&run.rows);
    let rows = |kind: &str, tier: &str| {
        let is_shown = |row: &Row| ops.len() == 1 || row.workers == most;
        run.only(|row| row.kind == kind && row.durability == tier && is_shown(row))
    };
    html! {
        (conditions(run))
        @for (kind, place) in KINDS {
            @for tier in run.distinct(|row| row.durability.clone()) {
                @let rows = rows(kind, &tier);
                @if !rows.is_empty() {
                    h3 { (place) ", tier " (tier) }
                    @let in_title = format!("{}, tier {tier}", small(place));
                    @if chart { (figure_of(run, &rows, &ops, &in_title, ids)) }
                    (folded(table(&ranked(&rows), &rows, place), ids))
                }
            }
        }
    }
}

pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Lower case, for the middle of a heading.
pub(super) fn small(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}

fn figure_of(
    run: &ExperimentRows<'_>,
    rows: &[&Row],
    ops: &[String],
    place: &str,
    ids: &ElementIds,
) -> Markup {
    let workers = run.distinct(|row| row.workers);
    let rounds = most_rounds(rows);
    let ranked = ranked(rows);
    let what = noun(ops);
    let series = if ops.len() == 1 { "workers" } else { "operation" };
    let series_of = |row: &Row| match ops {
        [_] => (workers.iter().position(|it| *it == row.workers), row.workers.to_string()),
        _ => (ops.iter().position(|it| *it == row.op), row.op.clone()),
    };
    let bars = |title: &String| {
        let own = rows.iter().filter(|row| row.shown_title() == *title);
        let bar = |row: &&Row| {
            let (series, name) = series_of(row);
            Bar { series: series.unwrap_or(0) as u8, name, length: length(row) }
        };
        BarRow { name: marked(title, rows), bars: own.map(bar).collect() }
    };
    let bars = Bars {
        words: ChartText {
            title: format!("{what} a second, {place}"),
            description: format!(
                "A bar for each contender and {}{}; its values are in the table below.",
                if ops.len() == 1 { "number of workers" } else { "operation" },
                in_order(rounds, "contender")
            ),
        },
        unit: format!("{} a second", small(&what)),
        series: series.to_owned(),
        rows: ranked.iter().map(bars).collect(),
    };
    html! {
        figure {
            (bars.draw(ids))
            figcaption { (interval(run.report, rounds)) " Further to the right is better. " (MARK) }
        }
    }
}

fn marked(title: &str, rows: &[&Row]) -> String {
    let own = rows.iter().find(|row| row.shown_title() == title);
    own.map_or_else(|| title.to_owned(), |row| row.marked_title())
}

/// One round ranks nothing, though its bars are sorted.
pub(super) fn in_order(rounds: usize, what: &str) -> String {
    if rounds > 1 { format!(", the fastest {what} first") } else { String::new() }
}

fn noun(ops: &[String]) -> String {
    match ops {
        [op] => format!("{}s", capital(op)),
        _ => "Operations".to_owned(),
    }
}

/// Titles by their largest figure, fastest first; those without one last.
fn ranked(rows: &[&Row]) -> Vec<String> {
    let best = |title: &String| {
        let own = rows.iter().filter(|row| row.shown_title() == *title && row.failed.is_none());
        own.map(|row| row.ops_per_second.median).fold(-1.0, f64::max)
    };
    let mut titles = titles(rows);
    titles.sort_by(|a, b| best(b).total_cmp(&best(a)));
    titles
}

/// A failure replaces the bar of its row.
pub(super) fn length(row: &Row) -> BarLength {
    match &row.failed {
        Some(_) => BarLength::Failed("failed (see the warnings)".to_owned()),
        None => {
            let rate = row.ops_per_second;
            BarLength::Value {
                median: rate.median,
                low: rate.low,
                high: rate.high,
                fault: row.fault_counts(),
            }
        }
    }
}

/// The rows in the order of the chart.
fn table(ranked: &[String], rows: &[&Row], place: &str) -> ResultTable {
    let of_title = |title: &String| {
        let title = title.clone();
        rows.iter().copied().filter(move |row| row.shown_title() == title)
    };
    let rows: Vec<&Row> = ranked.iter().flat_map(of_title).collect();
    throughput::table(&rows, place, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessile_results::statistics::Spread;

    #[test]
    fn the_fastest_comes_first_and_what_failed_stays() {
        let row = |store: &str, median: f64, failed: Option<&str>| Row {
            store: store.into(),
            variant: "default".into(),
            ops_per_second: Spread { median, low: median, high: median },
            failed: failed.map(str::to_owned),
            ..Row::default()
        };
        let rows =
            [row("slow", 10.0, None), row("dead", 99.0, Some("it died")), row("fast", 50.0, None)];
        let rows: Vec<&Row> = rows.iter().collect();
        assert_eq!(ranked(&rows), ["fast", "slow", "dead"]);
        assert!(matches!(length(rows[1]), BarLength::Failed(_)));
    }
}
