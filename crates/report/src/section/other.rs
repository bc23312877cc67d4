//! Experiments that have no section of their own, and the one about faults: every row, in the order of the result.

use maud::{Markup, html};

use super::{not_run, throughput};
use crate::DrawError;
use crate::ids::Ids;
use crate::number::{count, figure};
use crate::runs::{Run, Runs, fault};
use crate::table::{Cell, Table, right, text};

const FAULTS: &str = "faults";
const OF_THEIR_OWN: [&str; 10] =
    ["cycle", "ops", "lifecycle", "perl", "gc", "scale", "contention", "expiry", "oversize", FAULTS];

pub(super) fn faults(runs: &Runs<'_>, ids: &Ids) -> Markup {
    let measured = runs.of_experiment(FAULTS);
    html! {
        p { "Workers and servers are killed, disks fill up: what is lost, and how long it takes until requests are served again." }
        @if measured.is_empty() { (not_run(runs, FAULTS)) }
        @for run in &measured { (table(run).draw(ids)) }
    }
}

/// Every other experiment that the results contain.
pub(super) fn body(runs: &Runs<'_>, ids: &Ids) -> Result<Markup, DrawError> {
    let others: Vec<&str> = runs.experiments().into_iter().filter(|name| !OF_THEIR_OWN.contains(name)).collect();
    let mut parts = Vec::new();
    for name in &others {
        for run in runs.of_experiment(name) {
            parts.push(throughput::of_run(&run, ids)?);
        }
    }
    Ok(html! {
        @if others.is_empty() { p { "There are none in these results." } }
        @for part in parts { (part) }
    })
}

fn table(run: &Run<'_>) -> Table {
    let columns = ["store", "what", "workers", "a second", "p50", "max", "outcome"];
    let mut table = Table::new("Latency in microseconds, and what went wrong", &columns);
    for row in &run.rows {
        let mut cells = vec![text(row.title()), text(&row.op), right(row.workers)];
        cells.extend([
            right(count(row.ops_per_second.median)),
            right(figure(row.latency_us.p50)),
            right(figure(row.latency_us.max)),
        ]);
        let bad = row.failed.clone().or_else(|| fault(row));
        cells.push(bad.map_or_else(|| text("nothing lost"), Cell::Bad));
        table.row(cells);
    }
    table
}
