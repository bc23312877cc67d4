//! The neutral table of an experiment: a caption, columns, rows and notes. Terminal, Markdown and
//! HTML are writers over it.
//!
//! Invariants, in one place for all writers: a percentile of too few samples is left out, a failed
//! row has no figures, rows that share a durability tier have it in the caption, and what went
//! wrong in a row is told with it. Columns without any content are left out.

use crate::Row;
use crate::grouping::grouped;
use crate::number::figure;
use crate::statistics::is_told;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableCell {
    Text(String),
    /// Aligned to the right.
    Figure(String),
    Bad(String),
    Empty,
}

/// The first column names the rows.
#[derive(Clone, Debug, Default)]
pub struct ResultTable {
    pub caption: String,
    pub columns: Vec<String>,
    pub rows: Vec<TableRow>,
    /// Sentences below it: text, or bad news.
    pub notes: Vec<TableCell>,
}

#[derive(Clone, Debug, Default)]
pub struct TableRow {
    pub cells: Vec<TableCell>,
    /// What went wrong, with the reason.
    pub fault: Option<String>,
}

/// A column of rows of results.
pub struct Column<'a> {
    title: String,
    of: Box<dyn Fn(&Row) -> TableCell + 'a>,
    /// A failed row has no such figure.
    is_measured: bool,
}

pub fn known<'a>(title: impl Into<String>, of: impl Fn(&Row) -> TableCell + 'a) -> Column<'a> {
    Column { title: title.into(), of: Box::new(of), is_measured: false }
}

pub fn measured<'a>(title: impl Into<String>, of: impl Fn(&Row) -> TableCell + 'a) -> Column<'a> {
    Column { is_measured: true, ..known(title, of) }
}

impl ResultTable {
    pub fn new<C: Into<String>>(
        caption: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
    ) -> ResultTable {
        let columns = columns.into_iter().map(Into::into).collect();
        ResultTable { caption: caption.into(), columns, ..ResultTable::default() }
    }

    /// A line for each row of a result. Rows of several tiers say theirs in a column.
    pub fn of_rows(caption: &str, rows: &[&Row], mut columns: Vec<Column<'_>>) -> Self {
        let caption = match shared_tier(rows) {
            Some("") => caption.to_owned(),
            Some(tier) => format!("{caption}, tier {tier}"),
            None => {
                columns.insert(
                    1.min(columns.len()),
                    known("tier", |row| text(&row.question.durability)),
                );
                caption.to_owned()
            }
        };
        let titles = columns.iter().map(|column| column.title.clone());
        let mut table = ResultTable::new(caption, titles);
        table.rows.extend(
            rows.iter().map(|row| TableRow { cells: cells(row, &columns), fault: row.complaint() }),
        );
        table.without_empty_columns()
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = TableCell>) {
        self.rows.push(TableRow { cells: cells.into_iter().collect(), fault: None });
    }

    pub fn without_empty_columns(mut self) -> ResultTable {
        let is_used = |place: usize| {
            self.rows
                .iter()
                .any(|row| row.cells.get(place).is_some_and(|it| *it != TableCell::Empty))
        };
        let used: Vec<bool> = (0..self.columns.len()).map(is_used).collect();
        let mut places = used.iter();
        self.columns.retain(|_| places.next().is_none_or(|used| *used));
        for row in &mut self.rows {
            let mut places = used.iter();
            row.cells.retain(|_| places.next().is_none_or(|used| *used));
        }
        self
    }
}

/// The first figure of a failed row is that it failed.
fn cells(row: &Row, columns: &[Column<'_>]) -> Vec<TableCell> {
    let mut told = row.outcome.failed.is_none();
    let cell = |column: &Column<'_>| {
        if !column.is_measured || row.outcome.failed.is_none() {
            return (column.of)(row);
        }
        if std::mem::replace(&mut told, true) { TableCell::Empty } else { bad("failed") }
    };
    columns.iter().map(cell).collect()
}

/// The tier of all rows; empty without rows, `None` if there are several.
pub fn shared_tier<'a>(rows: &[&'a Row]) -> Option<&'a str> {
    let first = rows.first().map_or("", |row| row.question.durability.as_str());
    rows.iter().all(|row| row.question.durability == first).then_some(first)
}

/// The rows of each contender, in the order of its first.
pub fn of_each<'a>(rows: &[&'a Row]) -> Vec<Vec<&'a Row>> {
    let contenders = grouped(rows.iter().map(|row| (row.subject.shown_title(), *row)));
    contenders.into_iter().map(|(_, rows)| rows).collect()
}

/// The first row of each contender, for tables with a line for all of its rows.
pub fn first_of_each<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    of_each(rows).iter().filter_map(|rows| rows.first().copied()).collect()
}

pub fn text(text: impl ToString) -> TableCell {
    TableCell::Text(text.to_string())
}

pub fn right(text: impl ToString) -> TableCell {
    TableCell::Figure(text.to_string())
}

pub fn bad(text: impl ToString) -> TableCell {
    TableCell::Bad(text.to_string())
}

/// An unknown figure is empty.
pub fn right_or_empty(value: Option<impl ToString>) -> TableCell {
    value.map_or(TableCell::Empty, right)
}

/// A percentile; empty where too few samples lie beyond it.
pub fn percentile(value: f64, quantile: f64, samples: u64) -> TableCell {
    if is_told(quantile, samples) { right(figure(value)) } else { TableCell::Empty }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Figures, Outcome, Question, Subject};

    fn row(store: &str, tier: &str, failed: Option<&str>) -> Row {
        Row {
            subject: Subject {
                store: store.into(),
                variant: "default".into(),
                ..Subject::default()
            },
            question: Question { durability: tier.into(), ..Question::default() },
            figures: Figures { operations: 1_500, ..Figures::default() },
            outcome: Outcome { failed: failed.map(str::to_owned), ..Outcome::default() },
            ..Row::default()
        }
    }

    fn table(rows: &[Row]) -> ResultTable {
        let columns = vec![
            known("store", |row| text(row.subject.title())),
            known("nothing", |_| TableCell::Empty),
            measured("p99", |row| percentile(7.0, 0.99, row.figures.operations)),
            measured("p99.9", |row| percentile(9.0, 0.999, row.figures.operations)),
            measured("max", |_| right("10")),
        ];
        ResultTable::of_rows("Calls", &rows.iter().collect::<Vec<&Row>>(), columns)
    }

    #[test]
    fn a_failed_row_has_no_figure_and_its_reason() {
        let table = table(&[row("sound", "none", None), row("dead", "none", Some("it died"))]);
        assert_eq!(table.rows[1].cells, [text("dead"), bad("failed"), TableCell::Empty]);
        assert_eq!(table.rows[1].fault.as_deref(), Some("failed: it died"));
        assert_eq!(table.rows[0].fault, None);
    }

    /// The longest of a few calls stood as their p99.9 on the terminal; the page left it out.
    #[test]
    fn a_percentile_of_too_few_samples_is_left_out_and_so_is_a_column_without_content() {
        let table = table(&[row("sound", "none", None)]);
        assert_eq!(table.columns, ["store", "p99", "max"]);
        assert_eq!(table.rows[0].cells, [text("sound"), right("7.00"), right("10")]);
    }

    #[test]
    fn one_tier_is_in_the_caption_and_several_are_a_column() {
        assert_eq!(table(&[row("a", "none", None)]).caption, "Calls, tier none");
        let both = table(&[row("a", "none", None), row("a", "commit", None)]);
        assert_eq!(both.caption, "Calls");
        assert_eq!(both.rows[1].cells[..2], [text("a"), text("commit")]);
    }
}
