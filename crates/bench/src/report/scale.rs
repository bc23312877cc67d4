//! The table of `scale`: speed and space by the number of sessions.

use crate::report::Row;
use crate::report::columns::{
    bytes_each, op, payload, percentiles, rate, sessions, store, workers,
};
use crate::report::number::figure;
use crate::report::table::{ResultTable, measured, right_or_empty};

/// The reference row of the physical limit.
const LIMIT: &str = "limit";
const MIB: f64 = (1 << 20) as f64;

/// `x limit` is the time of an operation over that of `limit`, which says nothing about stores over
/// a socket.
pub fn table(rows: &[&Row], place: &str) -> ResultTable {
    let mut columns = vec![store(), op("operation"), payload(), sessions(), workers(), rate()];
    columns.extend(percentiles());
    columns.extend([
        measured("x limit", |row| {
            right_or_empty(times_limit(row, rows).map(|times| format!("{times:.2}")))
        }),
        bytes_each(),
        measured("resident MiB", |row| {
            right_or_empty(row.memory.map(|memory| figure(memory.resident as f64 / MIB)))
        }),
    ]);
    let caption = format!(
        "{place}, more and more sessions: latency in \u{b5}s, space of a session and memory of all \
         workers"
    );
    ResultTable::of_rows(&caption, rows, columns)
}

/// Time of an operation over that of `limit` under the same conditions.
fn times_limit(row: &Row, rows: &[&Row]) -> Option<f64> {
    let same = |other: &&&Row| {
        other.store == LIMIT
            && (&other.op, other.sessions, &other.payload_spread, other.workers)
                == (&row.op, row.sessions, &row.payload_spread, row.workers)
    };
    let limit = rows.iter().find(same).filter(|limit| limit.failed.is_none())?;
    (row.store != LIMIT && row.kind == limit.kind && row.ops_per_second.median > 0.0)
        .then(|| limit.ops_per_second.median / row.ops_per_second.median)
}
