//! The cost of a request and of a session: processor time, space and memory.

use std::collections::BTreeSet;

use maud::{Markup, html};
use sessile_bench::report::Row;

use super::went_wrong;
use crate::ids::ElementIds;
use crate::number::{bytes, count, figure};
use crate::runs::{ExperimentRows, PageReports, tiers};
use crate::table::{HtmlTable, TableCell, right, text};

/// The first of these that has rows for a table: they end with as many sessions as they began with,
/// so that the space per session is meaningful.
const WEIGHED: [&str; 3] = ["cycle", "ops", "scale"];

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let first = |table: fn(&PageReports<'_>, &str) -> HtmlTable| {
        WEIGHED.iter().map(|name| table(runs, name)).find(|table| !table.is_empty())
    };
    let tables: Vec<HtmlTable> = [first(time), first(space)].into_iter().flatten().collect();
    html! {
        p {
            "Processor time of the workers contains the harness; that of a server is its own "
            "process. Space is all files and shared memory of a store, or by how "
            "much its process has grown. Where two results are of the same, they are numbered as "
            "they were given."
        }
        @if tables.is_empty() { p.not-run { strong { "Not measured." } } }
        @for table in &tables { (table.draw(ids)) }
    }
}

/// The names of rows in a table: store, tier if there are several, and the number of the result if
/// nothing else in the table distinguishes two rows.
struct RowNames<'a> {
    tiers: Vec<&'a str>,
    is_numbered: bool,
}

impl<'a> RowNames<'a> {
    /// Numbers the results if rows of two results have equal `told_by`.
    fn of<Key: Ord>(
        measured: &[ExperimentRows<'a>],
        told_by: impl Fn(&'a Row) -> Key,
    ) -> RowNames<'a> {
        let mut known = BTreeSet::new();
        let mut is_numbered = false;
        for run in measured {
            let mut own: BTreeSet<Key> = run.rows.iter().copied().map(&told_by).collect();
            is_numbered |= !known.is_disjoint(&own);
            known.append(&mut own);
        }
        RowNames { tiers: tiers(measured), is_numbered }
    }

    /// The caption has the tier if there is only one.
    fn table(&self, caption: &str, experiment: &str, columns: &[&str]) -> HtmlTable {
        let (mut named, tier) = match self.tiers.as_slice() {
            [] | [""] => (vec!["store"], String::new()),
            [tier] => (vec!["store"], format!(", tier {tier}")),
            [..] => (vec!["store", "tier"], String::new()),
        };
        named.extend(self.is_numbered.then_some("result"));
        HtmlTable::new(
            format!("{caption} ({experiment}{tier})"),
            &[named.as_slice(), columns].concat(),
        )
    }

    fn cells(&self, row: &Row, run: &ExperimentRows<'_>) -> Vec<TableCell> {
        let mut cells = vec![text(row.shown_title())];
        if self.tiers.len() > 1 {
            cells.push(text(&row.durability));
        }
        if self.is_numbered {
            cells.push(right(run.result_number));
        }
        cells
    }
}

/// The key of storage: rows with the same key take the same space, whatever the operation.
type StorageKey<'a> = (String, &'a str, usize, usize);

fn weighed_as(row: &Row) -> StorageKey<'_> {
    (row.title(), row.durability.as_str(), row.payload_bytes, row.sessions)
}

fn time(runs: &PageReports<'_>, experiment: &str) -> HtmlTable {
    // At a fixed rate workers spin until a request is due, and `scale` has a figure for each size.
    let closed = |run: &ExperimentRows<'_>| {
        run.report.settings.rate.is_none()
            && !run.report.settings.as_published
            && experiment != "scale"
    };
    let measured: Vec<ExperimentRows<'_>> =
        runs.of_experiment(experiment).into_iter().filter(closed).collect();
    let columns = ["operation", "workers", "worker", "server", "together", "went wrong"];
    let named = RowNames::of(&measured, |row| (weighed_as(row), &row.op, row.workers));
    let mut table =
        named.table("Processor time of an operation in microseconds", experiment, &columns);
    for run in &measured {
        for row in &run.rows {
            let mut cells = named.cells(row, run);
            cells.extend([text(&row.op), right(row.workers)]);
            cells.extend(time_of(row));
            cells.push(went_wrong(row));
            table.row(cells);
        }
    }
    table
}

/// Of the worker, of the server, and of both.
fn time_of(row: &Row) -> [TableCell; 3] {
    let cpu = row.cpu_us_per_op;
    let worker = right(figure(cpu.client));
    match (row.kind.as_str(), cpu.of_server()) {
        _ if row.failed.is_some() => {
            [TableCell::Bad("failed".to_owned()), TableCell::Empty, TableCell::Empty]
        }
        ("socket", Some(server)) => {
            [worker, right(figure(server)), right(figure(cpu.client + server))]
        }
        ("socket", None) => [worker, text("not measured"), text("not measured")],
        (_, _) => [worker.clone(), TableCell::Empty, worker],
    }
}

fn space(runs: &PageReports<'_>, experiment: &str) -> HtmlTable {
    let columns = [
        "payload",
        "sessions",
        "bytes a session",
        "times the payload",
        "all together",
        "went wrong",
    ];
    let measured = weighing(runs, experiment);
    let named = RowNames::of(&measured, weighed_as);
    let mut table = named.table("Space of a session at the end of the run", experiment, &columns);
    for run in &measured {
        let weighed = run.rows.iter().filter(|row| row.failed.is_none());
        let failed = run.rows.iter().filter(|row| row.failed.is_some());
        let mut shown = BTreeSet::new();
        for row in weighed.chain(failed) {
            // The first operation on a store counts for all; a failed one only if none has a
            // figure.
            if shown.insert(weighed_as(row)) {
                table.row(named.cells(row, run).into_iter().chain(space_of(row)).collect());
            }
        }
    }
    table
}

/// Rows with a figure of space. Rows of another form, such as a fixed rate, weigh the same stores
/// and count only where the plain experiment has no figure.
fn weighing<'a>(runs: &PageReports<'a>, experiment: &str) -> Vec<ExperimentRows<'a>> {
    let is_form = |run: &ExperimentRows<'_>| {
        run.report.settings.rate.is_some() || run.report.settings.as_published
    };
    let mut measured = runs.of_experiment(experiment);
    for run in &mut measured {
        run.rows.retain(|row| row.failed.is_some() || row.bytes_per_session > 0);
    }
    let itself =
        measured.iter().filter(|run| !is_form(run)).flat_map(|run| run.rows.iter().copied());
    let known: BTreeSet<StorageKey<'_>> =
        itself.filter(|row| row.failed.is_none()).map(weighed_as).collect();
    for run in measured.iter_mut().filter(|run| is_form(run)) {
        run.rows.retain(|row| !known.contains(&weighed_as(row)));
    }
    measured.retain(|run| !run.rows.is_empty());
    measured
}

fn space_of(row: &Row) -> Vec<TableCell> {
    let each = row.bytes_per_session as f64;
    let mut cells = vec![right(count(row.payload_bytes as f64)), right(count(row.sessions as f64))];
    if row.failed.is_some() {
        cells.extend([TableCell::Bad("failed".to_owned()), TableCell::Empty, TableCell::Empty]);
    } else {
        cells.push(right(count(each)));
        cells.push(right(figure(each / row.payload_bytes.max(1) as f64)));
        cells.push(right(bytes(each * row.sessions as f64)));
    }
    cells.push(went_wrong(row));
    cells
}
