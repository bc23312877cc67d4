//! The colours of charts. The drawing library writes a code for each, and a CSS variable replaces
//! it.
//!
//! So a chart follows the theme of the page; the style sheet defines the colours. Each chart makes
//! sure that colour alone carries no information.

use plotters::style::RGBColor;

/// Series with a colour of their own. Further ones repeat colours with another mark.
pub(crate) const SERIES: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Text,
    Quiet,
    Grid,
    Bad,
    /// The background, around overlapping marks.
    Paper,
    Series(u8),
}

const FIRST_SERIES: u8 = 16;

impl Ink {
    /// The colour given to the drawing library, which no chart uses otherwise.
    pub(crate) const fn code(self) -> RGBColor {
        RGBColor(1, 0, self.number())
    }

    const fn number(self) -> u8 {
        match self {
            Ink::Text => 1,
            Ink::Quiet => 2,
            Ink::Grid => 3,
            Ink::Bad => 4,
            Ink::Paper => 5,
            Ink::Series(number) => FIRST_SERIES + number % SERIES,
        }
    }

    fn variable(self) -> String {
        match self {
            Ink::Text => "--ink".to_owned(),
            Ink::Quiet => "--quiet".to_owned(),
            Ink::Grid => "--grid".to_owned(),
            Ink::Bad => "--bad".to_owned(),
            Ink::Paper => "--paper".to_owned(),
            Ink::Series(number) => format!("--series-{}", number % SERIES + 1),
        }
    }
}

/// Replaces codes by variables. Text is safe: codes are whole attributes.
pub(crate) fn themed(svg: &str) -> String {
    let fixed = [Ink::Text, Ink::Quiet, Ink::Grid, Ink::Bad, Ink::Paper];
    let mut svg = svg.to_owned();
    for ink in fixed.into_iter().chain((0..SERIES).map(Ink::Series)) {
        let code = format!("=\"#0100{:02X}\"", ink.number());
        svg = svg.replace(&code, &format!("=\"var({})\"", ink.variable()));
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_variables_of_the_theme() {
        let svg = "<text fill=\"#010001\">#010001</text><line stroke=\"#010011\"/>";
        assert_eq!(
            themed(svg),
            "<text fill=\"var(--ink)\">#010001</text><line stroke=\"var(--series-2)\"/>"
        );
    }

    #[test]
    fn every_variable_has_a_colour_in_both_themes() {
        let style = include_str!("style.css");
        for ink in [Ink::Text, Ink::Quiet, Ink::Grid, Ink::Bad, Ink::Paper]
            .into_iter()
            .chain((0..SERIES).map(Ink::Series))
        {
            let given = style.matches(&format!("{}:", ink.variable())).count();
            assert_eq!(given, 3, "{} in light, dark and print", ink.variable());
        }
    }
}
