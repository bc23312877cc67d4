//! Checks whether rows scatter more than their intervals allow for.
//!
//! Invariant: no verdict changes. More scatter means real changes or more run variance than
//! assumed; two results cannot tell which. Wider intervals would hide a change that slows all
//! stores unequally, so the reader is told instead.

use super::estimate::{Estimate, median};
use super::matching::RowPair;
use super::{ComparedRow, distinct, runs};

const ROWS_MIN: usize = 10;
/// Reported from this multiple of the allowed deviation on.
const LARGE: f64 = 1.6;
/// Standard deviation of a normal distribution, divided by its median absolute deviation.
const MAD_TO_DEVIATION: f64 = 1.4826;

/// A note for each experiment with too much scatter. `rows` has the order of `judged`.
pub(super) fn notes(judged: &[&RowPair], rows: &[ComparedRow], of_all: usize) -> Vec<String> {
    let mut notes = Vec::new();
    for run in distinct(rows.iter().map(|row| row.row.run())) {
        for measure in distinct(rows.iter().map(|row| row.measure.to_owned())) {
            // Rows judged by setups need no assumption.
            let of = |(_, row): &(&&RowPair, &ComparedRow)| {
                row.row.run() == run && row.measure == measure && row.setups == 0
            };
            let found: Vec<(&&RowPair, &ComparedRow)> =
                judged.iter().zip(rows).filter(of).collect();
            let beyond_machine = |(pair, row): &(&&RowPair, &ComparedRow)| Estimate {
                mean: row.ratio.ln(),
                ..pair.speed()
            };
            let apart = apart(&found.iter().map(beyond_machine).collect::<Vec<Estimate>>());
            let allowed = median(&found.iter().map(|(_, row)| row.apart).collect::<Vec<f64>>());
            if found.len() >= ROWS_MIN && apart > LARGE * allowed {
                let note = format!(
                    "rows of stores differ as if they varied by {:.1} % from run to run, and \
                     intervals allow for {:.1} %: either many have changed, or a slower one may be \
                     chance; measure OLD twice and compare these",
                    apart * 100.0,
                    allowed * 100.0
                );
                notes.push(runs::with_titles(std::slice::from_ref(&run), of_all, &note));
            }
        }
    }
    notes
}

/// Standard deviation of a row in one run beyond its rounds. A few changed rows, or a change common
/// to all, have no influence.
fn apart(differences: &[Estimate]) -> f64 {
    let means: Vec<f64> = differences.iter().map(|it| it.mean).collect();
    let middle = median(&means);
    let deviations: Vec<f64> = means.iter().map(|mean| (mean - middle).abs()).collect();
    let of_rounds =
        differences.iter().map(|it| it.variance).sum::<f64>() / differences.len().max(1) as f64;
    let seen = (MAD_TO_DEVIATION * median(&deviations)).powi(2);
    ((seen - of_rounds).max(0.0) / 2.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_one_that_changed_nor_all_together_count() {
        let of = |means: &[f64], variance: f64| {
            apart(
                &means
                    .iter()
                    .map(|mean| Estimate { mean: *mean, variance, freedom: 8.0 })
                    .collect::<Vec<Estimate>>(),
            )
        };
        let even = [-0.02, -0.01, 0.0, 0.01, 0.02];
        let expected = MAD_TO_DEVIATION * 0.01 / std::f64::consts::SQRT_2;
        assert!((of(&even, 0.0) - expected).abs() < 1e-9);
        assert!((of(&even.map(|mean| mean - 0.3), 0.0) - expected).abs() < 1e-9);
        assert!((of(&[-0.9, -0.01, 0.0, 0.01, 0.02], 0.0) - expected).abs() < 1e-9);
        assert_eq!(of(&even, 1e-3), 0.0, "the rounds explain it");
    }
}
