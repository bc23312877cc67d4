//! Stores of two programs in the same rounds are set up several times.
//!
//! The place of a store in memory decides over some per cent of its speed while it lives, and no
//! number of rounds shows that. So both are set up anew after some rounds, in random order, and the
//! rounds of one setup count as one sample of the comparison.
//!
//! Invariant: samples with the same setup number come from the same two stores. A pair without room
//! for another store keeps its setup.

use sessile_results::compare::{ROUNDS_FOR_INTERVAL, ROUNDS_OF_SETUP};

use crate::baseline;
use crate::experiments::{Bench, ReadyContender};
use crate::interruption::interrupted;
use crate::room;
use crate::worker::protocol::WorkerResult;

/// Each costs a start, a fill and a verification.
const SETUPS_MAX: usize = 10;

pub(super) fn ends_before(round: usize, rounds: usize) -> bool {
    let setups =
        if rounds < ROUNDS_FOR_INTERVAL { 1 } else { SETUPS_MAX.min(rounds / ROUNDS_OF_SETUP) };
    let setup = |round: usize| round * setups / rounds.max(1);
    round > 0 && setup(round) != setup(round - 1)
}

/// The name that a store shares with its counterpart.
fn shared_name(contender: &ReadyContender) -> (&'static str, String) {
    (contender.choice.store, baseline::without_mark(&contender.choice.variant).to_owned())
}

pub(super) fn paired_contenders(contenders: &[ReadyContender]) -> Vec<usize> {
    let names: Vec<_> = contenders.iter().map(shared_name).collect();
    let is_of_pair =
        |number: &usize| names.iter().filter(|name| Some(*name) == names.get(*number)).count() > 1;
    (0..names.len()).filter(is_of_pair).collect()
}

/// Sets these up anew in this order; each comes with its result.
pub(super) fn set_up_anew(
    bench: &Bench,
    contenders: &mut [ReadyContender],
    numbers: &[usize],
    ids: usize,
) -> Vec<(usize, WorkerResult<()>)> {
    let (sessions, mut tried) = (bench.settings.sessions, Vec::new());
    let has_no_room = |contender: &&ReadyContender| {
        let prepared = ids * contender.workers;
        room::check(&contender.choice, &bench.settings, sessions, prepared, None).is_err()
    };
    let without_room: Vec<_> = numbers
        .iter()
        .filter_map(|number| contenders.get(*number))
        .filter(has_no_room)
        .map(shared_name)
        .collect();
    for number in numbers {
        let Some(contender) = contenders
            .get_mut(*number)
            .filter(|contender| !without_room.contains(&shared_name(contender)))
        else {
            continue;
        };
        if interrupted() {
            break; // there are no more samples
        }
        tried.push((*number, contender.set_up_anew(bench, sessions, ids)));
    }
    tried
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_setups_share_the_rounds_and_few_rounds_have_one() {
        let lengths = |rounds: usize| {
            let ends: Vec<usize> =
                (0..rounds).filter(|round| ends_before(*round, rounds)).chain([rounds]).collect();
            let begins = [0].into_iter().chain(ends.iter().copied());
            begins.zip(&ends).map(|(begin, end)| end - begin).collect::<Vec<usize>>()
        };
        assert_eq!(lengths(200), [20; 10]);
        assert_eq!(lengths(60), [6; 10]);
        assert_eq!(lengths(25), [5; 5]);
        assert_eq!(lengths(43).iter().sum::<usize>(), 43);
        assert!(lengths(43).iter().all(|length| (5..7).contains(length)));
        for few in [1, 9, 24] {
            assert_eq!(lengths(few), [few]);
        }
    }
}
