//! The comparison as text: a table for each experiment, and notes on what cannot be concluded.

use std::fmt;

use comfy_table::{Cell, Table};

use super::matching::MEASURED_ONCE;
use super::runs::with_titles;
use super::{ComparedRow, Comparison, DriftBasis, RowName, Verdict, distinct};
use crate::experiments::setups::{self, SETUPS_MIN};
use crate::report::table::{never_wrap, new_table, right_aligned, three_digits};
use crate::statistics::Spread;

/// Beyond this drift rows need not have followed the machine alike.
const DRIFT_LARGE: f64 = 0.1;
/// Fewer hardly correct the assumed run variance.
const REFERENCE_ROWS_FEW: usize = 3;
/// Rows named for one reason.
const NAMED_MAX: usize = 12;
/// Larger slowdowns are not printed.
const SEEN_MAX: f64 = 0.99;

impl Comparison {
    /// Call once, when rows are complete.
    pub(super) fn add_notes(&mut self) {
        let moved = self.yardstick.iter().filter(|row| (row.ratio - 1.0).abs() > DRIFT_LARGE);
        let moved = distinct(moved.map(|row| row.row.run()));
        let of = |is: &dyn Fn(&ComparedRow) -> bool| {
            distinct(self.rows.iter().filter(|row| is(row)).map(|row| row.row.run()))
        };
        let other = self.rows.iter().filter(|row| row.is_of_other_workers());
        let other = distinct(other.map(|row| row.row.workers.to_string())).join(", ");
        let few = |row: &ComparedRow| {
            row.basis == DriftBasis::ReferenceRows && row.yardstick_rows < REFERENCE_ROWS_FEW
        };
        let found = [
            (
                moved,
                "the machine was another one in NEW: reference rows moved by more than 10 %; what \
                 they have in common is taken out, but a row need not have followed them"
                    .to_owned(),
            ),
            (
                of(&|row| row.basis == DriftBasis::OtherStores),
                "no reference row is in both results, so what most stores have in common is taken \
                 for the machine's: a slowdown of all stores together cannot be seen (measure \
                 limit, lmdb or redis-four-trips along)"
                    .to_owned(),
            ),
            (
                of(&|row| row.basis == DriftBasis::Nothing),
                "nothing tells how fast the machine was, so only large differences count: measure \
                 reference rows along, for example --stores files,limit,lmdb,null"
                    .to_owned(),
            ),
            (
                of(&|row| row.basis == DriftBasis::SameRounds && row.setups > 0),
                "measured in the same rounds, turn by turn, of stores that were set up several \
                 times: rows are held against themselves, setup by setup"
                    .to_owned(),
            ),
            (
                of(&|row| row.basis == DriftBasis::SameRounds && row.setups == 0),
                format!(
                    "measured in the same rounds, turn by turn: rows are held against themselves, \
                     round by round, because there were fewer than {SETUPS_MIN} setups (from {} \
                     --rounds on there are, where there is room for a store beside each)",
                    setups::ROUNDS_MIN
                ),
            ),
            (
                of(&few),
                format!(
                    "fewer than {REFERENCE_ROWS_FEW} reference rows alike in kind and workers: \
                     what is assumed of rows is hardly corrected"
                ),
            ),
            (
                of(&ComparedRow::is_of_other_workers),
                format!(
                    "* no reference row at {other} workers: such rows are held against reference \
                     rows at other numbers of workers, which need not feel the machine alike"
                ),
            ),
        ];
        let runs = self.runs().len();
        let found = found.into_iter().filter(|(titles, _)| !titles.is_empty());
        self.notes.extend(found.map(|(titles, note)| with_titles(&titles, runs, &note)));
        self.notes.extend(self.advice());
    }

    fn advice(&self) -> Option<String> {
        let unclear = self.unclear().count();
        if unclear == 0 {
            return None;
        }
        let (all, twice) = (self.rows.len(), percent(2.0 * self.threshold));
        let advice = if self.unclear().all(|row| row.basis == DriftBasis::SameRounds) {
            "with more --rounds, or on a machine that does less else"
        } else {
            "with more --rounds, on a machine that does nothing else (10 % of one row takes 25 \
             rounds there), or in the same rounds with --against"
        };
        Some(format!(
            "{unclear} of {all} rows cannot tell: a slowdown of {twice} % could have gone unseen; \
             measure both again {advice}"
        ))
    }

    fn table(&self, run: &str) -> Table {
        let mut table = new_table(&[
            "store",
            "op",
            "figure",
            "old",
            "new",
            "new/old",
            "interval",
            "would see",
            "",
        ]);
        (0..table.column_count()).for_each(|column| never_wrap(&mut table, column));
        for row in self.rows.iter().filter(|row| row.row.run() == run) {
            table.add_row(cells(row, self.threshold));
        }
        table
    }

