//! Parallel requests on one session: waits, fairness, lost updates.

use std::cmp::Ordering;

use maud::{Markup, html};
use sessile_results::Row;
use sessile_results::statistics::{Spread, is_told};
use sessile_results::tables::contention;

use super::{conditions, each, length};
use crate::chart::{Bar, BarRow, Bars, ChartText};
use crate::ids::ElementIds;
use crate::runs::{ExperimentRows, PageReports};
use crate::table::folded;

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    html! {
        p {
            "A page whose requests all want the same session at once. What counts is how long a "
            "request waits that found it taken, whether "
            "all get their turn, and that no update is lost."
        }
        (each(runs, "contention", |run| {
            let table = contention::table(&run.rows);
            html! { (conditions(run)) (waits(run, ids)) (folded(table, ids)) }
        }))
    }
}

fn waits(run: &ExperimentRows<'_>, ids: &ElementIds) -> Markup {
    let mut rows = run.only(|row| row.figures.waits.is_some());
    // Without a lock a row need not wait, so rows with lost updates come last.
    rows.sort_by(|a, b| {
        (a.is_bad(), wait(a)).partial_cmp(&(b.is_bad(), wait(b))).unwrap_or(Ordering::Equal)
    });
    let bars = |row: &Row| {
        let waits = row.figures.waits.unwrap_or_default();
        let bar = |series, name: &str, us: f64| {
            let length = length(row, Spread { median: us, low: us, high: us });
            Bar { series, name: name.to_owned(), length }
        };
        let mut bars = vec![bar(0, "median", waits.taken_p50)];
        if is_told(0.99, waits.taken) {
            bars.push(bar(1, "p99", waits.taken_p99));
        }
        bars
    };
    let chart = Bars {
        words: ChartText {
            title: format!("Waits of the requests that found the session taken{}", run.tier_suffix),
            description:
                "Two bars for each contender, its median and its 99th percentile, which is left \
                 out where too few requests waited; its values are in the table below."
                    .to_owned(),
        },
        unit: "microseconds".to_owned(),
        series: String::new(),
        rows: rows
            .iter()
            .map(|row| BarRow { name: row.subject.marked_title(), bars: bars(row) })
            .collect(),
    };
    html! {
        @if !rows.is_empty() {
            h3 { "How long a request waits that found the session taken" (run.tier_suffix) }
            figure {
                (chart.draw(ids))
                figcaption {
                    "At a fixed rate, with 0.2 ms of work under the lock. Further to the left is "
                    "better."
                }
            }
        }
    }
}

fn wait(row: &Row) -> f64 {
    row.figures.waits.map_or(0.0, |waits| waits.taken_p50)
}
