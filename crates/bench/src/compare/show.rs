//! The comparison for people: a table, and sentences that say what may not be concluded from it.

use std::fmt;

use comfy_table::{Cell, ColumnConstraint};

use super::{Basis, Compared, Comparison, RowName, Verdict};
use crate::report::table::{empty, figure, right};

/// Beyond this the machine was so different that rows need not have followed it alike.
const DRIFT_LARGE: f64 = 0.1;
/// With fewer there is hardly anything to correct the assumed fortune of rows by.
const REFERENCE_ROWS_FEW: usize = 3;

impl Comparison {
    /// Says what the verdicts rest on. To be called once, when the rows are there.
    pub(super) fn add_notes(&mut self) {
        let drifts: Vec<f64> = self.yardstick.iter().map(|row| row.ratio - 1.0).collect();
        if drifts.iter().any(|drift| drift.abs() > DRIFT_LARGE) {
            self.notes.push(
                "the machine was another one in NEW: reference rows moved by more than 10 %; what they have in common \
                 is taken out, but a row need not have followed them"
                    .to_owned(),
            );
        }
        if self.rows.iter().any(|row| row.basis == Basis::OtherStores) {
            self.notes.push(
                "no reference row is in both results, so what most stores have in common is taken for the machine's: a \
                 slowdown of all stores together cannot be seen (measure limit, lmdb or redis-four-trips along)"
                    .to_owned(),
            );
        }
        if self.rows.iter().any(|row| row.basis == Basis::Nothing) {
            self.notes.push(
                "nothing tells how fast the machine was, so only large differences count: measure reference rows along, \
                 for example --stores files,limit,lmdb,null"
                    .to_owned(),
            );
        }
        let few = |row: &Compared| row.basis == Basis::ReferenceRows && row.yardstick_rows < REFERENCE_ROWS_FEW;
        if self.rows.iter().any(few) {
            self.notes.push(format!(
                "fewer than {REFERENCE_ROWS_FEW} reference rows of a kind: what is assumed of rows is hardly corrected; \
                 measure more along"
            ));
        }
        let unclear = self.unclear().count();
        if unclear > 0 {
            let (all, twice) = (self.rows.len(), percent(2.0 * self.threshold));
            self.notes.push(format!(
                "{unclear} of {all} rows cannot tell: a slowdown of {twice} % could have gone unseen; measure both again \
                 with more --rounds, on a machine that does nothing else"
            ));
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.rows.is_empty() {
            let mut table = empty(&["store", "op", "figure", "old", "new", "new/old", "interval", "would see", ""]);
            for column in table.column_iter_mut() {
                column.set_constraint(ColumnConstraint::ContentWidth); // a figure in two pieces cannot be read
            }
            for row in &self.rows {
                table.add_row(cells(row, self.threshold));
            }
            writeln!(f, "{table}")?;
            let (sure, threshold) = (percent(self.confidence), percent(self.threshold));
            let apart = self.rows.iter().map(|row| row.apart).fold(0.0, f64::max) * 100.0;
            writeln!(
                f,
                "\nAll intervals hold together with {sure} % as long as a row varies by no more than {apart:.1} % from run to \
                 run\nbeyond what its rounds show; that is assumed, and corrected by the yardstick.\n\
                 `would see`: the smallest slowdown that is reported in 19 of 20 cases.\n\
                 A row is slower when its interval ends below 1 (of a latency: begins above) and it lost at least {threshold} %."
            )?;
        }
        if !self.yardstick.is_empty() {
            let rows = self.yardstick.iter();
            let rows = rows.map(|row| format!("{} {} {:.3}", place(&row.row), row.measure, row.ratio));
            writeln!(f, "yardstick (new/old as measured): {}", rows.collect::<Vec<String>>().join(", "))?;
        }
        for row in &self.not_compared {
            let word = if row.broken { "BROKEN" } else { "not compared" };
            writeln!(f, "{word}: {}: {}", place(&row.row), row.why)?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

fn cells(row: &Compared, threshold: f64) -> Vec<Cell> {
    let verdict = match row.verdict {
        Verdict::Slower => "SLOWER".to_owned(),
        Verdict::Faster => "faster".to_owned(),
        Verdict::Within => format!("within {} %", percent(threshold)),
        Verdict::Unclear => "cannot tell".to_owned(),
    };
    vec![
        Cell::new(row.row.title()),
        Cell::new(format!("{}@{}", operation(&row.row), row.row.workers)),
        Cell::new(figure_name(row.measure)),
        right(figure(row.old)),
        right(figure(row.new)),
        right(format!("{:.3}", row.ratio)),
        right(format!("{:.2}..{:.2}", row.low, row.high)),
        right(format!("{:.0} %", (row.would_see * 100.0).ceil())),
        Cell::new(verdict),
    ]
}

/// A part as percent, with as many digits as it has: 5, 0.1.
fn percent(part: f64) -> String {
    ((part * 1e6).round() / 1e4).to_string()
}

/// Short enough for the table.
fn figure_name(measure: &str) -> String {
    if measure == "ops_per_second" { "per s".to_owned() } else { measure.replace('_', " ") }
}

/// A row in one line: what differs within an experiment.
fn place(row: &RowName) -> String {
    format!("{} {}@{}", row.title(), operation(row), row.workers)
}

/// `scale` has the same operation at many sizes.
fn operation(row: &RowName) -> String {
    match row.experiment.as_str() {
        "scale" => format!("{} {} {}", row.op, row.sessions, row.payload_spread),
        _ => row.op.clone(),
    }
}
