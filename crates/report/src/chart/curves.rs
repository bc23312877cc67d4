//! Curves: one for each contender, with its own mark at each value and its name at the end.
//!
//! The name is next to the end of the curve, so that no colour must be looked up. Overlapping names
//! are moved apart, with a thin line to their curve. A failure has a cross over its value, or at
//! the foot of the chart without one.

use super::{Axis, Canvas, ChartText, Point, TICK, TextAnchor};
use crate::ids::ElementIds;
use crate::ink::{Ink, SERIES};
use maud::Markup;

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
    pub(crate) fn draw(&self, ids: &ElementIds) -> Markup {
        let height = HEIGHT.max(TOP + BOTTOM + NAME * self.curves.len() as i32);
        let mut canvas = Canvas::default();
        self.paint(&mut canvas, height - BOTTOM);
        canvas.into_chart(ids, &self.words, (WIDTH, height))
    }

    fn paint(&self, canvas: &mut Canvas, bottom: i32) {
        let (x, y) = (&self.x, &self.y);
        let (across, up) = ([LEFT, WIDTH - RIGHT], [bottom, TOP]);
        for (at, name) in &y.ticks {
            let y = y.pixel(*at, up);
            canvas.line(&[(LEFT - TICK, y), (WIDTH - RIGHT, y)], Ink::Grid, 1);
            canvas.write(name, 12, Ink::Quiet, TextAnchor::Before, (LEFT - 2 * TICK, y));
        }
        canvas.line(&[(LEFT, TOP), (LEFT, bottom)], Ink::Grid, 1);
        canvas.axis_below(x, across, bottom, &x.title());
        canvas.write(&y.title(), 12, Ink::Quiet, TextAnchor::After, (0, 10));
        let pixel =
            |(a, b): (f64, f64)| (x.pixel(x.position(a), across), y.pixel(y.position(b), up));
        let mut ends = Vec::new();
        for curve in &self.curves {
            let points: Vec<Point> = curve.values.iter().copied().map(pixel).collect();
            canvas.line(&points, ink_of(curve.number), 2);
            points.iter().for_each(|point| mark(canvas, curve.number, *point));
            for at in &curve.wrong {
                let value = curve.values.iter().find(|(x, _)| x == at);
                let foot = || (pixel((*at, 0.0)).0, bottom);
                cross(canvas, value.map_or_else(foot, |value| pixel(*value)));
            }
            let (at, wrong) = (points.last().copied(), !curve.wrong.is_empty());
            let y = at.map_or(bottom, |at| at.1);
            ends.push(CurveLabel { name: &curve.name, at, y, number: curve.number, wrong });
        }
        move_apart(&mut ends, TOP + NAME / 2, bottom);
        ends.iter().for_each(|end| end.paint(canvas));
    }
}

impl CurveLabel<'_> {
    fn paint(&self, canvas: &mut Canvas) {
        let x = WIDTH - RIGHT + 26;
        match self.at {
            Some(at) => {
                canvas.line(&[(at.0 + 7, at.1), (x - 6, self.y)], Ink::Grid, 1);
                mark(canvas, self.number, (x + 2, self.y));
            }
            None => cross(canvas, (x + 2, self.y)),
        }
        let ink = if self.wrong { Ink::Bad } else { Ink::Text };
        canvas.write(self.name, 12, ink, TextAnchor::After, (x + 12, self.y));
    }
}

fn cross(canvas: &mut Canvas, (x, y): Point) {
    canvas.line(&[(x - 6, y - 6), (x + 6, y + 6)], Ink::Bad, 2);
    canvas.line(&[(x - 6, y + 6), (x + 6, y - 6)], Ink::Bad, 2);
}

fn ink_of(number: usize) -> Ink {
    Ink::Series((number % usize::from(SERIES)) as u8)
}

/// One of four marks, so that colour is not the only difference. Contenders with equal colours have
/// different marks.
fn mark(canvas: &mut Canvas, number: usize, at: Point) {
    let corners: &[Point] = match (number + number / usize::from(SERIES)) % 4 {
        0 => return canvas.circle(at, 4, ink_of(number)),
        1 => &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
        2 => &[(0, -5), (5, 4), (-5, 4)],
        _ => &[(0, -6), (5, 0), (0, 6), (-5, 0)],
    };
    let corners: Vec<Point> = corners.iter().map(|(x, y)| (at.0 + x, at.1 + y)).collect();
    canvas.polygon(&corners, ink_of(number));
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
        curves.draw(&ElementIds::default()).into_string()
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
