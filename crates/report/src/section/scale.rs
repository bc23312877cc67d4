//! Speed and space by the number of sessions and workers; embedded stores and stores over a socket
//! apart.

use maud::{Markup, html};
use sessile_results::number::with_noun;
use sessile_results::tables::scale;
use sessile_results::{KINDS, Row};

use super::throughput::small;
use super::{CURVES, conditions, curves, each, speed, wrong_ones};
use crate::chart::{Axis, ChartText, Curves};
use crate::ids::ElementIds;
use crate::runs::{ExperimentRows, PageReports, most_workers};
use crate::table::folded;

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    html! {
        p {
            "The locked request with more and more sessions in the store, and with more and more "
            "workers. A line that stays level costs nothing "
            "as a site grows; it ends where filling the store would have taken too long, or where "
            "there was no room, which is among "
            a href="#left-out" { "what was left out" } "."
        }
        (each(runs, "scale", |run| of_run(run, ids)))
    }
}

fn of_run(run: &ExperimentRows<'_>, ids: &ElementIds) -> Markup {
    let most = most_workers(&run.rows);
    let spread = run.rows.first().map_or("", |row| row.question.payload_spread.as_str());
    html! {
        (conditions(run))
        @for (kind, place) in KINDS {
            @let rows = run.only(|row| {
                let asked = &row.question;
                let is_alike = asked.payload_spread == spread && asked.workers == most;
                row.subject.kind == kind && asked.op == "cycle" && is_alike
            });
            @if !rows.is_empty() {
                @let title = format!(
                    "Cycles a second by the number of sessions, {}, {}{}",
                    with_noun(most, "worker"),
                    small(place),
                    run.tier_suffix
                );
                (chart(run, &rows, &title, ids))
                (folded(scale::table(&rows, place), ids))
            }
        }
    }
}

fn chart(run: &ExperimentRows<'_>, rows: &[&Row], title: &str, ids: &ElementIds) -> Markup {
    let at = |row: &Row| row.question.sessions as f64;
    let places: Vec<f64> = rows.iter().map(|row| at(row)).collect();
    let values: Vec<f64> = rows.iter().filter_map(|row| speed(row)).collect();
    let curves = Curves {
        words: ChartText { title: title.to_owned(), description: CURVES.to_owned() },
        x: Axis::measured("sessions in the store", &places),
        y: Axis::fitting("cycles a second", &values),
        curves: curves(run, rows, &at, &speed),
    };
    let which = |row: &Row| with_noun(row.question.sessions, "session");
    html! { h3 { (title) } figure { (curves.draw(ids)) } (wrong_ones(rows, &which)) }
}
