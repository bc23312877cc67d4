//! Slots: each has one owner, who keeps the bytes that it meant, and none is freed by who means
//! another.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::{Bodies, Sleep, holds, notices, process};
use crate::Engine;
use crate::memory::{Mutation, class_of, machine, slot_bytes};
use crate::storage::{Lane, SegmentUse, SlotClaim};

/// Two slots in a segment ...
const HALVES: u64 = 512;
/// ... and two others, which do not begin where those do.
const SMALLER: u64 = 384;
/// One slot in a segment.
const WHOLE: u64 = 1_024;

/// Bytes of the data that somebody owns.
#[derive(Clone, Default)]
struct OwnedBytes(Arc<Mutex<Vec<Range<u64>>>>);

fn claim(engine: &Engine, bytes: u64) -> SlotClaim {
    let me = engine.me().unwrap();
    let lane = Lane::enter(&engine.plane, me, 0, None);
    me.slots
        .claim_slot(&lane, class_of(bytes).unwrap(), crate::storage::ClaimTarget::Record)
        .unwrap()
}

/// Claims a slot, has it for a while, and frees it.
fn own(engine: &Engine, owned: &OwnedBytes, bytes: u64) {
    let plane = &engine.plane;
    let claim = claim(engine, bytes);
    let start = claim.location.offset();
    let range = start..start + bytes;
    {
        let mut owned = owned.0.lock().unwrap();
        let free = owned.iter().all(|other| range.end <= other.start || other.end <= range.start);
        assert!(free, "a byte has one owner");
        owned.push(range.clone());
    }
    for _ in 0..3 {
        let state = plane.segment_state(claim.location.segment());
        let as_meant = slot_bytes(state.class()) == bytes && state.usage() != SegmentUse::Unbacked;
        assert!(as_meant, "while a stamp stands, its segment keeps class and memory");
    }
    owned.0.lock().unwrap().retain(|other| *other != range);
    assert!(plane.free_slot(claim), "a slot is freed by its owner");
}

/// Two claim and free while a third empties the segment and gives it to another class.
fn changing_class(path: &Path) {
    let owned = OwnedBytes::default();
    let [one, two, three, last] = [(); 4].map(|()| process(path));
    own(&last, &owned, HALVES);
    let owners = [one, two].map(|engine| {
        let owned = owned.clone();
        Box::new(move || own(&engine, &owned, HALVES)) as Box<dyn FnOnce() + Send>
    });
    let changes = Box::new(move || {
        let (plane, me) = (&three.plane, three.me().unwrap());
        me.set_evacuating(plane, 0, true);
        me.close_segment(plane, 0);
        own(&three, &owned, SMALLER);
    });
    machine::together(owners.into_iter().chain([changes as Box<dyn FnOnce() + Send>]));
    for segment in 0..last.plane.segment_count() {
        assert!(
            (0..8).all(|slot| last.plane.stamp(segment, slot).now() == 0),
            "what nobody owns is free"
        );
    }
}

/// Two free the same claim, as recovery does, while the slot is claimed anew.
fn freed_twice(path: &Path) {
    let [one, two] = [process(path), process(path)];
    let old = claim(&one, WHOLE);
    let late = move || {
        two.plane.free_slot(old);
    };
    let owner = move || {
        one.plane.free_slot(old);
        let new = claim(&one, WHOLE);
        assert_eq!(new.location, old.location, "a slot that was freed is found");
        let stamp = one.plane.stamp_of(new.location).unwrap();
        (0..3).for_each(|_| machine::switch());
        assert_eq!(stamp.now(), new.stamp, "a slot is freed by who names its stamp");
    };
    let bodies: Bodies<2> = [Box::new(late), Box::new(owner)];
    machine::together(bodies);
}

#[test]
fn a_claimed_slot_keeps_its_bytes_while_segments_change_their_class() {
    holds(150, Sleep::ToTheEnd, changing_class);
}

#[test]
fn a_slot_is_freed_once_and_never_for_its_next_owner() {
    holds(100, Sleep::ToTheEnd, freed_twice);
}

#[test]
fn a_claim_that_does_not_look_again_is_noticed() {
    let sentences = ["a byte has one owner", "keeps class and memory"];
    notices(Mutation::ClaimsUnseen, &sentences, Sleep::ToTheEnd, changing_class);
}

#[test]
fn a_segment_closed_over_a_stamp_is_noticed() {
    let sentences = ["a byte has one owner", "keeps class and memory", "freed by its owner"];
    notices(Mutation::ClosesOverStamps, &sentences, Sleep::ToTheEnd, changing_class);
}

#[test]
fn a_free_that_does_not_name_the_stamp_is_noticed() {
    notices(Mutation::FreesUnseen, &["by who names its stamp"], Sleep::ToTheEnd, freed_twice);
}
