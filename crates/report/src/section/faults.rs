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

/// The rows of each table, what it shows, and the heading of what is waited for.
const KILLS: [(&[&str], &str, &str); 3] = [
    (&["holder-killed"], "A worker is killed while it holds a session", "the next one has it"),
    (&["writer-killed"], "Workers are killed while they write", ""),
    (
        &["server-killed", "all-killed"],
        "The server is killed and started again; of an embedded store all processes are killed",
        "works again",
    ),
];

pub(super) fn body(runs: &Runs<'_>, ids: &Ids) -> Result<Markup, DrawError> {
    let measured = runs.of_experiment("faults");
    Ok(html! {
        p {
            "Workers and servers are killed with SIGKILL: how long until a session can be used again, and which updates "
            "that the store had acknowledged are missing. A loss that the durability tier does not promise to "
            "prevent is a figure, not a failure. Power cuts and full disks are not part of it."
        }
        @if measured.is_empty() { (not_run(runs, "faults")) }
        @for run in &measured {
            p { (spoilt(run.report)) }
            @for (ops, caption, waited) in KILLS { (kill(run, ops, caption, waited, ids)?) }
        }
    })
}

/// One kind of kill: how long one waits, where that is a question, and all figures.
fn kill(run: &Run<'_>, ops: &[&str], caption: &str, waited: &str, ids: &Ids) -> Result<Markup, DrawError> {
    let table = table(run, ops, caption, waited);
    let rows: Vec<&Row> = run.rows.iter().filter(|row| ops.contains(&row.op.as_str())).copied().collect();
    Ok(html! {
        @if !table.is_empty() {
            h3 { (caption) }
            @if !waited.is_empty() { (times(&rows, &format!("How long until {}", until(waited)), ids)?) }
            (table.draw(ids))
        }
    })
}

/// The heading of a column in a sentence.
fn until(waited: &str) -> &str {
    if waited == "works again" { "it works again" } else { waited }
}

/// The median time of each contender, the shortest first.
fn times(rows: &[&Row], title: &str, ids: &Ids) -> Result<Markup, DrawError> {
    let mut rows = rows.to_vec();
    rows.sort_by(|a, b| a.latency_us.p50.total_cmp(&b.latency_us.p50));
    let bar = |row: &&Row| {
        let never = row.faults.as_ref().is_some_and(|faults| faults.kills > 0 && faults.stuck >= faults.kills);
        let ms = row.latency_us;
        let length = match (&row.failed, never) {
            (Some(_), _) => Length::Failed("failed (see the warnings)".to_owned()),
            (None, true) => Length::Failed("never".to_owned()),
            (None, false) => Length::Value { median: ms.p50 / 1e3, low: ms.min / 1e3, high: ms.max / 1e3, fault: None },
        };
        BarRow { name: marked(&row.title()), bars: vec![Bar { series: 0, name: row.durability.clone(), length }] }
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
            figcaption { "The thin line goes from the shortest to the longest time. Further to the left is better." }
        }
    })
}

fn table(run: &Run<'_>, ops: &[&str], caption: &str, waited: &str) -> Table {
    let mut columns = vec!["store", "tier", "kills"];
    let longest = format!("{waited}, longest");
    if !waited.is_empty() {
        columns.extend([waited, longest.as_str()]);
    }
    columns.extend(["updates", "updates lost", "sessions lost", "promised", "outcome"]);
    let mut table = Table::new(caption, &columns);
    for row in run.rows.iter().filter(|row| ops.contains(&row.op.as_str())) {
        let mut cells = vec![text(marked(&row.title())), text(&row.durability)];
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
    if waits && faults.stuck < faults.kills {
        cells.extend([right(time(row.latency_us.p50)), right(time(row.latency_us.max))]);
    } else if waits {
        cells.extend([text("never"), text("never")]);
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
