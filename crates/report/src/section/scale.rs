//! Speed and space by the number of sessions and workers; embedded stores and stores over a socket
//! apart.

use maud::{Markup, html};
use sessile_bench::report::Row;

use super::throughput::small;
use super::{KINDS, conditions, not_run, went_wrong, wrong_ones};
use crate::DrawError;
use crate::chart::{Axis, ChartText, Curve, Curves};
use crate::ids::ElementIds;
use crate::number::{count, figure, with_noun};
use crate::runs::{ExperimentRows, PageReports, titles};
use crate::table::{HtmlTable, TableCell, right, text};

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let measured = runs.by_tier("scale", |_| true);
    Ok(html! {
        p {
            "The locked request with more and more sessions in the store, and with more and more "
            "workers. A line that stays level costs nothing "
            "as a site grows; it ends where filling the store would have taken too long, or where "
            "there was no room, which is among "
            a href="#left-out" { "what was left out" } "."
        }
        @if measured.is_empty() { (not_run(runs, "scale")) }
        @for run in &measured { (of_run(run, ids)?) }
    })
}

struct ScaleChart {
    x_label: &'static str,
    x: fn(&Row) -> usize,
    y_label: &'static str,
    y: fn(&Row) -> f64,
}

const BY_SESSIONS: ScaleChart = ScaleChart {
    x_label: "sessions in the store",
    x: |row| row.sessions,
    y_label: "cycles a second",
    y: speed,
};
const SPACE: ScaleChart =
    ScaleChart { y_label: "bytes a session", y: |row| row.bytes_per_session as f64, ..BY_SESSIONS };

fn speed(row: &Row) -> f64 {
    row.ops_per_second.median
}

fn of_run(run: &ExperimentRows<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let mut figures = Vec::new();
    for (kind, place) in KINDS {
        for spread in run.distinct(|row| row.payload_spread.clone()) {
            let here =
                |row: &&&Row| row.kind == kind && row.payload_spread == spread && row.op == "cycle";
            let rows: Vec<&Row> = run.rows.iter().filter(here).copied().collect();
            let sizes = if spread == "fixed" {
                "payloads of one size"
            } else {
                "payloads of different sizes"
            };
            figures.extend(of_place(
                run,
                &rows,
                &format!("{sizes}, {}{}", small(place), run.tier_suffix),
                ids,
            )?);
        }
    }
    let tables = KINDS
        .into_iter()
        .map(|(kind, place)| table(run, kind, place))
        .filter(|table| !table.is_empty());
    Ok(html! {
        (conditions(run))
        @for figure in figures { (figure) }
        @for table in tables { (table.draw(ids)) }
    })
}

fn of_place(
    run: &ExperimentRows<'_>,
    rows: &[&Row],
    where_and_what: &str,
    ids: &ElementIds,
) -> Result<Vec<Markup>, DrawError> {
    let mut figures = Vec::new();
    let workers = distinct(rows, |row| row.workers);
    if let Some(most) = workers.last().copied() {
        let own: Vec<&Row> = rows.iter().filter(|row| row.workers == most).copied().collect();
        let title = format!(
            "Cycles a second by the number of sessions, {}, {where_and_what}",
            with_noun(most, "worker")
        );
        figures.push(BY_SESSIONS.figure(run, &own, &title, ids)?);
    }
    let first = workers.first().copied().unwrap_or(1);
    let weighed = rows
        .iter()
        .filter(|row| row.workers == first && (row.bytes_per_session > 0 || row.failed.is_some()));
    let weighed: Vec<&Row> = weighed.copied().collect();
    if !weighed.is_empty() {
        let title = format!("Bytes a session by the number of sessions, {where_and_what}");
        figures.push(SPACE.figure(run, &weighed, &title, ids)?);
    }
    Ok(figures)
}

fn distinct(rows: &[&Row], of: fn(&Row) -> usize) -> Vec<usize> {
    let mut values: Vec<usize> = rows.iter().map(|row| of(row)).collect();
    values.sort_unstable();
    values.dedup();
    values
}

impl ScaleChart {
    fn figure(
        &self,
        run: &ExperimentRows<'_>,
        rows: &[&Row],
        title: &str,
        ids: &ElementIds,
    ) -> Result<Markup, DrawError> {
        let places: Vec<f64> = rows.iter().map(|row| (self.x)(row) as f64).collect();
        let sound = |row: &&&Row| row.failed.is_none();
        let curves = titles(rows).into_iter().map(|name| {
            let own = || rows.iter().filter(|row| row.shown_title() == name);
            let number = own().next().map_or(0, |row| run.number(row));
            let at = |row: &Row| (self.x)(row) as f64;
            let mut values: Vec<(f64, f64)> =
                own().filter(sound).map(|row| (at(row), (self.y)(row))).collect();
            values.sort_by(|a, b| a.0.total_cmp(&b.0));
            let wrong = own().filter(|row| row.is_bad()).map(|row| at(row)).collect();
            Curve { name, number, values, wrong }
        });
        let values: Vec<f64> = rows.iter().filter(sound).map(|row| (self.y)(row)).collect();
        let curves = Curves {
            words: ChartText {
                title: title.to_owned(),
                description: "A curve for each contender; its values are in the table below."
                    .to_owned(),
            },
            x: Axis::measured(self.x_label, &places),
            y: Axis::fitting(self.y_label, &values),
            curves: curves.collect(),
        };
        let which = |row: &Row| {
            format!("{}, {}", with_noun(row.sessions, "session"), with_noun(row.workers, "worker"))
        };
        Ok(html! { h3 { (title) } figure { (curves.draw(ids)?) } (wrong_ones(rows, &which)) })
    }
}

fn table(run: &ExperimentRows<'_>, kind: &str, place: &str) -> HtmlTable {
    let columns = [
        "store",
        "op",
        "payload",
        "sessions",
        "workers",
        "a second",
        "p50",
        "p99",
        "p99.9",
        "bytes each",
        "page tables MiB",
        "resident MiB",
        "went wrong",
    ];
    let caption = format!(
        "{place}: speed, latency in microseconds, space of a session and memory of all workers \
         together{}",
        run.tier_suffix
    );
    let mut table = HtmlTable::new(&caption, &columns);
    let mib = |bytes: u64| right(figure(bytes as f64 / f64::from(1 << 20)));
    let of_kind = || run.rows.iter().filter(|row| row.kind == kind);
    let most = of_kind().map(|row| row.workers).max();
    for row in of_kind().filter(|row| Some(row.workers) == most) {
        let about = if row.payload_spread == "fixed" { "" } else { "about " };
        let mut cells = vec![
            text(row.shown_title()),
            text(&row.op),
            right(format!("{about}{}", count(row.payload_bytes as f64))),
        ];
        cells.extend([right(count(row.sessions as f64)), right(row.workers)]);
        if row.failed.is_some() {
            cells.push(TableCell::Bad("failed".to_owned()));
            cells.extend((0..6).map(|_| TableCell::Empty));
        } else {
            let latency = row.latency_us;
            cells.push(right(count(row.ops_per_second.median)));
            cells.extend([latency.p50, latency.p99, latency.p999].map(|us| right(figure(us))));
            cells.push(right(count(row.bytes_per_session as f64)));
            cells.push(row.memory.map_or(TableCell::Empty, |memory| mib(memory.page_tables)));
            cells.push(row.memory.map_or(TableCell::Empty, |memory| mib(memory.resident)));
        }
        cells.push(went_wrong(row));
        table.row(cells);
    }
    table
}
