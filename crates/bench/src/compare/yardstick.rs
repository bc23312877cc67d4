//! How much of a difference between two runs is the machine's.
//!
//! The speed of a machine drifts from run to run: other programs, other guests of its host, temperature. What both
//! runs contain and nobody has changed shows by how much: the reference rows. Where there are none, what most
//! stores have in common; then a slowdown of all stores together cannot be seen, and the comparison says so.
//!
//! Besides the machine each row has a fortune of its own in each run (where its memory lies, which processor its server
//! got), which no number of rounds shows: its workers and its server live through all of them, unless it is set up several times. [`APART`] is what is
//! assumed of it; how far the rows of the yardstick disagree raises or lowers that.

use super::estimate::{Estimate, median};

/// Standard deviation of one row from run to run, beyond what its rounds show: an assumption, before the yardstick.
pub(super) const APART: f64 = 0.01;
/// It weighs as much as so many further rows of the yardstick.
const APART_WEIGHT: f64 = 6.0;
/// The same of the machine as a whole, when nothing tells how it was.
const MACHINE_APART: f64 = 0.06;
/// As sure are we of these two: as if they came from so many observations.
const FREEDOM: f64 = 20.0;
/// Stores besides the row's own that it takes to speak for the machine.
const STORES_MIN: usize = 3;

/// One row that may be a yardstick: how it differs.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub store: String,
    pub socket: bool,
    pub workers: usize,
    pub is_reference: bool,
    pub difference: Estimate,
}

/// What the yardstick says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Machine {
    /// To be taken from the difference of a row.
    pub drift: Estimate,
    /// What a row differs by from run to run, beyond its rounds: the mean is 0.
    pub fortune: Estimate,
    pub basis: Basis,
    /// Rows or stores that spoke.
    pub voices: usize,
    /// With as many workers as the row.
    pub same_workers: bool,
}

/// What a row is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The reference rows that both results have.
    ReferenceRows,
    /// The other stores: what they have in common is taken for the machine's.
    OtherStores,
    /// Itself, measured with the other program in the same rounds: the machine was the same.
    SameRounds,
    /// Nothing: the machine is assumed to drift.
    Nothing,
}

impl Machine {
    /// For a row of this store, over a socket or not, at so many workers.
    pub(super) fn for_row(store: &str, socket: bool, workers: usize, marks: &[Mark]) -> Machine {
        let references: Vec<&Mark> = marks.iter().filter(|mark| mark.is_reference).collect();
        // More workers than processors feel the machine otherwise than one does, and a server otherwise than a library.
        let alike = |of_kind: bool, same_workers: bool| -> Vec<Estimate> {
            let kind = |mark: &&&Mark| !of_kind || mark.socket == socket;
            let number = |mark: &&&Mark| !same_workers || mark.workers == workers;
            references.iter().filter(kind).filter(number).map(|mark| mark.difference).collect()
        };
        for (of_kind, same_workers) in [(true, true), (true, false), (false, true), (false, false)] {
            let found = alike(of_kind, same_workers);
            if !found.is_empty() {
                return Machine { same_workers, ..Machine::of(&found, Basis::ReferenceRows) };
            }
        }
        let mut stores: Vec<&str> = marks.iter().map(|mark| mark.store.as_str()).filter(|it| *it != store).collect();
        stores.sort_unstable();
        stores.dedup();
        if stores.len() < STORES_MIN {
            return Machine::unknown();
        }
        // One voice for each store, however many rows it has.
        let voices: Vec<Estimate> = stores.iter().map(|store| voice(store, marks)).collect();
        Machine::of(&voices, Basis::OtherStores)
    }

    fn of(differences: &[Estimate], basis: Basis) -> Machine {
        let count = differences.len() as f64;
        let means: Vec<f64> = differences.iter().map(|it| it.mean).collect();
        // Nobody has changed a reference row. Of stores one may have changed, so that the middle one speaks, which
        // varies by up to half of pi more than the mean.
        let (drift, loss) = match basis {
            Basis::ReferenceRows => (means.iter().sum::<f64>() / count, 1.0),
            _ => (median(&means), std::f64::consts::FRAC_PI_2),
        };
        let squares: f64 = means.iter().map(|mean| (mean - drift).powi(2)).sum();
        let of_rounds: f64 = differences.iter().map(|it| it.variance).sum::<f64>() / count;
        let seen = (squares - (count - 1.0) * of_rounds).max(0.0);
        let fortune = (APART_WEIGHT * 2.0 * APART.powi(2) + seen) / (APART_WEIGHT + count - 1.0);
        let freedom = differences.iter().map(|it| it.freedom).sum();
        Machine {
            drift: Estimate { mean: drift, variance: loss * (of_rounds + fortune) / count, freedom },
            fortune: Estimate { mean: 0.0, variance: fortune, freedom: FREEDOM + count },
            basis,
            voices: differences.len(),
            same_workers: true,
        }
    }

