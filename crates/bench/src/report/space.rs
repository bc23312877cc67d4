//! The table of space: what a session takes at the end of the run, beside its payload.

use std::fmt;

use comfy_table::Cell;

use crate::report::table::{empty, figure, grouped, right};
use crate::report::{Report, Row};

impl Report {
    pub(super) fn space(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown: Vec<(String, usize)> = Vec::new();
        let mut table = empty(&["store", "sessions", "payload", "bytes a session", "of the payload"]);
        for row in self.results.iter().filter(|row| row.bytes_per_session > 0 && weighs(row)) {
            let group = (row.title(), row.sessions);
            if shown.contains(&group) {
                continue;
            }
            table.add_row(vec![
                Cell::new(row.title()),
                right(grouped(row.sessions as f64)),
                right(grouped(row.payload_bytes as f64)),
                right(grouped(row.bytes_per_session as f64)),
                right(figure(row.bytes_per_session as f64 / row.payload_bytes.max(1) as f64)),
            ]);
            shown.push(group);
        }
        if shown.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nSpace at the end of the run: files and shared memory, or growth of the process\n{table}")
    }
}

/// `gc` ends with few sessions and `contention` has one: a figure a session would mislead.
fn weighs(row: &Row) -> bool {
    row.failed.is_none() && !matches!(row.experiment.as_str(), "gc" | "contention")
}
