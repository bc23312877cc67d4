//! When a record expires: to the millisecond, and never later than its absolute end.

use std::time::{Duration, Instant};

use sessile_core::{Clock, Limits, Timestamp, Ttl};

use crate::case::{Case, Outcome, locking};
use crate::check::{Failure, ensure, equal, eventually, refused_with_one_of};
use crate::ground::{Ground, MINUTE, PATIENCE, later, minute, payload, ttl};

pub(crate) const CASES: &[Case] = &[
    Case::new("a record reads until the last millisecond of its life and not one longer", last_ms).needs(&[locking]),
    Case::new("expires is what the ttl says", expires).needs(&[locking]),
    Case::new("a commit starts the ttl anew", sliding).needs(&[locking]),
    Case::new("an absolute lifetime caps commits", absolute).needs(&[locking]),
    Case::new("a later ttl without a lifetime keeps the absolute end", absolute_kept).needs(&[locking]),
    Case::new("a record that expires under a lease goes on with the commit", expired_under_lease).needs(&[locking]),
    Case::new("a new record after expiry starts with a creation of its own", anew).needs(&[locking]),
    Case::new("a clock set back neither loses nor revives sessions", set_back).needs(&[locking]),
    Case::new("a real clock expires a record by itself", real_time),
    Case::new("the shortest and the longest ttl work", extremes),
    Case::new("a ttl of zero and one of a thousand years are refused", senseless),
];

fn last_ms(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let key = ground.key();
    store.create(&key, &payload("short"), minute())?;
    clock.advance(MINUTE - Duration::from_millis(1));
    equal("peek one ms before the end", store.peek(&key)?.is_some(), true)?;
    equal("begin one ms before the end", store.begin(&key, PATIENCE)?.record.is_some(), true)?;
    clock.advance(Duration::from_millis(1));
    equal("peek at the end", store.peek(&key)?.is_some(), false)?;
    equal("begin at the end", store.begin(&key, PATIENCE)?.record.is_some(), false)?;
    clock.advance(Duration::from_millis(1));
    equal("peek after the end", store.peek(&key)?.is_some(), false)
}

fn expires(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let key = ground.key();
    store.create(&key, &payload("x"), ttl(Duration::from_millis(61_234)))?;
    equal("after create", expiry(&store, &key)?, later(clock.now(), 61_234))?;
    clock.advance(Duration::from_millis(77));
    let begun = store.begin(&key, PATIENCE)?;
    let read = begun.record.map(|record| record.expires);
    equal("read under the lock", read, Some(later(clock.now(), 61_234 - 77)))?;
    begun.lease.commit(&payload("y"), ttl(Duration::from_millis(90_001)))?;
    equal("after commit", expiry(&store, &key)?, later(clock.now(), 90_001))
}

fn expiry(store: &sessile_core::Sessions, key: &sessile_core::Key) -> Result<Timestamp, Failure> {
    let record = store.peek(key)?.ok_or_else(|| Failure("there is no record".into()))?;
    Ok(record.expires)
}

fn sliding(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let key = ground.key();
    store.create(&key, &payload("0"), minute())?;
    for round in 1..4 {
        clock.advance(MINUTE - Duration::from_millis(1));
        let begun = store.begin(&key, PATIENCE)?;
        ensure(begun.record.is_some(), || format!("it expired in round {round}"))?;
        begun.lease.commit(&payload("again"), minute())?;
    }
    clock.advance(MINUTE);
    equal("a minute after the last commit", store.peek(&key)?.is_some(), false)
}

fn capped() -> Result<Ttl, Failure> {
    Ok(minute().within(Duration::from_secs(100))?)
}

fn absolute(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let key = ground.key();
    let born = clock.now();
    store.create(&key, &payload("0"), capped()?)?;
    clock.advance(Duration::from_secs(50));
    store.begin(&key, PATIENCE)?.lease.commit(&payload("1"), capped()?)?;
    equal("expires after a commit near the end", expiry(&store, &key)?, later(born, 100_000))?;
    clock.advance(Duration::from_millis(49_999));
    equal("one ms before the absolute end", store.peek(&key)?.is_some(), true)?;
    clock.advance(Duration::from_millis(1));
    equal("at the absolute end", store.peek(&key)?.is_some(), false)
}

fn absolute_kept(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let key = ground.key();
    let born = clock.now();
    store.create(&key, &payload("0"), capped()?)?;
    clock.advance(Duration::from_secs(50));
    store.touch(&key, minute())?;
    equal("expires after a touch", expiry(&store, &key)?, later(born, 100_000))?;
    let mut begun = store.begin(&key, PATIENCE)?;
    begun.lease.touch(minute())?;
    begun.lease.commit(&payload("1"), minute())?;
    let record = store.peek(&key)?.ok_or_else(|| Failure("there is no record".into()))?;
    equal("expires and ends after a commit", (record.expires, record.ends), {
        let end = later(born, 100_000);
        (end, Some(end))
    })
}

