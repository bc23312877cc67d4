//! The fence grows with each holder of a session and never comes back.

use std::time::Duration;

use crate::case::{Case, Outcome, locking, processes};
use crate::check::{ensure, equal};
use crate::ground::{Ground, PATIENCE, minute, payload};

pub(crate) const CASES: &[Case] = &[
    Case::new("the fence grows with each holder", grows).needs(&[locking]),
    Case::new("the fence does not repeat after destroy and create", no_repeat).needs(&[locking]),
    Case::new("the fence does not repeat after expiry", no_repeat_expired).needs(&[locking]),
    Case::new("the fence grows across processes", across).needs(&[locking, processes]),
    Case::new("the fence of a lease stays while it lives", stays).needs(&[locking]),
];

fn grows(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let mut last = 0;
    for round in 0..5 {
        let begun = store.begin(&key, PATIENCE)?;
        let fence = begun.lease.fence();
        ensure(fence > last, || format!("fence {fence} after {last} in round {round}"))?;
        last = fence;
        if round % 2 == 0 {
            begun.lease.commit(&payload("x"), minute())?;
        }
    }
    Ok(())
}

fn no_repeat(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let mut last = 0;
    for round in 0..4 {
        store.create(&key, &payload("x"), minute())?;
        for _ in 0..2 {
            let begun = store.begin(&key, PATIENCE)?;
            let fence = begun.lease.fence();
            ensure(fence > last, || format!("fence {fence} after {last}, destroyed and created {round} times"))?;
            last = fence;
            begun.lease.commit(&payload("y"), minute())?;
        }
        store.destroy(&key)?;
    }
    Ok(())
}

fn no_repeat_expired(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let key = ground.key();
    let mut last = 0;
    for _ in 0..3 {
        let begun = store.begin(&key, PATIENCE)?;
        let fence = begun.lease.fence();
        ensure(fence > last, || format!("fence {fence} after {last}"))?;
        last = fence;
        begun.lease.commit(&payload("x"), minute())?;
        clock.advance(Duration::from_secs(90));
        store.sweep(sessile_core::Budget::default())?;
    }
    Ok(())
}

fn across(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let mut worker = ground.worker()?;
    let mut last = 0;
    for _ in 0..3 {
        let answer = worker.begin(&key)?;
        let theirs: u64 = answer.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
        worker.ask("commit x")?;
        let ours = store.begin(&key, PATIENCE)?.lease.fence();
        ensure(last < theirs && theirs < ours, || format!("fences {last}, {theirs}, {ours}"))?;
        last = ours;
    }
    Ok(())
}

fn stays(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let (key, new) = (ground.key(), ground.key());
    store.create(&key, &payload("x"), minute())?;
    let mut begun = store.begin(&key, PATIENCE)?;
    let fence = begun.lease.fence();
    begun.lease.touch(minute())?;
    equal("after a touch", begun.lease.fence(), fence)?;
    begun.lease.regenerate(&new, Duration::ZERO)?;
    begun.lease.commit(&payload("y"), minute())?;
    let next = store.begin(&new, PATIENCE)?.lease.fence();
    ensure(next > fence, || format!("fence {next} after {fence} on the regenerated session"))
}
