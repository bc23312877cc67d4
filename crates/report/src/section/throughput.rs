//! Operations per second: bars with the intervals of their rounds; embedded stores, stores over a
//! socket and durability tiers apart.

use maud::{Markup, html};
use sessile_results::grouping::distinct;
use sessile_results::table::of_each;
use sessile_results::tables::throughput;
use sessile_results::{KINDS, Row};

use super::{conditions, interval, length, not_run, published};
use crate::chart::{Bar, BarRow, Bars, ChartText};
use crate::ids::ElementIds;
use crate::runs::{ExperimentRows, MARK, PageReports, most_rounds, most_workers};
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
    let ops = distinct(run.rows.iter().map(|row| row.question.op.clone()));
    let most = most_workers(&run.rows);
    let rows = |kind: &str, tier: &str| {
        let is_shown = |row: &Row| ops.len() == 1 || row.question.workers == most;
        run.only(|row| row.subject.kind == kind && row.question.durability == tier && is_shown(row))
    };
    html! {
        (conditions(run))
        @for (kind, place) in KINDS {
            @for tier in run.distinct(|row| row.question.durability.clone()) {
                @let rows = rows(kind, &tier);
                @if !rows.is_empty() {
                    h3 { (place) ", tier " (tier) }
                    @let in_title = format!("{}, tier {tier}", small(place));
                    @if chart { (figure_of(run, &rows, &ops, &in_title, ids)) }
                    (folded(throughput::table(&ranked(&rows).concat(), place, None), ids))
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
    let workers = run.distinct(|row| row.question.workers);
    let rounds = most_rounds(rows);
    let what = noun(ops);
    let series = if ops.len() == 1 { "workers" } else { "operation" };
    let series_of = |row: &Row| match ops {
        [_] => (
            workers.iter().position(|it| *it == row.question.workers),
            row.question.workers.to_string(),
        ),
        _ => (ops.iter().position(|it| *it == row.question.op), row.question.op.clone()),
    };
    let bars = |own: &Vec<&Row>| {
        let name = own.first().map(|row| row.subject.marked_title()).unwrap_or_default();
        let bar = |row: &&Row| {
            let (series, name) = series_of(row);
            let length = length(row, row.figures.ops_per_second);
            Bar { series: series.unwrap_or(0) as u8, name, length }
        };
        BarRow { name, bars: own.iter().map(bar).collect() }
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
        rows: ranked(rows).iter().map(bars).collect(),
    };
    html! {
        figure {
            (bars.draw(ids))
            figcaption { (interval(run.report, rounds)) " Further to the right is better. " (MARK) }
        }
    }
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

/// The rows of each contender by its largest figure, fastest first; those without one last.
fn ranked<'a>(rows: &[&'a Row]) -> Vec<Vec<&'a Row>> {
    let best = |rows: &Vec<&Row>| {
        let sound = rows.iter().filter(|row| row.outcome.failed.is_none());
        sound.map(|row| row.figures.ops_per_second.median).fold(-1.0, f64::max)
    };
    let mut contenders = of_each(rows);
    contenders.sort_by(|a, b| best(b).total_cmp(&best(a)));
    contenders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::BarLength;
    use sessile_results::statistics::Spread;
    use sessile_results::{Figures, Outcome, Subject};

    #[test]
    fn the_fastest_comes_first_and_what_failed_stays() {
        let row = |store: &str, median: f64, failed: Option<&str>| Row {
            subject: Subject {
                store: store.into(),
                variant: "default".into(),
                ..Subject::default()
            },
            figures: Figures {
                ops_per_second: Spread { median, low: median, high: median },
                ..Figures::default()
            },
            outcome: Outcome { failed: failed.map(str::to_owned), ..Outcome::default() },
            ..Row::default()
        };
        let rows =
            [row("slow", 10.0, None), row("dead", 99.0, Some("it died")), row("fast", 50.0, None)];
        let rows: Vec<&Row> = rows.iter().collect();
        let titles: Vec<String> =
            ranked(&rows).concat().iter().map(|row| row.subject.title()).collect();
        assert_eq!(titles, ["fast", "slow", "dead"]);
        assert!(matches!(length(rows[1], rows[1].figures.ops_per_second), BarLength::Failed(_)));
    }
}
