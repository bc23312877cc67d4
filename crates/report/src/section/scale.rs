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

fn of_run(run: &ExperimentRows<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let mut figures = Vec::new();
    let most = run.rows.iter().map(|row| row.workers).max().unwrap_or(0);
    for (kind, place) in KINDS {
        let spread = run.rows.first().map_or("", |row| row.payload_spread.as_str());
        let here = |row: &&&Row| {
            row.kind == kind
                && row.payload_spread == spread
                && row.op == "cycle"
                && row.workers == most
        };
        let rows: Vec<&Row> = run.rows.iter().filter(here).copied().collect();
        if !rows.is_empty() {
            let title = format!(
                "Cycles a second by the number of sessions, {}, {}{}",
                with_noun(most, "worker"),
                small(place),
                run.tier_suffix
            );
            figures.push(chart(run, &rows, &title, ids)?);
            figures.push(table(run, kind, place, most).folded(ids));
        }
    }
    Ok(html! { (conditions(run)) @for figure in figures { (figure) } })
}

fn chart(
    run: &ExperimentRows<'_>,
    rows: &[&Row],
    title: &str,
    ids: &ElementIds,
) -> Result<Markup, DrawError> {
    let at = |row: &Row| row.sessions as f64;
    let speed = |row: &Row| row.ops_per_second.median;
    let sound = |row: &&&Row| row.failed.is_none();
    let curves = titles(rows).into_iter().map(|name| {
        let own = || rows.iter().filter(|row| row.shown_title() == name);
        let number = own().next().map_or(0, |row| run.number(row));
        let mut values: Vec<(f64, f64)> =
            own().filter(sound).map(|row| (at(row), speed(row))).collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let wrong = own().filter(|row| row.is_bad()).map(|row| at(row)).collect();
        Curve { name, number, values, wrong }
    });
    let places: Vec<f64> = rows.iter().map(|row| at(row)).collect();
    let values: Vec<f64> = rows.iter().filter(sound).map(|row| speed(row)).collect();
    let curves = Curves {
        words: ChartText {
            title: title.to_owned(),
            description: "A curve for each contender; its values are in the table below."
                .to_owned(),
        },
        x: Axis::measured("sessions in the store", &places),
        y: Axis::fitting("cycles a second", &values),
        curves: curves.collect(),
    };
    let which = |row: &Row| with_noun(row.sessions, "session");
    Ok(html! { h3 { (title) } figure { (curves.draw(ids)?) } (wrong_ones(rows, &which)) })
}

fn table(run: &ExperimentRows<'_>, kind: &str, place: &str, most: usize) -> HtmlTable {
    let columns = [
        "store",
        "payload",
        "sessions",
        "a second",
        "p99",
        "bytes each",
        "resident MiB",
        "went wrong",
    ];
    let caption = format!(
        "{place}: speed, latency in microseconds, space of a session and memory of all workers{}",
        run.tier_suffix
    );
    let mut table = HtmlTable::new(&caption, &columns);
    let mib = |bytes: u64| right(figure(bytes as f64 / f64::from(1 << 20)));
    let is_shown = |row: &&&Row| row.kind == kind && row.workers == most && row.op == "cycle";
    for row in run.rows.iter().filter(is_shown) {
        let about = if row.payload_spread == "fixed" { "" } else { "about " };
        let mut cells = vec![
            text(row.shown_title()),
            right(format!("{about}{}", count(row.payload_bytes as f64))),
            right(count(row.sessions as f64)),
        ];
        if row.failed.is_some() {
            cells.push(TableCell::Bad("failed".to_owned()));
            cells.extend((0..3).map(|_| TableCell::Empty));
        } else {
            cells.push(right(count(row.ops_per_second.median)));
            cells.push(right(figure(row.latency_us.p99)));
            cells.push(right(count(row.bytes_per_session as f64)));
            cells.push(row.memory.map_or(TableCell::Empty, |memory| mib(memory.resident)));
        }
        cells.push(went_wrong(row));
        table.row(cells);
    }
    table
}
