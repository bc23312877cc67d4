//! The table of `gc`: requests beside garbage collection, and what was removed meanwhile.

use crate::columns::{op, sessions, store};
use crate::number::{count, figure};
use crate::statistics::is_told;
use crate::table::{Column, ResultTable, TableCell, bad, measured, right, text};
use crate::{LatencyUs, Modes, Removal, Row};

pub fn table(rows: &[&Row]) -> ResultTable {
    let null = rows.iter().find(|row| row.subject.store == "null" && row.outcome.failed.is_none());
    let floor = null.map(|null| null.figures.latency_us).unwrap_or_default();
    // A percentile that calls have which do nothing is the machine's. Any number of calls has a
    // longest.
    let latency = |title: &str, quantile: f64, of: fn(LatencyUs) -> f64, has_floor: bool| {
        measured(title, move |row| {
            let us = of(row.figures.latency_us);
            if quantile > 0.0 && !is_told(quantile, row.figures.operations) {
                return text("too few calls");
            }
            if has_floor && us <= of(floor) && row.subject.store != "null" {
                return text(format!("{}, as null", figure(us)));
            }
            right(figure(us))
        })
    };
    let columns = vec![
        store(),
        sessions(),
        op("phase"),
        latency("p50", 0.5, |it| it.p50, false),
        latency("p99", 0.99, |it| it.p99, true),
        latency("p99.9", 0.999, |it| it.p999, true),
        latency("max", 0.0, |it| it.max, false),
        removal("removed", |it| Some(count(it.removed? as f64))),
        removal("in s", |it| Some(format!("{:.2}", it.seconds))),
        removal("CPU s", |it| Some(format!("{:.2}", it.cpu_seconds?))),
        measured("modes", modes),
    ];
    let caption = "Latency of requests in \u{b5}s, what was removed meanwhile, and whether those \
                   that swept are a mode of their own";
    ResultTable::of_rows(caption, rows, columns)
}

/// Nobody can say of a server what it removes by itself: that is not known, and not 0.
fn removal<'a>(title: &str, of: fn(Removal) -> Option<String>) -> Column<'a> {
    measured(title, move |row| match row.removal {
        None => TableCell::Empty,
        Some(removal) => of(removal).map_or(text("not known"), right),
    })
}

/// One mode among few sessions is no all-clear for many.
fn modes(row: &Row) -> TableCell {
    match row.figures.modes {
        None => TableCell::Empty,
        Some(modes) if modes.modes > 1 => bad(format!(
            "two: a tenth of those that swept took {} \u{b5}s",
            figure(modes.sweeping_p90)
        )),
        Some(_) if row.question.sessions < Modes::SESSIONS_MIN => text("too few sessions to tell"),
        Some(_) => text("one"),
    }
}
