//! Charts: inline SVG with a title, a description and theme colours.
//!
//! This file owns the canvas, and the text and lines of all charts. Each kind of chart has its own
//! file. The caller adds a table with the numbers of each chart.

mod axis;
mod bars;
mod curves;
mod steps;

use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::element::PathElement;
use plotters::prelude::{IntoDrawingArea, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, TextStyle};

pub(crate) use self::axis::Axis;
pub(crate) use self::bars::{Bar, BarLength, BarRow, Bars};
pub(crate) use self::curves::{Curve, Curves};
pub(crate) use self::steps::{HistogramPanel, StackedHistograms};
use crate::DrawError;
use crate::ids::ElementIds;
use crate::ink::{Ink, themed};

/// The library's font sizes are smaller than their names by this factor.
const FONT_SCALE: f64 = 1.24;

/// A canvas in pixels from the upper left corner.
pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for DrawError {
    fn from(error: DrawingAreaErrorKind<E>) -> DrawError {
        DrawError(error.to_string())
    }
}

/// Also for screen readers.
#[derive(Clone, Debug)]
pub(crate) struct ChartText {
    pub title: String,
    pub description: String,
}

/// A chart as an element: as wide as possible, in a frame that scrolls if necessary.
fn drawn(
    ids: &ElementIds,
    words: &ChartText,
    (width, height): (u32, u32),
    paint: impl FnOnce(&Canvas<'_>) -> Result<(), DrawError>,
) -> Result<Markup, DrawError> {
    let mut svg = String::new();
    {
        let canvas = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        paint(&canvas)?;
        canvas.present()?;
    }
    // Replaces the opening tag of the library, which has no role and no title.
    let inside = svg.split_once('>').map_or("", |(_, rest)| rest).trim().trim_end_matches("</svg>");
    let (title, description) = (ids.next("chart"), ids.next("chart"));
    let size = if width < 480 { "chart small" } else { "chart" };
    Ok(html! {
        div.scroll role="group" aria-label=(words.title) tabindex="0" {
            svg class=(size) viewBox=(format!("0 0 {width} {height}")) role="img"
                aria-labelledby=(title) aria-describedby=(description) {
                title id=(title) { (words.title) }
                desc id=(description) { (words.description) }
                (PreEscaped(compact(&themed(inside))))
            }
        }
    })
}

/// Without what is the default: half of the size.
fn compact(svg: &str) -> String {
    let defaults = [
        " opacity=\"1\"",
        " stroke-width=\"1\"",
        " stroke=\"none\"",
        "00000000000002",
        " text-anchor=\"start\"",
        // What the style sheet says of a chart, or of a line or text in it.
        " dy=\"0.5ex\"",
        " stroke=\"var(--grid)\"",
        " font-family=\"sans-serif\"",
        " font-size=\"12\"",
        " fill=\"var(--quiet)\"",
        " fill=\"none\"",
    ];
    let short = defaults.iter().fold(svg.to_owned(), |svg, default| svg.replace(default, ""));
    short.replace(">\n", ">").replace("\n</text>", "</text>").replace(" \"/>", "\"/>")
}

#[derive(Clone, Copy, Debug)]
pub(super) enum TextAnchor {
    Before,
    After,
    /// Centred below.
    Under,
}

pub(super) fn write(
    canvas: &Canvas<'_>,
    text: &str,
    pixels: f64,
    ink: Ink,
    side: TextAnchor,
    at: (i32, i32),
) -> Result<(), DrawError> {
    Ok(canvas.draw_text(text, &style(pixels, ink, side), at)?)
}

pub(super) fn style(pixels: f64, ink: Ink, side: TextAnchor) -> TextStyle<'static> {
    let position = match side {
        TextAnchor::Before => Pos::new(HPos::Right, VPos::Center),
        TextAnchor::After => Pos::new(HPos::Left, VPos::Center),
        TextAnchor::Under => Pos::new(HPos::Center, VPos::Top),
    };
    let font = ("sans-serif", pixels * FONT_SCALE).into_font();
    TextStyle { font, color: ink.code().to_backend_color(), pos: position }
}

pub(super) fn line(
    canvas: &Canvas<'_>,
    from: (i32, i32),
    to: (i32, i32),
    ink: Ink,
    width: u32,
) -> Result<(), DrawError> {
    Ok(canvas.draw(&PathElement::new(vec![from, to], ink.code().stroke_width(width)))?)
}
