//! The table of visitors for whom a session is started: what they left in the store with lazy start and without it.

use std::fmt;

use comfy_table::Cell;
use serde::{Deserialize, Serialize};

use crate::report::table::{empty, figure, grouped, right};
use crate::report::{Report, Row};

/// What came of visitors, in all rounds together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visitors {
    /// How many there were, each with a request that starts a new session.
    pub visitors: u64,
    /// So many of them put something into it.
    pub storing: u64,
    /// Whether an empty new session is left out; `None` for a handler that has no such rule.
    pub lazy_start: Option<bool>,
    /// Records that came to the store; `None` where it cannot be counted.
    pub records: Option<u64>,
    /// Cookies that were sent.
    pub cookies: u64,
    /// By how much the directory of the sessions, or the memory of a Redis server, has grown.
    pub grown_bytes: Option<u64>,
    /// What a Redis server counts by itself.
    pub server: Option<ServerWork>,
}

/// What a server had to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerWork {
    /// Changes of its data, those for locks too.
    pub changes: u64,
    /// Bytes that it was sent.
    pub received_bytes: u64,
    /// By how much its memory has grown.
    pub grown_bytes: u64,
}

impl Row {
    /// It has visitors, and what they left.
    pub fn visitors(&self) -> Option<&Visitors> {
        self.web.as_ref()?.visitors.as_ref()
    }
}

impl Report {
    pub(super) fn visitors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<(&Row, &Visitors)> = self
            .results
            .iter()
            .filter_map(|row| Some((row, row.visitors()?)))
            .filter(|(_, it)| it.visitors > 0)
            .collect();
        let Some((_, first)) = rows.first() else { return Ok(()) };
        writeln!(
            f,
            "\nWhat {} visitors without a cookie left, of whom {} stored something\n{}",
            grouped(first.visitors as f64),
            grouped(first.storing as f64),
            table(&rows)
        )
    }
}

fn table(rows: &[(&Row, &Visitors)]) -> comfy_table::Table {
    let mut table =
        empty(&["handler", "lazy start", "per s", "records", "cookies", "grown KiB", "server's changes", "KiB to it"]);
    for (row, visitors) in rows {
        let count = |value: Option<u64>| right(value.map_or("?".to_owned(), |value| grouped(value as f64)));
        let kib = |value: Option<u64>| right(value.map_or(String::new(), |bytes| figure(bytes as f64 / 1_024.0)));
        let lazy = visitors.lazy_start.map_or("no such rule", |lazy| if lazy { "on" } else { "off" });
        let changes = visitors.server.map_or(String::new(), |server| grouped(server.changes as f64));
        table.add_row(vec![
            Cell::new(row.title()),
            Cell::new(lazy),
            right(if row.failed.is_some() { "failed".to_owned() } else { grouped(row.ops_per_second.median) }),
            count(visitors.records),
            count(Some(visitors.cookies)),
            kib(visitors.grown_bytes),
            right(changes),
            kib(visitors.server.map(|server| server.received_bytes)),
        ]);
    }
    table
}
