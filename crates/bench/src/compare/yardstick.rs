//! Estimates how much of a difference between two runs is due to the machine.
//!
//! A machine's speed drifts between runs: other programs, other guests, temperature. Reference
//! rows, which nobody changes, show by how much. Without them, what most stores have in common
//! counts as drift; then a slowdown of all stores cannot be seen, and the comparison says so.
//!
//! A row also varies between runs by itself, for example with its place in memory. Its rounds do
//! not show that, because its processes live through all of them; several setups do.
//! [`RUN_DEVIATION`] is the assumption, corrected by how far the yardstick's rows disagree.

use super::estimate::{Estimate, median};

pub(super) const RUN_DEVIATION: f64 = 0.01;
/// Weight of the assumption, in yardstick rows.
const RUN_DEVIATION_WEIGHT: f64 = 6.0;
/// Standard deviation of the machine, if nothing shows its drift.
const MACHINE_DEVIATION: f64 = 0.06;
/// Prior degrees of freedom.
const FREEDOM: f64 = 20.0;
/// Other stores needed to estimate the drift.
const STORES_MIN: usize = 3;

#[derive(Clone, Debug)]
pub(super) struct RowDifference {
    pub store: String,
    pub socket: bool,
    pub workers: usize,
    pub is_reference: bool,
    pub difference: Estimate,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct DriftEstimate {
    /// To be subtracted from the difference of a row.
    pub drift: Estimate,
    /// Variation of a row between runs beyond its rounds, with mean 0.
    pub run_variance: Estimate,
    pub basis: DriftBasis,
    /// Number of rows or stores used.
    pub sources: usize,
    /// Whether these have as many workers as the row.
    pub same_workers: bool,
}

/// The basis of a drift estimate.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum DriftBasis {
    /// Reference rows in both results.
    ReferenceRows,
    /// What the other stores have in common.
    OtherStores,
    /// The same rounds: both programs ran on the same machine at the same time.
    SameRounds,
    /// Nothing; a drift is assumed.
    Nothing,
}

impl DriftEstimate {
    pub(super) fn for_row(
        store: &str,
        socket: bool,
        workers: usize,
        marks: &[RowDifference],
    ) -> DriftEstimate {
        let references: Vec<&RowDifference> =
            marks.iter().filter(|mark| mark.is_reference).collect();
        // Drift affects servers and libraries, and different numbers of workers, differently.
        let alike = |of_kind: bool, same_workers: bool| -> Vec<Estimate> {
            let kind = |mark: &&&RowDifference| !of_kind || mark.socket == socket;
            let number = |mark: &&&RowDifference| !same_workers || mark.workers == workers;
            references.iter().filter(kind).filter(number).map(|mark| mark.difference).collect()
        };
        for (of_kind, same_workers) in [(true, true), (true, false), (false, true), (false, false)]
        {
            let found = alike(of_kind, same_workers);
            if !found.is_empty() {
                return DriftEstimate {
                    same_workers,
                    ..DriftEstimate::from_differences(&found, DriftBasis::ReferenceRows)
                };
            }
        }
        let mut stores: Vec<&str> =
            marks.iter().map(|mark| mark.store.as_str()).filter(|it| *it != store).collect();
        stores.sort_unstable();
        stores.dedup();
        if stores.len() < STORES_MIN {
            return DriftEstimate::unknown();
        }
        // Each store counts once.
        let sources: Vec<Estimate> =
            stores.iter().map(|store| store_difference(store, marks)).collect();
        DriftEstimate::from_differences(&sources, DriftBasis::OtherStores)
    }

    fn from_differences(differences: &[Estimate], basis: DriftBasis) -> DriftEstimate {
        let count = differences.len() as f64;
        let means: Vec<f64> = differences.iter().map(|it| it.mean).collect();
        // Reference rows never change, so their mean counts. Stores may have changed, so their
        // median counts; its variance is up to pi/2 times that of the mean.
        let (drift, loss) = match basis {
            DriftBasis::ReferenceRows => (means.iter().sum::<f64>() / count, 1.0),
            _ => (median(&means), std::f64::consts::FRAC_PI_2),
        };
        let squares: f64 = means.iter().map(|mean| (mean - drift).powi(2)).sum();
        let of_rounds: f64 = differences.iter().map(|it| it.variance).sum::<f64>() / count;
        let seen = (squares - (count - 1.0) * of_rounds).max(0.0);
        let run_variance = (RUN_DEVIATION_WEIGHT * 2.0 * RUN_DEVIATION.powi(2) + seen)
            / (RUN_DEVIATION_WEIGHT + count - 1.0);
        let freedom = differences.iter().map(|it| it.freedom).sum();
        DriftEstimate {
            drift: Estimate {
                mean: drift,
                variance: loss * (of_rounds + run_variance) / count,
                freedom,
            },
            run_variance: Estimate { mean: 0.0, variance: run_variance, freedom: FREEDOM + count },
            basis,
            sources: differences.len(),
            same_workers: true,
        }
    }

    pub(super) fn apart(&self) -> f64 {
        (self.run_variance.variance / 2.0).sqrt()
    }

