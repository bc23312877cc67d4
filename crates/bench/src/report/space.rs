//! The table of space: bytes of a session at the end, and memory of the workers.

use std::fmt;

use comfy_table::Cell;

use crate::report::markdown::write_section;
use crate::report::scale::payload;
use crate::report::table::{by_tier, grouped, new_table, right_aligned, three_digits};
use crate::report::{Report, Row};

const MIB: f64 = (1 << 20) as f64;

impl Report {
    pub(super) fn space(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<&Row> =
            self.results.iter().filter(|row| row.bytes_per_session > 0 && weighs(row)).collect();
        by_tier(&rows).into_iter().try_for_each(|(tier, rows)| of_tier(f, tier, &rows))
    }
}

fn of_tier(f: &mut fmt::Formatter<'_>, tier: &str, rows: &[&Row]) -> fmt::Result {
    let with_memory = rows.iter().any(|row| row.memory.is_some());
    let mut header = vec!["store", "payload", "sessions", "bytes each", "x payload"];
    if with_memory {
        header.extend(["workers", "page tables", "resident", "Pss", "before"]);
    }
    let mut table = new_table(&header);
    let mut shown: Vec<Vec<String>> = Vec::new();
    for row in rows {
        let mut cells = vec![
            row.title(),
            payload(row),
            grouped(row.sessions as f64),
            grouped(row.bytes_per_session as f64),
            row.times_payload().map_or("-".to_owned(), three_digits),
        ];
        if let Some(memory) = row.memory {
            cells.push(row.workers.to_string());
            let parts = [memory.page_tables, memory.resident, memory.proportional, memory.prepared];
            cells.extend(parts.map(|bytes| three_digits(bytes as f64 / MIB)));
        }
        // Operations on one store share these figures.
        let key: Vec<String> = cells
            .iter()
            .take(3)
            .cloned()
            .chain(row.memory.map(|_| row.workers.to_string()))
            .collect();
        if shown.contains(&key) {
            continue;
        }
        shown.push(key);
        table.add_row(
            cells.into_iter().enumerate().map(|(column, text)| {
                if column == 0 { Cell::new(text) } else { right_aligned(text) }
            }),
        );
    }
    let mut heading = format!(
        "Space at the end of the run, tier {tier}: files and shared memory, or growth of the \
         process"
    );
    if rows.iter().any(|row| row.times_payload().is_none()) {
        heading.push_str("\n-: a server with a disk, of which only the memory is weighed");
    }
    if with_memory {
        heading.push_str(
            "\nMemory of the workers in MiB, all of a row together; `before`: resident when \
             nothing was stored",
        );
    }
    write_section(f, &heading, &table)
}

/// `gc` and `contention` end with too few sessions for a figure per session.
fn weighs(row: &Row) -> bool {
    row.failed.is_none() && !matches!(row.experiment.as_str(), "gc" | "contention")
}
