//! Publication: a reader sees one whole record of its session, never an older one afterwards, never
//! a destroyed one; and a session has one record, also while it is moved.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sessile_core::{ErrorKind, Key, OwnerChange, Record, Store, Ttl};

use super::{Bodies, NOW, Sleep, holds, notices, process};
use crate::Engine;
use crate::memory::header;
use crate::memory::{Mutation, Relaxed, SeqCst, machine};
use crate::operations::HeldEntry;
use crate::storage::{ClaimPurpose, SlotClaim};

const LONG: Duration = Duration::from_secs(3_600);
pub(super) const PAYLOAD_BYTES: usize = 24;
/// Slots of the one segment of the models, and how many of them other sessions have.
const SLOTS: u64 = 8;
const OTHERS: u64 = 5;

pub(super) fn key(number: u64) -> Key {
    Key::session(&format!("session-{number}")).unwrap()
}

pub(super) fn ttl() -> Ttl {
    Ttl::sliding(Duration::from_secs(60)).unwrap()
}

pub(super) fn lease(engine: &Engine, number: u64) -> (HeldEntry, Option<Record>) {
    let (held, _, found) = engine.begin(&key(number), LONG).unwrap();
    (held, found.record)
}

/// A payload says its number in each byte.
pub(super) fn commit(engine: &Engine, held: &HeldEntry, number: u8) -> Result<(), ErrorKind> {
    let me = engine.me().unwrap();
    me.commit(&engine.plane, held, (&[number; PAYLOAD_BYTES], ttl()), OwnerChange::Keep, NOW)
        .map_err(|error| error.kind().clone())
}

pub(super) fn number_of(record: &Record) -> u8 {
    let first = record.payload[0];
    assert_eq!(record.payload, [first; PAYLOAD_BYTES], "a reader sees one whole record");
    first
}

pub(super) fn peek(engine: &Engine, number: u64) -> Option<u8> {
    let found = engine.peek(&key(number)).expect("a reader sees one whole record");
    found.record.as_ref().map(number_of)
}

/// A store of one segment, which cannot grow, with few free slots; session 0 has record 1.
pub(super) fn processes<const N: usize>(path: &Path) -> [Engine; N] {
    let engines = [(); N].map(|()| process(path));
    for number in 0..=OTHERS {
        let (held, _) = lease(&engines[0], number);
        commit(&engines[0], &held, 1).unwrap();
    }
    engines[0].plane.header(header::BYTES_MAX).store(1, Relaxed);
    engines
}

/// Each session has one record, and nothing else is claimed.
pub(super) fn sound(engine: &Engine) {
    let claimed = (0..SLOTS).filter(|slot| engine.plane.stamp(0, *slot).now() != 0).count() as u64;
    assert_eq!(claimed, OTHERS + 1, "each session has one slot");
    (0..=OTHERS)
        .for_each(|number| assert!(peek(engine, number).is_some(), "a committed record stays"));
}

/// One commits, another reads, a third uses the slots that become free.
fn reading(path: &Path) {
    let [writer, other, reader, last] = processes(path);
    let writes = |engine: Engine, number: u64| {
        move || {
            for version in 2..4 {
                let (held, found) = lease(&engine, number);
                assert_eq!(
                    found.as_ref().map(number_of),
                    Some(version - 1),
                    "a holder reads the latest record"
                );
                commit(&engine, &held, version).unwrap();
            }
        }
    };
    let reads = move || {
        let mut latest = 1;
        for _ in 0..3 {
            let number = peek(&reader, 0).expect("a committed record stays");
            assert!(number >= latest, "a reader does not go back");
            latest = number;
        }
    };
    let bodies: Bodies<3> =
        [Box::new(writes(writer, 0)), Box::new(writes(other, 1)), Box::new(reads)];
    machine::together(bodies);
    sound(&last);
    assert_eq!(peek(&last, 0), Some(3), "a holder reads the latest record");
}

/// A holder commits while the session is destroyed, and somebody else begins a new one.
fn destroying(path: &Path) {
    let [holder, other, new] = processes(path);
    let (held, _) = lease(&holder, 0);
    let commits = move || {
        let _ = commit(&holder, &held, 3);
    };
    let destroys = move || {
        other.me().unwrap().destroy(&other.plane, &key(0)).unwrap();
        let found = peek(&other, 0);
        assert!(matches!(found, None | Some(2)), "a destroyed session does not come back");
    };
    let begins = move || {
        let (held, _) = lease(&new, 0);
        let _ = commit(&new, &held, 2);
    };
    let bodies: Bodies<3> = [Box::new(commits), Box::new(destroys), Box::new(begins)];
    machine::together(bodies);
}

