//! Curves: one for each contender, with its own mark at each value and its name at the end.
//!
//! The name is next to the end of the curve, so that no colour must be looked up. Overlapping names
//! are moved apart, with a thin line to their curve. A failure has a cross over its value, or at
//! the foot of the chart without one.

use maud::Markup;
use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement, Polygon, Rectangle};
use plotters::style::Color;

use super::{Axis, Canvas, ChartText, TextAnchor, drawn, line, style, write};
use crate::DrawError;
use crate::ids::ElementIds;
use crate::ink::{Ink, SERIES};

const WIDTH: i32 = 760;
/// The least height; many names need more.
const HEIGHT: i32 = 320;
const LEFT: i32 = 78;
const RIGHT: i32 = 176;
const TOP: i32 = 36;
const BOTTOM: i32 = 50;
/// In pixels.
const NAME: i32 = 16;

#[derive(Clone, Debug)]
pub(crate) struct Curves {
    pub words: ChartText,
    pub x: Axis,
    pub y: Axis,
    pub curves: Vec<Curve>,
}

/// The values of a contender, ascending in `x`.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub name: String,
    /// The number of colour and mark, the same in all charts of the page.
    pub number: usize,
    pub values: Vec<(f64, f64)>,
    /// The x values of failures, which text next to the chart explains.
    pub wrong: Vec<f64>,
}

/// A name: the end of its curve, if any, and its position.
struct CurveLabel<'a> {
    name: &'a str,
    at: Option<(i32, i32)>,
    y: i32,
    number: usize,
    wrong: bool,
}

impl Curves {
    pub(crate) fn draw(&self, ids: &ElementIds) -> Result<Markup, DrawError> {
        let height = HEIGHT.max(TOP + BOTTOM + NAME * self.curves.len() as i32);
        drawn(ids, &self.words, (WIDTH as u32, height as u32), |canvas| self.paint(canvas, height))
    }

    fn paint(&self, canvas: &Canvas<'_>, height: i32) -> Result<(), DrawError> {
        let (x, y) = (&self.x, &self.y);
        let mut chart = ChartBuilder::on(canvas)
            .margin_top(TOP)
            .margin_right(RIGHT)
            .margin_left(0)
            .margin_bottom(0)
            .y_label_area_size(LEFT)
            .x_label_area_size(BOTTOM)
            .build_cartesian_2d(x.clone(), y.clone())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(Ink::Grid.code().mix(0.0))
            .bold_line_style(Ink::Grid.code())
            .axis_style(Ink::Grid.code())
            .label_style(style(12.0, Ink::Quiet, TextAnchor::Under))
            .y_label_style(style(12.0, Ink::Quiet, TextAnchor::Before))
            .axis_desc_style(style(12.0, Ink::Quiet, TextAnchor::Under))
            .x_desc(x.title())
            .draw()?;
        write(canvas, &y.title(), 12.0, Ink::Quiet, TextAnchor::After, (0, 10))?;
        let pixel = |(a, b): (f64, f64)| chart.backend_coord(&(x.position(a), y.position(b)));
        let mut ends = Vec::new();
        for curve in &self.curves {
            let points: Vec<(i32, i32)> = curve.values.iter().copied().map(pixel).collect();
            let ink = ink_of(curve.number);
            canvas.draw(&PathElement::new(points.clone(), ink.code().stroke_width(2)))?;
            for point in &points {
                mark(canvas, curve.number, *point)?;
            }
            for at in &curve.wrong {
                let value = curve.values.iter().find(|(x, _)| x == at);
                cross(
                    canvas,
                    value.map_or_else(
                        || (pixel((*at, 0.0)).0, height - BOTTOM),
                        |value| pixel(*value),
                    ),
                )?;
            }
            let (at, wrong) = (points.last().copied(), !curve.wrong.is_empty());
            let y = at.map_or(height - BOTTOM, |at| at.1);
            ends.push(CurveLabel { name: &curve.name, at, y, number: curve.number, wrong });
        }
        move_apart(&mut ends, TOP + NAME / 2, height - BOTTOM);
        ends.iter().try_for_each(|end| end.paint(canvas))
    }
}

