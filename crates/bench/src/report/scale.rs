//! The tables of `scale`: latency by number of sessions, embedded stores apart from those over a
//! socket.

use std::fmt;

use comfy_table::{Cell, Table};

use crate::report::markdown::write_section;
use crate::report::table::{by_tier, grouped, never_wrap, new_table, right_aligned, three_digits};
use crate::report::{Report, Row};

/// The reference row of the physical limit.
const LIMIT: &str = "limit";

impl Report {
    pub(super) fn scale(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, place) in [
            ("embedded", "inside the application's process"),
            ("socket", "over a unix or TCP socket"),
        ] {
            let here = |row: &&Row| row.experiment == "scale" && row.kind == kind;
            let rows: Vec<&Row> = self.results.iter().filter(here).collect();
            for (tier, rows) in by_tier(&rows) {
                let heading =
                    format!("More and more sessions, {place}, tier {tier}{}", meaning(kind));
                write_section(f, &heading, &table(&rows, kind))?;
            }
        }
        Ok(())
    }
}

/// A limit inside the process says nothing about stores over a socket.
fn meaning(kind: &str) -> &'static str {
    if kind == "embedded" { " (`x limit`: time of an operation over that of `limit`)" } else { "" }
}

fn table(rows: &[&Row], kind: &str) -> Table {
    let mut header = vec![
        "store", "op", "payload", "sessions", "workers", "per s", "p50 us", "p99 us", "p99.9 us",
        "x limit",
    ];
    header.truncate(if kind == "embedded" { 10 } else { 9 });
    let mut table = new_table(&header);
    never_wrap(&mut table, 0);
    for row in rows {
        let mut cells = vec![
            Cell::new(row.shown_title()),
            Cell::new(&row.op),
            Cell::new(payload(row)),
            right_aligned(grouped(row.sessions as f64)),
            right_aligned(row.workers),
        ];
        if row.failed.is_some() {
            cells.push(right_aligned("failed"));
        } else {
            cells.extend([
                right_aligned(grouped(row.ops_per_second.median)),
                right_aligned(three_digits(row.latency_us.p50)),
                right_aligned(three_digits(row.latency_us.p99)),
                right_aligned(three_digits(row.latency_us.p999)),
            ]);
            if kind == "embedded" {
                cells.push(right_aligned(
                    times_limit(row, rows).map_or(String::new(), |times| format!("{times:.2}")),
                ));
            }
        }
        table.add_row(cells);
    }
    table
}

/// Size; `~` if sizes differ.
pub(super) fn payload(row: &Row) -> String {
    let bytes = grouped(row.payload_bytes as f64);
    if row.payload_spread == "fixed" { bytes } else { format!("~{bytes}") }
}

/// Time of an operation over that of `limit` under the same conditions.
fn times_limit(row: &Row, rows: &[&Row]) -> Option<f64> {
    let same = |other: &&&Row| {
        other.store == LIMIT
            && (&other.op, other.sessions, &other.payload_spread, other.workers)
                == (&row.op, row.sessions, &row.payload_spread, row.workers)
    };
    let limit = rows.iter().find(same).filter(|limit| limit.failed.is_none())?;
    (row.store != LIMIT && row.ops_per_second.median > 0.0)
        .then(|| limit.ops_per_second.median / row.ops_per_second.median)
}
