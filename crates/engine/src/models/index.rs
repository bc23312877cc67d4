//! The index: a key has one entry, a change happens once however many carry it out, a split loses
//! and revives nothing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use super::{Bodies, Sleep, holds, notices, process};
use crate::Engine;
use crate::memory::{KeyDigest, Mutation, machine};
use crate::table::Insertion;

/// Keys of one bucket, which go to either half when it splits.
fn digest(key: u64) -> KeyDigest {
    KeyDigest(key << 48 | (key & 1) << 6, key)
}

/// Processes, and entries that have the digests of keys by the same number; nothing leads to them
/// yet.
fn processes<const N: usize>(path: &Path) -> [Engine; N] {
    let engines = [(); N].map(|()| process(path));
    // The table of entries grows when the first one is taken.
    (engines[0].plane).find_or_take(engines[0].me().unwrap(), KeyDigest(u64::MAX, 0)).unwrap();
    (0..64).for_each(|key| engines[0].plane.entry(key).set_digest(digest(key)));
    engines
}

fn leads(engine: &Engine, key: u64) -> bool {
    engine.plane.find_entry(digest(key)) == Some(key)
}

fn add(engine: &Engine, key: u64) {
    let inserted = engine.plane.insert_entry(digest(key), key).unwrap();
    assert!(matches!(inserted, Insertion::Inserted), "who alone inserts a key inserts it");
    assert!(leads(engine, key), "an inserted key is found");
}

fn take_out(engine: &Engine, key: u64) {
    assert!(
        engine.plane.remove_entry(digest(key), key).unwrap(),
        "what was inserted can be removed"
    );
    assert!(!leads(engine, key), "a removed key is gone");
}

/// Two insert the same key while a third changes the bucket: one of them is told that the key has
/// an entry.
fn one_key(path: &Path) {
    const KEY: u64 = 20;
    let [one, two, other, last] = processes(path);
    [10, 11].iter().for_each(|entry| last.plane.entry(*entry).set_digest(digest(KEY)));
    let new = Arc::new(AtomicUsize::new(0));
    let (new_of_one, new_of_two) = (new.clone(), new.clone());
    let inserts = |engine: Engine, entry: u64, new: Arc<AtomicUsize>| {
        move || {
            if let Insertion::Inserted = engine.plane.insert_entry(digest(KEY), entry).unwrap() {
                new.fetch_add(1, SeqCst);
            }
            assert!(engine.plane.find_entry(digest(KEY)).is_some(), "an inserted key is found");
        }
    };
    let changes = move || {
        add(&other, 1);
        take_out(&other, 1);
    };
    let bodies: Bodies<3> = [
        Box::new(inserts(one, 10, new_of_one)),
        Box::new(inserts(two, 11, new_of_two)),
        Box::new(changes),
    ];
    machine::together(bodies);
    assert_eq!(new.load(SeqCst), 1, "a key has one entry");
    let entry = last.plane.find_entry(digest(KEY)).unwrap();
    assert!(last.plane.remove_entry(digest(KEY), entry).unwrap());
    assert_eq!(last.plane.find_entry(digest(KEY)), None, "a key has one entry");
}

/// Each changes a key of its own in one bucket, and so carries out what the others have announced,
/// now or much later.
fn own_keys(path: &Path) {
    let [one, two, last] = processes(path);
    add(&last, 30);
    add(&last, 1);
    take_out(&last, 1);
    machine::together([(one, 1), (two, 2)].map(|(engine, key)| {
        move || {
            engine.plane.insert_entry(digest(key), key).unwrap();
            assert!(
                engine.plane.remove_entry(digest(key), key).unwrap(),
                "what was inserted can be removed"
            );
        }
    }));
    assert!(leads(&last, 30), "a key that nobody removes is found");
    (1..3).for_each(|key| assert!(!leads(&last, key), "a removed key is gone"));
}

/// A full bucket splits while its keys are removed, found and come back.
fn splitting(path: &Path) {
    let [one, two, three, last] = processes(path);
    (1..8).for_each(|key| add(&last, key));
    let grows = move || {
        add(&one, 8);
        take_out(&one, 2);
    };
    let shrinks = move || {
        take_out(&two, 3);
        add(&two, 3);
        take_out(&two, 3);
    };
    let finds = move || {
        add(&three, 9);
        assert!(leads(&three, 5), "a key that nobody removes is found");
    };
    let bodies: Bodies<3> = [Box::new(grows), Box::new(shrinks), Box::new(finds)];
    machine::together(bodies);
    for key in 1..10 {
        assert_eq!(
            leads(&last, key),
            ![2, 3].contains(&key),
            "a removed key is gone, any other is found: {key}"
        );
    }
}

#[test]
fn a_key_has_one_entry_however_many_insert_it() {
    holds(150, Sleep::ToTheEnd, one_key);
}

#[test]
fn a_change_happens_once_however_late_its_helpers_come() {
    holds(150, Sleep::ToTheEnd, own_keys);
}

#[test]
fn a_split_loses_nothing_and_revives_nothing() {
    holds(150, Sleep::ToTheEnd, splitting);
}

#[test]
fn an_announcement_over_unseen_ones_is_noticed() {
    notices(
        Mutation::AnnouncesUnseen,
        &["a key has one entry", "an inserted key is found"],
        Sleep::ToTheEnd,
        one_key,
    );
}

#[test]
fn a_sequence_that_comes_round_is_noticed() {
    notices(Mutation::SequenceComesRound, &["a removed key is gone"], Sleep::ToTheEnd, own_keys);
}

#[test]
fn a_helper_that_trusts_what_it_has_read_is_noticed() {
    notices(
        Mutation::HelperTrusts,
        &["a removed key is gone", "what was inserted can be removed"],
        Sleep::ToTheEnd,
        own_keys,
    );
}

#[test]
fn a_split_of_a_bucket_that_still_changes_is_noticed() {
    notices(Mutation::SplitsUnfrozen, &["a removed key is gone"], Sleep::ToTheEnd, splitting);
}
