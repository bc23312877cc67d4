//! How far the rows of stores lie apart, held against what their intervals allow for.
//!
//! It owns one invariant: it changes no verdict. Rows that lie further apart have changed each by its own amount, or had more
//! fortune than is assumed, and two results cannot tell which. To widen the intervals by it would hide a change that slows all
//! stores, one more than the other; so it is said, and the reader decides.

use super::estimate::{Estimate, median};
use super::matching::Pair;
use super::{Compared, distinct, runs};

/// Of fewer rows nothing is said.
const ROWS_MIN: usize = 10;
/// From so many times of what is allowed for on.
const LARGE: f64 = 1.6;
/// A normal distribution has this many times the median of its absolute deviations as its standard deviation.
const OF_MEDIAN_DEVIATION: f64 = 1.4826;

/// A sentence for the experiments in which that is so. `rows` are the judged pairs, in the same order.
pub(super) fn notes(judged: &[&Pair], rows: &[Compared], of_all: usize) -> Vec<String> {
    let mut notes = Vec::new();
    for run in distinct(rows.iter().map(|row| row.row.run())) {
        for measure in distinct(rows.iter().map(|row| row.measure.to_owned())) {
            // What setups show needs no assumption.
            let of = |(_, row): &(&&Pair, &Compared)| row.row.run() == run && row.measure == measure && row.setups == 0;
            let found: Vec<(&&Pair, &Compared)> = judged.iter().zip(rows).filter(of).collect();
            let beyond_machine = |(pair, row): &(&&Pair, &Compared)| Estimate { mean: row.ratio.ln(), ..pair.speed() };
            let apart = apart(&found.iter().map(beyond_machine).collect::<Vec<Estimate>>());
            let allowed = median(&found.iter().map(|(_, row)| row.apart).collect::<Vec<f64>>());
            if found.len() >= ROWS_MIN && apart > LARGE * allowed {
                let note = format!(
                    "rows of stores differ as if they varied by {:.1} % from run to run, and intervals allow for {:.1} %: \
                     either many have changed, or a slower one may be chance; measure OLD twice and compare these",
                    apart * 100.0,
                    allowed * 100.0
                );
                notes.push(runs::said_of(std::slice::from_ref(&run), of_all, &note));
            }
        }
    }
    notes
}

/// Standard deviation of a row in one run, beyond what rounds show, from the differences of many. That a few have changed, or all by
/// the same factor, does not count.
fn apart(differences: &[Estimate]) -> f64 {
    let means: Vec<f64> = differences.iter().map(|it| it.mean).collect();
    let middle = median(&means);
    let deviations: Vec<f64> = means.iter().map(|mean| (mean - middle).abs()).collect();
    let of_rounds = differences.iter().map(|it| it.variance).sum::<f64>() / differences.len().max(1) as f64;
    let seen = (OF_MEDIAN_DEVIATION * median(&deviations)).powi(2);
    ((seen - of_rounds).max(0.0) / 2.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_one_that_changed_nor_all_together_count() {
        let of = |means: &[f64], variance: f64| {
            apart(&means.iter().map(|mean| Estimate { mean: *mean, variance, freedom: 8.0 }).collect::<Vec<Estimate>>())
        };
        let even = [-0.02, -0.01, 0.0, 0.01, 0.02];
        let expected = OF_MEDIAN_DEVIATION * 0.01 / std::f64::consts::SQRT_2;
        assert!((of(&even, 0.0) - expected).abs() < 1e-9);
        assert!((of(&even.map(|mean| mean - 0.3), 0.0) - expected).abs() < 1e-9);
        assert!((of(&[-0.9, -0.01, 0.0, 0.01, 0.02], 0.0) - expected).abs() < 1e-9);
        assert_eq!(of(&even, 1e-3), 0.0, "the rounds explain it");
    }
}
