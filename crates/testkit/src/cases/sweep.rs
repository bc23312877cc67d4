//! Sweep removes what has expired, counts truly, and leaves the rest alone.

use std::time::{Duration, Instant};

use sessile_core::{Budget, Key, Sessions};

use crate::case::{Case, Isolation, Outcome, expiring_natively, listing, locking, sweeping};
use crate::check::{Failure, ensure, equal, soon};
use crate::ground::{Ground, MINUTE, PATIENCE, minute, payload, ttl};

pub(crate) const CASES: &[Case] = &[
    Case::new("a sweep removes the expired, counts them truly and leaves the living", removes)
        .needs(&[sweeping])
        .on(Isolation::Own),
    Case::new("a sweep keeps to its budget and goes on where it stopped", budget).needs(&[sweeping]).on(Isolation::Own),
    Case::new("a sweep leaves leased records alone", leased).needs(&[sweeping, locking]).on(Isolation::Own),
    Case::new("a sweep counts neither destroyed nor regenerated ids", tombstones)
        .needs(&[sweeping, locking])
        .on(Isolation::Own),
    Case::new("a sweep of an empty store is complete at once", empty).on(Isolation::Own),
    Case::new("a sweep stops when its time is up", time_budget).needs(&[sweeping]).on(Isolation::Own),
    Case::new("stat tells what a sweep will remove", stat_before_and_after)
        .needs(&[sweeping, listing])
        .on(Isolation::Own),
    Case::new("a sweep on a store with expiry of its own has nothing to do", nothing_to_do)
        .needs(&[expiring_natively])
        .on(Isolation::Own),
    Case::new("two sweeps at once count each record once", twice).needs(&[sweeping]).on(Isolation::Own),
];

const AMPLE: Budget = Budget { records_max: 10_000, time_max: Duration::from_secs(10) };

fn fill(ground: &Ground, store: &Sessions, count: usize, idle: Duration) -> Result<Vec<Key>, Failure> {
    let keys: Vec<Key> = (0..count).map(|_| ground.key()).collect();
    for key in &keys {
        store.create(key, &payload("x"), ttl(idle))?;
    }
    Ok(keys)
}

/// Sweeps until a pass is complete; returns the number of calls and the records removed.
fn pass(store: &Sessions, budget: Budget) -> Result<(u64, u64), Failure> {
    let (mut calls, mut removed) = (0, 0);
    loop {
        let swept = store.sweep(budget)?;
        calls += 1;
        removed += swept.removed;
        ensure(swept.removed <= swept.examined, || format!("removed more than it looked at: {swept:?}"))?;
        if swept.complete {
            return Ok((calls, removed));
        }
        ensure(calls < 10_000, || "the sweep never completes".into())?;
    }
}

fn removes(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let expired = fill(ground, &store, 40, MINUTE)?;
    let living = fill(ground, &store, 30, 2 * MINUTE)?;
    equal("removed before anything expired", pass(&store, AMPLE)?.1, 0)?;
    clock.advance(MINUTE);
    equal("removed", pass(&store, AMPLE)?.1, 40)?;
    equal("removed again", pass(&store, AMPLE)?.1, 0)?;
    for key in &living {
        equal("a living record", store.peek(key)?.is_some(), true)?;
    }
    for key in &expired {
        equal("an expired record", store.peek(key)?.is_some(), false)?;
    }
    Ok(())
}

fn budget(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    fill(ground, &store, 100, MINUTE)?;
    let living = fill(ground, &store, 20, 5 * MINUTE)?;
    clock.advance(2 * MINUTE);
    let small = Budget { records_max: 7, time_max: Duration::from_secs(10) };
    let first = store.sweep(small)?;
    ensure(first.examined <= 7 && first.removed <= 7, || format!("a budget of 7 records: {first:?}"))?;
    ensure(!first.complete, || "it says that it is complete".into())?;
    let (calls, removed) = pass(&store, small)?;
    let (_, rest) = pass(&store, small)?;
    equal("removed by two passes", first.removed + removed + rest, 100)?;
    ensure(calls >= 9, || format!("100 records in {calls} calls of 7"))?;
    for key in &living {
        equal("a living record", store.peek(key)?.is_some(), true)?;
    }
    Ok(())
}

