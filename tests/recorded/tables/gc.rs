//! Source B: starts during garbage collection, and removal.

use sessile_results::Collection;
use sessile_results::Row;

use super::{code, figure, grouped, row, run, table, titles};

/// A duration in the unit with up to three digits.
fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{} us", figure(us)),
        us if us < 1e6 => format!("{} ms", figure(us / 1e3)),
        us => format!("{} s", figure(us / 1e6)),
    }
}

/// Source B in PHP: starts with and without garbage collection, and the tail of idle calls.
pub fn starts(record: &Collection) -> String {
    let run = run(record, "gc", "");
    let conditions = [
        ("start-gc-0.1", "1 in 10"),
        ("start-gc-0", "never"),
        ("start-while-sweeping", "a sweep beside"),
    ];
    let mut handlers: Vec<String> = run.results.iter().map(Row::title).collect();
    handlers.dedup();
    let rows = handlers.iter().flat_map(|title| {
        let of =
            move |op: &str| run.results.iter().find(|row| row.op == op && row.title() == *title);
        conditions.into_iter().filter_map(move |(op, gc)| {
            let row = of(op)?;
            let nothing = of("nothing").filter(|_| op == "start-gc-0.1");
            let latency = [row.latency_us.p50, row.latency_us.p999, row.latency_us.max].map(time);
            let cells = [code(title), gc.to_owned(), grouped(row.operations as f64)]
                .into_iter()
                .chain(latency);
            Some(
                cells
                    .chain([
                        modes(row),
                        nothing.map_or(String::new(), |row| time(row.latency_us.p999)),
                    ])
                    .collect(),
            )
        })
    });
    let head = [
        "handler",
        "gc",
        "starts",
        "median",
        "p99.9",
        "longest",
        "modes",
        "p99.9 of doing nothing",
    ];
    table(&head, rows)
}

/// One, or two with the size of the slower one; empty without gc.
fn modes(row: &Row) -> String {
    row.modes.map_or(String::new(), |modes| {
        let share = 100.0 * modes.sweeping as f64 / row.operations as f64;
        let two = || format!("two: {share:.0} % at {}", time(modes.sweeping_p50));
        if modes.modes > 1 { two() } else { "one".to_owned() }
    })
}

/// Source B without PHP: the time to remove nine of ten sessions, and its effect on requests.
pub fn deletion(record: &Collection) -> String {
    let run = run(record, "gc", "");
    let rows = titles(run, DELETING).into_iter().map(|title| {
        let deleting = row(run, &title, DELETING, 1);
        let is_alone = |row: &&Row| {
            row.title() == title && row.op == "begin-alone" && row.sessions == deleting.sessions
        };
        let alone = run
            .results
            .iter()
            .find(is_alone)
            .unwrap_or_else(|| panic!("{title} was not measured alone"));
        let removal =
            deleting.removal.unwrap_or_else(|| panic!("{title} does not tell what was removed"));
        let removed = removal.removed.map_or("not known".to_owned(), |count| grouped(count as f64));
        let begins = grouped(deleting.operations as f64);
        let both = |of: fn(&Row) -> f64| [alone, deleting].map(|row| figure(of(row) / 1e3));
        let cells = [code(&title), removed, figure(removal.seconds), begins].into_iter();
        cells.chain(both(|row| row.latency_us.p50)).chain(both(|row| row.latency_us.p99)).collect()
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
