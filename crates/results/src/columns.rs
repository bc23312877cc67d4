//! Columns that several experiments have.

use crate::LatencyUs;
use crate::number::{count, figure, short};
use crate::table::{
    Column, TableCell, bad, known, measured, percentile, right, right_or_empty, text,
};

/// The title of a row; a star marks what is no store but a yardstick.
pub fn store<'a>() -> Column<'a> {
    known("store", |row| text(row.subject.marked_title()))
}

pub fn op<'a>(title: &str) -> Column<'a> {
    known(title, |row| text(&row.question.op))
}

pub fn workers<'a>() -> Column<'a> {
    known("workers", |row| right(row.question.workers))
}

pub fn sessions<'a>() -> Column<'a> {
    known("sessions", |row| right(count(row.question.sessions as f64)))
}

/// A size that stands for several is approximate.
pub fn payload<'a>() -> Column<'a> {
    known("payload", |row| {
        let about = if row.question.payload_spread == "fixed" { "" } else { "about " };
        right(format!("{about}{}", count(row.question.payload_bytes as f64)))
    })
}

pub fn rate<'a>() -> Column<'a> {
    measured("a second", |row| right(count(row.figures.ops_per_second.median)))
}

/// One round has no range.
pub fn range<'a>() -> Column<'a> {
    measured("low..high", |row| {
        let rate = row.figures.ops_per_second;
        let range = || format!("{}..{}", short(rate.low), short(rate.high));
        right_or_empty((row.figures.rounds > 1).then(range))
    })
}

pub fn percentiles<'a>() -> [Column<'a>; 3] {
    let column = |title: &str, quantile, of: fn(&LatencyUs) -> f64| {
        measured(title, move |row| {
            percentile(of(&row.figures.latency_us), quantile, row.figures.operations)
        })
    };
    [
        column("p50", 0.5, |it| it.p50),
        column("p99", 0.99, |it| it.p99),
        column("p99.9", 0.999, |it| it.p999),
    ]
}

/// Processor time of the store's server.
pub fn server_time<'a>() -> Column<'a> {
    measured("server \u{b5}s", |row| {
        match (row.subject.kind.as_str(), row.figures.cpu_us_per_op.of_server()) {
            ("socket", Some(server)) => right(figure(server)),
            ("socket", None) => text("not measured"),
            _ => TableCell::Empty,
        }
    })
}

pub fn bytes_each<'a>() -> Column<'a> {
    measured("bytes a session", |row| {
        let bytes = row.figures.bytes_per_session;
        right_or_empty((bytes > 0).then(|| count(bytes as f64)))
    })
}

/// A number of things that should not have happened.
pub fn fault_count(number: u64) -> TableCell {
    if number > 0 { bad(count(number as f64)) } else { right(0) }
}
