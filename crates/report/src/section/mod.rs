//! The sections of the page, from top to bottom: at most ten, each a question. A section has parts,
//! one file each.
//!
//! A new part has a file and a line in [`all`]. This file owns their order, and the text for an
//! experiment that was not run.

mod contention;
mod faults;
mod features;
mod gc;
mod languages;
mod left_out;
mod lifecycle;
mod method;
mod oversize;
mod overview;
mod paced;
mod published;
mod rebuild;
mod resources;
mod scale;
mod throughput;
mod verdict;
mod warnings;
mod workloads;

use maud::{Markup, html};
use sessile_results::Row;
use sessile_results::number::with_noun;
use sessile_results::statistics::Spread;
use sessile_results::table::of_each;
use sessile_results::{Experiment, Report};

use crate::chart::{BarLength, Curve};
use crate::ids::ElementIds;
use crate::runs::{ExperimentRows, PageReports};

pub(crate) use overview::overview;

#[derive(Debug)]
pub(crate) struct Section {
    pub title: &'static str,
    pub parts: Vec<Part>,
}

/// What one link leads to.
#[derive(Debug)]
pub(crate) struct Part {
    pub id: &'static str,
    /// Empty if it is the whole section.
    pub title: &'static str,
    pub body: Markup,
}

pub(crate) fn all(runs: &PageReports<'_>, ids: &ElementIds) -> Vec<Section> {
    let part = |id, title, body| Part { id, title, body };
    let section = |title, parts| Section { title, parts };
    let mut requests = vec![
        part("cycle", "As fast as they can", throughput::cycle(runs, ids)),
        part("paced", "At a fixed rate of requests", paced::body(runs, ids)),
    ];
    requests.extend(workloads::body(runs, ids).map(|body| part("workloads", "Workloads", body)));
    vec![
        section("Which store for which site", vec![part("verdict", "", verdict::body(runs, ids))]),
        section(
            "What each store can do",
            vec![part("features", "", features::body(runs.stores, ids))],
        ),
        section("Locked requests", requests),
        section("Create, read and change", vec![part("ops", "", throughput::ops(runs, ids))]),
        section(
            "Pages and scripts",
            vec![
                part("lifecycle", "Pages of a web server a second", lifecycle::body(runs, ids)),
                part("rebuild", "A page that builds its cache", rebuild::body(runs, ids)),
                part("languages", "Sessions in each language", languages::body(runs, ids)),
            ],
        ),
        section("With and without garbage collection", vec![part("gc", "", gc::body(runs, ids))]),
        section(
            "Parallel requests on one session",
            vec![part("contention", "", contention::body(runs, ids))],
        ),
        section(
            "More and larger sessions",
            vec![
                part("scale", "More and more sessions", scale::body(runs, ids)),
                part("oversize", "Sessions of megabytes", oversize::body(runs, ids)),
                part("resources", "Processor time and space", resources::body(runs, ids)),
            ],
        ),
        section(
            "Workers and servers that are killed",
            vec![part("faults", "", faults::body(runs, ids))],
        ),
        section(
            "How it was measured",
            vec![
                part("warnings", "Before you believe a figure", warnings::body(runs, ids)),
                part("left-out", "Left out, and why", left_out::body(runs, ids)),
                part("method", "Machine and commands", method::body(runs, ids)),
            ],
        ),
    ]
}

fn not_run(runs: &PageReports<'_>, command: &str) -> Markup {
    let reason = runs.reason(command);
    html! {
        p.not-run {
            strong { "Not run" @if let Some(reason) = reason { ": " (reason) } "." }
            @if command.split(' ').next().and_then(Experiment::from_name).is_some() {
                " To measure it: " code { "sessile bench " (command) }
            }
        }
    }
}

/// The runs of an experiment by tier, or that there is none.
fn each<'a>(
    runs: &PageReports<'a>,
    experiment: &str,
    drawn: impl Fn(&ExperimentRows<'a>) -> Markup,
) -> Markup {
    let measured = runs.by_tier(experiment, |_| true);
    html! {
        @if measured.is_empty() { (not_run(runs, experiment)) }
        @for run in &measured { (drawn(run)) }
    }
}

fn conditions(run: &ExperimentRows<'_>) -> Markup {
    html! { p.conditions { (run.report.conditions(&run.rows)) "." (spoilt(run.report)) } }
}

/// Prose without line breaks inside a flag.
fn prose(text: &str) -> Markup {
    html! {
        @for (number, word) in text.split(' ').enumerate() {
            @if number > 0 { " " }
            @if word.starts_with('-') { span.whole { (word) } } @else { (word) }
        }
    }
}

/// Warnings that invalidate the figures of a report.
fn spoilt(report: &Report) -> Markup {
    html! {
        @if report.environment.build != "release" {
            " " strong.bad { "A debug build: the figures mean nothing." }
        }
        @if report.interrupted {
            " " strong.bad { "Interrupted: what was not measured to the end is missing." }
        }
    }
}

/// The faults of each row, below a chart; `which` distinguishes the rows of a contender.
fn wrong_ones(rows: &[&Row], which: &dyn Fn(&Row) -> String) -> Markup {
    let wrong: Vec<(&Row, String)> =
        rows.iter().filter_map(|row| Some((*row, row.complaint()?))).collect();
    html! {
        @if !wrong.is_empty() {
            p { (CROSS) }
            ul.notes {
                @for (row, why) in &wrong {
                    li {
                        strong { (row.subject.title()) ", " (which(row)) ": " }
                        strong.bad { (why) }
                    }
                }
            }
        }
    }
}

const CROSS: &str = "A cross means that something went wrong there; it stands at the foot of the \
                     chart where there is no figure.";

fn interval(report: &Report, rounds: usize) -> String {
    if rounds < 2 {
        return "One round has no interval.".to_owned();
    }
    format!(
        "The thin line goes from the slowest to the fastest of {}; the true median lies within \
         with a chance of {:.0} %.",
        with_noun(rounds, "round"),
        report.settings.confidence * 100.0
    )
}

/// A curve for each contender; a row without a `y` has no point.
fn curves(
    run: &ExperimentRows<'_>,
    rows: &[&Row],
    x: &dyn Fn(&Row) -> f64,
    y: &dyn Fn(&Row) -> Option<f64>,
) -> Vec<Curve> {
    let curve = |rows: Vec<&Row>| {
        let at = |row: &&Row| Some((x(row), y(row)?));
        let mut values: Vec<(f64, f64)> = rows.iter().filter_map(at).collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let wrong = rows.iter().filter(|row| row.is_bad()).map(|row| x(row)).collect();
        let name = rows.first().map(|row| row.subject.shown_title()).unwrap_or_default();
        let number = rows.first().map_or(0, |row| run.number(row));
        Curve { name, number, values, wrong }
    };
    let is_drawn = |curve: &Curve| !curve.values.is_empty() || !curve.wrong.is_empty();
    of_each(rows).into_iter().map(curve).filter(is_drawn).collect()
}

/// A figure of a row, or that it failed.
fn length(row: &Row, figure: Spread) -> BarLength {
    match &row.outcome.failed {
        Some(_) => BarLength::Failed("failed (see the warnings)".to_owned()),
        None => BarLength::Value(figure, row.fault_counts()),
    }
}

/// The speed of a row that has one.
fn speed(row: &Row) -> Option<f64> {
    row.outcome.failed.is_none().then_some(row.figures.ops_per_second.median)
}

const CURVES: &str = "A curve for each contender; its values are in the table below.";