    /// The standard deviation of one row in one run that follows from the assumption and the yardstick.
    pub(super) fn apart(&self) -> f64 {
        (self.fortune.variance / 2.0).sqrt()
    }

    /// Of two that took turns. Their memory and processes are others all the same, and have a fortune of their own, unless they
    /// were set up several times: then it is in what these differ by.
    pub(super) fn of_same_rounds(of_setups: bool) -> Machine {
        Machine {
            drift: Estimate { freedom: FREEDOM, ..Estimate::default() },
            fortune: assumed(if of_setups { 0.0 } else { APART }),
            basis: Basis::SameRounds,
            ..Machine::unknown()
        }
    }

    fn unknown() -> Machine {
        let (drift, fortune) = (assumed(MACHINE_APART), assumed(APART));
        Machine { drift, fortune, basis: Basis::Nothing, voices: 0, same_workers: true }
    }
}

/// What two runs differ by.
fn assumed(deviation: f64) -> Estimate {
    Estimate { mean: 0.0, variance: 2.0 * deviation.powi(2), freedom: FREEDOM }
}

/// What the rows of one store say together.
fn voice(store: &str, marks: &[Mark]) -> Estimate {
    let rows: Vec<Estimate> = marks.iter().filter(|mark| mark.store == store).map(|mark| mark.difference).collect();
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

    fn mark(store: &str, is_reference: bool, mean: f64) -> Mark {
        let difference = Estimate { mean, variance: 1e-4, freedom: 8.0 };
        Mark { store: store.to_owned(), socket: false, workers: 1, is_reference, difference }
    }

    #[test]
    fn reference_rows_speak_before_stores_and_those_of_the_same_kind_before_others() {
        let mut marks = vec![mark("a", false, 0.5), mark("b", false, 0.5), mark("c", false, 0.5)];
        let machine = Machine::for_row("x", false, 1, &marks);
        assert_eq!((machine.basis, machine.drift.mean), (Basis::OtherStores, 0.5));
        assert_eq!(Machine::for_row("a", false, 1, &marks).basis, Basis::Nothing, "two others are too few");
        marks.push(Mark { socket: true, ..mark("redis-four-trips", true, 0.3) });
        assert_eq!(Machine::for_row("x", false, 1, &marks).drift.mean, 0.3);
        marks.push(mark("limit", true, 0.1));
        assert_eq!(Machine::for_row("x", false, 1, &marks).drift.mean, 0.1);
        assert_eq!(Machine::for_row("x", true, 1, &marks).drift.mean, 0.3);
    }

    /// A row at eight workers on two processors was held against `limit` and `null`, which have one.
    #[test]
    fn reference_rows_at_as_many_workers_speak_before_others_of_their_kind() {
        let at = |workers, store: &str, mean| Mark { workers, ..mark(store, true, mean) };
        let mut marks = vec![at(1, "limit", 0.1), at(1, "null", 0.1), at(8, "lmdb", 0.3)];
        let machine = Machine::for_row("x", false, 8, &marks);
        assert_eq!((machine.drift.mean, machine.voices, machine.same_workers), (0.3, 1, true));
        assert_eq!(Machine::for_row("x", false, 1, &marks).voices, 2);
        let none = Machine::for_row("x", false, 2, &marks);
        assert_eq!((none.voices, none.same_workers), (3, false), "nobody has two");
        marks.push(Mark { socket: true, ..at(2, "redis-four-trips", 0.5) });
        assert_eq!(Machine::for_row("x", false, 2, &marks).voices, 3, "the kind counts more than the number");
        assert!(Machine::for_row("x", true, 2, &marks).same_workers);
    }

    #[test]
    fn rows_of_the_yardstick_that_disagree_make_everything_less_sure() {
        let agree = Machine::for_row("x", false, 1, &[mark("limit", true, 0.1), mark("lmdb", true, 0.1)]);
        let disagree = Machine::for_row("x", false, 1, &[mark("limit", true, 0.0), mark("lmdb", true, 0.2)]);
        assert!((agree.fortune.variance - 6.0 / 7.0 * 2e-4).abs() < 1e-9, "{agree:?}");
        // Squares of 0.1 and 0.1, less what the rounds explain.
        assert!((disagree.fortune.variance - (6.0 * 2e-4 + 0.02 - 1e-4) / 7.0).abs() < 1e-9, "{disagree:?}");
        assert_eq!(disagree.drift.mean, 0.1);
        assert!(disagree.drift.variance > 5.0 * agree.drift.variance);
    }

    #[test]
    fn without_a_yardstick_the_machine_is_assumed_to_drift() {
        let machine = Machine::for_row("x", false, 1, &[]);
        assert_eq!(machine.basis, Basis::Nothing);
        assert!(machine.drift.error() > MACHINE_APART);
    }
}
