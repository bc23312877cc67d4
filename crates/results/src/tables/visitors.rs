//! The table of visitors: what they leave in the store with and without lazy start.

use serde::{Deserialize, Serialize};

use crate::number::{count, figure};
use crate::php_handlers::SESSILE;
use crate::table::{ResultTable, TableCell, bad, known, right, right_or_empty, text};
use crate::tables::lifecycle::lock;
use crate::{Question, Row, Subject};

pub const OP: &str = "visitors";
pub const OP_EAGER: &str = "visitors-eager";

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

    /// Whether empty new sessions are left out; `None` without such a rule.
    pub fn lazy_start(&self) -> Option<bool> {
        match self.visitors() {
            Some(visitors) => visitors.lazy_start,
            None => (self.subject.store == SESSILE).then(|| self.question.op != OP_EAGER),
        }
    }
}

impl Question {
    /// Whether the row is of visitors, even if it failed.
    pub fn is_of_visitors(&self) -> bool {
        self.is_of_lifecycle() && matches!(self.op.as_str(), OP | OP_EAGER)
    }
}

impl Subject {
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

/// The saving by lazy start: without it an anonymous visitor leaves a record. Unknown if no visitor
/// was served.
pub fn table(rows: &[&Row]) -> ResultTable {
    let number = |title: &str, of: fn(&Visitors) -> Option<u64>| {
        known(title, move |row| {
            right_or_empty(row.visitors().and_then(of).map(|number| count(number as f64)))
        })
    };
    let columns = vec![
        known("handler", |row| text(row.subject.title())),
        known("sessions in", |row| text(row.subject.place())),
        lock(),
        known("lazy start", |row| {
            text(row.lazy_start().map_or("no such rule", |lazy| if lazy { "on" } else { "off" }))
        }),
        known("visitors", |row| match row.outcome.failed {
            Some(_) => bad("failed"),
            None => right_or_empty(row.visitors().map(|it| count(it.visitors as f64))),
        }),
        number("that stored", |it| Some(it.storing)),
        known("records", |row| match row.visitors().map(|it| it.records) {
            None => TableCell::Empty,
            Some(records) => records.map_or(text("?"), |records| right(count(records as f64))),
        }),
        number("cookies", |it| Some(it.cookies)),
        known("grown KiB", |row| {
            right_or_empty(row.visitors().and_then(|it| it.grown_bytes).map(signed_kib))
        }),
        number("server's changes", |it| it.server.map(|server| server.changes)),
        known("KiB to it", |row| {
            let server = row.visitors().and_then(|it| it.server);
            right_or_empty(server.map(|server| kib(server.received_bytes)))
        }),
    ];
    let caption = "Visitors without a cookie, for each of whom a session is started: records and \
                   cookies that they left, by how much the place of the sessions has grown, and \
                   what a Redis server counts by itself. Look at the records, not at the growth: \
                   an empty file takes an inode and no block, the engine takes its memory in \
                   larger pieces, and a server's memory may shrink meanwhile";
    let rows: Vec<&Row> =
        rows.iter().copied().filter(|row| row.question.is_of_visitors()).collect();
    ResultTable::of_rows(caption, &rows, columns)
}

fn kib(bytes: u64) -> String {
    figure(bytes as f64 / 1_024.0)
}

fn signed_kib(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}", kib(bytes.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Spread;
    use crate::{Figures, Outcome, WebFigures};

    fn row(store: &str, variant: &str, url: &str, left: Option<Visitors>) -> Row {
        Row {
            question: Question {
                experiment: "lifecycle".into(),
                op: OP.into(),
                ..Question::default()
            },
            subject: Subject {
                store: store.into(),
                variant: variant.into(),
                url: url.into(),
                kind: if url.contains("socket") { "socket" } else { "embedded" }.into(),
            },
            figures: Figures {
                ops_per_second: Spread {
                    median: left.map_or(0.0, |_| 12_345.0),
                    ..Spread::default()
                },
                ..Figures::default()
            },
            outcome: Outcome {
                failed: left.is_none().then(|| "the page does not answer".to_owned()),
                ..Outcome::default()
            },
            web: left.map(|left| WebFigures { visitors: Some(left), ..WebFigures::default() }),
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
        let mut failed = row("sessile", "disk", "sessile:<disk>/sessile?control=<shm>", None);
        failed.question.op = OP_EAGER.into();
        let rows = [
            row("phpredis", "lock", "unix://<socket>?persistent=1", Some(left)),
            row("php-files", "shm", "<shm>/files", None),
            row("sessile", "default", "sessile:<shm>/sessile", Some(fewer)),
            failed,
        ];
        let table = table(&rows.iter().collect::<Vec<&Row>>());
        let line = |number: usize| {
            let cells = table.rows[number].cells.iter().map(TableCell::words);
            cells.collect::<Vec<&str>>().join("|").trim_end_matches('|').to_owned()
        };
        assert_eq!(
            line(0),
            "phpredis#lock|server|yes|no such rule|15,000|1,500|15,000|15,000|-3,072|45,000|8,789"
        );
        assert_eq!(line(1), "php-files#shm|memory|yes|no such rule|failed");
        assert!(line(2).starts_with("sessile|memory|yes|on|300|1,500|30|30|"), "{}", line(2));
        assert_eq!(line(3), "sessile#disk|disk|yes|off|failed");
        let faults = table.rows.iter().map(|row| row.fault.is_some()).collect::<Vec<bool>>();
        assert_eq!(faults, [false, true, false, true]);
    }
}