fn expired_under_lease(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let key = ground.key();
    let born = clock.now();
    store.create(&key, &payload("0"), capped()?)?;
    clock.advance(Duration::from_secs(30));
    let begun = store.begin(&key, PATIENCE)?;
    clock.advance(Duration::from_secs(40)); // 70 s: the idle time is over, the absolute end is not
    equal("peek while it is held and expired", store.peek(&key)?.is_some(), false)?;
    begun.lease.commit(&payload("1"), minute())?;
    let record = store.peek(&key)?.ok_or_else(|| Failure("the commit stored nothing".into()))?;
    equal("created", record.created, born)?;
    equal("its absolute end", record.ends, Some(later(born, 100_000)))?;
    equal("expires", record.expires, later(born, 100_000))
}

fn anew(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let key = ground.key();
    store.create(&key, &payload("0"), capped()?)?;
    clock.advance(Duration::from_secs(200));
    let begun = store.begin(&key, PATIENCE)?;
    ensure(begun.record.is_none(), || "an expired record was read".into())?;
    begun.lease.commit(&payload("1"), minute())?;
    let record = store.peek(&key)?.ok_or_else(|| Failure("the commit stored nothing".into()))?;
    equal("created", record.created, clock.now())?;
    equal("the absolute end", record.ends, None)?;
    ensure(record.version <= 1, || format!("the version went on: {}", record.version))
}

fn set_back(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let (key, gone) = (ground.key(), ground.key());
    let hours = |n: u64| Duration::from_secs(n * 3_600);
    store.create(&key, &payload("0"), ttl(hours(3)))?;
    store.create(&gone, &payload("destroyed"), ttl(hours(3)))?;
    store.destroy(&gone)?;
    clock.set(clock.now().minus(hours(1)));
    equal("peek after the clock was set back", store.peek(&key)?.is_some(), true)?;
    equal("the destroyed one", store.peek(&gone)?.is_some(), false)?;
    let begun = store.begin(&key, PATIENCE)?;
    begun.lease.commit(&payload("1"), ttl(hours(3)))?;
    equal("expires", expiry(&store, &key)?, clock.now().plus(hours(3)))?;
    store.touch(&key, ttl(hours(2)))?;
    store.create(&ground.key(), &payload("new"), ttl(hours(3)))?;
    store.sweep(sessile_core::Budget::default())?;
    equal("peek after a sweep", store.peek(&key)?.is_some(), true)
}

fn real_time(ground: &Ground) -> Outcome {
    let store = ground.open_at(Clock::system())?;
    let brief = Duration::from_millis(1_200);
    // On a busy machine its life may be over before it is read; then nothing is known, and it is tried again.
    let mut tried = 0;
    let (key, made) = loop {
        let (key, asked) = (ground.key(), Instant::now());
        store.create(&key, &payload("brief"), ttl(brief))?;
        let made = Instant::now();
        if store.peek(&key)?.is_some() {
            break (key, made);
        }
        ensure(asked.elapsed() >= brief, || format!("it is gone after {:?} of {brief:?}", asked.elapsed()))?;
        tried += 1;
        ensure(tried < 20, || format!("no peek within {brief:?} after a create"))?;
    };
    eventually("it is gone", PATIENCE, || {
        let asked = made.elapsed();
        let gone = store.peek(&key)?.is_none();
        // However late it was asked, and not by how much this machine was late.
        ensure(gone || asked < brief * 2, || format!("it is there when asked after {asked:?} of {brief:?}"))?;
        Ok(gone)
    })?;
    Ok(store.create(&key, &payload("anew"), minute())?)
}

fn extremes(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let (brief, endless) = (ground.key(), ground.key());
    store.create(&brief, &payload("1 ms"), ttl(Duration::from_millis(1)))?;
    store.create(&endless, &payload("10 years"), ttl(Limits::TTL_MAX))?;
    equal("expires in ten years", expiry(&store, &endless)?, clock.now().plus(Limits::TTL_MAX))?;
    clock.advance(Duration::from_millis(1));
    equal("after 1 ms", store.peek(&brief)?.is_some(), false)?;
    clock.advance(Limits::TTL_MAX - Duration::from_millis(2));
    equal("in the last ms of ten years", store.peek(&endless)?.is_some(), true)?;
    clock.advance(Duration::from_millis(1));
    equal("after ten years", store.peek(&endless)?.is_some(), false)
}

fn senseless(_: &Ground) -> Outcome {
    // These never reach a store; the case is here because the contract promises it for every store.
    for idle in [Duration::ZERO, Duration::from_micros(999), Limits::TTL_MAX + Duration::from_millis(1)] {
        let kinds = ["invalid-argument"];
        let error = Ttl::sliding(idle).map_err(|error| error.during(sessile_core::Operation::Create, "none", None));
        refused_with_one_of("such a ttl", error, &kinds)?;
    }
    Ok(())
}
