//! A line chart as SVG: an hour from left to right, zero at the bottom.
//!
//! Invariant: every text in it is made here or escaped by the caller.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 160.0;
const LEFT: f64 = 84.0;
const BOTTOM: f64 = 30.0;
const TOP: f64 = 10.0;
const MINUTES: f64 = 60.0;

/// A chart of points (minutes before now, value); `unit` writes a value.
pub fn chart(title: &str, points: &[(f64, f64)], unit: impl Fn(f64) -> String) -> String {
    let most = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let top = if most > 0.0 { most * 1.05 } else { 1.0 };
    let x = |minutes: f64| LEFT + (WIDTH - LEFT - 8.0) * (1.0 - minutes.min(MINUTES) / MINUTES);
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top;
    let last = points.last().map_or("-".to_owned(), |(_, value)| unit(*value));
    let mut svg = format!(
        "<figure><figcaption>{title}: <b>{last}</b></figcaption><svg viewBox=\"0 0 {WIDTH} \
         {HEIGHT}\" role=\"img\" aria-label=\"{title}: now {last}, at most {} in the last hour\">",
        unit(most)
    );
    for (value, text) in [(0.0, unit(0.0)), (most, unit(most))] {
        let at = y(value);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text \
             x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            WIDTH - 8.0,
            LEFT - 6.0,
            at + 4.0
        );
        if most == 0.0 {
            break;
        }
    }
    for (minutes, anchor) in [(60.0, "start"), (30.0, "middle"), (0.0, "end")] {
        let text = if minutes == 0.0 { "now".to_owned() } else { format!("-{minutes:.0} min") };
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{text}</text>",
            x(minutes),
            HEIGHT - 6.0
        );
    }
    let line: Vec<String> = points
        .iter()
        .map(|(minutes, value)| format!("{:.1},{:.1}", x(*minutes), y(*value)))
        .collect();
    let _ = write!(svg, "<polyline class=\"line\" points=\"{}\"/>", line.join(" "));
    if let Some((minutes, value)) = points.last() {
        let (x, y) = (x(*minutes), y(*value));
        let _ = write!(svg, "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
    }
    svg + "</svg></figure>"
}
