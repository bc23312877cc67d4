//! Stores of two programs in the same rounds are set up several times.
//!
//! Where the memory of a store lies decides over some per cent of its speed as long as it lives, and no number of rounds shows
//! that. So both are set up anew after some rounds, in an order that is drawn, and the rounds of each setup count as one when
//! they are compared.
//!
//! Invariant: no two samples have the same number of a setup unless both stores were the same ones in both.

use crate::against;
use crate::capacity::{Filling, fit};
use crate::experiments::{Bench, Member};
use crate::interruption::interrupted;
use crate::worker::protocol::Failure;

/// So many at most: each takes as long as starting, filling and verifying a store does.
const SETUPS_MAX: usize = 10;
/// Of fewer rounds a setup has no mean to speak of.
const ROUNDS_MIN: usize = 5;

/// Whether a setup ends before this round, which is one of so many.
pub(super) fn ends_before(round: usize, rounds: usize) -> bool {
    let setups = (rounds / ROUNDS_MIN).clamp(1, SETUPS_MAX);
    let setup = |round: usize| round * setups / rounds.max(1);
    round > 0 && setup(round) != setup(round - 1)
}

/// Those that are held against each other, by their numbers.
pub(super) fn pairs(members: &[Member]) -> Vec<usize> {
    let name = |member: &Member| (member.choice.store, against::common(&member.choice.variant).to_owned());
    let names: Vec<_> = members.iter().map(name).collect();
    let is_of_pair = |number: &usize| names.iter().filter(|name| Some(*name) == names.get(*number)).count() > 1;
    (0..names.len()).filter(is_of_pair).collect()
}

/// Sets some members up anew in this order, and says of which that went well. Where there is no room for another store beside the
/// one that is there, or a signal came, the setup goes on.
pub(super) fn set_up_anew(
    bench: &Bench,
    members: &mut [Member],
    numbers: &[usize],
    ids: usize,
) -> Vec<(usize, Result<(), Failure>)> {
    let (sessions, mut tried) = (bench.settings.sessions, Vec::new());
    for number in numbers {
        let Some(member) = members.get_mut(*number) else { continue };
        let filling = Filling { sessions, ids, workers: member.workers };
        if interrupted() || fit(&member.choice, &bench.settings, filling, None).is_err() {
            return tried;
        }
        let told = |failure: Failure| {
            let message = format!("it could not be set up anew: {}", failure.message);
            Failure { message, ..failure }
        };
        tried.push((*number, member.set_up_anew(bench, sessions, ids).map_err(told)));
    }
    for number in numbers {
        if let Some(member) = members.get_mut(*number) {
            member.setup += 1;
        }
    }
    tried
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_setups_share_the_rounds_and_few_rounds_have_fewer() {
        let lengths = |rounds: usize| {
            let ends: Vec<usize> = (0..rounds).filter(|round| ends_before(*round, rounds)).chain([rounds]).collect();
            let begins = [0].into_iter().chain(ends.iter().copied());
            begins.zip(&ends).map(|(begin, end)| end - begin).collect::<Vec<usize>>()
        };
        assert_eq!(lengths(200), [20; 10]);
        assert_eq!(lengths(60), [6; 10]);
        assert_eq!(lengths(25), [5; 5]);
        assert_eq!(lengths(43).iter().sum::<usize>(), 43);
        assert!(lengths(43).iter().all(|length| (5..7).contains(length)));
        for few in [1, 4, 9] {
            assert_eq!(lengths(few), [few]);
        }
    }
}
