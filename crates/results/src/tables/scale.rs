//! The table of `scale`: speed and space by the number of sessions.

use crate::columns::{bytes_each, op, payload, percentiles, rate, sessions, store, workers};
use crate::number::figure;
use crate::table::{Column, ResultTable, measured, right_or_empty};
use crate::{Row, WorkerMemory};

/// The reference row of the physical limit.
const LIMIT: &str = "limit";
const MIB: f64 = (1 << 20) as f64;

/// `x limit` is the time of an operation over that of `limit`, which says nothing about stores over
/// a socket.
pub fn table(rows: &[&Row], place: &str) -> ResultTable {
    let mut columns = vec![store()];
    let first = rows.first();
    let is_varied = |of: fn(&Row) -> (&str, usize)| {
        rows.iter().any(|row| first.is_some_and(|first| of(first) != of(row)))
    };
    columns.extend(is_varied(|row| (&row.question.op, 0)).then(|| op("operation")));
    columns.extend(is_varied(|row| ("", row.question.payload_bytes)).then(payload));
    columns.extend([sessions(), workers(), rate()]);
    columns.extend(percentiles());
    columns.extend([
        measured("x limit", |row| {
            right_or_empty(times_limit(row, rows).map(|times| format!("{times:.2}")))
        }),
        bytes_each(),
        memory("resident MiB", |memory| memory.resident),
        memory("page tables MiB", |memory| memory.page_tables),
    ]);
    let caption = format!(
        "{place}, more and more sessions: latency in \u{b5}s, space of a session and memory of all \
         workers"
    );
    ResultTable::of_rows(&caption, rows, columns)
}

/// Of all workers of a row together.
fn memory<'a>(title: &str, of: fn(WorkerMemory) -> u64) -> Column<'a> {
    measured(title, move |row| {
        right_or_empty(row.figures.memory.map(|memory| figure(of(memory) as f64 / MIB)))
    })
}

/// Time of an operation over that of `limit` under the same conditions.
fn times_limit(row: &Row, rows: &[&Row]) -> Option<f64> {
    let same =
        |other: &&&Row| other.subject.store == LIMIT && other.question.is_alike(&row.question);
    let limit = rows.iter().find(same).filter(|limit| limit.outcome.failed.is_none())?;
    let rate = row.figures.ops_per_second.median;
    (row.subject.store != LIMIT && row.subject.kind == limit.subject.kind && rate > 0.0)
        .then(|| limit.figures.ops_per_second.median / rate)
}
