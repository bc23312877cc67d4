//! An axis: its range, ticks and labels.
//!
//! It owns the choice between linear and logarithmic, and draws nothing.

use sessile_results::number::{exact, tick};

/// Above this ratio of the largest to the smallest value a linear axis hides small values.
const FACTOR_LINEAR_MAX: f64 = 12.0;
const TICKS: f64 = 6.0;

#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub label: String,
    pub ticks: Vec<(f64, String)>,
    pub range: (f64, f64),
    logarithmic: bool,
}

impl Axis {
    /// A linear axis from 0.
    pub(crate) fn linear(label: &str, values: impl Iterator<Item = f64>) -> Axis {
        let most = values.fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        let step = round_up(most / TICKS);
        let steps = (most / step).ceil().max(1.0);
        let ticks = (0..=steps as usize)
            .map(|number| number as f64 * step)
            .map(|at| (at, tick(at)))
            .collect();
        Axis { label: label.to_owned(), ticks, range: (0.0, steps * step), logarithmic: false }
    }

    /// A logarithmic axis to base 10, labelled by `name`.
    pub(crate) fn logarithmic(
        label: &str,
        values: impl Iterator<Item = f64>,
        name: fn(f64) -> String,
    ) -> Axis {
        let positive = values.filter(|value| *value > 0.0);
        let (least, most) = positive
            .fold((f64::MAX, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        let (first, last) =
            if most > 0.0 { (least.log10().floor(), most.log10().ceil()) } else { (0.0, 1.0) };
        let last = last.max(first + 1.0);
        let decades = (last - first) as usize;
        // Too many decades: some labels are left out.
        let every = decades.div_ceil(7).max(1);
        let ticks = (0..=decades).step_by(every).map(|number| first + number as f64);
        let ticks = ticks.map(|at| (at, name(10_f64.powf(at)))).collect();
        Axis { label: label.to_owned(), ticks, range: (first, last), logarithmic: true }
    }

    /// Linear, or logarithmic if the values are far apart.
    pub(crate) fn fitting(label: &str, values: &[f64]) -> Axis {
        let positive = || values.iter().copied().filter(|value| *value > 0.0);
        let (least, most) = (positive().fold(f64::MAX, f64::min), positive().fold(0.0, f64::max));
        if most > FACTOR_LINEAR_MAX * least {
            Axis::logarithmic(label, positive(), tick)
        } else {
            Axis::linear(label, positive())
        }
    }

    /// A logarithmic axis with the measured values as ticks.
    pub(crate) fn measured(label: &str, values: &[f64]) -> Axis {
        let mut values: Vec<f64> = values.iter().copied().filter(|value| *value > 0.0).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let ticks: Vec<(f64, String)> =
            values.iter().map(|value| (value.log10(), exact(*value))).collect();
        let first = ticks.first().map_or(0.0, |(at, _)| *at);
        // A single value is at the left.
        let last = ticks.last().map_or(1.0, |(at, _)| *at).max(first + 0.1);
        Axis { label: label.to_owned(), ticks, range: (first, last), logarithmic: true }
    }

    /// The title, which says if the axis is logarithmic.
    pub(crate) fn title(&self) -> String {
        let note = if self.logarithmic { " (logarithmic)" } else { "" };
        format!("{}{note}", self.label)
    }

    /// The title of an axis with grid lines, which explains them.
    pub(crate) fn title_with_lines(&self) -> String {
        let lines = match self.ticks.as_slice() {
            _ if !self.logarithmic => return self.title(),
            [(first, _), (second, _), ..] if second - first > 1.5 => {
                format!("{} times", tick(10_f64.powf(second - first)))
            }
            _ => "ten times".to_owned(),
        };
        format!("{} (logarithmic: each line is {lines} the one before)", self.label)
    }

    pub(crate) fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    pub(crate) fn position(&self, value: f64) -> f64 {
        let at = if self.logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value };
        at.clamp(self.range.0, self.range.1)
    }

    /// The pixel of a position, between those of the ends of the range.
    pub(crate) fn pixel(&self, position: f64, [from, to]: [i32; 2]) -> i32 {
        let part = (position - self.range.0) / (self.range.1 - self.range.0);
        from + (f64::from(to - from) * part).round() as i32
    }
}

/// The next of 1, 2, 2.5, 5 and 10 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    steps
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= value * 0.999_999)
        .unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, name)| name.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_reach_beyond_the_largest_value() {
        let axis = Axis::fitting("x", &[100.0, 1_150.0]);
        assert_eq!(names(&axis), ["0", "200", "400", "600", "800", "1k", "1.2k"]);
        assert!(!axis.is_logarithmic() && axis.position(1_150.0) < axis.range.1);
    }

    #[test]
    fn values_far_apart_get_an_axis_of_factors() {
        let axis = Axis::fitting("x", &[900.0, 2_000_000.0]);
        assert_eq!(names(&axis), ["100", "1k", "10k", "100k", "1M", "10M"]);
        assert!(axis.is_logarithmic() && (axis.position(1_000.0) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn an_axis_of_factors_says_so() {
        let wide = Axis::fitting("x", &[1.0, 1e9]);
        assert_eq!(wide.title(), "x (logarithmic)");
        assert_eq!(
            wide.title_with_lines(),
            "x (logarithmic: each line is 100 times the one before)"
        );
        let narrow = Axis::fitting("x", &[1.0, 1e3]);
        assert_eq!(
            narrow.title_with_lines(),
            "x (logarithmic: each line is ten times the one before)"
        );
        assert_eq!(Axis::fitting("x", &[1.0, 2.0]).title_with_lines(), "x");
    }

    #[test]
    fn sizes_that_were_measured_are_the_ticks_and_stand_at_their_distance() {
        let axis = Axis::measured("sessions", &[50_000.0, 10_000.0, 1_000_000.0, 10_000.0]);
        assert_eq!(names(&axis), ["10k", "50k", "1M"]);
        let part =
            |value: f64| (axis.position(value) - axis.range.0) / (axis.range.1 - axis.range.0);
        assert!((part(50_000.0) - 0.349_485).abs() < 1e-5, "{}", part(50_000.0));
        assert!(axis.title().contains("logarithmic") && part(10_000.0) == 0.0 && part(1e6) == 1.0);
        let one = Axis::measured("sessions", &[7.0]);
        assert!(one.range.1 > one.range.0 && names(&one) == ["7"]);
    }

    #[test]
    fn no_value_at_all_is_no_trouble() {
        assert!(Axis::measured("x", &[]).range.1 > 0.0);
        assert!(Axis::fitting("x", &[]).range.1 > 0.0);
        assert!(Axis::logarithmic("x", [0.0].into_iter(), tick).range.1 > 0.0);
    }
}
