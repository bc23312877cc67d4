//! The machine on which models run: an order of all reads and writes that a scheduler chooses,
//! sleep, time and death.
//!
//! The code under test is the one that ships; only [`crate::memory::sync`] and [`super::futex`]
//! come here.
//! Each access to a word of shared memory is a point at which any other thread may go on.
//! Invariant: nothing here depends on anything but the scheduler's choices, so a schedule that
//! fails can be replayed.
//!
//! It is not a model of weak memory: all threads see one order of accesses
//! (docs/decisions/0008-models.md).

#![cfg_attr(not(test), allow(dead_code, reason = "called by models"))]

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use shuttle::rand::Rng;
use shuttle::thread::{JoinHandle, Thread, ThreadId};

/// A word, whatever the address at which it is mapped: file and offset.
pub type WordIdentity = (u64, usize);

/// Somebody who sleeps.
struct Sleeper {
    on: WordIdentity,
    until: Duration,
    thread: Thread,
}

#[derive(Default)]
struct World {
    now: Duration,
    /// In the order in which they came.
    sleepers: Vec<Sleeper>,
    running: usize,
    /// How many sleeps only time has ended.
    ended_by_time: usize,
    /// Whether a sleep may end at any moment, or only when nobody else can do anything.
    restless: bool,
}

thread_local! {
    // All threads of a model run on one thread of the system.
    static WORLD: RefCell<World> = RefCell::default();
    static QUIET: Cell<bool> = const { Cell::new(true) };
}

shuttle::thread_local! {
    /// Writes that this thread still survives.
    static WRITES_LEFT: Cell<u64> = Cell::new(u64::MAX);
}

/// How a killed thread ends: it unwinds, and nothing that runs on the way reaches shared memory.
struct Killed;

/// A new world, in which nobody is scheduled until the first thread is spawned.
pub fn begin(restless: bool) {
    QUIET.set(true);
    WORLD.set(World { restless, ..World::default() });
}

/// From here on nobody is scheduled any more: all threads have ended.
pub fn end() {
    QUIET.set(true);
}

pub fn before_read() {
    if !QUIET.get() && !std::thread::panicking() {
        switch();
    }
}

/// Before each write to a word. False: it does not happen, for the thread is dead.
pub fn before_write() -> bool {
    if std::thread::panicking() {
        return false;
    }
    if QUIET.get() {
        return true;
    }
    switch();
    let left = WRITES_LEFT.with(Cell::get);
    if left == 0 {
        resume_unwind(Box::new(Killed));
    }
    if left != u64::MAX {
        WRITES_LEFT.with(|writes| writes.set(left - 1));
    }
    true
}

/// Anybody may go on here.
pub fn switch() {
    shuttle::thread::sleep(Duration::ZERO);
}

/// A number below `end`, chosen by the scheduler.
pub fn choose(end: u64) -> u64 {
    shuttle::rand::thread_rng().gen_range(0..end)
}

/// The calling thread dies before one of its next writes to shared memory, or survives all of them.
pub fn dies_within(writes: u64) {
    let left = choose(writes);
    WRITES_LEFT.with(|writes| writes.set(left));
}

fn spawn(body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    QUIET.set(false);
    WORLD.with_borrow_mut(|world| world.running += 1);
    shuttle::thread::spawn(move || {
        let end = catch_unwind(AssertUnwindSafe(body));
        if !std::thread::panicking() {
            WORLD.with_borrow_mut(|world| world.running -= 1);
            pass_time();
        }
        match end {
            Err(cause) if !cause.is::<Killed>() => resume_unwind(cause),
            _ => {}
        }
    })
}

/// Starts threads and waits until all of them have ended.
pub fn together(bodies: impl IntoIterator<Item = impl FnOnce() + Send + 'static>) {
    let threads: Vec<_> = bodies.into_iter().map(spawn).collect();
    for thread in threads {
        if let Err(cause) = thread.join() {
            resume_unwind(cause);
        }
    }
    end();
}

/// How many sleeps only time has ended.
pub fn ended_by_time() -> usize {
    WORLD.with_borrow(|world| world.ended_by_time)
}

/// What futex(2) does: compares and falls asleep in one step.
pub fn sleep_on(on: WordIdentity, as_expected: impl Fn() -> bool, sleep: Duration) {
    switch();
    if !as_expected() {
        return;
    }
    let thread = shuttle::thread::current();
    let id = thread.id();
    WORLD.with_borrow_mut(|world| {
        let until = world.now + sleep;
        world.sleepers.push(Sleeper { on, until, thread });
    });
    pass_time();
    while sleeps(id) {
        if WORLD.with_borrow(|world| world.restless) {
            if choose(4) == 0 {
                WORLD.with_borrow_mut(|world| {
                    world.end_by_time(|sleeper| sleeper.thread.id() == id)
                });
                return;
            }
            shuttle::thread::yield_now();
        } else {
            shuttle::thread::park();
        }
    }
}

/// Wakes so many, in the order in which they came.
pub fn wake(on: WordIdentity, count: u32) -> usize {
    switch();
    let woken = WORLD.with_borrow_mut(|world| {
        let mut woken = Vec::new();
        while woken.len() < count as usize
            && let Some(at) = world.sleepers.iter().position(|sleeper| sleeper.on == on)
        {
            woken.push(world.sleepers.remove(at).thread);
        }
        woken
    });
    woken.iter().for_each(Thread::unpark);
    woken.len()
}

fn sleeps(id: ThreadId) -> bool {
    WORLD.with_borrow(|world| world.sleepers.iter().any(|sleeper| sleeper.thread.id() == id))
}

/// When everybody sleeps, time passes.
fn pass_time() {
    let woken = WORLD.with_borrow_mut(|world| {
        let all = !world.sleepers.is_empty() && world.sleepers.len() == world.running;
        let first = world.sleepers.iter().map(|sleeper| sleeper.until).min().filter(|_| all)?;
        world.end_by_time(|sleeper| sleeper.until == first)
    });
    if let Some(thread) = woken {
        thread.unpark();
    }
}

impl World {
    fn end_by_time(&mut self, which: impl FnMut(&Sleeper) -> bool) -> Option<Thread> {
        let at = self.sleepers.iter().position(which)?;
        let Sleeper { until, thread, .. } = self.sleepers.remove(at);
        self.now = self.now.max(until);
        self.ended_by_time += 1;
        Some(thread)
    }
}

/// A moment of the world's time, which goes on by nothing or a millisecond whenever somebody looks.
#[derive(Clone, Copy)]
pub struct Instant(Duration);

impl Instant {
    pub fn now() -> Instant {
        let passed = if QUIET.get() { 0 } else { choose(2) };
        WORLD.with_borrow_mut(|world| {
            world.now += Duration::from_millis(passed);
            Instant(world.now)
        })
    }

    pub fn elapsed(&self) -> Duration {
        Instant::now().0 - self.0
    }
}
