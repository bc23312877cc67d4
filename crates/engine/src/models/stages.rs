//! Stages: who looks for a record finds its bytes, in a stage or in the file, also while the stage
//! is given up and taken for another segment.

use std::path::Path;

use sessile_core::Clock;

use super::publish::{commit, lease, number_of, peek};
use super::{Bodies, NOW, Sleep, holds, notices};
use crate::memory::{Mutation, machine};
use crate::{Engine, EngineOptions, open};

/// So many commits fill one segment and begin another, in the same stage.
const COMMITS: u8 = 4;

/// One comes to its next segment while another reads what it wrote first, and a third what it
/// writes.
fn reading(path: &Path) {
    let disk = tempfile::TempDir::new_in("/var/tmp").unwrap();
    std::fs::create_dir(path).unwrap();
    let [writer, reader, follower, last] = [(); 4].map(|()| {
        let options = EngineOptions { control: Some(path.to_owned()), ..EngineOptions::default() };
        open(&disk.path().join("store"), Clock::manual(NOW), &options).unwrap()
    });
    for number in [0, 1] {
        let (held, _) = lease(&writer, number);
        commit(&writer, &held, 1).unwrap();
    }
    let writes = move || {
        for version in 2..=COMMITS {
            let (held, found) = lease(&writer, 1);
            assert_eq!(
                found.as_ref().map(number_of),
                Some(version - 1),
                "a holder reads the latest record"
            );
            commit(&writer, &held, version).unwrap();
        }
    };
    let reads = |engine: Engine, number: u64| {
        move || {
            let mut latest = 1;
            for _ in 0..2 {
                let found = peek(&engine, number).expect("a committed record stays");
                assert!(found >= latest, "a reader does not go back");
                latest = found;
            }
        }
    };
    let bodies: Bodies<3> =
        [Box::new(writes), Box::new(reads(reader, 0)), Box::new(reads(follower, 1))];
    machine::together(bodies);
    assert_eq!(
        [0, 1].map(|number| peek(&last, number)),
        [Some(1), Some(COMMITS)],
        "a committed record stays"
    );
}

#[test]
fn a_reader_finds_its_record_while_stages_go_from_segment_to_segment() {
    holds(150, Sleep::ToTheEnd, reading);
}

#[test]
fn the_model_of_stages_notices_a_reader_that_does_not_look_again() {
    notices(
        Mutation::ReadsStageOnce,
        &["a reader sees one whole record"],
        Sleep::ToTheEnd,
        reading,
    );
}

#[test]
fn the_model_of_stages_notices_one_that_is_given_up_before_it_is_in_the_file() {
    // Whoever finds nothing where the entry leads looks again, and again.
    let sentences = ["a reader sees one whole record", "exceeded max_steps"];
    notices(Mutation::GivesUpUnwritten, &sentences, Sleep::ToTheEnd, reading);
}
