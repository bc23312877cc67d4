//! The tables of `lifecycle`: requests a second by parallel requests, as published, and their cost.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::columns::{fault_count, server_time};
use crate::number::{count, figure, short};
use crate::php_handlers;
use crate::table::{
    Column, ResultTable, TableCell, bad, first_of_each, known, measured, percentile, right, text,
};
use crate::tables::visitors;
use crate::{Question, Row, Visitors};

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WebFigures {
    /// PHP processes.
    pub processes: usize,
    /// Requests with an incomplete answer, or one unlike the first.
    pub failed_requests: u64,
    /// Requests with a status other than 2xx.
    pub not_2xx: u64,
    /// Sessions at the end; `None` if the store cannot count them.
    pub sessions_kept: Option<u64>,
    /// CPU time of web server and PHP for a request, in microseconds.
    pub cpu_us_per_op: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow: Option<Overflow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visitors: Option<Visitors>,
}

/// Sessions created in a memory of fixed size until some were missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overflow {
    /// The size of the memory.
    pub megabytes: u64,
    /// The highest number of sessions counted.
    pub held: u64,
    /// Sessions created when some were missing.
    pub made: u64,
    /// Sessions missing then.
    pub lost: u64,
    /// Requests that failed on the way.
    pub failed_requests: u64,
}

impl Question {
    pub fn is_of_lifecycle(&self) -> bool {
        self.experiment == "lifecycle"
    }
}

/// The kernel counts the processor time of other processes in these.
const TICK_US: f64 = 10_000.0;
/// Fewer say little: each process is off by up to one of them.
const TICKS_MIN: f64 = 20.0;

pub fn tables(rows: &[&Row]) -> Vec<ResultTable> {
    let (pages, others): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.question.op.ends_with("page"));
    let full = ResultTable {
        notes: others.iter().filter_map(|row| overflow(row)).collect(),
        ..ResultTable::default()
    };
    vec![by_parallel(&pages), costs(&pages), visitors::table(&others), full]
}

/// A line for each handler, a column for each number of parallel requests.
pub fn by_parallel(rows: &[&Row]) -> ResultTable {
    let parallel: BTreeSet<usize> = rows.iter().map(|row| row.question.workers).collect();
    let mut columns = vec![known("handler", |row| text(row.subject.title())), lock()];
    columns.extend(parallel.into_iter().map(|workers| {
        known(format!("C={workers}"), move |row| {
            let same = |other: &&&Row| {
                other.question.workers == workers && other.subject.title() == row.subject.title()
            };
            rows.iter().find(same).map_or(TableCell::Empty, |row| rate(row))
        })
    }));
    let caption =
        "Requests a second by the number of parallel requests C: median (lowest to highest)";
    ResultTable::of_rows(caption, &first_of_each(rows), columns)
}

pub fn lock<'a>() -> Column<'a> {
    known("lock", |row| text(if php_handlers::locks(&row.subject.title()) { "yes" } else { "no" }))
}

/// A failed row is a result; a figure with faults shows them.
fn rate(row: &Row) -> TableCell {
    if row.outcome.failed.is_some() {
        return bad("failed");
    }
    let rate = row.figures.ops_per_second;
    let figure = match row.figures.rounds {
        1 => count(rate.median),
        _ => format!("{} ({} to {})", count(rate.median), short(rate.low), short(rate.high)),
    };
    match row.fault_counts() {
        Some(fault) => bad(format!("{figure}, {fault}")),
        None => right(figure),
    }
}

/// Percentiles are those of the median round. A row without a sample has cost nothing that is
/// known.
pub fn costs(rows: &[&Row]) -> ResultTable {
    let of_a_round = |row: &Row| row.figures.operations / row.figures.rounds.max(1) as u64;
    let web = |title: &str, of: fn(&Row, WebFigures) -> TableCell| {
        measured(title, move |row| {
            let figures = row.web.filter(|_| row.figures.rounds > 0);
            figures.map_or(TableCell::Empty, |web| of(row, web))
        })
    };
    let columns = vec![
        known("handler", |row| text(row.subject.title())),
        known("C", |row| right(row.question.workers)),
        measured("p50 in ms", move |row| {
            percentile(row.figures.latency_us.p50 / 1e3, 0.5, of_a_round(row))
        }),
        measured("p99 in ms", move |row| {
            percentile(row.figures.latency_us.p99 / 1e3, 0.99, of_a_round(row))
        }),
        measured("max in ms", |row| right(figure(row.figures.latency_us.max / 1e3))),
        web("web \u{b5}s", |row, web| {
            let too_short =
                web.cpu_us_per_op * (row.figures.operations as f64) < TICKS_MIN * TICK_US;
            if too_short { text("too short") } else { right(figure(web.cpu_us_per_op)) }
        }),
        server_time(),
        measured("client \u{b5}s", |row| right(figure(row.figures.cpu_us_per_op.client))),
        web("failed", |_, web| fault_count(web.failed_requests.max(web.not_2xx))),
        web("sessions kept", |_, web| {
            web.sessions_kept.map_or(text("cannot be counted"), |kept| right(count(kept as f64)))
        }),
    ];
    let caption = "Latency, processor time of a request (web server and PHP, the store's server, \
                   the client), and sessions that were there in the end";
    ResultTable::of_rows(caption, rows, columns)
}

