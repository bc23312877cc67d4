//! Stacked histograms with equal bounds and heights, for comparison.
//!
//! Heights are logarithmic: one request in ten thousand must be visible.

use maud::Markup;
use sessile_results::number::{tick, time};

use super::{Canvas, ChartText, TextAnchor};
use crate::ids::ElementIds;
use crate::ink::Ink;

const WIDTH: i32 = 360;
const LEFT: i32 = 40;
const RIGHT: i32 = 12;
const TITLE: i32 = 24;
const PANEL: i32 = 92;
const BOTTOM: i32 = 40;

#[derive(Clone, Debug)]
pub(crate) struct StackedHistograms {
    pub words: ChartText,
    pub bounds_us: Vec<u64>,
    /// The first and last visible bucket.
    pub shown: (usize, usize),
    pub panels: Vec<HistogramPanel>,
}

#[derive(Clone, Debug)]
pub(crate) struct HistogramPanel {
    pub name: String,
    /// One count more than there are bounds.
    pub counts: Vec<u64>,
}

impl StackedHistograms {
    pub(crate) fn draw(&self, ids: &ElementIds) -> Markup {
        let height = self.panels.len() as i32 * (TITLE + PANEL) + BOTTOM;
        let mut canvas = Canvas::default();
        self.paint(&mut canvas);
        canvas.into_chart(ids, &self.words, (WIDTH, height))
    }

    fn paint(&self, canvas: &mut Canvas) {
        let most =
            self.panels.iter().flat_map(|panel| panel.counts.iter().copied()).max().unwrap_or(1);
        let decades = (most.max(2) as f64).log10().ceil().max(1.0);
        for (number, panel) in self.panels.iter().enumerate() {
            let top = number as i32 * (TITLE + PANEL) + TITLE;
            canvas.write(&panel.name, 13, Ink::Text, TextAnchor::After, (LEFT, top - 12));
            for decade in 0..=decades as i32 {
                let y = top + PANEL
                    - (f64::from(PANEL) * (f64::from(decade) + 0.3) / (decades + 0.3)) as i32;
                canvas.line(&[(LEFT, y), (WIDTH - RIGHT, y)], Ink::Grid, 1);
                if decade % 2 == 0 || decades < 4.0 {
                    let name = tick(10_f64.powi(decade));
                    canvas.write(&name, 11, Ink::Quiet, TextAnchor::Before, (LEFT - 6, y));
                }
            }
            for bucket in self.shown.0..=self.shown.1 {
                let count = panel.counts.get(bucket).copied().unwrap_or(0);
                if count > 0 {
                    // A single call has the height below the first line.
                    let high = ((count as f64).log10() + 0.3) / (decades + 0.3) * f64::from(PANEL);
                    let bar = [
                        (self.x(bucket) + 1, top + PANEL - high as i32),
                        (self.x(bucket + 1) - 1, top + PANEL),
                    ];
                    canvas.bar(bar, Ink::Series(number as u8));
                }
            }
            let bottom = top + PANEL;
            canvas.line(&[(LEFT, bottom), (WIDTH - RIGHT, bottom)], Ink::Quiet, 1);
        }
        self.paint_bounds(canvas);
    }

    /// Labels the bounds that are powers of ten.
    fn paint_bounds(&self, canvas: &mut Canvas) {
        let bottom = self.panels.len() as i32 * (TITLE + PANEL);
        for (bucket, bound) in self.bounds_us.iter().enumerate() {
            let x = self.x(bucket + 1);
            if (self.shown.0..self.shown.1).contains(&bucket)
                && (*bound as f64).log10().fract() == 0.0
            {
                canvas.line(&[(x, bottom), (x, bottom + 4)], Ink::Quiet, 1);
                let name = time(*bound as f64);
                canvas.write(&name, 11, Ink::Quiet, TextAnchor::Under, (x, bottom + 6));
            }
        }
        let (title, middle) = (
            "latency, and how many calls took so long; both logarithmic",
            (LEFT + WIDTH - RIGHT) / 2,
        );
        canvas.write(title, 11, Ink::Quiet, TextAnchor::Under, (middle, bottom + 23));
    }

    fn x(&self, bucket: usize) -> i32 {
        let buckets = (self.shown.1 + 1).saturating_sub(self.shown.0).max(1);
        let room = WIDTH - LEFT - RIGHT;
        LEFT + room * bucket.saturating_sub(self.shown.0) as i32 / buckets as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_slow_call_is_visible() {
        let steps = StackedHistograms {
            words: ChartText { title: "Starts".into(), description: "Histograms".into() },
            bounds_us: vec![10, 100, 1_000],
            shown: (0, 3),
            panels: vec![
                HistogramPanel { name: "without".into(), counts: vec![10_000, 0, 0, 0] },
                HistogramPanel { name: "with".into(), counts: vec![9_999, 0, 0, 1] },
            ],
        };
        let svg = steps.draw(&ElementIds::default()).into_string();
        assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
        assert!(svg.contains("100 \u{b5}s") && svg.contains("both logarithmic"), "{svg}");
    }
}
