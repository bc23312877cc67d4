//! Parallel requests on one session: waits, fairness, lost updates.

use std::cmp::Ordering;

use maud::{Markup, html};
use sessile_bench::report::{Row, Waits};
use sessile_bench::statistics::is_told;

use super::{conditions, not_run, went_wrong};
use crate::DrawError;
use crate::chart::{Bar, BarLength, BarRow, Bars, ChartText};
use crate::ids::ElementIds;
use crate::number::count;
use crate::runs::{ExperimentRows, PageReports, fault, marked};
use crate::table::{HtmlTable, TableCell, percentile, right, text};

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let measured = runs.by_tier("contention", |_| true);
    Ok(html! {
        p {
            "A page whose requests all want the same session at once. What counts is how long a "
            "request waits that found it taken, whether "
            "all get their turn, and that no update is lost."
        }
        @if measured.is_empty() { (not_run(runs, "contention")) }
        @for run in &measured {
            (conditions(run))
            (waits(run, ids)?)
            (table(run).folded(ids))
        }
    })
}

fn waits(run: &ExperimentRows<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let mut rows: Vec<&Row> = run.rows.iter().filter(|row| row.waits.is_some()).copied().collect();
    // Without a lock a row need not wait, so rows with lost updates come last.
    rows.sort_by(|a, b| {
        (a.is_bad(), wait(a)).partial_cmp(&(b.is_bad(), wait(b))).unwrap_or(Ordering::Equal)
    });
    let bars = |row: &Row| {
        let waits = row.waits.unwrap_or_default();
        let bar = |series, name: &str, us: f64| Bar {
            series,
            name: name.to_owned(),
            length: match &row.failed {
                Some(_) => BarLength::Failed("failed (see the warnings)".to_owned()),
                None => BarLength::Value { median: us, low: us, high: us, fault: fault(row) },
            },
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
            .map(|row| BarRow { name: marked(&row.shown_title()), bars: bars(row) })
            .collect(),
    };
    Ok(html! {
        @if !rows.is_empty() {
            h3 { "How long a request waits that found the session taken" (run.tier_suffix) }
            figure {
                (chart.draw(ids)?)
                figcaption {
                    "At a fixed rate, with 0.2 ms of work under the lock. Further to the left is "
                    "better."
                }
            }
        }
    })
}

fn wait(row: &Row) -> f64 {
    row.waits.map_or(0.0, |waits| waits.taken_p50)
}

fn table(run: &ExperimentRows<'_>) -> HtmlTable {
    let columns = [
        "store",
        "way",
        "workers",
        "a second",
        "fairness",
        "found it taken",
        "median wait",
        "p99 wait",
        "lost updates",
        "went wrong",
    ];
    let caption = format!(
        "One session, all workers; waits in microseconds; fairness 1 means that all workers had \
         the same share{}",
        run.tier_suffix
    );
    let mut table = HtmlTable::new(caption, &columns);
    for row in &run.rows {
        let waits = row.waits;
        let waited = |quantile, of: fn(Waits) -> f64| {
            waits.map_or(TableCell::Empty, |waits| percentile(of(waits), quantile, waits.taken))
        };
        let mut cells = vec![text(row.shown_title()), text(&row.op), right(row.workers)];
        cells.push(if row.failed.is_some() {
            TableCell::Bad("failed".into())
        } else {
            right(count(row.ops_per_second.median))
        });
        cells.push(
            row.fairness.map_or(TableCell::Empty, |fairness| right(format!("{fairness:.2}"))),
        );
        cells.push(waits.map_or(TableCell::Empty, |waits| {
            right(format!("{} of {}", count(waits.taken as f64), count(waits.begins as f64)))
        }));
        cells.extend([waited(0.5, |waits| waits.taken_p50), waited(0.99, |waits| waits.taken_p99)]);
        let lost = count(row.lost as f64);
        cells.push(if row.is_bad() && row.lost > 0 { TableCell::Bad(lost) } else { right(lost) });
        cells.push(went_wrong(row));
        table.row(cells);
    }
    table
}
