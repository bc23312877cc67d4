//! Median, range and confidence of the rounds of a row.

use serde::{Deserialize, Serialize};

/// Median, lowest and highest of several rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle value; of an even number the mean of the middle two.
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Spread {
    /// Zero for none.
    pub fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (Some(low), Some(high)) = (sorted.first(), sorted.last()) else {
            return Spread::default();
        };
        let upper = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
        let lower = sorted.get((sorted.len() - 1) / 2).copied().unwrap_or_default();
        Spread { median: f64::midpoint(lower, upper), low: *low, high: *high }
    }

    /// Range divided by the median.
    pub fn relative(&self) -> f64 {
        if self.median > 0.0 { (self.high - self.low) / self.median } else { 0.0 }
    }
}

/// Whether so many samples tell a quantile: at least ten lie beyond it. Of fewer it is the chance
/// of a single slow call.
pub fn is_told(quantile: f64, samples: u64) -> bool {
    // 1 - 0.999 is a little more or less than a thousandth in binary.
    (1.0 - quantile) * samples as f64 >= 10.0 - 1e-6
}

/// Probability that the true median lies within the range of `rounds` independent rounds: all miss
/// it on the same side with probability 2 * (1/2)^n, whatever the distribution.
pub fn confidence_of_range(rounds: usize) -> f64 {
    if rounds == 0 { 0.0 } else { 1.0 - 0.5f64.powi(i32::try_from(rounds - 1).unwrap_or(i32::MAX)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_depend_on_order_and_ignores_outliers() {
        assert_eq!(Spread::of(&[9.0, 1.0, 2.0]), Spread { median: 2.0, low: 1.0, high: 9.0 });
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 100.0]).median, 3.0);
        assert_eq!(Spread::of(&[]), Spread::default());
        assert_eq!(Spread::of(&[5.0]), Spread { median: 5.0, low: 5.0, high: 5.0 });
    }

    /// A p99.9 of 300 calls stood in the page, which was the longest of them.
    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        let least = |quantile| (1..20_000).find(|samples| is_told(quantile, *samples)).unwrap();
        assert_eq!([0.5, 0.99, 0.999].map(least), [20, 1_000, 10_000]);
    }

    #[test]
    fn five_rounds_give_the_textbook_confidence_of_94_percent() {
        assert_eq!(confidence_of_range(5), 0.9375);
        assert_eq!(confidence_of_range(1), 0.0);
    }
}
