//! Trimmed means of rounds with their errors, and quantiles.
//!
//! A round on a shared machine is sometimes slow and never fast, so a fifth of the rounds is
//! trimmed at either end. The error follows from the winsorized variance (Yuen 1974, "The
//! two-sample trimmed t for unequal population variances", Biometrika 61). All values are
//! logarithms, because disturbances multiply.
//!
//! Rounds of one setup share memory, processes and neighbours. With several setups each counts
//! once.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// With fewer setups there is no interval.
pub const SETUPS_MIN: usize = 5;
/// With fewer, a setup has no useful mean.
pub const ROUNDS_OF_SETUP: usize = 5;
/// With fewer there is one setup.
pub const ROUNDS_FOR_INTERVAL: usize = SETUPS_MIN * ROUNDS_OF_SETUP;
/// Trimmed at either end.
const TRIMMED: f64 = 0.2;
/// Fewer have no usable spread.
pub const ROUNDS_MIN: usize = 3;

/// Too often nothing was done in a setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalled;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    pub mean: f64,
    pub variance: f64,
    pub freedom: f64,
}

impl Estimate {
    /// The mean logarithm of some values; `None` for too few. Rounds in which nothing was done
    /// count if they are trimmed.
    pub fn from_values(values: &[f64]) -> Option<Estimate> {
        let mut logs: Vec<f64> = values.iter().map(|value| value.max(0.0).ln()).collect();
        logs.sort_by(f64::total_cmp);
        let count = logs.len();
        if count < ROUNDS_MIN {
            return None;
        }
        let trimmed = (count as f64 * TRIMMED) as usize;
        let kept = logs.get(trimmed..count - trimmed)?;
        let (lowest, highest) = (*kept.first()?, *kept.last()?);
        if !lowest.is_finite() || !highest.is_finite() {
            return None;
        }
        let winsorized: Vec<f64> = logs.iter().map(|log| log.clamp(lowest, highest)).collect();
        let freedom = kept.len() as f64 - 1.0;
        Some(Estimate {
            mean: mean(kept),
            variance: squared_deviations(&winsorized) / (kept.len() as f64 * freedom),
            freedom,
        })
    }

    /// The mean logarithm of all values; `None` for too few, and if one is no positive number.
    fn untrimmed(values: &[f64]) -> Option<Estimate> {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let (count, freedom) = (logs.len() as f64, logs.len() as f64 - 1.0);
        let usable = logs.len() >= ROUNDS_MIN && logs.iter().all(|log| log.is_finite());
        usable.then(|| Estimate {
            mean: mean(&logs),
            variance: squared_deviations(&logs) / (count * freedom),
            freedom,
        })
    }

    /// The estimate from rounds of several setups, each of which counts once, and their number;
    /// `None` for too few. A setup cut off by a signal has no mean. A setup that too often did
    /// nothing is an error: it must not be passed over.
    pub fn of_setups(setups: &[Vec<f64>]) -> Result<Option<(Estimate, usize)>, Stalled> {
        let whole = setups.iter().filter(|rounds| rounds.len() >= ROUNDS_MIN);
        let means: Option<Vec<f64>> =
            whole.map(|rounds| Some(Estimate::from_values(rounds)?.mean)).collect();
        let means = means.ok_or(Stalled)?;
        if means.len() < SETUPS_MIN {
            return Ok(None);
        }
        let (count, freedom) = (means.len() as f64, means.len() as f64 - 1.0);
        let variance = squared_deviations(&means) / (count * freedom);
        Ok(Some((Estimate { mean: mean(&means), variance, freedom }, means.len())))
    }

    /// The difference of two estimates, with degrees of freedom by Welch and Satterthwaite.
    pub fn minus(self, other: Estimate) -> Estimate {
        let variance = self.variance + other.variance;
        let parts = |it: Estimate| it.variance.powi(2) / it.freedom.max(1.0);
        let parts = parts(self) + parts(other);
        let freedom =
            if parts > 0.0 { variance.powi(2) / parts } else { self.freedom + other.freedom };
        Estimate { mean: self.mean - other.mean, variance, freedom }
    }

