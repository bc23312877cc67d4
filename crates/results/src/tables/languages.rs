//! The table of `languages`: what a request of a framework takes with each keeper of its sessions.

use crate::Row;
use crate::columns::{op, store};
use crate::number::{count, figure};
use crate::table::{ResultTable, measured, right, right_or_empty};

pub fn table(rows: &[&Row]) -> ResultTable {
    let columns = vec![
        store(),
        op("op"),
        measured("fastest \u{b5}s", |row| right(figure(row.latency_us.min))),
        measured("median \u{b5}s", |row| right(figure(row.latency_us.p50))),
        measured("times ours", |row| right_or_empty(row.times_ours(rows).map(figure))),
        measured("requests checked", |row| right(count(row.operations as f64))),
    ];
    let caption = "Open, change and save a session, in the runtime of each language; rows of one \
                   framework are comparable, and floors keep nothing";
    ResultTable::of_rows(caption, rows, columns)
}

impl Row {
    /// How many times as long as our row of the same framework this one takes.
    pub fn times_ours(&self, rows: &[&Row]) -> Option<f64> {
        let is_ours = |row: &&&Row| {
            matches!(row.variant.as_str(), "sessile" | "apache-session-sessile")
                && (&row.store, &row.op) == (&self.store, &self.op)
        };
        let ours = rows.iter().find(is_ours)?.latency_us.min;
        (ours > 0.0 && self.failed.is_none()).then(|| self.latency_us.min / ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LatencyUs;
    use crate::table::bad;

    #[test]
    fn a_row_is_compared_with_ours_of_its_framework_and_a_failed_one_with_none() {
        let row = |store: &str, variant: &str, us: f64, failed: bool| Row {
            store: store.into(),
            variant: variant.into(),
            op: "request".into(),
            latency_us: LatencyUs { min: us, p50: us, ..LatencyUs::default() },
            failed: failed.then(|| "9 of 10 requests are counted".into()),
            ..Row::default()
        };
        let rows = [
            row("django", "sessile", 10.0, false),
            row("django", "file", 45.0, false),
            row("flask", "redis", 45.0, false),
            row("django", "db", 30.0, true),
        ];
        let rows: Vec<&Row> = rows.iter().collect();
        let times: Vec<Option<f64>> = rows.iter().map(|row| row.times_ours(&rows)).collect();
        assert_eq!(times, [Some(1.0), Some(4.5), None, None]);
        let table = table(&rows);
        let cells = |place: usize| table.rows[place].cells.clone();
        assert!(cells(1).contains(&right(figure(4.5))), "{table:?}");
        assert!(cells(3).contains(&bad("failed")), "{table:?}");
        assert!(!cells(3).contains(&right(figure(30.0))), "{table:?}");
    }
}
