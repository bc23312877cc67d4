//! What it costs when workers and servers are killed: a table for each kind of kill, of what one waits for and what is lost.
//!
//! What the tier of a store does not promise is shown and is no fault; what it promises is.

use maud::{Markup, html};
use sessile_bench::report::{Faults, Promise, Row};

use super::{not_run, spoilt};
use crate::DrawError;
use crate::chart::{Bar, BarRow, Bars, Length, Words};
use crate::ids::Ids;
use crate::number::{count, time};
use crate::runs::{Run, Runs, marked};
use crate::table::{Cell, Table, right, text};

/// The rows of each table, what it shows, and the heading of what is waited for. What is waited for after the end of a server
/// and after that of all processes are different things, and never stand in one chart.
const KILLS: [(&str, &str, &str); 4] = [
    ("holder-killed", "A worker is killed while it holds a session", "the next one has it"),
    ("writer-killed", "Workers are killed while they write", ""),
    (
        "server-killed",
        "The server is killed and started again: from the kill to a worker's first update",
        "works again",
    ),
    (
        ALL,
        "All processes that have an embedded store open are killed: others open it, and make the first update",
        "works again",
    ),
];

/// The row of a store without a server.
const ALL: &str = "all-killed";

pub(super) fn body(runs: &Runs<'_>, ids: &Ids) -> Result<Markup, DrawError> {
    let measured = runs.by_tier("faults", |_| true);
    Ok(html! {
        p {
            "Workers and servers are killed with SIGKILL: how long until a session can be used again, and which updates "
            "that the store had acknowledged are missing. A loss that the durability tier does not promise to "
            "prevent is a figure, not a failure. Where a lock ends with time, that time is set to what \"lock ends after\" says, and "
            "not to the store's default of a minute, or nobody would wait for the result: with the default the next one waits a minute. "
            "Power cuts and full disks are not part of it."
        }
        @if measured.is_empty() { (not_run(runs, "faults")) }
        @for run in &measured {
            p { (spoilt(run.report)) }
            @for (op, caption, waited) in KILLS { (kill(run, op, caption, waited, ids)?) }
        }
    })
}

/// One kind of kill: how long one waits, where that is a question, and all figures.
fn kill(run: &Run<'_>, op: &str, caption: &str, waited: &str, ids: &Ids) -> Result<Markup, DrawError> {
    let table = table(run, op, caption, waited);
    let rows: Vec<&Row> = run.rows.iter().filter(|row| row.op == op).copied().collect();
    Ok(html! {
        @if !table.is_empty() {
            h3 { (caption) (run.beside) }
            @if op == ALL { (whose_times(&rows)) }
            @if !waited.is_empty() { (times(&rows, &format!("How long until {}{}", until(waited), run.beside), ids)?) }
            (table.draw(ids))
            @for row in &rows { (done_again(row)) }
        }
    })
}

/// Which time stands for a kill after which several open the store, of whom the first recovers it.
fn whose_times(rows: &[&Row]) -> Markup {
    let told: Vec<&Faults> = rows.iter().filter_map(|row| row.faults.as_ref()).collect();
    html! {
        @if told.iter().any(|faults| faults.slowest_of_each_kill) {
            p.conditions {
                "Each kill gives one time: to open the store and to make the first update, of the slowest of those who do. They open it one after the "
                "other; the first of them recovers it for all, and each may meet a lock of the dead."
            }
        }
        @if told.iter().any(|faults| !faults.slowest_of_each_kill) {
            p.conditions {
                "This result was made by an older version, whose median is over all who opened the store. Only the first of them recovered it, so look at "
                "the longest time here."
            }
        }
    }
}

/// What was done twice is no fault, and no secret. Where nobody counts it there is nothing to say.
fn done_again(row: &Row) -> Markup {
    let transactions = row.faults.as_ref().and_then(|faults| faults.restarted).unwrap_or(0);
    html! {
        @if transactions > 0 {
            p.conditions {
                (row.title()) ": " (count(transactions as f64)) " transactions were done again after a deadlock. Our own stores do that inside, where it is not counted."
            }
        }
    }
}

/// The heading of a column in a sentence.
fn until(waited: &str) -> &str {
    if waited == "works again" { "it works again" } else { waited }
}

