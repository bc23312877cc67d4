//! Tables: a caption, headings with their scope, and a frame of their own that scrolls where the page is narrow.
//!
//! Every table of the page is made here, so that all can be read by a screen reader and copied as numbers.

use maud::{Markup, html};

use crate::ids::Ids;

/// A cell.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    /// Words.
    Text(String),
    /// A figure: to the right, digits below digits.
    Figure(String),
    /// Something went wrong.
    Bad(String),
    /// There is nothing to say.
    Empty,
    /// Anything else.
    Rich(Markup),
}

/// A table whose first column names the rows.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    caption: String,
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
    /// Rows of words, which have lines between them and begin at the top.
    wordy: bool,
}

impl Table {
    /// Without rows.
    pub(crate) fn new(caption: impl Into<String>, columns: &[&str]) -> Table {
        Table {
            caption: caption.into(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            rows: Vec::new(),
            wordy: false,
        }
    }

    /// Of words rather than of figures.
    pub(crate) fn wordy(mut self) -> Table {
        self.wordy = true;
        self
    }

    /// One more row; its first cell is its heading.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Whether nothing stands in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// As an element.
    pub(crate) fn draw(&self, ids: &Ids) -> Markup {
        let caption = ids.next("table");
        let numeric = |column: usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.any(|cell| matches!(cell, Cell::Figure(_)))
        };
        html! {
            div.scroll role="group" aria-labelledby=(caption) tabindex="0" {
                table class=[self.wordy.then_some("wordy")] {
                    caption id=(caption) { (self.caption) }
                    thead {
                        tr {
                            @for (number, column) in self.columns.iter().enumerate() {
                                @if column.is_empty() { td {} }
                                @else { th scope="col" class=[numeric(number).then_some("figure")] { (column) } }
                            }
                        }
                    }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (number, cell) in row.iter().enumerate() {
                                    @if number == 0 { th scope="row" { (cell.inside()) } }
                                    @else { td class=[cell.class(numeric(number))] { (cell.inside()) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Behind a line that opens it: the numbers of a chart that says the same.
    pub(crate) fn folded(&self, ids: &Ids) -> Markup {
        html! {
            details {
                summary { "Numbers: " (self.caption) }
                (self.draw(ids))
            }
        }
    }
}

impl Cell {
    fn inside(&self) -> Markup {
        html! {
            @match self {
                Cell::Text(text) | Cell::Figure(text) => (text),
                Cell::Bad(text) => { strong.bad { (text) } },
                Cell::Empty => {},
                Cell::Rich(markup) => (markup),
            }
        }
    }

    fn class(&self, among_figures: bool) -> Option<&'static str> {
        let figure = matches!(self, Cell::Figure(_)) || among_figures && matches!(self, Cell::Bad(_));
        figure.then_some("figure")
    }
}

/// Words.
pub(crate) fn text(text: impl ToString) -> Cell {
    Cell::Text(text.to_string())
}

/// A figure.
pub(crate) fn right(text: impl ToString) -> Cell {
    Cell::Figure(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_caption_and_scopes_and_escapes_what_it_is_given() {
        let mut table = Table::new("Cycles", &["store", "a second"]);
        table.row(vec![text("<script>"), right("1,000")]);
        let html = table.draw(&Ids::default()).into_string();
        for wanted in ["<caption", "scope=\"col\"", "scope=\"row\"", "&lt;script&gt;", "class=\"figure\""] {
            assert!(html.contains(wanted), "{wanted}: {html}");
        }
        assert!(!html.contains("<script>"), "{html}");
    }
}