/// The behaviour of a full memory. The number of sessions it held is as exact as the counts are
/// frequent.
pub fn overflow(row: &Row) -> Option<TableCell> {
    if row.question.op != "overflow" {
        return None;
    }
    let title = row.subject.title();
    let Some(overflow) = row.web.and_then(|web| web.overflow) else {
        let unknown = || "the result does not say what became of it".to_owned();
        let why = row.complaint().unwrap_or_else(unknown);
        return Some(bad(format!("{title} until it is full: {why}")));
    };
    let Overflow { megabytes, held, made, lost, failed_requests } = overflow;
    let step = made.saturating_sub(held);
    let steps = if step > 0 {
        let step = count(step as f64);
        format!(", in steps of {step}: it may have held up to so many more")
    } else {
        String::new()
    };
    let [held, made, lost] = [held, made, lost].map(|number| count(number as f64));
    Some(text(format!(
        "{title} with {megabytes} MB of shared memory held {held} sessions when they were \
         counted{steps}. Of {made} that had been made at the last count, {lost} were missing, and \
         {failed_requests} requests had failed."
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Spread;
    use crate::{Figures, Outcome, Subject};

    #[test]
    fn a_failed_combination_stands_in_its_column() {
        let row = |workers: usize, failed: Option<&str>| Row {
            question: Question {
                experiment: "lifecycle".into(),
                durability: "none".into(),
                workers,
                ..Question::default()
            },
            subject: Subject {
                store: "apcu".into(),
                variant: "default".into(),
                ..Subject::default()
            },
            figures: Figures {
                rounds: 3,
                ops_per_second: Spread { median: 1_234.0, low: 1_100.0, high: 1_300.0 },
                ..Figures::default()
            },
            outcome: Outcome { failed: failed.map(str::to_owned), ..Outcome::default() },
            ..Row::default()
        };
        let rows = [row(4, None), row(16, Some("3 requests failed"))];
        let cells = by_parallel(&rows.iter().collect::<Vec<&Row>>()).rows.remove(0).cells;
        assert_eq!(cells[2..], [right("1,234 (1,100 to 1,300)"), bad("failed")]);
    }

    /// A row without one sample had a latency of 0 ms and no failed request, and one whose site did
    /// not start was missing.
    #[test]
    fn what_failed_before_it_was_measured_has_cost_nothing_that_is_known() {
        let row = |variant: &str, rounds, web| Row {
            question: Question {
                experiment: "lifecycle".into(),
                workers: 4,
                ..Question::default()
            },
            subject: Subject {
                store: "apcu".into(),
                variant: variant.into(),
                ..Subject::default()
            },
            figures: Figures { rounds, ..Figures::default() },
            outcome: Outcome {
                failed: (rounds == 0).then(|| "the page does not answer".to_owned()),
                ..Outcome::default()
            },
            web,
            ..Row::default()
        };
        let web = Some(WebFigures { sessions_kept: Some(1_234), ..WebFigures::default() });
        let rows = [row("absent", 0, None), row("silent", 0, web), row("sound", 2, web)];
        let table = costs(&rows.iter().collect::<Vec<&Row>>());
        let words = |number: usize| {
            let cells = table.rows[number].cells.iter().map(TableCell::words);
            cells.filter(|words| !words.is_empty()).collect::<Vec<&str>>().join(" ")
        };
        assert_eq!([words(0), words(1)], ["apcu#absent 4 failed", "apcu#silent 4 failed"]);
        assert_eq!(words(2), "apcu#sound 4 0.00 too short 0.00 0 1,234");
    }
}
