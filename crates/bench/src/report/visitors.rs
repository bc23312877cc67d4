//! The table of visitors for whom a session is started: what they left in the store with lazy start and without it.

use std::fmt;

use comfy_table::{Cell, ColumnConstraint};
use serde::{Deserialize, Serialize};

use crate::php::{self, SESSILE};
use crate::report::markdown::section;
use crate::report::table::{empty, figure, grouped, right};
use crate::report::{Report, Row};

/// Every handler as it is; and ours without lazy start.
pub(crate) const OP: &str = "visitors";
pub(crate) const OP_EAGER: &str = "visitors-eager";

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
    /// By how much the directory of the sessions, or the memory of a Redis server, has grown; below 0 where it has shrunk.
    pub grown_bytes: Option<i64>,
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
    /// By how much its memory has grown; below 0 where it has shrunk.
    pub grown_bytes: i64,
}

impl Row {
    /// It has visitors, and what they left.
    pub fn visitors(&self) -> Option<&Visitors> {
        self.web.as_ref()?.visitors.as_ref()
    }

    /// It is about visitors, also where none was served.
    pub fn is_of_visitors(&self) -> bool {
        self.is_of_lifecycle() && matches!(self.op.as_str(), OP | OP_EAGER)
    }

    /// Whether an empty new session is left out for them; `None` for a handler that has no such rule.
    pub fn lazy_start(&self) -> Option<bool> {
        match self.visitors() {
            Some(visitors) => visitors.lazy_start,
            None => (self.store == SESSILE).then(|| self.op != OP_EAGER),
        }
    }

    /// Where a handler keeps its sessions: on a `server`, a `disk` or in `memory`; empty where its URL does not say.
    pub fn place(&self) -> &'static str {
        match self.kind.as_str() {
            "socket" => "server",
            _ if self.url.contains("<disk>") => "disk",
            _ if self.url.contains("<shm>") => "memory",
            _ => "",
        }
    }
}

impl Report {
    pub(super) fn visitors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<&Row> = self.results.iter().filter(|row| row.is_of_visitors()).collect();
        if rows.is_empty() {
            return Ok(());
        }
        section(f, "What visitors without a cookie left, of whom one in ten stored something", &table(&rows))
    }
}

fn table(rows: &[&Row]) -> comfy_table::Table {
    let mut table = empty(&[
        "handler",
        "place",
        "lock",
        "lazy",
        "visitors",
        "per s",
        "records",
        "cookies",
        "KiB grown",
        "changes",
        "KiB to it",
    ]);
    if let Some(column) = table.column_mut(0) {
        column.set_constraint(ColumnConstraint::ContentWidth); // a name in two pieces cannot be searched for
    }
    for row in rows {
        let lock = php::locks(&row.title()).map_or("?", |locks| if locks { "yes" } else { "no" });
        let lazy = row.lazy_start().map_or("no rule", |lazy| if lazy { "on" } else { "off" });
        let mut cells = vec![Cell::new(row.title()), Cell::new(row.place()), Cell::new(lock), Cell::new(lazy)];
        cells.extend(figures(row).map(right));
        table.add_row(cells);
    }
    table
}

/// How many there were, and what came of them; where nobody was served nothing did.
fn figures(row: &Row) -> [String; 7] {
    let [mut all, mut rate, mut records, mut cookies, mut grown, mut changes, mut received]: [String; 7] =
        Default::default();
    let count = |value: u64| grouped(value as f64);
    if let Some(left) = row.visitors() {
        (all, rate, cookies) = (count(left.visitors), grouped(row.ops_per_second.median), count(left.cookies));
        records = left.records.map_or("?".to_owned(), count);
        grown = left.grown_bytes.map_or(String::new(), kib);
        changes = left.server.map_or(String::new(), |server| count(server.changes));
        received = left.server.map_or(String::new(), |server| figure(server.received_bytes as f64 / 1_024.0));
    }
    if row.failed.is_some() {
        rate = "failed".to_owned();
    }
    [all, rate, records, cookies, grown, changes, received]
}

fn kib(bytes: i64) -> String {
    let size = figure(bytes.unsigned_abs() as f64 / 1_024.0);
    if bytes < 0 { format!("-{size}") } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::WebFigures;
    use crate::statistics::Spread;

    fn row(store: &str, variant: &str, url: &str, left: Option<Visitors>) -> Row {
        Row {
            experiment: "lifecycle".into(),
            store: store.into(),
            variant: variant.into(),
            url: url.into(),
            op: OP.into(),
            kind: if url.contains("socket") { "socket" } else { "embedded" }.into(),
            ops_per_second: Spread { median: left.map_or(0.0, |_| 12_345.0), ..Spread::default() },
            web: left.map(|left| WebFigures { visitors: Some(left), ..WebFigures::default() }),
            failed: left.is_none().then(|| "the page does not answer".to_owned()),
            ..Row::default()
        }
    }

    /// A row that had failed before anybody was served was left out, and the number of visitors was that of the first row.
    #[test]
    fn each_row_says_how_many_came_and_one_to_which_none_came_says_that_it_failed() {
        let server = Some(ServerWork { changes: 45_000, received_bytes: 9_000_000, grown_bytes: -3_145_728 });
        let left = Visitors {
            visitors: 15_000,
            storing: 1_500,
            records: Some(15_000),
            cookies: 15_000,
            grown_bytes: Some(-3_145_728),
            server,
            ..Visitors::default()
        };
        let fewer = Visitors { visitors: 300, lazy_start: Some(true), records: Some(30), cookies: 30, ..left };
        let rows = [
            row("phpredis", "lock", "unix://<socket>?persistent=1", Some(left)),
            row("php-files", "shm", "<shm>/files", None),
            row("sessile", "default", "sessile:<shm>/sessile", Some(fewer)),
            Row { op: OP_EAGER.into(), ..row("sessile", "disk", "sessile:<disk>/sessile?control=<shm>", None) },
        ];
        let text = table(&rows.iter().collect::<Vec<&Row>>()).to_string();
        let line = |title: &str| {
            let found = text.lines().find(|line| line.trim_start().starts_with(&format!("{title} "))).unwrap();
            found.split_whitespace().collect::<Vec<&str>>().join(" ")
        };
        assert_eq!(
            line("phpredis#lock"),
            "phpredis#lock server yes no rule 15 000 12 345 15 000 15 000 -3 072 45 000 8 789"
        );
        assert_eq!(line("php-files#shm"), "php-files#shm memory yes no rule failed");
        assert!(line("sessile").starts_with("sessile memory yes on 300 "), "{text}");
        assert_eq!(line("sessile#disk"), "sessile#disk disk yes off failed");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