    pub fn error(&self) -> f64 {
        self.variance.sqrt()
    }

    /// Whether the mean is not 0, where a chance of 5 % holds for all `comparisons` together.
    fn differs_from_zero(&self, comparisons: usize) -> bool {
        let probability = 1.0 - 0.025 / comparisons.max(1) as f64;
        self.mean.abs() > student(probability, self.freedom) * self.error()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn squared_deviations(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

/// Whether two series of rounds differ, where a chance of 5 % holds for all `comparisons`
/// together. Too few rounds tell nothing apart.
///
/// Two tests: of a few rounds all say more than those that are left after trimming, but one that
/// stalled says nothing. Each has a third of the chance, because so few are a little too sure.
pub fn are_apart(one: &[f64], other: &[f64], comparisons: usize) -> bool {
    [Estimate::untrimmed, Estimate::from_values].iter().any(|estimate| {
        let estimates = estimate(one).zip(estimate(other));
        estimates.is_some_and(|(one, other)| one.minus(other).differs_from_zero(3 * comparisons))
    })
}

/// The same for two that took turns in the same rounds: a round is compared with its neighbour,
/// which the same disturbance has met. Otherwise the scatter of one hides that it is ten times
/// faster in each round. The same two tests.
pub fn are_apart_in_pairs(one: &[f64], other: &[f64], comparisons: usize) -> bool {
    if one.len() != other.len() {
        return are_apart(one, other, comparisons);
    }
    let ratios: Vec<f64> = one.iter().zip(other).map(|(one, other)| one / other).collect();
    let estimates = [Estimate::untrimmed(&ratios), Estimate::from_values(&ratios)];
    estimates.iter().flatten().any(|it| it.differs_from_zero(3 * comparisons))
}

pub fn student(probability: f64, freedom: f64) -> f64 {
    // Fails only for 0 degrees of freedom or fewer, where nothing can be said.
    StudentsT::new(0.0, 1.0, freedom)
        .map_or(f64::INFINITY, |student| student.inverse_cdf(probability))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_round_moves_neither_the_mean_nor_the_error() {
        let calm = [100.0, 101.0, 99.0, 102.0, 98.0];
        let disturbed = [100.0, 101.0, 99.0, 102.0, 50.0];
        let (calm, disturbed) =
            (Estimate::from_values(&calm).unwrap(), Estimate::from_values(&disturbed).unwrap());
        assert_eq!(calm, disturbed);
        assert!((calm.mean.exp() - 100.0).abs() < 0.01 && calm.freedom == 2.0, "{calm:?}");
    }

    #[test]
    fn the_error_is_that_of_the_paper() {
        // Without trimming it is the usual one: logs 0, 1, 2 have the variance 1, their mean a
        // third of it.
        let values = [0.0f64, 1.0, 2.0].map(f64::exp);
        let estimate = Estimate::from_values(&values).unwrap();
        assert!((estimate.variance - 1.0 / 3.0).abs() < 1e-12, "{estimate:?}");
        // Five: the ends become 1 and 3; squares 1 + 1 + 0 + 1 + 1, by 3 * 2.
        let values = [0.0f64, 1.0, 2.0, 3.0, 9.0].map(f64::exp);
        assert!((Estimate::from_values(&values).unwrap().variance - 4.0 / 6.0).abs() < 1e-12);
    }

    /// Rounds of one setup that agree say nothing of another one.
    #[test]
    fn of_setups_each_counts_once() {
        let setup = |mean: f64| vec![mean.exp(); 20];
        let five = [0.0, 1.0, 2.0, 3.0, 4.0].map(setup);
        let (estimate, count) = Estimate::of_setups(&five).unwrap().unwrap();
        // Squares 4 + 1 + 0 + 1 + 4, by 5 * 4.
        assert!(
            (estimate.mean - 2.0).abs() < 1e-12 && (estimate.variance - 0.5).abs() < 1e-12,
            "{estimate:?}"
        );
        assert_eq!((estimate.freedom, count), (4.0, 5));
        let cut_off = [&five[..], &[vec![9.0; 2]]].concat();
        assert_eq!(Estimate::of_setups(&cut_off), Ok(Some((estimate, 5))), "too few for a mean");
        assert_eq!(Estimate::of_setups(&five[1..]), Ok(None));
    }

    /// A setup in which one of both did nothing for a while was left out, or all was infinite,
    /// whichever of both it was.
    #[test]
    fn a_setup_that_did_nothing_is_not_passed_over() {
        let sound = vec![1.0; 20];
        for ratio in [0.0, f64::INFINITY] {
            let stalled = |rounds: usize| [vec![ratio; rounds], vec![1.0; 20 - rounds]].concat();
            let with = |setup: Vec<f64>| [vec![sound.clone(); 9], vec![setup]].concat();
            assert_eq!(Estimate::of_setups(&with(stalled(5))), Err(Stalled));
            let (estimate, count) = Estimate::of_setups(&with(stalled(4))).unwrap().unwrap();
            assert_eq!((estimate.mean, count), (0.0, 10), "a fifth of the rounds is trimmed");
            assert_eq!(Estimate::from_values(&stalled(5)), None);
        }
    }

    #[test]
    fn nothing_is_said_of_two_rounds_or_of_many_that_did_nothing() {
        assert_eq!(Estimate::from_values(&[1.0, 2.0]), None);
        assert_eq!(Estimate::from_values(&[1.0, 2.0, 0.0, 3.0]), None);
        assert_eq!(
            Estimate::from_values(&[1.0, 2.0, 0.0, 3.0, 3.0]),
            Estimate::from_values(&[1.0, 2.0, 0.5, 3.0, 3.0])
        );
    }

    #[test]
    fn quantiles_are_those_of_the_textbook() {
        assert!((student(0.975, 4.0) - 2.776).abs() < 0.001);
        assert!((student(0.95, 1e6) - 1.645).abs() < 0.001);
        let sum = Estimate { mean: 3.0, variance: 1.0, freedom: 4.0 };
        let difference = sum.minus(Estimate { mean: 1.0, ..sum });
        assert_eq!(difference, Estimate { mean: 2.0, variance: 2.0, freedom: 8.0 });
        assert!(difference.error() > 1.414);
    }

    #[test]
    fn one_that_is_slower_in_each_round_is_told_apart_whatever_its_worst_round() {
        let best = [1_000.0, 1_010.0, 990.0, 1_005.0, 995.0];
        for worst in [495.0, 50.0, 1.0, 0.0] {
            let half = [500.0, 505.0, 495.0, 502.0, worst];
            assert!(are_apart_in_pairs(&best, &half, 4), "{worst}");
            assert!(are_apart_in_pairs(&half, &best, 4), "{worst}");
        }
        // Twice as fast in each round, but with a scatter of seven times.
        let wide = [100.0, 21.0, 60.0, 150.0, 40.0];
        let slow = [50.0, 10.0, 31.0, 76.0, 20.0];
        assert!(are_apart_in_pairs(&wide, &slow, 4) && !are_apart(&wide, &slow, 4));
        // Trimmed, a store was a tie with one that is seven times faster.
        let fast = [480.0, 530.0, 522.0, 515.0, 560.0];
        let slow = [40.0, 79.0, 78.0, 100.0, 121.0];
        assert!(are_apart(&fast, &slow, 15) && are_apart(&slow, &fast, 15));
        let mixed = [1_100.0, 900.0, 1_200.0, 800.0, 1_000.0];
        assert!(!are_apart_in_pairs(&best, &mixed, 1));
    }
}
