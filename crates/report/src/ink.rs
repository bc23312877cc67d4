//! The colours of charts: each has a code that the drawing library writes, and a CSS variable that takes its place.
//!
//! So a chart follows the theme of the page. Which colours they are in light and in dark stands in the style sheet; that
//! nothing is told by colour alone is the business of each chart.

use plotters::style::RGBColor;

/// So many series have a colour of their own; then they start again, with another mark.
pub(crate) const SERIES: u8 = 8;

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    /// Words and numbers.
    Text,
    /// Words beside them.
    Quiet,
    /// Lines behind the marks.
    Grid,
    /// Something went wrong.
    Bad,
    /// The background, around a mark that lies over another.
    Paper,
    /// One of several series.
    Series(u8),
}

/// The first of the series among the codes.
const FIRST_SERIES: u8 = 16;

impl Ink {
    /// What is given to the drawing library: a colour that nobody would choose.
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

/// The drawing with variables in place of codes. Text cannot be taken for one: codes stand as whole attributes.
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
        assert_eq!(themed(svg), "<text fill=\"var(--ink)\">#010001</text><line stroke=\"var(--series-2)\"/>");
    }

    #[test]
    fn every_variable_has_a_colour_in_both_themes() {
        let style = include_str!("style.css");
        for ink in
            [Ink::Text, Ink::Quiet, Ink::Grid, Ink::Bad, Ink::Paper].into_iter().chain((0..SERIES).map(Ink::Series))
        {
            let given = style.matches(&format!("{}:", ink.variable())).count();
            assert_eq!(given, 3, "{} in light, dark and print", ink.variable());
        }
    }
}
