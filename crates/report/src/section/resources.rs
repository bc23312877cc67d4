//! The cost of a request and of a session: processor time and space, with the most workers.

use maud::{Markup, html};
use sessile_bench::report::Row;

use super::went_wrong;
use crate::ids::ElementIds;
use crate::number::{count, figure};
use crate::runs::PageReports;
use crate::table::{HtmlTable, TableCell, right, text};

/// The first of these that was measured in a closed loop.
const WEIGHED: [&str; 2] = ["cycle", "ops"];

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let tables = WEIGHED.iter().map(|experiment| table(runs, experiment));
    let table = tables.into_iter().find(|table| !table.is_empty());
    html! {
        p {
            "Processor time of the workers contains the harness; that of a server is its own "
            "process. Space is all files and shared memory of a store, or by how "
            "much its process has grown. Of a server that keeps sessions on its disk this is "
            "memory and not their space, so that it is no multiple of the payload."
        }
        @match table {
            Some(table) => { (table.folded(ids)) }
            None => { p.not-run { strong { "Not measured." } } }
        }
    }
}

fn table(runs: &PageReports<'_>, experiment: &str) -> HtmlTable {
    let columns = [
        "store",
        "tier",
        "operation",
        "worker \u{b5}s",
        "server \u{b5}s",
        "bytes a session",
        "times the payload",
        "went wrong",
    ];
    let caption = format!("Processor time of an operation and space of a session ({experiment})");
    let mut table = HtmlTable::new(caption, &columns);
    for run in runs.of_experiment(experiment) {
        // At a fixed rate workers spin until a request is due.
        if run.report.settings.rate.is_some() || run.report.settings.as_published {
            continue;
        }
        let most = run.rows.iter().map(|row| row.workers).max().unwrap_or(0);
        for row in run.rows.iter().filter(|row| row.workers == most || row.failed.is_some()) {
            let mut cells = vec![text(row.shown_title()), text(&row.durability), text(&row.op)];
            cells.extend(costs(row));
            cells.push(went_wrong(row));
            table.row(cells);
        }
    }
    table
}

fn costs(row: &Row) -> [TableCell; 4] {
    const EMPTY: TableCell = TableCell::Empty;
    if row.failed.is_some() {
        return [TableCell::Bad("failed".to_owned()), EMPTY, EMPTY, EMPTY];
    }
    let (cpu, bytes) = (row.cpu_us_per_op, row.bytes_per_session as f64);
    let server = match (row.kind.as_str(), cpu.of_server()) {
        ("socket", Some(server)) => right(figure(server)),
        ("socket", None) => text("not measured"),
        _ => EMPTY,
    };
    let [each, times] = if row.bytes_per_session == 0 {
        [text("not known"), EMPTY]
    } else {
        [right(count(bytes)), row.times_payload().map_or(EMPTY, |times| right(figure(times)))]
    };
    [right(figure(cpu.client)), server, each, times]
}
