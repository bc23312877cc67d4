//! The table of `languages`: what a request takes with each store of its sessions, in the runtime
//! of its language.

use crate::columns::{op, sessions, store};
use crate::number::{count, figure};
use crate::table::{ResultTable, TableCell, measured, percentile, right, right_or_empty};
use crate::{LatencyUs, Row};

pub fn table(rows: &[&Row]) -> ResultTable {
    let columns = vec![
        store(),
        op("op"),
        sessions(),
        measured("fastest \u{b5}s", |row| right(figure(row.figures.latency_us.min))),
        measured("median \u{b5}s", |row| right(figure(row.figures.latency_us.p50))),
        measured("p99.9 \u{b5}s", |row| match row.figures.latency_us.p999 {
            0.0 => TableCell::Empty, // only rounds were timed
            us => percentile(us, 0.999, row.figures.operations),
        }),
        measured("slowest \u{b5}s", |row| right(figure(row.figures.latency_us.max))),
        measured("times ours", |row| right_or_empty(row.times_ours(rows).map(figure))),
        measured("requests checked", |row| right(count(row.figures.operations as f64))),
    ];
    let caption = "Open, change and save a session, in the runtime of each language; rows of one \
                   framework are comparable, and floors keep nothing. Fastest and slowest are of \
                   rounds, or of calls where there is a p99.9";
    ResultTable::of_rows(caption, rows, columns)
}

impl Row {
    /// How many times as long as our row of the same framework this one takes: the fastest round,
    /// or the median where each call was timed.
    pub fn times_ours(&self, rows: &[&Row]) -> Option<f64> {
        let is_ours = |row: &&&Row| {
            ["sessile", "sessile-disk", "apache-session-sessile"]
                .contains(&row.subject.variant.as_str())
                && row.outcome.failed.is_none()
                && (&row.subject.store, &row.question.op, row.question.sessions)
                    == (&self.subject.store, &self.question.op, self.question.sessions)
        };
        let us = |of: LatencyUs| if of.p999 > 0.0 { of.p50 } else { of.min };
        let ours = us(rows.iter().find(is_ours)?.figures.latency_us);
        (ours > 0.0 && self.outcome.failed.is_none()).then(|| us(self.figures.latency_us) / ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::bad;
    use crate::{Figures, Outcome, Question, Subject};

    #[test]
    fn a_row_is_compared_with_ours_of_its_framework_and_a_failed_one_with_none() {
        let row = |store: &str, variant: &str, us: f64, failed: bool| Row {
            subject: Subject { store: store.into(), variant: variant.into(), ..Subject::default() },
            question: Question { op: "request".into(), ..Question::default() },
            figures: Figures {
                latency_us: LatencyUs { min: us, p50: us, ..LatencyUs::default() },
                ..Figures::default()
            },
            outcome: Outcome {
                failed: failed.then(|| "9 of 10 requests are counted".into()),
                ..Outcome::default()
            },
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
