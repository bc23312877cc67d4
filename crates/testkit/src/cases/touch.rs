//! Touch moves the expiry, and never makes a record.

use std::time::Duration;

use crate::case::{Case, Outcome, locking};
use crate::check::{Failure, equal, refused, refused_with_one_of};
use crate::ground::{Ground, MINUTE, PATIENCE, minute, payload, payload_of, ttl};

pub(crate) const CASES: &[Case] = &[
    Case::new("a touch moves the expiry and nothing else", moves),
    Case::new("a touch of a missing, destroyed or expired session says so and makes nothing", gone),
    Case::new("a touch under the lease keeps the lease", under_lease).needs(&[locking]),
    Case::new("a touch under the lease of a missing session is Gone", lease_on_nothing).needs(&[locking]),
    Case::new("a touch under a voided lease is refused", voided).needs(&[locking]),
    Case::new("a touch does not wait for the lock", no_wait).needs(&[locking]),
    Case::new("a touch can shorten a life", shorten),
];

fn moves(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let key = ground.key();
    store.create(&key, &payload("x"), minute())?;
    let before = store.peek(&key)?.ok_or_else(|| Failure("nothing was created".into()))?;
    clock.advance(Duration::from_secs(40));
    store.touch(&key, minute())?;
    let mut after = store.peek(&key)?.ok_or_else(|| Failure("the touch lost the record".into()))?;
    equal("expires", after.expires, clock.now().plus(MINUTE))?;
    after.expires = before.expires;
    equal("the rest", after, before)?;
    clock.advance(MINUTE);
    equal("a minute later", store.peek(&key)?.is_some(), false)
}

fn gone(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let keys = [ground.key(), ground.key(), ground.key()];
    let [missing, destroyed, expired] = &keys;
    store.create(destroyed, &payload("x"), minute())?;
    store.destroy(destroyed)?;
    store.create(expired, &payload("x"), minute())?;
    clock.advance(MINUTE);
    refused("touch of a missing session", store.touch(missing, minute()), "gone")?;
    // `Gone` by the letter; `Destroyed` says more and no less.
    refused_with_one_of("touch of a destroyed one", store.touch(destroyed, minute()), &["gone", "destroyed"])?;
    refused("touch of an expired one", store.touch(expired, minute()), "gone")?;
    for key in &keys {
        equal("peek", store.peek(key)?.is_some(), false)?;
    }
    Ok(())
}

fn under_lease(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let key = ground.key();
    store.create(&key, &payload("x"), minute())?;
    let mut begun = store.begin(&key, PATIENCE)?;
    clock.advance(Duration::from_secs(40));
    begun.lease.touch(minute())?;
    let seen = store.peek(&key)?.map(|record| (record.payload, record.expires));
    equal("peek", seen, Some((payload("x"), clock.now().plus(MINUTE))))?;
    refused("another begin", store.begin(&key, Duration::ZERO), "lock-timeout")?;
    begun.lease.commit(&payload("y"), minute())?;
    equal("after the commit", payload_of(&store, &key)?, Some(payload("y")))
}

fn lease_on_nothing(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let mut begun = store.begin(&key, PATIENCE)?;
    refused("touch", begun.lease.touch(minute()), "gone")?;
    begun.lease.commit(&payload("the lease is still good"), minute())?;
    equal("peek", store.peek(&key)?.is_some(), true)
}

fn voided(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.create(&key, &payload("x"), minute())?;
    let mut begun = store.begin(&key, PATIENCE)?;
    store.destroy(&key)?;
    refused_with_one_of("touch", begun.lease.touch(minute()), &["destroyed", "gone"])?;
    equal("peek", store.peek(&key)?.is_some(), false)
}

fn no_wait(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let key = ground.key();
    store.create(&key, &payload("x"), minute())?;
    let begun = store.begin(&key, PATIENCE)?;
    clock.advance(Duration::from_secs(30));
    crate::check::soon("touch", Duration::from_millis(500), || {
        let start = std::time::Instant::now();
        store.touch(&key, minute())?;
        Ok(start.elapsed())
    })?;
    begun.lease.commit(&payload("y"), minute())?;
    equal("after the commit", payload_of(&store, &key)?, Some(payload("y")))
}

fn shorten(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let key = ground.key();
    store.create(&key, &payload("x"), ttl(Duration::from_secs(600)))?;
    store.touch(&key, minute())?;
    clock.advance(MINUTE);
    equal("a minute later", store.peek(&key)?.is_some(), false)
}
