//! The effect of killed workers and servers: a table of waits and losses for each kind of kill.
//!
//! Losses that the tier of a store allows are shown, but are not faults.

use maud::{Markup, html};
use sessile_bench::report::{DurabilityPromise, Faults, Row};

use super::{not_run, spoilt};
use crate::DrawError;
use crate::chart::{Bar, BarLength, BarRow, Bars, ChartText};
use crate::ids::ElementIds;
use crate::number::{count, time};
use crate::runs::{ExperimentRows, PageReports, marked};
use crate::table::{HtmlTable, TableCell, right, text};

/// The rows of each table, its title, and the heading of the wait. The waits after the end of a
/// server and after the end of all processes are different and never share a chart.
const KILLS: [(&str, &str, &str); 4] = [
    ("holder-killed", "A worker is killed while it holds a session", "the next one has it"),
    ("writer-killed", "Workers are killed while they write", ""),
    (
        SERVER,
        "The server is killed and started again: from the kill to a worker's first update",
        "works again",
    ),
    (
        ALL,
        "All processes that have an embedded store open are killed: others open it, and make the \
         first update",
        "works again",
    ),
];

const SERVER: &str = "server-killed";
/// The row of a store without a server.
const ALL: &str = "all-killed";

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let measured = runs.by_tier("faults", |_| true);
    Ok(html! {
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
        @if measured.is_empty() { (not_run(runs, "faults")) }
        @for run in &measured {
            p { (spoilt(run.report)) }
            @for (op, caption, waited) in KILLS { (kill(run, op, caption, waited, ids)?) }
        }
    })
}

/// One kind of kill: the waits, if any, and all figures.
fn kill(
    run: &ExperimentRows<'_>,
    op: &str,
    caption: &str,
    waited: &str,
    ids: &ElementIds,
) -> Result<Markup, DrawError> {
    let table = table(run, op, caption, waited);
    let rows: Vec<&Row> = run.rows.iter().filter(|row| row.op == op).copied().collect();
    let title = format!("How long until {}{}", until(waited), run.tier_suffix);
    Ok(html! {
        @if !table.is_empty() {
            h3 { (caption) (run.tier_suffix) }
            @if op == ALL { p.conditions { (WHOSE_TIME) } }
            @if op == SERVER {
                (times(&rows, &title, ids)?)
            }
            (table.draw(ids))
            @for row in &rows { (done_again(row)) }
        }
    })
}

/// Several processes open the store, and the first one recovers it.
const WHOSE_TIME: &str = "Each kill gives one time: to open the store and to make the first \
                          update, of the slowest of those who do. They open it one after the \
                          other; the first of them recovers it for all, and each may meet a lock \
                          of the dead.";

/// Updates that were applied twice are no fault, but are shown if counted.
fn done_again(row: &Row) -> Markup {
    let transactions = row.faults.as_ref().and_then(|faults| faults.restarted).unwrap_or(0);
    html! {
        @if transactions > 0 {
            p.conditions {
                (row.title()) ": " (count(transactions as f64)) " transactions were done again "
                "after a deadlock. Our own stores do that inside, where it is not counted."
            }
        }
    }
}

fn until(waited: &str) -> &str {
    if waited == "works again" { "it works again" } else { waited }
}

/// The time of a contender in milliseconds, or the faults of kills without a time.
fn length(row: &Row) -> BarLength {
    let us = row.latency_us;
    let stuck = row.faults.as_ref().map_or(0, |faults| faults.stuck);
    let wrong = row.faults.as_ref().map(Faults::in_words).filter(|words| !words.is_empty());
    if row.failed.is_some() {
        return BarLength::Failed("failed (see the warnings)".to_owned());
    }
    if us.p50 <= 0.0 {
        return BarLength::Failed(if stuck > 0 { "never" } else { "not once" }.to_owned());
    }
    let stuck = (stuck > 0).then(|| format!("{stuck} locks stuck"));
    BarLength::Value {
        median: us.p50 / 1e3,
        low: us.min / 1e3,
        high: us.max / 1e3,
        fault: wrong.or(stuck),
    }
}

/// The median time of each contender, in ascending order; those without one last.
fn times(rows: &[&Row], title: &str, ids: &ElementIds) -> Result<Markup, DrawError> {
    let of_workers = rows.iter().all(|row| row.op != ALL);
    let mut rows: Vec<(&Row, BarLength)> = rows.iter().map(|row| (*row, length(row))).collect();
    let place = |length: &BarLength| match length {
        BarLength::Value { median, .. } => *median,
        BarLength::Failed(_) => f64::INFINITY,
    };
    rows.sort_by(|(_, a), (_, b)| place(a).total_cmp(&place(b)));
    let bar = |(row, length): &(&Row, BarLength)| {
        let bar = Bar { series: 0, name: row.durability.clone(), length: length.clone() };
        BarRow { name: marked(&row.shown_title()), bars: vec![bar] }
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
    Ok(html! {
        figure {
            (chart.draw(ids)?)
            figcaption {
                "The thin line goes from the shortest to the longest time"
                @if of_workers { "; after one kill these are the times of its workers" }
                ". Further to the left is better."
            }
        }
    })
}

fn table(run: &ExperimentRows<'_>, op: &str, caption: &str, waited: &str) -> HtmlTable {
    let mut columns = vec!["store", "tier", "kills"];
    let longest = format!("{waited}, longest");
    if !waited.is_empty() {
        columns.extend([waited, longest.as_str(), "lock ends after", "down", "refused"]);
    }
    columns.extend(["updates", "updates lost", "sessions lost", "promised", "outcome"]);
    let mut table = HtmlTable::new(format!("{caption}{}", run.tier_suffix), &columns);
    for row in run.rows.iter().filter(|row| row.op == op) {
        let mut cells = vec![text(marked(&row.shown_title())), text(&row.durability)];
        match &row.faults {
            Some(faults) => cells.extend(figures(row, faults, !waited.is_empty())),
            None => {
                cells.extend((3..columns.len()).map(|_| TableCell::Empty));
                cells.push(TableCell::Bad(
                    row.failed.clone().unwrap_or_else(|| "failed".to_owned()),
                ));
            }
        }
        table.row(cells);
    }
    table
}

fn figures(row: &Row, faults: &Faults, waits: bool) -> Vec<TableCell> {
    let mut cells = vec![right(count(faults.kills as f64))];
    if waits && faults.stuck < faults.kills && row.latency_us.p50 > 0.0 {
        cells.extend([right(time(row.latency_us.p50)), right(time(row.latency_us.max))]);
    } else if waits {
        cells.extend([text("never"), text("never")]);
    }
    if waits {
        let ttl = faults.lock_ttl_ms.map(|ms| right(time(ms as f64 * 1e3)));
        cells.push(ttl.unwrap_or(TableCell::Empty));
        cells.push(faults.down_us.map_or(TableCell::Empty, |us| right(time(us))));
        cells.push(right(count(faults.refused as f64)));
    }
    cells.extend(
        [faults.acknowledged, faults.lost, faults.sessions_lost]
            .map(|number| right(count(number as f64))),
    );
    cells.push(text(match faults.promise {
        DurabilityPromise::Everything => "all",
        DurabilityPromise::AllButTheLastSecond => "all but 1 s",
        DurabilityPromise::Nothing => "nothing",
    }));
    cells.push(match (faults.in_words(), faults.stuck) {
        (words, _) if !words.is_empty() => TableCell::Bad(words),
        (_, stuck @ 1..) => text(format!("{stuck} locks stuck, as its lock is made")),
        _ => text("as promised"),
    });
    cells
}
