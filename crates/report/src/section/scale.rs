//! Speed and space by the number of sessions and workers; embedded stores and stores over a socket
//! apart.

use maud::{Markup, html};
use sessile_results::number::with_noun;
use sessile_results::tables::scale;
use sessile_results::{KINDS, Row};

use super::throughput::small;
use super::{CURVES, conditions, curves, not_run, speed, wrong_ones};
use crate::chart::{Axis, ChartText, Curves};
use crate::ids::ElementIds;
use crate::runs::{ExperimentRows, PageReports};
use crate::table::folded;

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let measured = runs.by_tier("scale", |_| true);
    html! {
        p {
            "The locked request with more and more sessions in the store, and with more and more "
            "workers. A line that stays level costs nothing "
            "as a site grows; it ends where filling the store would have taken too long, or where "
            "there was no room, which is among "
            a href="#left-out" { "what was left out" } "."
        }
        @if measured.is_empty() { (not_run(runs, "scale")) }
        @for run in &measured { (of_run(run, ids)) }
    }
}

fn of_run(run: &ExperimentRows<'_>, ids: &ElementIds) -> Markup {
    let mut figures = Vec::new();
    let most = run.rows.iter().map(|row| row.workers).max().unwrap_or(0);
    for (kind, place) in KINDS {
        let spread = run.rows.first().map_or("", |row| row.payload_spread.as_str());
        let here = |row: &&&Row| {
            let is_alike = row.payload_spread == spread && row.workers == most;
            row.kind == kind && row.op == "cycle" && is_alike
        };
        let rows: Vec<&Row> = run.rows.iter().filter(here).copied().collect();
        if !rows.is_empty() {
            let title = format!(
                "Cycles a second by the number of sessions, {}, {}{}",
                with_noun(most, "worker"),
                small(place),
                run.tier_suffix
            );
            figures.push(chart(run, &rows, &title, ids));
            figures.push(folded(scale::table(&rows, place), ids));
        }
    }
    html! { (conditions(run)) @for figure in figures { (figure) } }
}

fn chart(run: &ExperimentRows<'_>, rows: &[&Row], title: &str, ids: &ElementIds) -> Markup {
    let at = |row: &Row| row.sessions as f64;
    let places: Vec<f64> = rows.iter().map(|row| at(row)).collect();
    let values: Vec<f64> = rows.iter().filter_map(|row| speed(row)).collect();
    let curves = Curves {
        words: ChartText { title: title.to_owned(), description: CURVES.to_owned() },
        x: Axis::measured("sessions in the store", &places),
        y: Axis::fitting("cycles a second", &values),
        curves: curves(run, rows, &at, &speed),
    };
    let which = |row: &Row| with_noun(row.sessions, "session");
    html! { h3 { (title) } figure { (curves.draw(ids)) } (wrong_ones(rows, &which)) }
}
