//! Two operations at the same moment: whatever the order, the outcome is one that some order explains.
//!
//! Each case repeats its race with random delays; `SESSILE_STORM` repeats it more often.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sessile_core::{Budget, Key, Sessions};

use crate::case::{Case, Isolation, Outcome, locking, sweeping};
use crate::check::{Failure, ensure, equal, refused_with_one_of};
use crate::ground::{Ground, MINUTE, PATIENCE, minute, payload, payload_of, storm};

pub(crate) const CASES: &[Case] = &[
    Case::new("destroy and commit at the same moment: the session is gone", destroy_and_commit).needs(&[locking]),
    Case::new("destroy and regenerate at the same moment: both ids are gone", destroy_and_regenerate).needs(&[locking]),
    Case::new("destroy and touch at the same moment: the session is gone", destroy_and_touch),
    Case::new("create and begin at the same moment: neither write is lost", create_and_begin).needs(&[locking]),
    Case::new("touches beside commits never bring an old payload back", touch_and_commit).needs(&[locking]),
    Case::new("a sweep beside writers removes nothing that they commit", sweep_and_commit)
        .needs(&[sweeping, locking])
        .on(Isolation::Own),
];

fn two(ground: &Ground) -> Result<(Sessions, Sessions), Failure> {
    let here = ground.open()?;
    let there = if ground.capabilities().shared_by_processes { ground.open()? } else { here.clone() };
    Ok((here, there))
}

/// Runs both at once, each after a random delay of less than 300 us.
fn race<A: Send, B>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B) -> Result<(A, B), Failure> {
    let gate = Barrier::new(2);
    let (delay_a, delay_b) = (fastrand::u64(0..300), fastrand::u64(0..300));
    let pause = |us: u64| {
        gate.wait();
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(us) {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        let a = scope.spawn(|| {
            pause(delay_a);
            a()
        });
        pause(delay_b);
        let b = b();
        Ok((a.join().map_err(|_| Failure("a thread panicked".into()))?, b))
    })
}

fn rounds() -> u64 {
    60 * storm()
}

fn gone(store: &Sessions, key: &Key, round: u64) -> Outcome {
    ensure(store.peek(key)?.is_none(), || format!("the session is back after destroy, in round {round}"))
}

fn destroy_and_commit(ground: &Ground) -> Outcome {
    let (here, there) = two(ground)?;
    for round in 0..rounds() {
        let key = ground.key();
        here.create(&key, &payload("x"), minute())?;
        let begun = here.begin(&key, PATIENCE)?;
        let (committed, destroyed) = race(move || begun.lease.commit(&payload("y"), minute()), || there.destroy(&key))?;
        destroyed?;
        if committed.is_err() {
            refused_with_one_of("the commit", committed, &["destroyed"])?;
        }
        gone(&here, &key, round)?;
        gone(&there, &key, round)?;
    }
    Ok(())
}

fn destroy_and_regenerate(ground: &Ground) -> Outcome {
    let (here, there) = two(ground)?;
    for round in 0..rounds() {
        let (old, new) = (ground.key(), ground.key());
        here.create(&old, &payload("x"), minute())?;
        let mut begun = here.begin(&old, PATIENCE)?;
        let regenerate = || {
            begun.lease.regenerate(&new, Duration::from_secs(60))?;
            begun.lease.commit(&payload("y"), minute())
        };
        let (moved, destroyed) = race(regenerate, || there.destroy(&old))?;
        destroyed?;
        if moved.is_err() {
            refused_with_one_of("regenerate or commit", moved, &["destroyed", "stale"])?;
        }
        gone(&here, &old, round)?;
        gone(&here, &new, round)?;
    }
    Ok(())
}

fn destroy_and_touch(ground: &Ground) -> Outcome {
    let (here, there) = two(ground)?;
    for round in 0..rounds() {
        let key = ground.key();
        here.create(&key, &payload("x"), minute())?;
        let (touched, destroyed) = race(|| here.touch(&key, minute()), || there.destroy(&key))?;
        destroyed?;
        if touched.is_err() {
            refused_with_one_of("the touch", touched, &["gone", "destroyed"])?;
        }
        gone(&here, &key, round)?;
    }
    Ok(())
}

fn create_and_begin(ground: &Ground) -> Outcome {
    let (here, there) = two(ground)?;
    for round in 0..rounds() {
        let key = ground.key();
        let change = || -> sessile_core::Result<bool> {
            let begun = here.begin(&key, PATIENCE)?;
            let found = begun.record.is_some();
            begun.lease.commit(&payload("committed"), minute())?;
            Ok(found)
        };
        let (found, created) = race(change, || there.create(&key, &payload("created"), minute()))?;
        let found = found?;
        if created.is_err() {
            refused_with_one_of("create", created, &["exists"])?;
            ensure(!found, || format!("create was refused and yet a record was found, in round {round}"))?;
        } else {
            ensure(found, || format!("a created record was overwritten unseen, in round {round}"))?;
        }
        equal("the record", payload_of(&here, &key)?, Some(payload("committed")))?;
    }
    Ok(())
}

fn touch_and_commit(ground: &Ground) -> Outcome {
    let (here, there) = two(ground)?;
    let key = ground.key();
    here.create(&key, &0_u64.to_le_bytes(), minute())?;
    // Relaxed on both: nothing is read but their own values.
    let (done, touches) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let touching = scope.spawn(|| -> Outcome {
            while !done.load(Ordering::Relaxed) {
                there.touch(&key, minute())?;
                touches.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        let writing = || -> Outcome {
            let mut count = 0_u64;
            // A fast store would be done before the other thread has begun: both must have had their share.
            let start = Instant::now();
            let shared = |count: u64| count.min(touches.load(Ordering::Relaxed)) >= 5 * rounds();
            let enough = |count| shared(count) && start.elapsed() >= Duration::from_millis(100);
            while !enough(count) && !touching.is_finished() {
                let begun = here.begin(&key, PATIENCE)?;
                let read = begun.record.map(|record| record.payload);
                equal("what the last commit stored", read, Some(count.to_le_bytes().to_vec()))?;
                count += 1;
                begun.lease.commit(&count.to_le_bytes(), minute())?;
            }
            Ok(())
        };
        let written = writing();
        done.store(true, Ordering::Relaxed);
        touching.join().map_err(|_| Failure("a thread panicked".into()))??;
        written
    })
}

fn sweep_and_commit(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let other = if ground.capabilities().shared_by_processes { ground.open_at(clock.clone())? } else { store.clone() };
    for _ in 0..3 * storm() {
        let keys: Vec<Key> = (0..60).map(|_| ground.key()).collect();
        keys.iter().try_for_each(|key| store.create(key, &payload("x"), minute()))?;
        clock.advance(MINUTE);
        let write = || keys.iter().try_for_each(|key| store.begin(key, PATIENCE)?.lease.commit(b"new", minute()));
        let sweep = || -> sessile_core::Result<()> {
            for _ in 0..20 {
                other.sweep(Budget { records_max: 10, time_max: Duration::from_millis(50) })?;
            }
            Ok(())
        };
        let (written, swept) = race(write, sweep)?;
        written?;
        swept?;
        for key in &keys {
            equal("a committed record", payload_of(&store, key)?, Some(b"new".to_vec()))?;
        }
    }
    Ok(())
}
