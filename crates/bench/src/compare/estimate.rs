//! From the rounds of a row to its mean and how sure that is, and the quantiles to judge it by.
//!
//! A round on a shared machine is now and then slow for reasons of its own, and never fast, so the mean is trimmed:
//! a fifth of the rounds is left out at either end. Its error comes from the winsorized variance (Yuen 1974,
//! "The two-sample trimmed t for unequal population variances", Biometrika 61). Everything is in logarithms,
//! because what disturbs a measurement changes it by a factor.
//!
//! Rounds right after each other may be alike: what disturbs one is still there in the next. Then they say less than as many
//! that have nothing to do with each other. How much less shows in the means of blocks of rounds, which vary by more.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Part of the rounds that is left out at either end.
const TRIMMED: f64 = 0.2;
/// Blocks that a series is divided into to see whether its neighbours are alike.
const BLOCKS: usize = 20;
/// With fewer there is no spread to judge by.
pub(super) const ROUNDS_MIN: usize = 3;

/// A number with its error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Estimate {
    pub mean: f64,
    /// Of the mean.
    pub variance: f64,
    /// Degrees of freedom of the variance.
    pub freedom: f64,
}

impl Estimate {
    /// The mean of the logarithms of some values; `None` for too few of them. A round in which nothing was done counts
    /// as long as it is trimmed.
    pub(super) fn of(values: &[f64]) -> Option<Estimate> {
        Estimate::with_winsorized(values).map(|(estimate, _)| estimate)
    }

    /// The same of values in the order in which they were measured, where neighbours may be alike. Fewer than two blocks'
    /// worth of values are taken as if they were not.
    pub(super) fn of_series(values: &[f64]) -> Option<Estimate> {
        let (estimate, winsorized) = Estimate::with_winsorized(values)?;
        let size = winsorized.len() / BLOCKS;
        if size < 2 {
            return Some(estimate);
        }
        let blocks: Vec<f64> = winsorized.chunks_exact(size).map(mean).collect();
        // The mean of values that have nothing to do with each other has their variance by their number.
        let alike = size as f64 * variance(&blocks) / variance(&winsorized);
        let freedom = estimate.freedom.min(blocks.len() as f64 - 1.0);
        // Of equal values there is no such number. Neighbours that differ more than others do would be made by chance.
        Some(Estimate { variance: estimate.variance * alike.max(1.0), freedom, ..estimate })
    }

    /// With the logarithms in the order of the values, those that are trimmed drawn in to the outermost of the others.
    fn with_winsorized(values: &[f64]) -> Option<(Estimate, Vec<f64>)> {
        let mut logs: Vec<f64> = values.iter().map(|value| value.max(0.0).ln()).collect();
        let mut sorted = logs.clone();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        if count < ROUNDS_MIN {
            return None;
        }
        let trimmed = (count as f64 * TRIMMED) as usize;
        let kept = sorted.get(trimmed..count - trimmed)?;
        let (lowest, highest) = (*kept.first()?, *kept.last()?);
        if !lowest.is_finite() {
            return None;
        }
        logs.iter_mut().for_each(|log| *log = log.clamp(lowest, highest));
        let freedom = kept.len() as f64 - 1.0;
        let variance = variance(&logs) * (count as f64 - 1.0) / (kept.len() as f64 * freedom);
        Some((Estimate { mean: mean(kept), variance, freedom }, logs))
    }

    /// The difference of two, and of something more that varies: its degrees of freedom by Welch and Satterthwaite.
    pub(super) fn less(self, other: Estimate) -> Estimate {
        let variance = self.variance + other.variance;
        let parts = |it: Estimate| it.variance.powi(2) / it.freedom.max(1.0);
        let parts = parts(self) + parts(other);
        let freedom = if parts > 0.0 { variance.powi(2) / parts } else { self.freedom + other.freedom };
        Estimate { mean: self.mean - other.mean, variance, freedom }
    }

    pub(super) fn error(&self) -> f64 {
        self.variance.sqrt()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0).max(1.0)
}

/// The middle one; of an even number the mean of the two in the middle; 0 of none.
pub(super) fn median(values: &[f64]) -> f64 {
    crate::statistics::Spread::of(values).median
}