    fn write_legend(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sure, threshold) = (percent(self.confidence), percent(self.threshold));
        let assumed = self.rows.iter().filter(|row| row.setups == 0);
        let apart = Spread::of(&assumed.map(|row| row.apart * 100.0).collect::<Vec<f64>>());
        let [least, most] = [apart.low, apart.high].map(|apart| format!("{apart:.1}"));
        let apart = if least == most { most } else { format!("{least} to {most}") };
        let condition = if self.rows.iter().all(|row| row.setups > 0) {
            " as long as setups have nothing to do with each other.".to_owned()
        } else {
            format!(
                " as long as a row varies by no more than {apart} % from run to run\nbeyond what \
                 its rounds show; that is assumed, and corrected by the yardstick."
            )
        };
        writeln!(
            f,
            "\nAll intervals hold together with {sure} %{condition}\n\
             `would see`: the smallest slowdown that is reported in 19 of 20 cases.\n\
             A row is slower when its interval ends below 1 (of a latency: begins above) and it \
             lost at least {threshold} %."
        )
    }

    fn write_verdicts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdicts = [Verdict::Slower, Verdict::Faster, Verdict::Within, Verdict::Unclear];
        let told = verdicts.map(|verdict| {
            format!("{} {}", self.of(verdict).count(), verdict_text(verdict, self.threshold))
        });
        let would_see =
            Spread::of(&self.rows.iter().map(|row| row.would_see).collect::<Vec<f64>>());
        let slowdown = |part: f64| {
            let not_even = if part > SEEN_MAX { "not even " } else { "" };
            format!("{not_even}a slowdown of {}", rounded_up(part.min(SEEN_MAX)))
        };
        writeln!(f, "rows: {}", told.join(", "))?;
        let half = format!("; {} in half of them", slowdown(would_see.median));
        let half = if self.rows.len() > 1 { half } else { String::new() };
        writeln!(f, "{} would have been seen in every row{half}", slowdown(would_see.high))
    }

    fn write_not_compared(&self, f: &mut fmt::Formatter<'_>, several: bool) -> fmt::Result {
        let mut reasons: Vec<(String, &str, Vec<String>)> = Vec::new();
        let mut add = |head: String, why, place| match reasons
            .iter_mut()
            .find(|(of, it, _)| *of == head && *it == why)
        {
            Some((_, _, places)) => places.push(place),
            None => reasons.push((head, why, vec![place])),
        };
        for row in &self.not_compared {
            let word = if row.broken { "BROKEN: " } else { "not compared: " };
            let run = if several { format!("{}: ", row.row.run()) } else { String::new() };
            add(format!("{word}{run}"), row.why.as_str(), place(&row.row));
        }
        for run in &self.runs_not_compared {
            add("not compared: ".to_owned(), run.why.as_str(), run.experiment.clone());
        }
        for run in &self.measured_once {
            add("not compared: ".to_owned(), MEASURED_ONCE, run.clone());
        }
        reasons.into_iter().try_for_each(|(head, why, places)| {
            let more = places.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 {
                format!(" and {more} more (--json names them)")
            } else {
                String::new()
            };
            let named: Vec<String> = places.into_iter().take(NAMED_MAX).collect();
            writeln!(f, "{head}{}{more}: {why}", named.join(", "))
        })
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let several = self.runs().len() > 1;
        let compared = distinct(self.rows.iter().map(|row| row.row.run()));
        for (number, run) in compared.iter().enumerate() {
            if several {
                let gap = if number > 0 { "\n" } else { "" };
                writeln!(f, "{gap}== {run}")?;
            }
            writeln!(f, "{}", self.table(run))?;
        }
        if !self.rows.is_empty() {
            self.write_legend(f)?;
        }
        for run in distinct(self.yardstick.iter().map(|row| row.row.run())) {
            let rows = self.yardstick.iter().filter(|row| row.row.run() == run);
            let rows =
                rows.map(|row| format!("{} {} {:.3}", place(&row.row), row.measure, row.ratio));
            let of = if several { format!(" of {run}") } else { String::new() };
            writeln!(
                f,
                "yardstick{of} (new/old as measured): {}",
                rows.collect::<Vec<String>>().join(", ")
            )?;
        }
        self.write_not_compared(f, several)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))?;
        if self.rows.is_empty() { Ok(()) } else { self.write_verdicts(f) }
    }
}

impl ComparedRow {
    /// Whether no reference row has as many workers.
    fn is_of_other_workers(&self) -> bool {
        !self.yardstick_same_workers
    }
}

fn cells(row: &ComparedRow, threshold: f64) -> Vec<Cell> {
    let mark = if row.is_of_other_workers() { " *" } else { "" };
    vec![
        Cell::new(row.row.title()),
        Cell::new(format!("{}@{}", row.row.operation(), row.row.workers)),
        Cell::new(figure_name(row.measure)),
        right_aligned(three_digits(row.old)),
        right_aligned(three_digits(row.new)),
        right_aligned(format!("{:.3}", row.ratio)),
        right_aligned(format!("{:.2}..{:.2}", row.low, row.high)),
        right_aligned(rounded_up(row.would_see)),
        Cell::new(format!("{}{mark}", verdict_text(row.verdict, threshold))),
    ]
}

fn verdict_text(verdict: Verdict, threshold: f64) -> String {
    match verdict {
        Verdict::Slower => "SLOWER".to_owned(),
        Verdict::Faster => "faster".to_owned(),
        Verdict::Within => format!("within {} %", percent(threshold)),
        Verdict::Unclear => "cannot tell".to_owned(),
    }
}

/// Percent, rounded up so that sensitivity is not overstated.
fn rounded_up(part: f64) -> String {
    format!("{:.0} %", (part * 100.0).ceil())
}

/// Percent with the digits needed: 5, 0.1.
fn percent(part: f64) -> String {
    ((part * 1e6).round() / 1e4).to_string()
}

fn figure_name(measure: &str) -> String {
    if measure == "ops_per_second" { "per s".to_owned() } else { measure.replace('_', " ") }
}

fn place(row: &RowName) -> String {
    format!("{} {}@{}", row.title(), row.operation(), row.workers)
}

impl RowName {
    /// In `scale` with its size.
    pub fn operation(&self) -> String {
        match self.experiment.as_str() {
            "scale" => format!("{} {} {}", self.op, self.sessions, self.payload_spread),
            _ => self.op.clone(),
        }
    }
}
