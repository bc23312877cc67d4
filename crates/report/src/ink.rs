//! The colours of charts: variables of the style sheet.
//!
//! So a chart follows the theme of the page. Each chart makes sure that colour alone carries no
//! information.

use std::fmt;

/// Series with a colour of their own. Further ones repeat colours with another mark.
pub(crate) const SERIES: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Text,
    Quiet,
    Grid,
    Bad,
    Series(u8),
}

impl fmt::Display for Ink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ink::Text => f.write_str("var(--ink)"),
            Ink::Quiet => f.write_str("var(--quiet)"),
            Ink::Grid => f.write_str("var(--grid)"),
            Ink::Bad => f.write_str("var(--bad)"),
            Ink::Series(number) => write!(f, "var(--series-{})", number % SERIES + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_has_a_colour_in_both_themes() {
        let style = include_str!("style.css");
        for ink in [Ink::Text, Ink::Quiet, Ink::Grid, Ink::Bad]
            .into_iter()
            .chain((0..SERIES).map(Ink::Series))
        {
            let ink = ink.to_string();
            let variable = ink.trim_start_matches("var(").trim_end_matches(')');
            let given = style.matches(&format!("{variable}:")).count();
            assert_eq!(given, 3, "{variable} in light, dark and print");
        }
    }
}
