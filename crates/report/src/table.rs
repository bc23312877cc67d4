//! Tables with a caption, scoped headings, and a frame that scrolls on narrow screens.
//!
//! Every table of the page is drawn here, so that screen readers can read it and its numbers can be
//! copied. Tables of results come from `sessile-bench`.

use maud::{Markup, html};
use sessile_results::table::{ResultTable, TableCell, bad, text};

use crate::ids::ElementIds;

#[derive(Clone, Debug)]
pub(crate) enum HtmlCell {
    Plain(TableCell),
    Rich(Markup),
}

impl From<TableCell> for HtmlCell {
    fn from(cell: TableCell) -> HtmlCell {
        HtmlCell::Plain(cell)
    }
}

/// A table whose first column names the rows.
#[derive(Clone, Debug)]
pub(crate) struct HtmlTable {
    caption: String,
    columns: Vec<String>,
    rows: Vec<Vec<HtmlCell>>,
    notes: Vec<TableCell>,
    /// Rows of prose, separated by lines and aligned at the top.
    wordy: bool,
}

/// What went wrong in a row is its last cell.
impl From<ResultTable> for HtmlTable {
    fn from(table: ResultTable) -> HtmlTable {
        let ResultTable { caption, mut columns, rows, notes } = table;
        let is_sound = rows.iter().all(|row| row.fault.is_none());
        columns.extend((!is_sound).then(|| "went wrong".to_owned()));
        let rows = rows.into_iter().map(|row| {
            let fault = row.fault.map_or_else(|| text("nothing"), bad);
            let cells = row.cells.into_iter().chain((!is_sound).then_some(fault));
            cells.map(HtmlCell::from).collect()
        });
        HtmlTable { caption, columns, rows: rows.collect(), notes, wordy: false }
    }
}

impl HtmlTable {
    pub(crate) fn new(caption: impl Into<String>, columns: &[&str]) -> HtmlTable {
        ResultTable::new(caption, columns.iter().copied()).into()
    }

    pub(crate) fn wordy(mut self) -> HtmlTable {
        self.wordy = true;
        self
    }

    /// Adds a row; its first cell is its heading.
    pub(crate) fn row(&mut self, cells: Vec<HtmlCell>) {
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn draw(&self, ids: &ElementIds) -> Markup {
        let caption = ids.next("table");
        let numeric = |column: usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.any(|cell| matches!(cell, HtmlCell::Plain(TableCell::Figure(_))))
        };
        html! {
            @if !self.is_empty() {
                div.scroll role="group" aria-labelledby=(caption) tabindex="0" {
                    table class=[self.wordy.then_some("wordy")] {
                        caption id=(caption) { (self.caption) }
                        thead {
                            tr {
                                @for (number, column) in self.columns.iter().enumerate() {
                                    @if column.is_empty() { td {} }
                                    @else {
                                        th scope="col" class=[numeric(number).then_some("n")] {
                                            (column)
                                        }
                                    }
                                }
                            }
                        }
                        tbody {
                            @for row in &self.rows {
                                tr {
                                    @for (number, cell) in row.iter().enumerate() {
                                        @if number == 0 { th scope="row" { (cell.inside()) } }
                                        @else {
                                            td class=[cell.class(numeric(number))] {
                                                (cell.inside())
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            @for note in &self.notes { p.conditions { (inside(note)) } }
        }
    }

    /// The element inside a closed `details`: the numbers of a chart.
    pub(crate) fn folded(&self, ids: &ElementIds) -> Markup {
        html! {
            @if !self.is_empty() {
                details {
                    summary { "Numbers: " (self.caption) }
                    (self.draw(ids))
                }
            }
        }
    }
}

/// A table of results.
pub(crate) fn draw(table: ResultTable, ids: &ElementIds) -> Markup {
    HtmlTable::from(table).draw(ids)
}

pub(crate) fn folded(table: ResultTable, ids: &ElementIds) -> Markup {
    HtmlTable::from(table).folded(ids)
}

impl HtmlCell {
    fn inside(&self) -> Markup {
        match self {
            HtmlCell::Plain(cell) => inside(cell),
            HtmlCell::Rich(markup) => markup.clone(),
        }
    }

    /// The class of a cell that is no figure.
    fn class(&self, among_figures: bool) -> Option<&'static str> {
        match self {
            HtmlCell::Plain(TableCell::Figure(_) | TableCell::Empty) => None,
            HtmlCell::Plain(TableCell::Bad(_)) if among_figures => None,
            HtmlCell::Plain(_) | HtmlCell::Rich(_) => Some("words"),
        }
    }
}

fn inside(cell: &TableCell) -> Markup {
    html! {
        @match cell {
            TableCell::Text(text) | TableCell::Figure(text) => (text),
            TableCell::Bad(text) => { strong.bad { (text) } },
            TableCell::Empty => {},
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessile_results::table::right;

    #[test]
    fn a_table_has_a_caption_and_scopes_and_escapes_what_it_is_given() {
        let mut table = HtmlTable::new("Cycles", &["store", "a second", "note"]);
        table.row(vec![text("<script>").into(), right("1,000").into(), text("quiet").into()]);
        let html = table.draw(&ElementIds::default()).into_string();
        for wanted in [
            "<caption",
            "scope=\"col\"",
            "scope=\"row\"",
            "&lt;script&gt;",
            "class=\"n\">a second",
            "<td>1,000",
            "<td class=\"words\">quiet",
        ] {
            assert!(html.contains(wanted), "{wanted}: {html}");
        }
        assert!(!html.contains("<script>"), "{html}");
    }
}
