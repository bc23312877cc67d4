//! A new id takes the record; the old one leads to it for the grace and not longer.

use std::time::Duration;

use sessile_core::{Begun, Counter, Key, Limits, Sessions, Trace, Ttl};

use crate::case::{Case, Outcome, locking, processes};
use crate::check::{Failure, equal, refused, refused_with_one_of, soon};
use crate::ground::{FREE_WITHIN, Ground, MINUTE, PATIENCE, begin_free, later, minute, payload, payload_of, ttl};
use crate::worker::key_word;

const GRACE: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(4 * 3_600);

pub(crate) const CASES: &[Case] = &[
    Case::new("regenerate moves the record and the lease", moves).needs(&[locking]),
    Case::new("the old id leads to the new one until the grace ends", grace).needs(&[locking]),
    Case::new("without grace the old id is gone at once", no_grace).needs(&[locking]),
    Case::new("the use of an id whose grace is over is told and counted", spent).needs(&[locking]),
    Case::new("an old id in its grace can be touched and locked", grace_operations).needs(&[locking]),
    Case::new("destroying an old id in its grace destroys the session", grace_destroy).needs(&[locking]),
    Case::new("an old id in its grace is taken", grace_taken).needs(&[locking]),
    Case::new("a waiter on the old id ends up on the new one", waiter).needs(&[locking]),
    Case::new("a waiter that came within the grace keeps its session when the grace ends", outlives_grace)
        .needs(&[locking]),
    Case::new("regenerate refuses an id that is taken and keeps the lease", taken).needs(&[locking]),
    Case::new("regenerate on a destroyed session is refused", destroyed).needs(&[locking]),
    Case::new("two regenerations in a row lead from the first id to the last", chain).needs(&[locking]),
    Case::new("regenerate keeps creation and absolute end", keeps).needs(&[locking]),
    Case::new("regenerate on a missing session moves the lock", missing).needs(&[locking]),
    Case::new("a regenerated session that is released keeps its payload", released).needs(&[locking]),
    Case::new("another process finds a regenerated session under both ids", other_process).needs(&[locking, processes]),
    Case::new("regenerate refuses another bin, itself, and an endless grace", senseless).needs(&[locking]),
];

/// A session that is leased and has just got a new id: the old one, the new one, and the lease.
fn regenerated(ground: &Ground, store: &Sessions, life: Ttl, grace: Duration) -> Result<(Key, Key, Begun), Failure> {
    let (old, new) = (ground.key(), ground.key());
    store.create(&old, &payload("x"), life)?;
    let mut begun = store.begin(&old, PATIENCE)?;
    begun.lease.regenerate(&new, grace)?;
    Ok((old, new, begun))
}

fn moves(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let (_, new, begun) = regenerated(ground, &store, minute(), GRACE)?;
    equal("the key of the lease", begun.lease.key(), &new)?;
    refused("begin on the new id", store.begin(&new, Duration::ZERO), "lock-timeout")?;
    begun.lease.commit(&payload("y"), minute())?;
    equal("peek at the new id", payload_of(&store, &new)?, Some(payload("y")))
}

fn grace(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let (old, new, begun) = regenerated(ground, &store, ttl(LONG), GRACE)?;
    begun.lease.commit(&payload("y"), ttl(LONG))?;
    equal("peek at the old id", payload_of(&store, &old)?, Some(payload("y")))?;
    clock.advance(GRACE - Duration::from_millis(1));
    equal("in the last ms of the grace", payload_of(&store, &old)?, Some(payload("y")))?;
    clock.advance(Duration::from_millis(1));
    equal("at the end of the grace", payload_of(&store, &old)?, None)?;
    equal("begin on it", store.begin(&old, PATIENCE)?.record.is_some(), false)?;
    equal("the new id", payload_of(&store, &new)?, Some(payload("y")))
}

fn no_grace(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let (old, new, begun) = regenerated(ground, &store, minute(), Duration::ZERO)?;
    equal("the old id before the commit", payload_of(&store, &old)?, None)?;
    begun.lease.commit(&payload("y"), minute())?;
    equal("the old id after the commit", payload_of(&store, &old)?, None)?;
    let again = store.begin(&old, PATIENCE)?;
    equal("begin on the old id", again.record.is_some(), false)?;
    equal("its trace", again.trace, Trace::Regenerated)?;
    equal("the key of that lease", again.lease.key(), &old)?;
    equal("the new id", payload_of(&store, &new)?, Some(payload("y")))
}

fn spent(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let (old, _, begun) = regenerated(ground, &store, ttl(LONG), GRACE)?;
    begun.lease.commit(&payload("y"), ttl(LONG))?;
    equal("peek within the grace", payload_of(&store, &old)?, Some(payload("y")))?;
    equal("uses counted within the grace", store.counters().get(Counter::SpentIds), 0)?;
    // Spent ids are remembered for an hour.
    clock.advance(GRACE + Duration::from_secs(50 * 60));
    equal("peek", payload_of(&store, &old)?, None)?;
    equal("uses counted", store.counters().get(Counter::SpentIds), 1)?;
    equal("the trace", store.begin(&old, PATIENCE)?.trace, Trace::Regenerated)?;
    equal("uses counted", store.counters().get(Counter::SpentIds), 2)
}

