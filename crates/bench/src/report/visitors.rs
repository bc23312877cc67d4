//! The table of visitors: what they leave in the store with and without lazy start.

use std::fmt;

use comfy_table::Cell;
use serde::{Deserialize, Serialize};

use crate::php::{self, SESSILE};
use crate::report::markdown::write_section;
use crate::report::table::{grouped, never_wrap, new_table, right_aligned, three_digits};
use crate::report::{Report, Row};

pub(crate) const OP: &str = "visitors";
pub(crate) const OP_EAGER: &str = "visitors-eager";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visitors {
    /// Visitors, each with one request that starts a session.
    pub visitors: u64,
    /// Visitors who stored something.
    pub storing: u64,
    /// Whether empty new sessions are left out; `None` without such a rule.
    pub lazy_start: Option<bool>,
    /// Records in the store; `None` if not countable.
    pub records: Option<u64>,
    pub cookies: u64,
    /// Growth of the session directory, or of a Redis server's memory, in bytes.
    pub grown_bytes: Option<i64>,
    pub server: Option<ServerWork>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerWork {
    /// Changes of data, locks included.
    pub changes: u64,
    pub received_bytes: u64,
    /// Growth of its memory.
    pub grown_bytes: i64,
}

impl Row {
    pub fn visitors(&self) -> Option<&Visitors> {
        self.web.as_ref()?.visitors.as_ref()
    }

    /// Whether the row is of visitors, even if it failed.
    pub fn is_of_visitors(&self) -> bool {
        self.is_of_lifecycle() && matches!(self.op.as_str(), OP | OP_EAGER)
    }

    /// Whether empty new sessions are left out; `None` without such a rule.
    pub fn lazy_start(&self) -> Option<bool> {
        match self.visitors() {
            Some(visitors) => visitors.lazy_start,
            None => (self.store == SESSILE).then(|| self.op != OP_EAGER),
        }
    }

    /// Where sessions lie: `server`, `disk` or `memory`; empty if unknown.
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
        write_section(
            f,
            "What visitors without a cookie left, of whom one in ten stored something",
            &table(&rows),
        )
    }
}

fn table(rows: &[&Row]) -> comfy_table::Table {
    let mut table = new_table(&[
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
    never_wrap(&mut table, 0);
    for row in rows {
        let lock = php::locks(&row.title()).map_or("?", |locks| if locks { "yes" } else { "no" });
        let lazy = row.lazy_start().map_or("no rule", |lazy| if lazy { "on" } else { "off" });
        let mut cells =
            vec![Cell::new(row.title()), Cell::new(row.place()), Cell::new(lock), Cell::new(lazy)];
        cells.extend(figures(row).map(right_aligned));
        table.add_row(cells);
    }
    table
}

fn figures(row: &Row) -> [String; 7] {
    let count = |value: u64| grouped(value as f64);
    let left = row.visitors();
    let text = |of: fn(&Visitors) -> u64| left.map_or(String::new(), |left| count(of(left)));
    let server = left.and_then(|left| left.server);
    let rate = match left {
        _ if row.failed.is_some() => "failed".to_owned(),
        Some(_) => grouped(row.ops_per_second.median),
        None => String::new(),
    };
    let records = |left: &Visitors| left.records.map_or("?".to_owned(), count);
    let kib_received = |bytes: u64| three_digits(bytes as f64 / 1_024.0);
    [
        text(|left| left.visitors),
        rate,
        left.map_or(String::new(), records),
        text(|left| left.cookies),
        left.and_then(|left| left.grown_bytes).map_or(String::new(), kib),
        server.map_or(String::new(), |server| count(server.changes)),
        server.map_or(String::new(), |server| kib_received(server.received_bytes)),
    ]
}

fn kib(bytes: i64) -> String {
    let size = three_digits(bytes.unsigned_abs() as f64 / 1_024.0);
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

    /// A row that had failed before anybody was served was left out, and the number of visitors was
    /// that of the first row.
    #[test]
    fn each_row_says_how_many_came_and_one_to_which_none_came_says_that_it_failed() {
        let server = Some(ServerWork {
            changes: 45_000,
            received_bytes: 9_000_000,
            grown_bytes: -3_145_728,
        });
        let left = Visitors {
            visitors: 15_000,
            storing: 1_500,
            records: Some(15_000),
            cookies: 15_000,
            grown_bytes: Some(-3_145_728),
            server,
            ..Visitors::default()
        };
        let fewer = Visitors {
            visitors: 300,
            lazy_start: Some(true),
            records: Some(30),
            cookies: 30,
            ..left
        };
        let rows = [
            row("phpredis", "lock", "unix://<socket>?persistent=1", Some(left)),
            row("php-files", "shm", "<shm>/files", None),
            row("sessile", "default", "sessile:<shm>/sessile", Some(fewer)),
            Row {
                op: OP_EAGER.into(),
                ..row("sessile", "disk", "sessile:<disk>/sessile?control=<shm>", None)
            },
        ];
        let text = table(&rows.iter().collect::<Vec<&Row>>()).to_string();
        let line = |title: &str| {
            let found = text
                .lines()
                .find(|line| line.trim_start().starts_with(&format!("{title} ")))
                .unwrap();
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
