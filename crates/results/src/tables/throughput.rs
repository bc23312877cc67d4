//! The tables of operations a second, and of what they cost.

use crate::Row;
use crate::columns::{bytes_each, op, percentiles, range, rate, server_time, store, workers};
use crate::number::{count, figure};
use crate::table::{ResultTable, bad, known, measured, right, right_or_empty};
use crate::warnings::keeps_up;

/// At a fixed rate it says which stores fell behind: their latency is that of a queue.
pub fn table(rows: &[&Row], place: &str, due: Option<f64>) -> ResultTable {
    let mut columns = vec![store(), op("operation"), workers()];
    match due {
        None => columns.extend([rate(), range()]),
        Some(due) => columns.extend([
            known("due a second", move |row| right(count(due * row.question.workers as f64))),
            measured("done a second", move |row| {
                let done = count(row.figures.ops_per_second.median);
                if keeps_up(row, due) { right(done) } else { bad(format!("{done}, fell behind")) }
            }),
        ]),
    }
    columns.extend(percentiles());
    let from = if due.is_some() { " from when a request was due" } else { "" };
    ResultTable::of_rows(&format!("{place}: latency in \u{b5}s{from}"), rows, columns)
}

/// Space is all files and shared memory of a store, or by how much its process has grown. Of a
/// server that keeps sessions on its disk this is no multiple of the payload.
pub fn resources(rows: &[&Row], experiment: &str) -> ResultTable {
    let caption = format!("Processor time of an operation and space of a session ({experiment})");
    let columns = vec![
        store(),
        op("operation"),
        workers(),
        measured("worker \u{b5}s", |row| right(figure(row.figures.cpu_us_per_op.client))),
        server_time(),
        bytes_each(),
        measured("times the payload", |row| right_or_empty(row.times_payload().map(figure))),
    ];
    ResultTable::of_rows(&caption, rows, columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::text;
    use crate::{CpuUs, Figures, Subject};

    /// A server of the user's, whose process nobody has looked into, had taken 0 us.
    #[test]
    fn the_time_of_a_server_that_nobody_knows_is_not_measured() {
        let shown = |kind: &str, server| {
            let cpu_us_per_op = CpuUs { client: 12.5, server };
            let row = Row {
                subject: Subject { kind: kind.into(), ..Subject::default() },
                figures: Figures { cpu_us_per_op, ..Figures::default() },
                ..Row::default()
            };
            resources(&[&row], "cycle").rows[0].cells.last().cloned().unwrap()
        };
        assert_eq!(shown("socket", 7.5), right("7.50"));
        assert_eq!(shown("socket", 0.0), text("not measured"));
        assert_eq!(shown("embedded", 0.0), right("12.5"), "it has no server");
    }

    /// A server in another room stood beside one behind a unix socket as if they were equally far.
    #[test]
    fn a_way_over_tcp_is_told_from_one_over_a_unix_socket() {
        let urls = ["redis://<host>", "redis+unix:<path>", "redis+unix:<disk>/socket"];
        let rows = urls.map(|url| Row {
            subject: Subject {
                store: "redis".into(),
                variant: "default".into(),
                url: url.into(),
                kind: "socket".into(),
            },
            ..Row::default()
        });
        let table = table(&rows.iter().collect::<Vec<&Row>>(), "here", None);
        let far = table.rows.iter().filter(|row| row.cells[0] == text("redis (tcp)"));
        assert_eq!(far.count(), 1, "{table}");
    }
}
