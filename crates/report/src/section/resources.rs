//! What a request and a session cost: processor time, space and memory.

use std::collections::BTreeSet;

use maud::{Markup, html};
use sessile_bench::report::Row;

use super::went_wrong;
use crate::ids::Ids;
use crate::number::{bytes, count, figure};
use crate::runs::{Run, Runs, tiers};
use crate::table::{Cell, Table, right, text};

/// In these the space of a session says something: they end with as many as they began with.
const WEIGHED: [&str; 3] = ["cycle", "ops", "scale"];

pub(super) fn body(runs: &Runs<'_>, ids: &Ids) -> Markup {
    let tables: Vec<Table> = WEIGHED.iter().flat_map(|name| [time(runs, name), space(runs, name)]).collect();
    let tables: Vec<&Table> = tables.iter().filter(|table| !table.is_empty()).collect();
    html! {
        p {
            "Processor time of the workers contains the harness; that of a server is its own process. Space is all files and shared memory of a store, or by how "
            "much its process has grown. Where two results are of the same, they are numbered as they were given."
        }
        @if tables.is_empty() { p.not-run { strong { "Not measured." } } }
        // The first experiment says it for most readers.
        @for (number, table) in tables.iter().enumerate() {
            @if number < 2 { (table.draw(ids)) } @else { (table.folded(ids)) }
        }
    }
}

/// How the rows of a table are named: by the store, by the tier where there are several, and by the result where two of them have
/// a row that nothing else in the table tells apart.
struct Named<'a> {
    tiers: Vec<&'a str>,
    is_numbered: bool,
}

impl<'a> Named<'a> {
    /// Rows of two results of which `told_by` is the same are told apart by the number of the result.
    fn of<Key: Ord>(measured: &[Run<'a>], told_by: impl Fn(&'a Row) -> Key) -> Named<'a> {
        let mut known = BTreeSet::new();
        let mut is_numbered = false;
        for run in measured {
            let mut own: BTreeSet<Key> = run.rows.iter().copied().map(&told_by).collect();
            is_numbered |= !known.is_disjoint(&own);
            known.append(&mut own);
        }
        Named { tiers: tiers(measured), is_numbered }
    }

    /// Of one tier the caption tells.
    fn table(&self, caption: &str, experiment: &str, columns: &[&str]) -> Table {
        let (mut named, tier) = match self.tiers.as_slice() {
            [] | [""] => (vec!["store"], String::new()),
            [tier] => (vec!["store"], format!(", tier {tier}")),
            [..] => (vec!["store", "tier"], String::new()),
        };
        named.extend(self.is_numbered.then_some("result"));
        Table::new(format!("{caption} ({experiment}{tier})"), &[named.as_slice(), columns].concat())
    }

    /// Of a row of this result.
    fn cells(&self, row: &Row, run: &Run<'_>) -> Vec<Cell> {
        let mut cells = vec![text(row.shown_title())];
        if self.tiers.len() > 1 {
            cells.push(text(&row.durability));
        }
        if self.is_numbered {
            cells.push(right(run.place));
        }
        cells
    }
}

/// As long as a store is kept in the same way, its sessions take the same space, whatever was done to them.
type Weighed<'a> = (String, &'a str, usize, usize);

fn weighed_as(row: &Row) -> Weighed<'_> {
    (row.title(), row.durability.as_str(), row.payload_bytes, row.sessions)
}

fn time(runs: &Runs<'_>, experiment: &str) -> Table {
    // At a fixed rate workers spin until a request is due, and at each size of `scale` there is another figure.
    let closed = |run: &Run<'_>| {
        run.report.settings.rate.is_none() && !run.report.settings.as_published && experiment != "scale"
    };
    let measured: Vec<Run<'_>> = runs.of_experiment(experiment).into_iter().filter(closed).collect();
    let columns = ["operation", "workers", "worker", "server", "together", "went wrong"];
    let named = Named::of(&measured, |row| (weighed_as(row), &row.op, row.workers));
    let mut table = named.table("Processor time of an operation in microseconds", experiment, &columns);
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
fn time_of(row: &Row) -> [Cell; 3] {
    let cpu = row.cpu_us_per_op;
    let worker = right(figure(cpu.client));
    match (row.kind.as_str(), cpu.of_server()) {
        _ if row.failed.is_some() => [Cell::Bad("failed".to_owned()), Cell::Empty, Cell::Empty],
        ("socket", Some(server)) => [worker, right(figure(server)), right(figure(cpu.client + server))],
        ("socket", None) => [worker, text("not measured"), text("not measured")],
        (_, _) => [worker.clone(), Cell::Empty, worker],
    }
}

fn space(runs: &Runs<'_>, experiment: &str) -> Table {
    let columns = ["payload", "sessions", "bytes a session", "times the payload", "all together", "went wrong"];
    let measured = weighing(runs, experiment);
    let named = Named::of(&measured, weighed_as);
    let mut table = named.table("Space of a session at the end of the run", experiment, &columns);
    for run in &measured {
        let weighed = run.rows.iter().filter(|row| row.failed.is_none());
        let failed = run.rows.iter().filter(|row| row.failed.is_some());
        let mut shown = BTreeSet::new();
        for row in weighed.chain(failed) {
            // Several operations on one store: the first of a result says it for all, and one that failed only where none has
            // a figure.
            if shown.insert(weighed_as(row)) {
                table.row(named.cells(row, run).into_iter().chain(space_of(row)).collect());
            }
        }
    }
    table
}

/// Rows that say something of space. Those of a form of the experiment, as at a fixed rate, count where it has no figure itself: they
/// weigh the same stores again.
fn weighing<'a>(runs: &Runs<'a>, experiment: &str) -> Vec<Run<'a>> {
    let is_form = |run: &Run<'_>| run.report.settings.rate.is_some() || run.report.settings.as_published;
    let mut measured = runs.of_experiment(experiment);
    for run in &mut measured {
        run.rows.retain(|row| row.failed.is_some() || row.bytes_per_session > 0);
    }
    let itself = measured.iter().filter(|run| !is_form(run)).flat_map(|run| run.rows.iter().copied());
    let known: BTreeSet<Weighed<'_>> = itself.filter(|row| row.failed.is_none()).map(weighed_as).collect();
    for run in measured.iter_mut().filter(|run| is_form(run)) {
        run.rows.retain(|row| !known.contains(&weighed_as(row)));
    }
    measured.retain(|run| !run.rows.is_empty());
    measured
}

fn space_of(row: &Row) -> Vec<Cell> {
    let each = row.bytes_per_session as f64;
    let mut cells = vec![right(count(row.payload_bytes as f64)), right(count(row.sessions as f64))];
    if row.failed.is_some() {
        cells.extend([Cell::Bad("failed".to_owned()), Cell::Empty, Cell::Empty]);
    } else {
        cells.push(right(count(each)));
        cells.push(right(figure(each / row.payload_bytes.max(1) as f64)));
        cells.push(right(bytes(each * row.sessions as f64)));
    }
    cells.push(went_wrong(row));
    cells
}