fn grace_operations(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let (old, new, begun) = regenerated(ground, &store, minute(), GRACE)?;
    refused("begin on the old id", store.begin(&old, Duration::ZERO), "lock-timeout")?;
    begun.lease.release()?;
    clock.advance(Duration::from_secs(10));
    store.touch(&old, minute())?;
    equal("expires", store.peek(&new)?.map(|record| record.expires), Some(later(clock.now(), 60_000)))?;
    let begun = store.begin(&old, PATIENCE)?;
    equal("the key of the lease", begun.lease.key(), &store.listed_key(&new))?;
    equal("the record", begun.record.map(|record| record.payload), Some(payload("x")))?;
    refused("begin on the new id", store.begin(&new, Duration::ZERO), "lock-timeout")?;
    begun.lease.commit(&payload("y"), minute())?;
    equal("the new id", payload_of(&store, &new)?, Some(payload("y")))
}

fn grace_destroy(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let (old, new, begun) = regenerated(ground, &store, minute(), GRACE)?;
    store.destroy(&old)?;
    equal("the new id", payload_of(&store, &new)?, None)?;
    equal("the old id", payload_of(&store, &old)?, None)?;
    refused("the late commit", begun.lease.commit(&payload("late"), minute()), "destroyed")?;
    equal("the new id", payload_of(&store, &new)?, None)
}

fn grace_taken(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let (old, new, begun) = regenerated(ground, &store, minute(), GRACE)?;
    begun.lease.commit(&payload("y"), minute())?;
    refused("create of an id in its grace", store.create(&old, &payload("z"), minute()), "exists")?;
    let third = ground.key();
    store.create(&third, &payload("third"), minute())?;
    let mut begun = store.begin(&third, PATIENCE)?;
    refused("regenerate onto an id in its grace", begun.lease.regenerate(&old, GRACE), "exists")?;
    equal("the new id", payload_of(&store, &new)?, Some(payload("y")))
}

/// What a waiter gets: the key of its lease, and the payload.
fn wait_for(store: &Sessions, key: &Key) -> Result<(Key, Option<Vec<u8>>), Failure> {
    let begun = store.begin(key, PATIENCE)?;
    Ok((begun.lease.key().clone(), begun.record.map(|record| record.payload)))
}

fn waiter(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let (old, new) = (ground.key(), ground.key());
    store.create(&old, &payload("x"), minute())?;
    let mut begun = store.begin(&old, PATIENCE)?;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait_for(&store, &old));
        std::thread::sleep(Duration::from_millis(30)); // so that it waits on the old id
        begun.lease.regenerate(&new, GRACE)?;
        begun.lease.commit(&payload("y"), minute())?;
        let got = waiting.join().map_err(|_| Failure("the waiter panicked".into()))??;
        equal("what the waiter has", got, (store.listed_key(&new), Some(payload("y"))))
    })
}

/// A parallel request of the page arrives in time, and the holder works longer than the grace. Going back to the old
/// id then would answer the request with an empty session, as if its visitor were logged out, and count an attack.
fn outlives_grace(ground: &Ground) -> Outcome {
    // Nobody can see from outside that a waiter waits: one that came too late finds an id that is spent, and rightly.
    for ms in [100, 500, 2_500] {
        if outlives_grace_after(ground, Duration::from_millis(ms))? {
            return Ok(());
        }
    }
    Err(Failure("three times the waiter has the old id without its session when the grace ends".into()))
}

/// False when the waiter has the old id and no record, as one that came too late.
fn outlives_grace_after(ground: &Ground, arrival: Duration) -> Result<bool, Failure> {
    let (store, clock) = ground.timed()?;
    let (old, new, begun) = regenerated(ground, &store, ttl(LONG), GRACE)?;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait_for(&store, &old));
        std::thread::sleep(arrival); // so that it has come to the new id and waits there
        clock.advance(GRACE);
        begun.lease.commit(&payload("y"), ttl(LONG))?;
        let got = waiting.join().map_err(|_| Failure("the waiter panicked".into()))??;
        if got == (old.clone(), None) {
            return Ok(false);
        }
        equal("what the waiter has", got, (store.listed_key(&new), Some(payload("y")))).map(|()| true)
    })
}

