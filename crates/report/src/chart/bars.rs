//! Horizontal bars: a row for each contender, a bar for each series, an interval over the end of a
//! bar.
//!
//! On a logarithmic axis points replace the bars, whose lengths would mislead. A failure replaces
//! the bar by its text.

use super::{Axis, Canvas, ChartText, TextAnchor};
use crate::ids::ElementIds;
use crate::ink::Ink;
use maud::Markup;
use sessile_results::number::short;
use sessile_results::statistics::Spread;

/// All in pixels.
const WIDTH: i32 = 760;
const NAMES_MIN: i32 = 166;
/// Of a character of a name, at most on average.
const CHARACTER: f64 = 7.5;
const SERIES: i32 = 98;
const RIGHT: i32 = 92;
const TOP: i32 = 30;
const BOTTOM: i32 = 48;
const BAR: i32 = 12;
const STEP: i32 = 18;
const GAP: i32 = 10;

#[derive(Clone, Debug)]
pub(crate) struct Bars {
    pub words: ChartText,
    pub unit: String,
    /// The difference between the bars of a row.
    pub series: String,
    pub rows: Vec<BarRow>,
}

#[derive(Clone, Debug)]
pub(crate) struct BarRow {
    pub name: String,
    pub bars: Vec<Bar>,
}

#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub series: u8,
    pub name: String,
    pub length: BarLength,
}

#[derive(Clone, Debug)]
pub(crate) enum BarLength {
    /// A figure with the interval of its rounds, and what is wrong with it.
    Value(Spread, Option<String>),
    Failed(String),
}

impl Bars {
    pub(crate) fn draw(&self, ids: &ElementIds) -> Markup {
        let height: i32 = self.rows.iter().map(|row| row.bars.len() as i32 * STEP + GAP).sum();
        let values: Vec<f64> =
            self.rows.iter().flat_map(|row| &row.bars).flat_map(|bar| bar.length.ends()).collect();
        let axis = Axis::fitting(&self.unit, &values);
        let mut canvas = Canvas::default();
        self.paint(&mut canvas, &axis, TOP + height);
        canvas.into_chart(ids, &self.words, (WIDTH, TOP + height + BOTTOM))
    }

    fn names_width(&self) -> i32 {
        let longest = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        NAMES_MIN.max((longest as f64 * CHARACTER) as i32)
    }

    fn paint(&self, canvas: &mut Canvas, axis: &Axis, bottom: i32) {
        let names = self.names_width();
        let left = names + SERIES;
        let across = [left, WIDTH - RIGHT];
        for (at, _) in &axis.ticks {
            let x = axis.pixel(*at, across);
            canvas.line(&[(x, TOP), (x, bottom)], Ink::Grid, 1);
        }
        canvas.axis_below(axis, across, bottom, &axis.title_with_lines());
        let x_of = |value: f64| axis.pixel(axis.position(value), across);
        if self.rows.iter().flat_map(|row| &row.bars).any(|bar| !bar.name.is_empty()) {
            let place = (left - 8, TOP - 14);
            canvas.write(&self.series, 12, Ink::Quiet, TextAnchor::Before, place);
        }
        let mut y = TOP + GAP / 2;
        for row in &self.rows {
            canvas.write(&row.name, 13, Ink::Text, TextAnchor::Before, (names, y + STEP / 2));
            for bar in &row.bars {
                let middle = y + STEP / 2;
                canvas.write(&bar.name, 12, Ink::Quiet, TextAnchor::Before, (left - 8, middle));
                bar.paint(canvas, left, middle, axis.is_logarithmic(), &x_of);
                y += STEP;
            }
            y += GAP;
        }
    }
}

impl BarLength {
    fn ends(&self) -> Vec<f64> {
        match self {
            BarLength::Value(it, _) => vec![it.low, it.median, it.high],
            BarLength::Failed(_) => Vec::new(),
        }
    }
}

impl Bar {
    fn paint(
        &self,
        canvas: &mut Canvas,
        left: i32,
        y: i32,
        points: bool,
        x_of: &dyn Fn(f64) -> i32,
    ) {
        let (Spread { median, low, high }, fault) = match &self.length {
            BarLength::Value(figure, fault) => (*figure, fault),
            BarLength::Failed(why) => {
                return canvas.write(why, 12, Ink::Bad, TextAnchor::After, (left + 8, y));
            }
        };
        let (end, ink) = (x_of(median), Ink::Series(self.series));
        if points {
            canvas.line(&[(left, y), (end, y)], Ink::Grid, 1);
        } else {
            canvas.bar([(left, y - BAR / 2), (end, y + BAR / 2)], ink);
        }
        let (from, to) = (x_of(low), x_of(high));
        if to - from > 2 {
            // With both ends in one stroke, which takes a third of the bytes of three.
            let [above, below] = [y - 4, y + 4];
            let ends = [(from, above), (from, below), (from, y), (to, y), (to, above), (to, below)];
            canvas.line(&ends, Ink::Text, 1);
        }
        if points {
            canvas.circle((end, y), 5, ink);
        }
        let (text, ink) = match fault {
            Some(fault) => (format!("{}, {fault}", short(median)), Ink::Bad),
            None => (short(median), Ink::Text),
        };
        canvas.write(&text, 12, ink, TextAnchor::After, (to.max(end) + 10, y));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn_with(median: f64) -> String {
        let value = |median: f64| {
            BarLength::Value(Spread { median, low: median * 0.9, high: median * 1.1 }, None)
        };
        let bar = |series, length| Bar { series, name: format!("{series}"), length };
        let bars = Bars {
            words: ChartText { title: "Cycles".into(), description: "Bars".into() },
            unit: "cycles a second".into(),
            series: "workers".into(),
            rows: vec![
                BarRow {
                    name: "<files>".into(),
                    bars: vec![bar(1, value(1_000.0)), bar(2, value(median))],
                },
                BarRow {
                    name: "redis".into(),
                    bars: vec![bar(1, BarLength::Failed("failed: it died".into()))],
                },
            ],
        };
        bars.draw(&ElementIds::default()).into_string()
    }

    #[test]
    fn a_failed_contender_has_its_reason_in_place_of_a_bar() {
        let svg = drawn_with(2_000.0);
        assert!(svg.contains("failed: it died") && svg.contains("&lt;files&gt;"), "{svg}");
        assert!(svg.contains("<rect") && !svg.contains("<circle"), "{svg}");
    }

    #[test]
    fn values_far_apart_are_points_because_lengths_would_mislead() {
        let svg = drawn_with(2_000_000.0);
        assert!(
            svg.contains("<circle")
                && !svg.contains("<rect")
                && svg.contains("logarithmic: each line is ten times"),
            "{svg}"
        );
    }
}
