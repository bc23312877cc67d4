//! Source B: starts during garbage collection, and removal.

use sessile_results::Collection;
use sessile_results::Row;
use sessile_results::statistics::is_told;

use super::{code, figure, grouped, languages, row, run, table, titles};

/// A duration in the unit with up to three digits.
fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{} us", figure(us)),
        us if us < 1e6 => format!("{} ms", figure(us / 1e3)),
        us => format!("{} s", figure(us / 1e6)),
    }
}

/// A percentile, if there were enough calls for it.
fn told(quantile: f64, row: &Row, percentile: String) -> String {
    if is_told(quantile, row.figures.operations) { percentile } else { "-".to_owned() }
}

/// Source B in PHP: starts with and without garbage collection.
pub fn starts(record: &Collection) -> String {
    let rows = languages(record, "php").into_iter().filter_map(|row| {
        let gc = match row.question.op.as_str() {
            "start-gc-0.1" => "1 in 10",
            "start-gc-0" => "never",
            _ => return None,
        };
        let of = row.figures.latency_us;
        let counts = [
            grouped(row.question.sessions as f64),
            gc.to_owned(),
            grouped(row.figures.operations as f64),
        ];
        let tail = |quantile: f64, us: f64| told(quantile, row, time(us));
        let times = [time(of.p50), tail(0.99, of.p99), tail(0.999, of.p999), time(of.max)];
        Some([code(&row.subject.title())].into_iter().chain(counts).chain(times).collect())
    });
    table(&["handler", "sessions", "gc", "starts", "median", "p99", "p99.9", "longest"], rows)
}

/// Source B without PHP: the time to remove nine of ten sessions, and its effect on requests.
pub fn deletion(record: &Collection) -> String {
    let run = run(record, "gc", "");
    let rows = titles(run, DELETING).into_iter().map(|title| {
        let deleting = row(run, &title, DELETING, 1);
        let is_alone = |row: &&Row| {
            row.subject.title() == title
                && row.question.op == "begin-alone"
                && row.question.sessions == deleting.question.sessions
        };
        let alone = run
            .results
            .iter()
            .find(is_alone)
            .unwrap_or_else(|| panic!("{title} was not measured alone"));
        let removal =
            deleting.removal.unwrap_or_else(|| panic!("{title} does not tell what was removed"));
        let removed = removal.removed.map_or("not known".to_owned(), |count| grouped(count as f64));
        let begins = grouped(deleting.figures.operations as f64);
        let both = |of: fn(&Row) -> f64| [alone, deleting].map(|row| figure(of(row) / 1e3));
        let cells = [code(&title), removed, figure(removal.seconds), begins].into_iter();
        cells
            .chain(both(|row| row.figures.latency_us.p50))
            .chain(
                [alone, deleting]
                    .map(|row| told(0.99, row, figure(row.figures.latency_us.p99 / 1e3))),
            )
            .collect()
    });
    let head = [
        "store",
        "removed",
        "s",
        "begins meanwhile",
        "p50 alone, ms",
        "p50 meanwhile",
        "p99 alone",
        "p99 meanwhile",
    ];
    table(&head, rows)
}

const DELETING: &str = "begin-while-deleting";
