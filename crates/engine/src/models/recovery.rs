//! Recovery: whoever dies in a commit leaves the old record or the new one, and no slot that
//! nothing leads to.

use std::path::Path;

use super::publish::{commit, lease, number_of, processes, sound};
use super::{Bodies, Sleep, holds, notices, process};
use crate::Engine;
use crate::memory::PROCESSES_MAX;
use crate::memory::{Mutation, machine};

/// Writes of a commit, about.
const WRITES: u64 = 50;

/// Looks at all processes, as maintenance does in turn.
fn recover_all(engine: &Engine) {
    let me = engine.me().unwrap();
    (0..PROCESSES_MAX.min(8)).for_each(|slot| {
        me.recover_if_dead(&engine.plane, slot);
    });
}

/// One dies in a commit. Another wants its session, and a new process may take its place in the
/// table.
fn dying(path: &Path) {
    let [last, mortal, heir] = processes(path);
    let (held, _) = lease(&mortal, 0);
    let folder = path.to_owned();
    let dies = move || {
        machine::dies_within(WRITES);
        let _ = commit(&mortal, &held, 2);
    };
    let takes_over = move || {
        let (held, found) = lease(&heir, 0);
        let found = number_of(&found.expect("a committed record stays"));
        assert!([1, 2].contains(&found), "a commit is done or not");
        heir.me().unwrap().release(&heir.plane, &held).unwrap();
    };
    let comes_new = move || {
        let new = process(&folder);
        let (held, _) = lease(&new, 1);
        commit(&new, &held, 2).unwrap();
    };
    let bodies: Bodies<3> = [Box::new(dies), Box::new(takes_over), Box::new(comes_new)];
    machine::together(bodies);
    recover_all(&last);
    sound(&last);
}

/// One has died in a commit. One recovers it while a new process takes its place in the table and
/// uses its lanes.
fn succeeding(path: &Path) {
    let [last, mortal, other] = processes(path);
    let (held, _) = lease(&mortal, 0);
    let (folder, slot) = (path.to_owned(), mortal.me().unwrap().slot);
    machine::together([move || {
        machine::dies_within(WRITES);
        let _ = commit(&mortal, &held, 2);
    }]);
    let recovers = move || {
        other.me().unwrap().recover_if_dead(&other.plane, slot);
    };
    let succeeds = move || {
        let new = process(&folder);
        let (held, _) = lease(&new, 1);
        commit(&new, &held, 2).unwrap();
    };
    let bodies: Bodies<2> = [Box::new(recovers), Box::new(succeeds)];
    machine::together(bodies);
    recover_all(&last);
    sound(&last);
}

#[test]
fn who_dies_in_a_commit_leaves_one_record_and_nothing_else() {
    holds(250, Sleep::Restless, dying);
}

#[test]
fn recovery_leaves_the_successor_alone() {
    holds(150, Sleep::Restless, succeeding);
}

#[test]
fn recovery_from_lanes_of_a_successor_is_noticed() {
    let sentences = ["each session has one slot", "a committed record stays", "one whole record"];
    notices(Mutation::RecoversUnseen, &sentences, Sleep::Restless, succeeding);
}