/// A session is destroyed once while somebody begins and commits, or creates.
fn destroying_once(path: &Path) {
    let [holder, other, creator] = processes(path);
    let begins = move || {
        let (held, found) = lease(&holder, 0);
        let committed = commit(&holder, &held, 2);
        if found.is_none_or(|record| number_of(&record) == 3) {
            assert_eq!(committed, Ok(()), "what is begun after a log-out outlives it");
        }
    };
    let destroys = move || other.me().unwrap().destroy(&other.plane, &key(0)).unwrap();
    let creates = move || {
        let created = creator.create(&key(0), &[3; PAYLOAD_BYTES], ttl());
        if created.is_ok() {
            let found = peek(&creator, 0);
            assert!(found.is_some(), "what is begun after a log-out outlives it");
        }
    };
    let bodies: Bodies<3> = [Box::new(begins), Box::new(destroys), Box::new(creates)];
    machine::together(bodies);
}

/// The record of session 0 is moved wherever it is, as compaction does.
fn move_it(engine: &Engine) {
    let (plane, me) = (&engine.plane, engine.me().unwrap());
    let entry = plane.entry(plane.find_entry(plane.digest_of(&key(0))).unwrap());
    let location = entry.state().location();
    let Some(stamp) = plane.stamp_of(location) else { return };
    let old = SlotClaim { location, stamp: stamp.load(SeqCst) };
    let _ = me.move_record(plane, old, ClaimPurpose::Move);
}

/// A holder commits while two move the record away and back.
fn moving(path: &Path) {
    let [holder, one, two, last] = processes(path);
    let (held, _) = lease(&holder, 0);
    // The few free slots may all be the movers' just when the commit looks at them.
    let committed = Arc::new(AtomicBool::new(false));
    let says = Arc::clone(&committed);
    let commits = move || match commit(&holder, &held, 2) {
        Ok(()) => says.store(true, Relaxed),
        Err(kind) => assert_eq!(kind, ErrorKind::Full, "a commit that finds room succeeds"),
    };
    let moves = |engine: Engine| {
        move || {
            move_it(&engine);
            move_it(&engine);
        }
    };
    let bodies: Bodies<3> = [Box::new(commits), Box::new(moves(one)), Box::new(moves(two))];
    machine::together(bodies);
    sound(&last);
    let expected = if committed.load(Relaxed) { 2 } else { 1 };
    assert_eq!(peek(&last, 0), Some(expected), "a committed record stays");
}

#[test]
fn a_reader_sees_one_whole_record_and_never_an_older_one() {
    holds(150, Sleep::ToTheEnd, reading);
}

#[test]
fn a_destroyed_session_does_not_come_back() {
    holds(150, Sleep::ToTheEnd, destroying);
}

#[test]
fn what_is_begun_after_a_log_out_outlives_it() {
    holds(150, Sleep::ToTheEnd, destroying_once);
}

#[test]
fn a_record_that_is_moved_and_replaced_at_once_leaves_one() {
    holds(150, Sleep::ToTheEnd, moving);
}

#[test]
fn a_state_before_its_record_is_noticed() {
    // The slot that the state leads to may still have an older record of this same session.
    let sentences = ["one whole record", "a reader does not go back"];
    notices(Mutation::StateBeforeRecord, &sentences, Sleep::ToTheEnd, reading);
}

#[test]
fn a_slot_freed_before_the_state_is_noticed() {
    let sentences = ["one whole record", "a reader does not go back", "the latest record"];
    notices(Mutation::FreesBeforeState, &sentences, Sleep::ToTheEnd, reading);
}

#[test]
fn a_reader_that_does_not_look_again_is_noticed() {
    let sentences = ["one whole record", "a reader does not go back"];
    notices(Mutation::ReadsOnce, &sentences, Sleep::ToTheEnd, reading);
}

#[test]
fn a_commit_over_a_destroyed_session_is_noticed() {
    notices(Mutation::CommitsUnseen, &["does not come back"], Sleep::ToTheEnd, destroying);
}

#[test]
fn a_lock_that_a_log_out_may_void_is_noticed() {
    let sentence = "what is begun after a log-out outlives it";
    notices(Mutation::TrustsVoidLock, &[sentence], Sleep::ToTheEnd, destroying_once);
}

#[test]
fn a_record_left_where_it_came_back_to_is_noticed() {
    notices(Mutation::ForgetsReturned, &["each session has one slot"], Sleep::ToTheEnd, moving);
}