fn leased(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let keys = fill(ground, &store, 10, MINUTE)?;
    let key = ground.key();
    store.create(&key, &payload("leased"), minute())?;
    let begun = store.begin(&key, PATIENCE)?;
    clock.advance(MINUTE);
    equal("removed", pass(&store, AMPLE)?.1, keys.len() as u64)?;
    // It expired while it was leased: the commit goes on with it.
    let born = begun.record.map(|record| record.created);
    begun.lease.commit(&payload("goes on"), minute())?;
    equal("created", store.peek(&key)?.map(|record| record.created), born)?;
    // One that is free again goes at the next pass.
    clock.advance(MINUTE);
    equal("removed after the release", pass(&store, AMPLE)?.1, 1)
}

fn tombstones(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let [destroyed, old, new] = [ground.key(), ground.key(), ground.key()];
    store.create(&destroyed, &payload("x"), minute())?;
    store.destroy(&destroyed)?;
    store.create(&old, &payload("x"), minute())?;
    let mut begun = store.begin(&old, PATIENCE)?;
    begun.lease.regenerate(&new, Duration::from_secs(30))?;
    begun.lease.commit(&payload("y"), ttl(Duration::from_secs(86_400)))?;
    equal("removed now", pass(&store, AMPLE)?.1, 0)?;
    equal("the old id in its grace", store.peek(&old)?.is_some(), true)?;
    clock.advance(Duration::from_secs(3 * 3_600));
    equal("removed when all is forgotten", pass(&store, AMPLE)?.1, 0)?;
    equal("the living one", store.peek(&new)?.is_some(), true)?;
    equal("uses of a forgotten id", store.peek(&old)?.is_some(), false)?;
    Ok(store.create(&old, &payload("free"), minute())?)
}

fn empty(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let swept = store.sweep(Budget::default())?;
    equal("swept", (swept.removed, swept.complete), (0, true))
}

fn time_budget(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let (mut filled, mut removed) = (0, 0);
    soon("1 ms of budget", Duration::from_millis(500), || {
        // Each time as many, or a sweep that takes all of them would have nothing to do the second time.
        filled += fill(ground, &store, 800, MINUTE)?.len() as u64;
        clock.advance(MINUTE);
        let start = Instant::now();
        removed += store.sweep(Budget { records_max: u64::MAX, time_max: Duration::from_millis(1) })?.removed;
        Ok(start.elapsed())
    })?;
    let (_, rest) = pass(&store, AMPLE)?;
    let (_, after) = pass(&store, AMPLE)?;
    equal("removed in all", removed + rest + after, filled)
}

fn stat_before_and_after(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    fill(ground, &store, 12, MINUTE)?;
    fill(ground, &store, 5, 2 * MINUTE)?;
    clock.advance(MINUTE);
    let stat = store.stat()?;
    equal("living, expired", (stat.sessions, stat.expired), (5, 12))?;
    pass(&store, AMPLE)?;
    let stat = store.stat()?;
    equal("living, expired after the sweep", (stat.sessions, stat.expired), (5, 0))
}

fn nothing_to_do(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let living = fill(ground, &store, 5, 5 * MINUTE)?;
    clock.advance(MINUTE);
    let swept = store.sweep(Budget::default())?;
    equal("complete", swept.complete, true)?;
    for key in &living {
        equal("a living record", store.peek(key)?.is_some(), true)?;
    }
    Ok(())
}

fn twice(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    fill(ground, &store, 400, MINUTE)?;
    clock.advance(MINUTE);
    let other = if ground.capabilities().shared_by_processes { ground.open_at(clock.clone())? } else { store.clone() };
    let small = Budget { records_max: 50, time_max: Duration::from_secs(5) };
    let (ours, theirs) = std::thread::scope(|scope| -> Result<_, Failure> {
        let theirs = scope.spawn(|| pass(&other, small));
        let ours = pass(&store, small)?;
        Ok((ours.1, theirs.join().map_err(|_| Failure("a sweep panicked".into()))??.1))
    })?;
    let rest = pass(&store, AMPLE)?.1 + pass(&store, AMPLE)?.1;
    equal("removed by both and after", ours + theirs + rest, 400)
}
