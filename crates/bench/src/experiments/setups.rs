//! Stores of two programs in the same rounds are set up several times.
//!
//! Where the memory of a store lies decides over some per cent of its speed as long as it lives, and no number of rounds shows
//! that. So both are set up anew after some rounds, in an order that is drawn, and the rounds of each setup count as one when
//! they are compared.
//!
//! Invariant: what both have samples of under the same number of a setup are the same two stores. A store of which that cannot be
//! so, because there is no room for another one beside it, stays with its twin in the setup that they have.

use crate::against;
use crate::capacity::{Filling, fit};
use crate::experiments::{Bench, Member};
use crate::interruption::interrupted;
use crate::worker::protocol::Failure;

/// So many at most: each takes as long as starting, filling and verifying a store does.
const SETUPS_MAX: usize = 10;
/// Of fewer the means tell so little that what is assumed of one setup tells more.
pub(crate) const SETUPS_MIN: usize = 5;
/// Rounds of a setup, at least: of fewer it has no mean to speak of.
const ROUNDS_OF_SETUP: usize = 5;
/// With fewer there is one setup.
pub(crate) const ROUNDS_MIN: usize = SETUPS_MIN * ROUNDS_OF_SETUP;

/// Whether a setup ends before this round, which is one of so many.
pub(super) fn ends_before(round: usize, rounds: usize) -> bool {
    let setups = if rounds < ROUNDS_MIN { 1 } else { SETUPS_MAX.min(rounds / ROUNDS_OF_SETUP) };
    let setup = |round: usize| round * setups / rounds.max(1);
    round > 0 && setup(round) != setup(round - 1)
}

/// What a store and its twin have in common.
fn name(member: &Member) -> (&'static str, String) {
    (member.choice.store, against::common(&member.choice.variant).to_owned())
}

/// Those that are held against each other, by their numbers.
pub(super) fn pairs(members: &[Member]) -> Vec<usize> {
    let names: Vec<_> = members.iter().map(name).collect();
    let is_of_pair = |number: &usize| names.iter().filter(|name| Some(*name) == names.get(*number)).count() > 1;
    (0..names.len()).filter(is_of_pair).collect()
}

/// Sets some members up anew in this order, and says of which that went well.
pub(super) fn set_up_anew(
    bench: &Bench,
    members: &mut [Member],
    numbers: &[usize],
    ids: usize,
) -> Vec<(usize, Result<(), Failure>)> {
    let (sessions, mut tried) = (bench.settings.sessions, Vec::new());
    let has_no_room = |member: &&Member| {
        let filling = Filling { sessions, ids, workers: member.workers };
        fit(&member.choice, &bench.settings, filling, None).is_err()
    };
    let without_room: Vec<_> =
        numbers.iter().filter_map(|number| members.get(*number)).filter(has_no_room).map(name).collect();
    for number in numbers {
        let Some(member) = members.get_mut(*number).filter(|member| !without_room.contains(&name(member))) else {
            continue;
        };
        if interrupted() {
            break; // there are no more samples
        }
        tried.push((*number, member.set_up_anew(bench, sessions, ids)));
    }
    tried
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_setups_share_the_rounds_and_few_rounds_have_one() {
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
        for few in [1, 9, 24] {
            assert_eq!(lengths(few), [few]);
        }
    }
}
