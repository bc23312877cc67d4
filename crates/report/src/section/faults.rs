//! The effect of killed workers and servers: a table of waits and losses for each kind of kill.
//!
//! Losses that the tier of a store allows are shown, but are not faults.

use maud::{Markup, html};
use sessile_results::statistics::Spread;
use sessile_results::tables::faults::{self, ALL, KILLS, SERVER};
use sessile_results::{Faults, Row};

use super::{each, length, spoilt};
use crate::chart::{Bar, BarLength, BarRow, Bars, ChartText};
use crate::ids::ElementIds;
use crate::runs::{ExperimentRows, PageReports};
use crate::table::draw;

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    html! {
        p {
            "Workers and servers are killed with SIGKILL: how long until a session can be used "
            "again, and which updates "
            "that the store had acknowledged are missing. A loss that the durability tier does not "
            "promise to "
            "prevent is a figure, not a failure. Where a lock ends with time, that time is set to "
            "what \"lock ends after\" says, and "
            "not to the store's default of a minute, or nobody would wait for the result: with the "
            "default the next one waits a minute. "
            "Power cuts and full disks are not part of it."
        }
        (each(runs, "faults", |run| {
            let kill = |(op, caption, waited)| kill(run, op, caption, waited, ids);
            html! { p { (spoilt(run.report)) } @for it in KILLS { (kill(it)) } }
        }))
    }
}

/// One kind of kill: the waits, if any, and all figures.
fn kill(
    run: &ExperimentRows<'_>,
    op: &str,
    caption: &str,
    waited: &str,
    ids: &ElementIds,
) -> Markup {
    let table = faults::table(&run.rows, op, caption, waited);
    let rows = run.only(|row| row.question.op == op);
    let title = format!("How long until {}{}", until(waited), run.tier_suffix);
    html! {
        @if !table.rows.is_empty() {
            h3 { (caption) (run.tier_suffix) }
            @if op == SERVER {
                (times(&rows, &title, ids))
            }
            (draw(table, ids))
        }
    }
}

fn until(waited: &str) -> &str {
    if waited == "works again" { "it works again" } else { waited }
}

/// The time of a contender in milliseconds, or the faults of kills without a time.
fn time(row: &Row) -> BarLength {
    let us = row.figures.latency_us;
    let stuck = row.faults.as_ref().map_or(0, |faults| faults.stuck);
    let wrong = row.faults.as_ref().map(Faults::in_words).filter(|words| !words.is_empty());
    if row.outcome.failed.is_none() && us.p50 <= 0.0 {
        return BarLength::Failed(if stuck > 0 { "never" } else { "not once" }.to_owned());
    }
    let stuck = (stuck > 0).then(|| format!("{stuck} locks stuck"));
    let ms = Spread { median: us.p50 / 1e3, low: us.min / 1e3, high: us.max / 1e3 };
    match length(row, ms) {
        BarLength::Value(ms, _) => BarLength::Value(ms, wrong.or(stuck)),
        failed => failed,
    }
}

/// The median time of each contender, in ascending order; those without one last.
fn times(rows: &[&Row], title: &str, ids: &ElementIds) -> Markup {
    let of_workers = rows.iter().all(|row| row.question.op != ALL);
    let mut rows: Vec<(&Row, BarLength)> = rows.iter().map(|row| (*row, time(row))).collect();
    let place = |length: &BarLength| match length {
        BarLength::Value(ms, _) => ms.median,
        BarLength::Failed(_) => f64::INFINITY,
    };
    rows.sort_by(|(_, a), (_, b)| place(a).total_cmp(&place(b)));
    let bar = |(row, length): &(&Row, BarLength)| {
        let bar = Bar { series: 0, name: row.question.durability.clone(), length: length.clone() };
        BarRow { name: row.subject.marked_title(), bars: vec![bar] }
    };
    let chart = Bars {
        words: ChartText {
            title: title.to_owned(),
            description:
                "A bar for each contender, the shortest time first; its values are in the \
                          table below."
                    .to_owned(),
        },
        unit: "milliseconds".to_owned(),
        series: "tier".to_owned(),
        rows: rows.iter().map(bar).collect(),
    };
    html! {
        figure {
            (chart.draw(ids))
            figcaption {
                "The thin line goes from the shortest to the longest time"
                @if of_workers { "; after one kill these are the times of its workers" }
                ". Further to the left is better."
            }
        }
    }
}
