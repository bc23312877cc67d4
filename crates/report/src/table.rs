//! Tables with a caption, scoped headings, and a frame that scrolls on narrow screens.
//!
//! Every table of the page is made here, so that screen readers can read it and its numbers can be
//! copied.

use maud::{Markup, html};
use sessile_bench::report::LatencyUs;
use sessile_bench::statistics::is_told;

use crate::ids::ElementIds;
use crate::number::figure;

#[derive(Clone, Debug)]
pub(crate) enum TableCell {
    Text(String),
    /// A figure, aligned to the right.
    Figure(String),
    Bad(String),
    Empty,
    Rich(Markup),
}

/// A table whose first column names the rows.
#[derive(Clone, Debug)]
pub(crate) struct HtmlTable {
    caption: String,
    columns: Vec<String>,
    rows: Vec<Vec<TableCell>>,
    /// Rows of prose, separated by lines and aligned at the top.
    wordy: bool,
}

impl HtmlTable {
    pub(crate) fn new(caption: impl Into<String>, columns: &[&str]) -> HtmlTable {
        HtmlTable {
            caption: caption.into(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            rows: Vec::new(),
            wordy: false,
        }
    }

    pub(crate) fn wordy(mut self) -> HtmlTable {
        self.wordy = true;
        self
    }

    /// Adds a row; its first cell is its heading.
    pub(crate) fn row(&mut self, cells: Vec<TableCell>) {
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn draw(&self, ids: &ElementIds) -> Markup {
        let caption = ids.next("table");
        let numeric = |column: usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.any(|cell| matches!(cell, TableCell::Figure(_)))
        };
        html! {
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
                                        td class=[cell.class(numeric(number))] { (cell.inside()) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// The element inside a closed `details`: the numbers of a chart.
    pub(crate) fn folded(&self, ids: &ElementIds) -> Markup {
        html! {
            details {
                summary { "Numbers: " (self.caption) }
                (self.draw(ids))
            }
        }
    }
}

impl TableCell {
    fn inside(&self) -> Markup {
        html! {
            @match self {
                TableCell::Text(text) | TableCell::Figure(text) => (text),
                TableCell::Bad(text) => { strong.bad { (text) } },
                TableCell::Empty => {},
                TableCell::Rich(markup) => (markup),
            }
        }
    }

    fn class(&self, among_figures: bool) -> Option<&'static str> {
        let figure = matches!(self, TableCell::Figure(_))
            || among_figures && matches!(self, TableCell::Bad(_));
        figure.then_some("n")
    }
}

/// A percentile; empty where too few samples lie beyond it.
pub(crate) fn percentile(value: f64, quantile: f64, samples: u64) -> TableCell {
    if is_told(quantile, samples) { right(figure(value)) } else { TableCell::Empty }
}

pub(crate) fn percentiles(latency: LatencyUs, samples: u64) -> [TableCell; 3] {
    [(latency.p50, 0.5), (latency.p99, 0.99), (latency.p999, 0.999)]
        .map(|(us, quantile)| percentile(us, quantile, samples))
}

pub(crate) fn text(text: impl ToString) -> TableCell {
    TableCell::Text(text.to_string())
}

pub(crate) fn right(text: impl ToString) -> TableCell {
    TableCell::Figure(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_caption_and_scopes_and_escapes_what_it_is_given() {
        let mut table = HtmlTable::new("Cycles", &["store", "a second"]);
        table.row(vec![text("<script>"), right("1,000")]);
        let html = table.draw(&ElementIds::default()).into_string();
        for wanted in
            ["<caption", "scope=\"col\"", "scope=\"row\"", "&lt;script&gt;", "class=\"n\""]
        {
            assert!(html.contains(wanted), "{wanted}: {html}");
        }
        assert!(!html.contains("<script>"), "{html}");
    }
}
