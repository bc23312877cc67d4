//! Charts: SVG inside the page, with a title, a description and the colours of the theme.
//!
//! This file owns the canvas: how a drawing becomes an element of the page, and the words and lines that all charts are made
//! of. The kinds of charts are files of their own; axes are `axis`. A chart never stands without a table of its numbers,
//! which is the business of whoever draws it.

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
pub(crate) use self::bars::{Bar, BarRow, Bars, Length};
pub(crate) use self::curves::{Curve, Curves};
pub(crate) use self::steps::{Panel, Steps};
use crate::DrawError;
use crate::ids::Ids;
use crate::ink::{Ink, themed};

/// What the drawing library calls a font size is so much more than what it writes.
const FONT_SCALE: f64 = 1.24;

/// Where is drawn, in pixels from the upper left corner.
pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for DrawError {
    fn from(error: DrawingAreaErrorKind<E>) -> DrawError {
        DrawError(error.to_string())
    }
}

/// What a chart is called, and what it shows, in words for those who do not see it.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub title: String,
    pub description: String,
}

/// A chart as an element of the page: as wide as there is room, and in a frame of its own that scrolls where there is not enough.
fn drawn(
    ids: &Ids,
    words: &Words,
    (width, height): (u32, u32),
    paint: impl FnOnce(&Canvas<'_>) -> Result<(), DrawError>,
) -> Result<Markup, DrawError> {
    let mut svg = String::new();
    {
        let canvas = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        paint(&canvas)?;
        canvas.present()?;
    }
    // The opening tag of the library knows neither a role nor a title.
    let inside = svg.split_once('>').map_or("", |(_, rest)| rest).trim().trim_end_matches("</svg>");
    let (title, description) = (ids.next("chart"), ids.next("chart"));
    let size = if width < 480 { "chart small" } else { "chart" };
    Ok(html! {
        div.scroll role="group" aria-label=(words.title) tabindex="0" {
            svg class=(size) viewBox=(format!("0 0 {width} {height}")) role="img" aria-labelledby=(title) aria-describedby=(description) {
                title id=(title) { (words.title) }
                desc id=(description) { (words.description) }
                (PreEscaped(themed(inside)))
            }
        }
    })
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    /// To the left of it, at its height.
    Before,
    /// To the right of it, at its height.
    After,
    /// Below it, in the middle.
    Under,
}

/// A text of so many pixels.
pub(super) fn write(
    canvas: &Canvas<'_>,
    text: &str,
    pixels: f64,
    ink: Ink,
    side: Side,
    at: (i32, i32),
) -> Result<(), DrawError> {
    Ok(canvas.draw_text(text, &style(pixels, ink, side), at)?)
}

pub(super) fn style(pixels: f64, ink: Ink, side: Side) -> TextStyle<'static> {
    let position = match side {
        Side::Before => Pos::new(HPos::Right, VPos::Center),
        Side::After => Pos::new(HPos::Left, VPos::Center),
        Side::Under => Pos::new(HPos::Center, VPos::Top),
    };
    let font = ("sans-serif", pixels * FONT_SCALE).into_font();
    TextStyle { font, color: ink.code().to_backend_color(), pos: position }
}

/// A straight line.
pub(super) fn line(
    canvas: &Canvas<'_>,
    from: (i32, i32),
    to: (i32, i32),
    ink: Ink,
    width: u32,
) -> Result<(), DrawError> {
    Ok(canvas.draw(&PathElement::new(vec![from, to], ink.code().stroke_width(width)))?)
}
