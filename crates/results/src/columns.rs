//! Columns that several experiments have.

use crate::number::{count, figure, short};
use crate::table::{
    Column, TableCell, bad, known, measured, percentile, right, right_or_empty, text,
};

/// The title of a row; a star marks what is no store but a yardstick.
pub fn store<'a>() -> Column<'a> {
    known("store", |row| text(row.marked_title()))
}

pub fn op<'a>(title: &str) -> Column<'a> {
    known(title, |row| text(&row.op))
}

pub fn workers<'a>() -> Column<'a> {
    known("workers", |row| right(row.workers))
}

pub fn sessions<'a>() -> Column<'a> {
    known("sessions", |row| right(count(row.sessions as f64)))
}

/// A size that stands for several is approximate.
pub fn payload<'a>() -> Column<'a> {
    known("payload", |row| {
        let about = if row.payload_spread == "fixed" { "" } else { "about " };
        right(format!("{about}{}", count(row.payload_bytes as f64)))
    })
}

pub fn rate<'a>() -> Column<'a> {
    measured("a second", |row| right(count(row.ops_per_second.median)))
}

/// One round has no range.
pub fn range<'a>() -> Column<'a> {
    measured("low..high", |row| {
        let rate = row.ops_per_second;
        let range = || format!("{}..{}", short(rate.low), short(rate.high));
        right_or_empty((row.rounds > 1).then(range))
    })
}

pub fn percentiles<'a>() -> [Column<'a>; 3] {
    [
        measured("p50", |row| percentile(row.latency_us.p50, 0.5, row.operations)),
        measured("p99", |row| percentile(row.latency_us.p99, 0.99, row.operations)),
        measured("p99.9", |row| percentile(row.latency_us.p999, 0.999, row.operations)),
    ]
}

/// Processor time of the store's server.
pub fn server_time<'a>() -> Column<'a> {
    measured("server \u{b5}s", |row| match (row.kind.as_str(), row.cpu_us_per_op.of_server()) {
        ("socket", Some(server)) => right(figure(server)),
        ("socket", None) => text("not measured"),
        _ => TableCell::Empty,
    })
}

pub fn bytes_each<'a>() -> Column<'a> {
    measured("bytes a session", |row| {
        let is_known = row.bytes_per_session > 0;
        right_or_empty(is_known.then(|| count(row.bytes_per_session as f64)))
    })
}

/// A number of things that should not have happened.
pub fn fault_count(number: u64) -> TableCell {
    if number > 0 { bad(count(number as f64)) } else { right(0) }
}