fn taken(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let (old, other, new) = (ground.key(), ground.key(), ground.key());
    store.create(&old, &payload("x"), minute())?;
    store.create(&other, &payload("other"), minute())?;
    let mut begun = store.begin(&old, PATIENCE)?;
    refused("regenerate onto a live session", begun.lease.regenerate(&other, GRACE), "exists")?;
    let held = store.begin(&new, PATIENCE)?;
    refused("regenerate onto a leased id", begun.lease.regenerate(&new, GRACE), "exists")?;
    held.lease.release()?;
    equal("the key of the lease", begun.lease.key(), &old)?;
    refused("begin on the old id", store.begin(&old, Duration::ZERO), "lock-timeout")?;
    begun.lease.commit(&payload("y"), minute())?;
    equal("the old id", payload_of(&store, &old)?, Some(payload("y")))?;
    equal("the other", payload_of(&store, &other)?, Some(payload("other")))
}

fn destroyed(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let (old, new) = (ground.key(), ground.key());
    store.create(&old, &payload("x"), minute())?;
    let mut begun = store.begin(&old, PATIENCE)?;
    store.destroy(&old)?;
    refused_with_one_of("regenerate", begun.lease.regenerate(&new, GRACE), &["destroyed", "stale"])?;
    drop(begun);
    equal("the new id", payload_of(&store, &new)?, None)?;
    equal("the old id", payload_of(&store, &old)?, None)?;
    Ok(store.create(&new, &payload("free"), minute())?)
}

fn chain(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let (first, second, third) = (ground.key(), ground.key(), ground.key());
    store.create(&first, &payload("x"), minute())?;
    let mut begun = store.begin(&first, PATIENCE)?;
    begun.lease.regenerate(&second, GRACE)?;
    begun.lease.regenerate(&third, GRACE)?;
    begun.lease.commit(&payload("y"), minute())?;
    for key in [&first, &second, &third] {
        equal("peek", payload_of(&store, key)?, Some(payload("y")))?;
    }
    let begun = store.begin(&first, PATIENCE)?;
    equal("the key of the lease", begun.lease.key(), &store.listed_key(&third))?;
    begun.lease.release()?;
    store.destroy(&first)?;
    equal("the last id after destroying the first", payload_of(&store, &third)?, None)
}

fn keeps(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let (old, new) = (ground.key(), ground.key());
    let born = clock.now();
    store.create(&old, &payload("x"), minute().within(Duration::from_secs(100))?)?;
    clock.advance(Duration::from_secs(50));
    let mut begun = store.begin(&old, PATIENCE)?;
    begun.lease.regenerate(&new, GRACE)?;
    begun.lease.commit(&payload("y"), minute())?;
    let record = store.peek(&new)?.ok_or_else(|| Failure("the new id has no record".into()))?;
    equal("created", record.created, born)?;
    equal("expires", record.expires, later(born, 100_000))?;
    equal("the absolute end", record.ends, Some(later(born, 100_000)))?;
    clock.advance(MINUTE);
    equal("after the absolute end", payload_of(&store, &new)?, None)
}

fn missing(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let (old, new) = (ground.key(), ground.key());
    let mut begun = store.begin(&old, PATIENCE)?;
    begun.lease.regenerate(&new, GRACE)?;
    refused("begin on the new id", store.begin(&new, Duration::ZERO), "lock-timeout")?;
    begun.lease.commit(&payload("x"), minute())?;
    equal("the new id", payload_of(&store, &new)?, Some(payload("x")))
}

fn released(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    soon("begin after the release", FREE_WITHIN, || {
        let (_, new, begun) = regenerated(ground, &store, minute(), Duration::ZERO)?;
        drop(begun);
        equal("the new id", payload_of(&store, &new)?, Some(payload("x")))?;
        Ok(begin_free(&store, &new)?.1)
    })
}

fn other_process(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let (old, new) = (ground.key(), ground.key());
    store.create(&old, b"x", minute())?;
    let mut worker = ground.worker()?;
    let mut begun = store.begin(&old, PATIENCE)?;
    begun.lease.regenerate(&new, GRACE)?;
    worker.say(&format!("begin 0 {}", key_word(&old)))?;
    worker.refused("lock-timeout")?;
    begun.lease.commit(b"y", minute())?;
    for key in [&old, &new] {
        equal("the worker's peek", worker.ask(&format!("peek {}", key_word(key)))?, "y".into())?;
    }
    worker.begin(&old)?;
    worker.ask("commit z")?;
    equal("the new id", payload_of(&store, &new)?, Some(b"z".to_vec()))
}

fn senseless(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let (old, new) = (ground.key(), ground.key());
    store.create(&old, &payload("x"), minute())?;
    let mut begun = store.begin(&old, PATIENCE)?;
    let other_bin = ground.key_in(sessile_core::Bin::new("other")?);
    refused("regenerate into another bin", begun.lease.regenerate(&other_bin, GRACE), "invalid-argument")?;
    refused("regenerate onto itself", begun.lease.regenerate(&old, GRACE), "exists")?;
    let endless = Limits::GRACE_MAX + Duration::from_millis(1);
    refused("an endless grace", begun.lease.regenerate(&new, endless), "invalid-argument")?;
    begun.lease.commit(&payload("y"), minute())?;
    equal("the old id", payload_of(&store, &old)?, Some(payload("y")))
}