/// The quantile of Student's distribution.
pub(super) fn student(probability: f64, freedom: f64) -> f64 {
    // Only a freedom of 0 or less is refused; nothing can be said then.
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |student| student.inverse_cdf(probability))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_round_moves_neither_the_mean_nor_the_error() {
        let calm = [100.0, 101.0, 99.0, 102.0, 98.0];
        let disturbed = [100.0, 101.0, 99.0, 102.0, 50.0];
        let (calm, disturbed) = (Estimate::of(&calm).unwrap(), Estimate::of(&disturbed).unwrap());
        assert_eq!(calm, disturbed);
        assert!((calm.mean.exp() - 100.0).abs() < 0.01 && calm.freedom == 2.0, "{calm:?}");
    }

    #[test]
    fn the_error_is_that_of_the_paper() {
        // Without trimming it is the usual one: logs 0, 1, 2 have the variance 1, their mean a third of it.
        let values = [0.0f64, 1.0, 2.0].map(f64::exp);
        let estimate = Estimate::of(&values).unwrap();
        assert!((estimate.variance - 1.0 / 3.0).abs() < 1e-12, "{estimate:?}");
        // Five: the ends become 1 and 3; squares 1 + 1 + 0 + 1 + 1, by 3 * 2.
        let values = [0.0f64, 1.0, 2.0, 3.0, 9.0].map(f64::exp);
        assert!((Estimate::of(&values).unwrap().variance - 4.0 / 6.0).abs() < 1e-12);
    }

    /// Differences of 200 rounds were taken for 200 differences, and 12 intervals of 99 % missed once.
    #[test]
    fn rounds_that_are_like_their_neighbours_say_less() {
        let mut random = fastrand::Rng::with_seed(5);
        let independent: Vec<f64> = (0..200).map(|_| 1.0 + random.f64()).collect();
        let (one, series) = (Estimate::of(&independent).unwrap(), Estimate::of_series(&independent).unwrap());
        assert!(
            series.mean == one.mean && (1.0..1.6).contains(&(series.variance / one.variance)),
            "{series:?} {one:?}"
        );
        assert_eq!((one.freedom, series.freedom), (119.0, 19.0));
        // Each stays for ten rounds: as much as is known from 20.
        let staying: Vec<f64> = independent.iter().take(20).flat_map(|value| [*value; 10]).collect();
        let (one, series) = (Estimate::of(&staying).unwrap(), Estimate::of_series(&staying).unwrap());
        assert!((9.0..11.0).contains(&(series.variance / one.variance)), "{series:?} {one:?}");
        // Up and down: no block knows anything of it, and nothing becomes surer by that.
        let swinging: Vec<f64> = (0..200).map(|round| f64::from(1 + round % 2)).collect();
        assert_eq!(Estimate::of_series(&swinging).unwrap().variance, Estimate::of(&swinging).unwrap().variance);
        assert!(Estimate::of_series(&[2.0; 200]).unwrap().variance < 1e-30);
        assert_eq!(Estimate::of_series(&staying[..39]), Estimate::of(&staying[..39]));
    }

    #[test]
    fn nothing_is_said_of_two_rounds_or_of_many_that_did_nothing() {
        assert_eq!(Estimate::of(&[1.0, 2.0]), None);
        assert_eq!(Estimate::of(&[1.0, 2.0, 0.0, 3.0]), None);
        assert_eq!(Estimate::of(&[1.0, 2.0, 0.0, 3.0, 3.0]), Estimate::of(&[1.0, 2.0, 0.5, 3.0, 3.0]));
    }

    #[test]
    fn quantiles_are_those_of_the_textbook() {
        assert!((student(0.975, 4.0) - 2.776).abs() < 0.001);
        assert!((student(0.95, 1e6) - 1.645).abs() < 0.001);
        let sum = Estimate { mean: 3.0, variance: 1.0, freedom: 4.0 };
        let difference = sum.less(Estimate { mean: 1.0, ..sum });
        assert_eq!(difference, Estimate { mean: 2.0, variance: 2.0, freedom: 8.0 });
        assert!(difference.error() > 1.414);
    }
}
