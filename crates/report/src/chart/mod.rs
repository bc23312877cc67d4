//! Charts: inline SVG with a title, a description and theme colours.
//!
//! This file owns the canvas: text, lines and shapes in pixels from the upper left corner. Each
//! kind of chart has its own file. The caller adds a table with the numbers of each chart.

mod axis;
mod bars;
mod curves;
mod steps;

use std::fmt;

use maud::{Markup, PreEscaped, html};

pub(crate) use self::axis::Axis;
pub(crate) use self::bars::{Bar, BarLength, BarRow, Bars};
pub(crate) use self::curves::{Curve, Curves};
pub(crate) use self::steps::{HistogramPanel, StackedHistograms};
use crate::ids::ElementIds;
use crate::ink::Ink;

/// The length of a tick of an axis.
const TICK: i32 = 5;

/// Also for screen readers.
#[derive(Clone, Debug)]
pub(crate) struct ChartText {
    pub title: String,
    pub description: String,
}

type Point = (i32, i32);

/// The elements of a chart. What the style sheet says of a chart is left out of them.
#[derive(Debug, Default)]
struct Canvas(String);

#[derive(Clone, Copy, Debug)]
enum TextAnchor {
    Before,
    After,
    /// Centred below.
    Under,
}

impl Canvas {
    /// The chart as an element: as wide as possible, in a frame that scrolls if necessary.
    fn into_chart(self, ids: &ElementIds, words: &ChartText, (width, height): Point) -> Markup {
        let (title, description) = (ids.next("chart"), ids.next("chart"));
        let size = if width < 480 { "chart small" } else { "chart" };
        html! {
            div.scroll role="group" aria-label=(words.title) tabindex="0" {
                svg class=(size) viewBox=(format!("0 0 {width} {height}")) role="img"
                    aria-labelledby=(title) aria-describedby=(description) {
                    title id=(title) { (words.title) }
                    desc id=(description) { (words.description) }
                    (PreEscaped(self.0))
                }
            }
        }
    }

    fn write(&mut self, text: &str, pixels: u32, ink: Ink, side: TextAnchor, (x, y): Point) {
        let (anchor, below) = match side {
            TextAnchor::Before => (Some("end"), None),
            TextAnchor::After => (None, None),
            TextAnchor::Under => (Some("middle"), Some("0.76em")),
        };
        let size = (pixels != 12).then_some(pixels);
        let fill = (ink != Ink::Quiet).then_some(ink);
        let element = html! {
            text x=(x) y=(y) dy=[below] text-anchor=[anchor] font-size=[size] fill=[fill] { (text) }
        };
        self.0.push_str(&element.into_string());
    }

    fn line(&mut self, points: &[Point], ink: Ink, width: u32) {
        let stroke = if ink == Ink::Grid { String::new() } else { format!(" stroke=\"{ink}\"") };
        let width = if width == 1 { String::new() } else { format!(" stroke-width=\"{width}\"") };
        self.add(format_args!("polyline{stroke}{width} points=\"{}\"", listed(points)));
    }

    fn polygon(&mut self, points: &[Point], ink: Ink) {
        self.add(format_args!("polygon points=\"{}\" fill=\"{ink}\"", listed(points)));
    }

    fn circle(&mut self, (x, y): Point, radius: u32, ink: Ink) {
        self.add(format_args!("circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{ink}\""));
    }

    fn bar(&mut self, [(left, top), (right, bottom)]: [Point; 2], ink: Ink) {
        let (width, height) = ((right - left).max(0), bottom - top);
        self.add(format_args!(
            "rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"{ink}\""
        ));
    }

    fn add(&mut self, element: fmt::Arguments<'_>) {
        self.0.push_str(&format!("<{element}/>"));
    }

    /// The line of a horizontal axis with its ticks, and its title at the foot of the chart.
    fn axis_below(&mut self, axis: &Axis, [left, right]: [i32; 2], y: i32, title: &str) {
        self.line(&[(left, y), (right, y)], Ink::Grid, 1);
        for (at, name) in &axis.ticks {
            let x = axis.pixel(*at, [left, right]);
            self.line(&[(x, y), (x, y + TICK)], Ink::Grid, 1);
            self.write(name, 12, Ink::Quiet, TextAnchor::Under, (x, y + 2 * TICK));
        }
        let middle = i32::midpoint(left, right);
        self.write(title, 12, Ink::Quiet, TextAnchor::Under, (middle, y + 34));
    }
}

fn listed(points: &[Point]) -> String {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
    points.join(" ")
}
