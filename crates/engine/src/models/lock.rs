//! The session lock: one holder at a time, nobody is forgotten, only the dead are robbed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::{Sleep, holds, notices, process};
use crate::Engine;
use crate::memory::header;
use crate::memory::{Mutation, Word, machine};
use crate::table::LockAttempt;

const LONG: Duration = Duration::from_secs(3_600);
/// So short that it ends before the lock is free, now and then.
const SHORT: Duration = Duration::from_millis(3);

/// A lock of the store; that of an entry is one like it.
fn word(engine: &Engine) -> &Word {
    engine.plane.header(header::BINS_LOCK)
}

#[derive(Clone, Default)]
struct Inside(Arc<AtomicUsize>);

struct Visit<'a>(&'a Inside);

impl Inside {
    fn enter(&self) -> Visit<'_> {
        assert_eq!(self.0.fetch_add(1, SeqCst), 0, "a lock has one holder at a time");
        Visit(self)
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, SeqCst);
    }
}

/// Takes the lock and gives it back. False when the wait was over first.
fn visit(engine: &Engine, inside: &Inside, wait_max: Duration) -> bool {
    let me = engine.me().unwrap();
    match me.lock_within(&engine.plane, word(engine), wait_max, || true) {
        LockAttempt::Acquired(mine) => {
            let visit = inside.enter();
            // What the lock protects: one word, so that a mortal can die inside.
            engine.plane.header(header::HAND).add(1);
            drop(visit);
            word(engine).unlock(mine);
            true
        }
        LockAttempt::TimedOut(_) => false,
        LockAttempt::Moved => panic!("nothing has moved"),
    }
}

/// Among the living: one holds it at a time; whoever sleeps is woken by who leaves, never by the
/// clock.
fn living(path: &Path) {
    let inside = Inside::default();
    let engines: Vec<Engine> = (0..3).map(|_| process(path)).collect();
    let last = process(path);
    machine::together(engines.into_iter().map(|engine| {
        let inside = inside.clone();
        move || {
            assert!(visit(&engine, &inside, LONG), "who waits long enough gets the lock");
            assert!(visit(&engine, &inside, LONG), "who waits long enough gets the lock");
        }
    }));
    assert_eq!(machine::ended_by_time(), 0, "who gives a lock back wakes one who sleeps");
    assert_eq!(word(&last).now(), 0, "a lock that nobody wants is empty");
}

/// Some give up early: the lock is empty when all are gone, so no mark keeps newcomers away.
fn impatient(path: &Path) {
    let inside = Inside::default();
    let engines = [process(path), process(path), process(path)];
    let last = process(path);
    let waits = [LONG, SHORT, Duration::ZERO];
    machine::together(engines.into_iter().zip(waits).map(|(engine, wait_max)| {
        let inside = inside.clone();
        move || {
            visit(&engine, &inside, wait_max);
            if let Some(mine) = engine.me().unwrap().try_lock(&engine.plane, word(&engine)) {
                drop(inside.enter());
                word(&engine).unlock(mine);
            }
        }
    }));
    assert_eq!(word(&last).now(), 0, "a lock that nobody wants is empty");
}

/// One dies before one of its writes, or survives: whatever it held is taken over by one of the
/// living.
fn mortal(path: &Path) {
    let inside = Inside::default();
    let engines = [process(path), process(path), process(path)];
    let last = process(path);
    machine::together(engines.into_iter().enumerate().map(|(number, engine)| {
        let inside = inside.clone();
        move || {
            if number == 0 {
                machine::dies_within(6);
            }
            assert!(visit(&engine, &inside, LONG), "the lock of a dead owner is taken over");
        }
    }));
    let inside = Inside::default();
    assert!(visit(&last, &inside, LONG), "the lock of a dead owner is taken over");
    assert_eq!(word(&last).now(), 0, "a lock that nobody wants is empty");
}

#[test]
fn the_living_take_turns_and_wake_each_other() {
    holds(250, Sleep::ToTheEnd, living);
}

#[test]
fn a_lock_that_nobody_wants_any_more_is_empty() {
    holds(250, Sleep::Restless, impatient);
}

#[test]
fn a_lock_passes_from_the_dead_and_only_from_them() {
    holds(250, Sleep::Restless, mortal);
}

#[test]
fn an_unlock_that_wakes_nobody_is_noticed() {
    notices(Mutation::UnlocksSilently, &["wakes one who sleeps"], Sleep::ToTheEnd, living);
}

#[test]
fn a_mark_of_starving_that_stays_is_noticed() {
    notices(
        Mutation::LeavesStarving,
        &["a lock that nobody wants is empty"],
        Sleep::Restless,
        impatient,
    );
}

#[test]
fn a_lock_taken_from_the_living_is_noticed() {
    notices(
        Mutation::StealsFromTheLiving,
        &["a lock has one holder at a time"],
        Sleep::Restless,
        mortal,
    );
}
