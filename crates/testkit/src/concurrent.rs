//! What several threads of one case do at the same time.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use sessile_core::{Key, Result as StoreResult};

use crate::case::CaseResult;
use crate::check::{Failure, ensure};
use crate::testbed::{BegunText, TestStore, ms};

pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> CaseResult<T> {
    thread.join().map_err(|_| Failure("a thread panicked".into()))
}

pub(crate) fn on_threads<T: Send>(
    count: u8,
    work: impl Fn(u8) -> CaseResult<T> + Sync,
) -> CaseResult<Vec<T>> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count).map(|n| scope.spawn(move || work(n))).collect();
        threads.into_iter().map(|thread| join(thread)?).collect()
    })
}

/// Acts while another thread waits, and returns what that one got. `head_start` is the time to
/// begin to wait.
pub(crate) fn behind_a_waiter<T: Send>(
    head_start: Duration,
    wait: impl FnOnce() -> CaseResult<T> + Send,
    act: impl FnOnce() -> CaseResult,
) -> CaseResult<T> {
    std::thread::scope(|scope| {
        let waiter = scope.spawn(wait);
        std::thread::sleep(head_start);
        ensure(!waiter.is_finished(), || "the waiter did not wait".into())?;
        act()?;
        join(waiter)?
    })
}

/// How long after `free` a thread that waits for the lock has it.
pub(crate) fn wait_after(
    store: &TestStore,
    key: &Key,
    free: impl FnOnce() -> CaseResult,
) -> CaseResult<Duration> {
    let mut freed = Instant::now();
    let wait = || {
        let begun = store.lock(key)?;
        let got = Instant::now();
        begun.lease.release()?;
        Ok(got)
    };
    let got = behind_a_waiter(ms(60), wait, || {
        freed = Instant::now();
        free()
    })?;
    Ok(got.saturating_duration_since(freed))
}

/// Does both at once, each after a random delay of less than 300 us.
pub(crate) fn race<A: Send, B>(
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B,
) -> CaseResult<(A, B)> {
    let gate = Barrier::new(2);
    let pause = |us: u64| {
        gate.wait();
        spin(Duration::from_micros(us));
    };
    let (delay_a, delay_b) = (fastrand::u64(0..300), fastrand::u64(0..300));
    std::thread::scope(|scope| {
        let a = scope.spawn(|| {
            pause(delay_a);
            a()
        });
        pause(delay_b);
        let b = b();
        Ok((join(a)?, b))
    })
}

/// Does both in closed loops until each had `turns_min` turns and `time_min` is over, or one
/// failed. A fast one alone would be done before the other has begun.
pub(crate) fn in_closed_loops(
    turns_min: u64,
    time_min: Duration,
    mut a: impl FnMut() -> CaseResult + Send,
    mut b: impl FnMut() -> CaseResult,
) -> CaseResult {
    // Relaxed on all: nothing is read but their own values.
    let (turns_a, turns_b, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    let over = || {
        let shared = turns_a.load(Ordering::Relaxed).min(turns_b.load(Ordering::Relaxed));
        failed.load(Ordering::Relaxed) || shared >= turns_min && start.elapsed() >= time_min
    };
    let repeat = |turns: &AtomicU64, work: &mut dyn FnMut() -> CaseResult| -> CaseResult {
        while !over() {
            work().inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            turns.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| repeat(&turns_a, &mut a));
        let done = repeat(&turns_b, &mut b);
        join(other)?.and(done)
    })
}

pub fn spin(during: Duration) {
    let start = Instant::now();
    while start.elapsed() < during {
        std::hint::spin_loop();
    }
}

/// Locks, works for 0.2 ms and commits in a closed loop. Returns how often.
pub fn count_cycles(store: &TestStore, key: &Key, during: Duration) -> StoreResult<u64> {
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < during {
        let begun = store.lock(key)?;
        spin(Duration::from_micros(200));
        begun.commit_text("x")?;
        count += 1;
    }
    Ok(count)
}
