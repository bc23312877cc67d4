//! The tables of `scale`: how a cycle gets slower as sessions become more. Embedded stores and stores over a socket apart.

use std::fmt;

use comfy_table::{Cell, ColumnConstraint, Table};

use crate::report::markdown::section;
use crate::report::table::{by_tier, empty, figure, grouped, right};
use crate::report::{Report, Row};

/// What physics allows, at the same size.
const LIMIT: &str = "limit";

impl Report {
    pub(super) fn scale(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, place) in [("embedded", "inside the application's process"), ("socket", "over a unix or TCP socket")]
        {
            let here = |row: &&Row| row.experiment == "scale" && row.kind == kind;
            let rows: Vec<&Row> = self.results.iter().filter(here).collect();
            for (tier, rows) in by_tier(&rows) {
                let heading = format!("More and more sessions, {place}, tier {tier}{}", meaning(kind));
                section(f, &heading, &table(&rows, kind))?;
            }
        }
        Ok(())
    }
}

/// What a process can reach is no measure for who has a way to go.
fn meaning(kind: &str) -> &'static str {
    if kind == "embedded" { " (`x limit`: time of an operation over that of `limit`)" } else { "" }
}

fn table(rows: &[&Row], kind: &str) -> Table {
    let mut header =
        vec!["store", "op", "payload", "sessions", "workers", "per s", "p50 us", "p99 us", "p99.9 us", "x limit"];
    header.truncate(if kind == "embedded" { 10 } else { 9 });
    let mut table = empty(&header);
    if let Some(column) = table.column_mut(0) {
        column.set_constraint(ColumnConstraint::ContentWidth); // a name in two pieces cannot be searched for
    }
    for row in rows {
        let mut cells = vec![
            Cell::new(row.shown_title()),
            Cell::new(&row.op),
            Cell::new(payload(row)),
            right(grouped(row.sessions as f64)),
            right(row.workers),
        ];
        if row.failed.is_some() {
            cells.push(right("failed"));
        } else {
            cells.extend([
                right(grouped(row.ops_per_second.median)),
                right(figure(row.latency_us.p50)),
                right(figure(row.latency_us.p99)),
                right(figure(row.latency_us.p999)),
            ]);
            if kind == "embedded" {
                cells.push(right(times_limit(row, rows).map_or(String::new(), |times| format!("{times:.2}"))));
            }
        }
        table.add_row(cells);
    }
    table
}

/// Size and spread.
pub(super) fn payload(row: &Row) -> String {
    let bytes = grouped(row.payload_bytes as f64);
    if row.payload_spread == "fixed" { bytes } else { format!("~{bytes}") }
}

/// Time of an operation as a multiple of what `limit` takes in the same place: both alone, in one worker.
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
