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
mod perl;
mod published;
mod rebuild;
mod resources;
mod scale;
mod throughput;
mod verdict;
mod warnings;
mod workloads;

use maud::{Markup, html};
use sessile_bench::report::Row;
use sessile_bench::{Experiment, Report};

use crate::DrawError;
use crate::ids::ElementIds;
use crate::number::{count, with_noun};
use crate::runs::{ExperimentRows, PageReports, complaint};
use crate::table::{TableCell, text};

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

pub(crate) fn all(runs: &PageReports<'_>, ids: &ElementIds) -> Result<Vec<Section>, DrawError> {
    let part = |id, title, body| Part { id, title, body };
    let section = |title, parts| Section { title, parts };
    let mut requests = vec![
        part("cycle", "As fast as they can", throughput::cycle(runs, ids)?),
        part("paced", "At a fixed rate of requests", paced::body(runs, ids)?),
    ];
    requests.extend(workloads::body(runs, ids)?.map(|body| part("workloads", "Workloads", body)));
    Ok(vec![
        section("Which store for which site", vec![part("verdict", "", verdict::body(runs, ids))]),
        section("What each store can do", vec![part("features", "", features::body(ids))]),
        section("Locked requests", requests),
        section("Create, read and change", vec![part("ops", "", throughput::ops(runs, ids)?)]),
        section(
            "Pages and scripts",
            vec![
                part("lifecycle", "Pages of a web server a second", lifecycle::body(runs, ids)?),
                part("rebuild", "A page that builds its cache", rebuild::body(runs, ids)),
                part("perl", "Sessions in Perl", perl::body(runs, ids)),
                part("languages", "Frameworks of other languages", languages::body(runs, ids)),
            ],
        ),
        section("With and without garbage collection", vec![part("gc", "", gc::body(runs, ids)?)]),
        section(
            "Parallel requests on one session",
            vec![part("contention", "", contention::body(runs, ids)?)],
        ),
        section(
            "More and larger sessions",
            vec![
                part("scale", "More and more sessions", scale::body(runs, ids)?),
                part("oversize", "Sessions of megabytes", oversize::body(runs, ids)),
                part("resources", "Processor time and space", resources::body(runs, ids)),
            ],
        ),
        section(
            "Workers and servers that are killed",
            vec![part("faults", "", faults::body(runs, ids)?)],
        ),
        section(
            "How it was measured",
            vec![
                part("warnings", "Before you believe a figure", warnings::body(runs, ids)),
                part("left-out", "Left out, and why", left_out::body(runs, ids)),
                part("method", "Machine and commands", method::body(runs, ids)),
            ],
        ),
    ])
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

fn conditions(run: &ExperimentRows<'_>) -> Markup {
    let settings = &run.report.settings;
    let mut said = Vec::new();
    let sessions = run.distinct(|row| row.sessions);
    if let ([first, ..], Some(last)) = (sessions.as_slice(), sessions.last()) {
        let many = if first == last {
            with_noun(*first, "session")
        } else {
            format!("{} to {} sessions", count(*first as f64), count(*last as f64))
        };
        let payloads = run.distinct(|row| row.payload_bytes);
        let bytes = payloads
            .last()
            .filter(|_| payloads.len() == 1)
            .map(|bytes| format!(" of {} bytes", count(*bytes as f64)));
        said.push(format!("{many}{}", bytes.unwrap_or_default()));
    }
    if settings.churn > 0 {
        said.push(format!("rewritten {} times before", settings.churn));
    }
    let rounds = run.rows.iter().map(|row| row.rounds).max().unwrap_or(0);
    let seconds =
        if settings.seconds > 0.0 { format!(" of {} s", settings.seconds) } else { String::new() };
    said.push(format!("{}{seconds}", with_noun(rounds, "round")));
    if let Some(us) = settings.round_trip_us {
        said.push(format!("servers {us:.0} \u{b5}s away"));
    }
    said.extend(run.tier().map(|tier| format!("tier {tier}")));
    html! { p.conditions { (said.join(", ")) "." (spoilt(run.report)) } }
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

fn went_wrong(row: &Row) -> TableCell {
    complaint(row).map_or_else(|| text("nothing"), TableCell::Bad)
}

/// The faults of each row, below a chart; `which` distinguishes the rows of a contender.
fn wrong_ones(rows: &[&Row], which: &dyn Fn(&Row) -> String) -> Markup {
    let wrong: Vec<(&Row, String)> =
        rows.iter().filter_map(|row| Some((*row, complaint(row)?))).collect();
    html! {
        @if !wrong.is_empty() {
            p { (CROSS) }
            ul.notes {
                @for (row, why) in &wrong {
                    li { strong { (row.title()) ", " (which(row)) ": " } strong.bad { (why) } }
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

/// The headings of the two tables, which are not comparable.
const KINDS: [(&str, &str); 2] =
    [("embedded", "Inside the application's process"), ("socket", "Over a socket")];
