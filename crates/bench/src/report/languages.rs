//! The table of `languages`: what a request of a framework takes with each keeper of its sessions.

use std::fmt;

use comfy_table::{Cell, Table};

use crate::report::markdown::write_section;
use crate::report::table::{grouped, never_wrap, new_table, right_aligned, three_digits};
use crate::report::{Report, Row};

impl Report {
    pub(super) fn languages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<&Row> =
            self.results.iter().filter(|row| row.experiment == "languages").collect();
        if rows.is_empty() {
            return Ok(());
        }
        let heading = "Open, change and save a session, in the runtime of each language; rows of \
                       one framework are comparable, and floors keep nothing";
        write_section(f, heading, &table(&rows))
    }
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

fn table(rows: &[&Row]) -> Table {
    let mut table =
        new_table(&["store", "op", "fastest us", "median us", "times ours", "requests checked"]);
    never_wrap(&mut table, 0);
    for row in rows {
        let mut cells = vec![Cell::new(row.title()), Cell::new(&row.op)];
        if row.failed.is_some() {
            cells.push(right_aligned("failed"));
        } else {
            let times = row.times_ours(rows).map_or_else(|| "-".to_owned(), three_digits);
            cells.extend(
                [row.latency_us.min, row.latency_us.p50].map(three_digits).map(right_aligned),
            );
            cells.push(right_aligned(times));
            cells.push(right_aligned(grouped(row.operations as f64)));
        }
        table.add_row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::LatencyUs;

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
        let text = table(&rows).to_string();
        let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
        assert!(line("django#file").contains("4.5"), "{text}");
        assert!(
            line("django#db").contains("failed") && !line("django#db").contains("30"),
            "{text}"
        );
    }
}
