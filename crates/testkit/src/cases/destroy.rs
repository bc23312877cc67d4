//! A logged-out session never comes back.

use std::time::{Duration, Instant};

use sessile_core::{Capabilities, Counter, Locking};

use crate::case::{Case, Outcome, locking, processes};
use crate::check::{ensure, equal, refused, refused_with_one_of, soon};
use crate::ground::{FREE_WITHIN, Ground, PATIENCE, begin_free, minute, payload, payload_of};
use crate::worker::key_word;

pub(crate) const CASES: &[Case] = &[
    Case::new("destroy removes the session, and destroying nothing is success", removes),
    Case::new("a late commit after destroy is refused and counted", late_commit).needs(&[locking]),
    Case::new("a late commit is refused even when the session was created again", recreated)
        .needs(&[locking, freed_by_destroy]),
    Case::new("a late commit on a session that never was is refused after destroy", never_was).needs(&[locking]),
    Case::new("a late commit of another process is refused", other_process).needs(&[locking, processes]),
    Case::new("destroy does not wait for the lock", no_wait).needs(&[locking]),
    Case::new("destroy lets another begin at once", begin_after).needs(&[locking, freed_by_destroy]),
    Case::new("an old holder's release does not free its successor's lock", owner_checked).needs(&[locking]),
    Case::new("a waiter finds nothing after destroy", waiter).needs(&[locking]),
    Case::new("a session created again after destroy lives", lives_again).needs(&[locking]),
];

/// A lock that lies beside the record is void after destroy, but occupied until its holder lets go or dies.
fn freed_by_destroy(store: &Capabilities) -> Option<&'static str> {
    (store.locking == Locking::Emulated).then_some("its lock lies beside the record")
}

fn removes(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.destroy(&key)?;
    store.create(&key, &payload("x"), minute())?;
    store.destroy(&key)?;
    equal("peek", store.peek(&key)?.is_some(), false)?;
    Ok(store.destroy(&key)?)
}

fn late_commit(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.create(&key, &payload("x"), minute())?;
    let begun = store.begin(&key, PATIENCE)?;
    store.destroy(&key)?;
    equal("peek after destroy", store.peek(&key)?.is_some(), false)?;
    refused("the late commit", begun.lease.commit(&payload("late"), minute()), "destroyed")?;
    equal("peek after the late commit", store.peek(&key)?.is_some(), false)?;
    equal("begin after the late commit", store.begin(&key, PATIENCE)?.record.is_some(), false)?;
    equal("counted", store.counters().get(Counter::DestroyedCommits), 1)?;
    equal("counted as a failed save", store.counters().get(Counter::FailedSaves), 1)
}

fn recreated(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.create(&key, &payload("first"), minute())?;
    let begun = store.begin(&key, PATIENCE)?;
    store.destroy(&key)?;
    store.create(&key, &payload("second"), minute())?;
    let late = begun.lease.commit(&payload("late"), minute());
    refused_with_one_of("the late commit", late, &["destroyed", "stale"])?;
    equal("the new session", payload_of(&store, &key)?, Some(payload("second")))
}

fn never_was(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let begun = store.begin(&key, PATIENCE)?;
    store.destroy(&key)?;
    refused("the late commit", begun.lease.commit(&payload("late"), minute()), "destroyed")?;
    equal("peek", store.peek(&key)?.is_some(), false)
}

fn other_process(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.create(&key, &payload("x"), minute())?;
    let mut worker = ground.worker()?;
    worker.begin(&key)?;
    store.destroy(&key)?;
    worker.say("commit late")?;
    worker.refused("destroyed")?;
    equal("peek", store.peek(&key)?.is_some(), false)?;
    // And the other way round.
    store.create(&key, &payload("x"), minute())?;
    let begun = store.begin(&key, PATIENCE)?;
    worker.ask(&format!("destroy {}", key_word(&key)))?;
    refused("our late commit", begun.lease.commit(&payload("late"), minute()), "destroyed")?;
    equal("peek", store.peek(&key)?.is_some(), false)
}

fn no_wait(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    soon("destroy under another's lease", Duration::from_millis(500), || {
        let key = ground.key();
        store.create(&key, &payload("x"), minute())?;
        let _begun = store.begin(&key, PATIENCE)?;
        let start = Instant::now();
        store.destroy(&key)?;
        Ok(start.elapsed())
    })
}

fn begin_after(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    soon("begin after destroy", FREE_WITHIN, || {
        let key = ground.key();
        store.create(&key, &payload("x"), minute())?;
        let old = store.begin(&key, PATIENCE)?;
        store.destroy(&key)?;
        let (new, elapsed) = begin_free(&store, &key)?;
        equal("the record", new.record.is_some(), false)?;
        ensure(new.lease.fence() > old.lease.fence(), || "the fence did not grow".into())?;
        new.lease.commit(&payload("new"), minute())?;
        refused_with_one_of("the late commit", old.lease.commit(&payload("late"), minute()), &["destroyed", "stale"])?;
        equal("the new session", payload_of(&store, &key)?, Some(payload("new")))?;
        Ok(elapsed)
    })
}

fn owner_checked(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    for late_commit in [false, true] {
        let key = ground.key();
        store.create(&key, &payload("x"), minute())?;
        let old = store.begin(&key, PATIENCE)?;
        store.destroy(&key)?;
        // Where the old holder still occupies the lock, there is no successor yet, and nothing to free.
        let Ok(new) = store.begin(&key, Duration::from_secs(1)) else { return Ok(()) };
        if late_commit {
            let late = old.lease.commit(&payload("late"), minute());
            refused_with_one_of("the late commit", late, &["destroyed", "stale"])?;
        } else {
            old.lease.release()?;
        }
        refused("a third begin", store.begin(&key, Duration::ZERO), "lock-timeout")?;
        new.lease.commit(&payload("successor"), minute())?;
        equal("the record", payload_of(&store, &key)?, Some(payload("successor")))?;
    }
    Ok(())
}

fn waiter(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.create(&key, &payload("x"), minute())?;
    let begun = store.begin(&key, PATIENCE)?;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.begin(&key, PATIENCE).map(|begun| begun.record.is_some()));
        std::thread::sleep(Duration::from_millis(30)); // so that it waits
        store.destroy(&key)?;
        begun.lease.release()?;
        let found = waiting.join().map_err(|_| crate::Failure("the waiter panicked".into()))??;
        equal("the waiter found a record", found, false)
    })
}

fn lives_again(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.create(&key, &payload("x"), minute())?;
    store.destroy(&key)?;
    store.begin(&key, PATIENCE)?.lease.commit(&payload("y"), minute())?;
    let begun = store.begin(&key, PATIENCE)?;
    equal("the record", begun.record.map(|record| record.payload), Some(payload("y")))?;
    begun.lease.commit(&payload("z"), minute())?;
    equal("peek", payload_of(&store, &key)?, Some(payload("z")))
}
