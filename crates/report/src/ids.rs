//! Ids of elements that others on the page point at: a heading, a caption, the title of a chart.
//!
//! It owns that no id is given twice. The names of sections are not from here: links from outside use them.

use std::cell::Cell;

/// Gives out ids.
#[derive(Debug, Default)]
pub(crate) struct Ids(Cell<usize>);

impl Ids {
    /// The next one, with a word in front that says what it is for.
    pub(crate) fn next(&self, what: &str) -> String {
        self.0.set(self.0.get() + 1);
        format!("{what}-{}", self.0.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_comes_twice() {
        let ids = Ids::default();
        assert_ne!(ids.next("table"), ids.next("table"));
    }
}
