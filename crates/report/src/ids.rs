//! Unique ids of elements that other elements refer to: headings, captions, chart titles.
//!
//! Section ids are fixed, because external links use them.

use std::cell::Cell;

#[derive(Debug, Default)]
pub(crate) struct ElementIds(Cell<usize>);

impl ElementIds {
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
        let ids = ElementIds::default();
        assert_ne!(ids.next("table"), ids.next("table"));
    }
}
