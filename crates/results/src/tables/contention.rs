//! The table of `contention`: all workers on one session.

use crate::columns::{op, rate, store, workers};
use crate::number::{count, figure};
use crate::table::{ResultTable, TableCell, bad, measured, percentile, right, right_or_empty};
use crate::{Row, Waits};

pub fn table(rows: &[&Row]) -> ResultTable {
    let waited = |title: &str, quantile, of: fn(Waits) -> f64| {
        measured(title, move |row| {
            let told = |waits: Waits| percentile(of(waits), quantile, waits.taken);
            row.figures.waits.map_or(TableCell::Empty, told)
        })
    };
    let columns = vec![
        store(),
        op("way"),
        workers(),
        rate(),
        measured("fairness", |row| {
            right_or_empty(row.figures.fairness.map(|fairness| format!("{fairness:.2}")))
        }),
        measured("found it taken", |row| {
            let taken = |waits: Waits| {
                format!("{} of {}", count(waits.taken as f64), count(waits.begins as f64))
            };
            right_or_empty(row.figures.waits.map(taken))
        }),
        waited("median wait", 0.5, |waits| waits.taken_p50),
        waited("p99 wait", 0.99, |waits| waits.taken_p99),
        measured("median of all", |row| {
            right_or_empty(row.figures.waits.map(|waits| figure(waits.all_p50)))
        }),
        measured("lost updates", |row| {
            let lost = count(row.outcome.lost as f64);
            if row.outcome.lost > 0 && row.is_bad() { bad(lost) } else { right(lost) }
        }),
    ];
    let caption = "One session, all workers; waits in \u{b5}s of the begins that found it taken; \
                   fairness 1 means that all workers had the same share";
    ResultTable::of_rows(caption, rows, columns)
}