impl CurveLabel<'_> {
    fn paint(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        let x = WIDTH - RIGHT + 26;
        match self.at {
            Some(at) => {
                line(canvas, (at.0 + 7, at.1), (x - 6, self.y), Ink::Grid, 1)?;
                mark(canvas, self.number, (x + 2, self.y))?;
            }
            None => cross(canvas, (x + 2, self.y))?,
        }
        let ink = if self.wrong { Ink::Bad } else { Ink::Text };
        write(canvas, self.name, 12.0, ink, TextAnchor::After, (x + 12, self.y))
    }
}

fn cross(canvas: &Canvas<'_>, (x, y): (i32, i32)) -> Result<(), DrawError> {
    line(canvas, (x - 6, y - 6), (x + 6, y + 6), Ink::Bad, 2)?;
    line(canvas, (x - 6, y + 6), (x + 6, y - 6), Ink::Bad, 2)
}

fn ink_of(number: usize) -> Ink {
    Ink::Series((number % usize::from(SERIES)) as u8)
}

/// One of four marks, so that colour is not the only difference. Contenders with equal colours have
/// different marks.
fn mark(canvas: &Canvas<'_>, number: usize, (x, y): (i32, i32)) -> Result<(), DrawError> {
    let fill = ink_of(number).code().filled();
    match (number + number / usize::from(SERIES)) % 4 {
        0 => canvas.draw(&Circle::new((x, y), 4, fill))?,
        1 => canvas.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], fill))?,
        2 => canvas.draw(&Polygon::new(vec![(x, y - 5), (x + 5, y + 4), (x - 5, y + 4)], fill))?,
        _ => canvas
            .draw(&Polygon::new(vec![(x, y - 6), (x + 5, y), (x, y + 6), (x - 5, y)], fill))?,
    }
    Ok(())
}

/// Moves overlapping names down, then those below the bottom up.
fn move_apart(ends: &mut [CurveLabel<'_>], top: i32, bottom: i32) {
    ends.sort_by_key(|end| end.y);
    let mut free = top;
    for end in ends.iter_mut() {
        end.y = end.y.max(free);
        free = end.y + NAME;
    }
    let mut free = bottom;
    for end in ends.iter_mut().rev() {
        end.y = end.y.min(free);
        free = end.y - NAME;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_lie_over_each_other() {
        let end = |y| CurveLabel { name: "x", at: Some((0, y)), y, number: 0, wrong: false };
        let mut ends = [end(100), end(101), end(99), end(399)];
        move_apart(&mut ends, 10, 400);
        let heights: Vec<i32> = ends.iter().map(|end| end.y).collect();
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= NAME), "{heights:?}");
        assert!(heights.iter().all(|y| (10..=400).contains(y)), "{heights:?}");
    }

    fn drawn_with(values: &[(f64, f64)], wrong: &[f64]) -> String {
        let curve = Curve {
            name: "files".into(),
            number: 0,
            values: values.to_vec(),
            wrong: wrong.to_vec(),
        };
        let curves = Curves {
            words: ChartText { title: "Latency".into(), description: "Curves".into() },
            x: Axis::measured("sessions", &[1.0, 2.0]),
            y: Axis::fitting("us", &[1.0, 1_000.0]),
            curves: vec![curve],
        };
        curves.draw(&ElementIds::default()).unwrap().into_string()
    }

    #[test]
    fn each_curve_has_its_name_and_an_axis_of_factors_is_called_one() {
        let svg = drawn_with(&[(0.0, 1.0), (1.0, 900.0)], &[]);
        assert!(
            svg.contains("files") && svg.contains("polyline") && svg.contains("sessions"),
            "{svg}"
        );
        assert!(svg.contains("us (logarithmic)") && !svg.contains("--bad"), "{svg}");
    }

    /// A contender without values had no name in the chart, and was overlooked.
    #[test]
    fn what_went_wrong_has_a_cross_and_its_name_stays_without_a_value() {
        let crosses = |svg: &str| svg.matches("stroke=\"var(--bad)\"").count();
        let faulty = drawn_with(&[(0.0, 1.0), (1.0, 900.0)], &[1.0]);
        assert_eq!(crosses(&faulty), 2, "the two lines of one cross: {faulty}");
        // One at the foot, and one next to the name.
        let failed = drawn_with(&[], &[1.0]);
        assert!(crosses(&failed) == 4 && failed.contains("files"), "{failed}");
    }
}