    /// For programs that took turns. Their memory and processes differ, which several setups show.
    pub(super) fn of_same_rounds(of_setups: bool) -> DriftEstimate {
        DriftEstimate {
            drift: Estimate { freedom: FREEDOM, ..Estimate::default() },
            run_variance: assumed(if of_setups { 0.0 } else { RUN_DEVIATION }),
            basis: DriftBasis::SameRounds,
            ..DriftEstimate::unknown()
        }
    }

    fn unknown() -> DriftEstimate {
        let (drift, run_variance) = (assumed(MACHINE_DEVIATION), assumed(RUN_DEVIATION));
        DriftEstimate {
            drift,
            run_variance,
            basis: DriftBasis::Nothing,
            sources: 0,
            same_workers: true,
        }
    }
}

/// The variation between two runs.
fn assumed(deviation: f64) -> Estimate {
    Estimate { mean: 0.0, variance: 2.0 * deviation.powi(2), freedom: FREEDOM }
}

fn store_difference(store: &str, marks: &[RowDifference]) -> Estimate {
    let rows: Vec<Estimate> =
        marks.iter().filter(|mark| mark.store == store).map(|mark| mark.difference).collect();
    let count = rows.len().max(1) as f64;
    Estimate {
        mean: median(&rows.iter().map(|row| row.mean).collect::<Vec<f64>>()),
        variance: rows.iter().map(|row| row.variance).sum::<f64>() / count,
        freedom: rows.iter().map(|row| row.freedom).sum::<f64>() / count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(store: &str, is_reference: bool, mean: f64) -> RowDifference {
        let difference = Estimate { mean, variance: 1e-4, freedom: 8.0 };
        RowDifference {
            store: store.to_owned(),
            socket: false,
            workers: 1,
            is_reference,
            difference,
        }
    }

    #[test]
    fn reference_rows_speak_before_stores_and_those_of_the_same_kind_before_others() {
        let mut marks = vec![mark("a", false, 0.5), mark("b", false, 0.5), mark("c", false, 0.5)];
        let machine = DriftEstimate::for_row("x", false, 1, &marks);
        assert_eq!((machine.basis, machine.drift.mean), (DriftBasis::OtherStores, 0.5));
        assert_eq!(
            DriftEstimate::for_row("a", false, 1, &marks).basis,
            DriftBasis::Nothing,
            "two others are too few"
        );
        marks.push(RowDifference { socket: true, ..mark("redis-four-trips", true, 0.3) });
        assert_eq!(DriftEstimate::for_row("x", false, 1, &marks).drift.mean, 0.3);
        marks.push(mark("limit", true, 0.1));
        assert_eq!(DriftEstimate::for_row("x", false, 1, &marks).drift.mean, 0.1);
        assert_eq!(DriftEstimate::for_row("x", true, 1, &marks).drift.mean, 0.3);
    }

    /// A row at eight workers on two processors was held against `limit` and `null`, which have
    /// one.
    #[test]
    fn reference_rows_at_as_many_workers_speak_before_others_of_their_kind() {
        let at = |workers, store: &str, mean| RowDifference { workers, ..mark(store, true, mean) };
        let mut marks = vec![at(1, "limit", 0.1), at(1, "null", 0.1), at(8, "lmdb", 0.3)];
        let machine = DriftEstimate::for_row("x", false, 8, &marks);
        assert_eq!((machine.drift.mean, machine.sources, machine.same_workers), (0.3, 1, true));
        assert_eq!(DriftEstimate::for_row("x", false, 1, &marks).sources, 2);
        let none = DriftEstimate::for_row("x", false, 2, &marks);
        assert_eq!((none.sources, none.same_workers), (3, false), "nobody has two");
        marks.push(RowDifference { socket: true, ..at(2, "redis-four-trips", 0.5) });
        assert_eq!(
            DriftEstimate::for_row("x", false, 2, &marks).sources,
            3,
            "the kind counts more than the number"
        );
        assert!(DriftEstimate::for_row("x", true, 2, &marks).same_workers);
    }

    #[test]
    fn rows_of_the_yardstick_that_disagree_make_everything_less_sure() {
        let agree = DriftEstimate::for_row(
            "x",
            false,
            1,
            &[mark("limit", true, 0.1), mark("lmdb", true, 0.1)],
        );
        let disagree = DriftEstimate::for_row(
            "x",
            false,
            1,
            &[mark("limit", true, 0.0), mark("lmdb", true, 0.2)],
        );
        assert!((agree.run_variance.variance - 6.0 / 7.0 * 2e-4).abs() < 1e-9, "{agree:?}");
        // Squares of 0.1 and 0.1, less what the rounds explain.
        assert!(
            (disagree.run_variance.variance - (6.0 * 2e-4 + 0.02 - 1e-4) / 7.0).abs() < 1e-9,
            "{disagree:?}"
        );
        assert_eq!(disagree.drift.mean, 0.1);
        assert!(disagree.drift.variance > 5.0 * agree.drift.variance);
    }

    #[test]
    fn without_a_yardstick_the_machine_is_assumed_to_drift() {
        let machine = DriftEstimate::for_row("x", false, 1, &[]);
        assert_eq!(machine.basis, DriftBasis::Nothing);
        assert!(machine.drift.error() > MACHINE_DEVIATION);
    }
}