/// The time of a contender in milliseconds, with what went wrong in the kills that have none.
fn length(row: &Row) -> Length {
    let us = row.latency_us;
    let stuck = row.faults.as_ref().map_or(0, |faults| faults.stuck);
    let wrong = row.faults.as_ref().map(Faults::in_words).filter(|words| !words.is_empty());
    if row.failed.is_some() {
        return Length::Failed("failed (see the warnings)".to_owned());
    }
    if us.p50 <= 0.0 {
        return Length::Failed(if stuck > 0 { "never" } else { "not once" }.to_owned());
    }
    let stuck = (stuck > 0).then(|| format!("{stuck} locks stuck"));
    Length::Value { median: us.p50 / 1e3, low: us.min / 1e3, high: us.max / 1e3, fault: wrong.or(stuck) }
}

/// The median time of each contender, the shortest first and those without one last.
fn times(rows: &[&Row], title: &str, ids: &Ids) -> Result<Markup, DrawError> {
    let of_workers = !rows.iter().filter_map(|row| row.faults.as_ref()).any(|faults| faults.slowest_of_each_kill);
    let mut rows: Vec<(&Row, Length)> = rows.iter().map(|row| (*row, length(row))).collect();
    let place = |length: &Length| match length {
        Length::Value { median, .. } => *median,
        Length::Failed(_) => f64::INFINITY,
    };
    rows.sort_by(|(_, a), (_, b)| place(a).total_cmp(&place(b)));
    let bar = |(row, length): &(&Row, Length)| {
        let bar = Bar { series: 0, name: row.durability.clone(), length: length.clone() };
        BarRow { name: marked(&row.shown_title()), bars: vec![bar] }
    };
    let chart = Bars {
        words: Words {
            title: title.to_owned(),
            description: "A bar for each contender, the shortest time first; its values are in the table below."
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

fn table(run: &Run<'_>, op: &str, caption: &str, waited: &str) -> Table {
    let mut columns = vec!["store", "tier", "kills"];
    let longest = format!("{waited}, longest");
    if !waited.is_empty() {
        columns.extend([waited, longest.as_str(), "lock ends after", "down", "refused"]);
    }
    columns.extend(["updates", "updates lost", "sessions lost", "promised", "outcome"]);
    let mut table = Table::new(format!("{caption}{}", run.beside), &columns);
    for row in run.rows.iter().filter(|row| row.op == op) {
        let mut cells = vec![text(marked(&row.shown_title())), text(&row.durability)];
        match &row.faults {
            Some(faults) => cells.extend(figures(row, faults, !waited.is_empty())),
            None => {
                cells.extend((3..columns.len()).map(|_| Cell::Empty));
                cells.push(Cell::Bad(row.failed.clone().unwrap_or_else(|| "failed".to_owned())));
            }
        }
        table.row(cells);
    }
    table
}

fn figures(row: &Row, faults: &Faults, waits: bool) -> Vec<Cell> {
    let mut cells = vec![right(count(faults.kills as f64))];
    if waits && faults.stuck < faults.kills && row.latency_us.p50 > 0.0 {
        cells.extend([right(time(row.latency_us.p50)), right(time(row.latency_us.max))]);
    } else if waits {
        cells.extend([text("never"), text("never")]);
    }
    if waits {
        let ttl = faults.lock_ttl_ms.map(|ms| right(time(ms as f64 * 1e3)));
        cells.push(ttl.unwrap_or(Cell::Empty));
        cells.push(faults.down_us.map_or(Cell::Empty, |us| right(time(us))));
        cells.push(right(count(faults.refused as f64)));
    }
    cells.extend([faults.acknowledged, faults.lost, faults.sessions_lost].map(|number| right(count(number as f64))));
    cells.push(text(match faults.promise {
        Promise::Everything => "all",
        Promise::AllButTheLastSecond => "all but 1 s",
        Promise::Nothing => "nothing",
    }));
    cells.push(match (faults.in_words(), faults.stuck) {
        (words, _) if !words.is_empty() => Cell::Bad(words),
        (_, stuck @ 1..) => text(format!("{stuck} locks stuck, as its lock is made")),
        _ => text("as promised"),
    });
    cells
}
