//! When a record expires: to the millisecond, and never later than its absolute end.

use super::*;

const CAP: Duration = secs(100);

/// A minute, and 100 seconds in all.
fn capped() -> CaseResult<Ttl> {
    Ok(minute().within(CAP)?)
}

fn stored_capped(store: &TestStore) -> CaseResult<Key> {
    let key = new_key();
    store.create(&key, &payload("0"), capped()?)?;
    Ok(key)
}

pub(crate) const CASES: &[Case] = &[
    Case::timed(
        "a record reads until the last millisecond of its life and not one longer",
        |_, store| {
            let key = store.stored("short")?;
            store.clock.advance(MINUTE - ms(1));
            store.expect_some("peek one ms before the end", &key)?;
            store.lock(&key)?.expect_text("begin one ms before the end", "short")?;
            store.clock.advance(ms(1));
            store.expect_none("peek at the end", &key)?;
            store.lock(&key)?.expect_none("begin at the end")?;
            store.clock.advance(ms(1));
            store.expect_none("peek after the end", &key)
        },
    ),
    Case::timed("expires is what the ttl says", |_, store| {
        let key = new_key();
        let in_ms = |count| store.clock.now().plus(ms(count));
        store.create(&key, &payload("x"), ttl(ms(61_234)))?;
        equal("after create", store.record(&key)?.head.expires, in_ms(61_234))?;
        store.clock.advance(ms(77));
        let begun = store.lock(&key)?;
        let read = begun.record.map(|record| record.head.expires);
        equal("read under the lock", read, Some(in_ms(61_234 - 77)))?;
        begun.lease.commit(&payload("y"), ttl(ms(90_001)))?;
        equal("after commit", store.record(&key)?.head.expires, in_ms(90_001))
    }),
    Case::timed("a commit starts the ttl anew", |_, store| {
        let key = store.stored("again")?;
        for round in 1..4 {
            store.clock.advance(MINUTE - ms(1));
            let begun = store.lock(&key)?;
            begun.expect_text(&format!("the record in round {round}"), "again")?;
            begun.commit_text("again")?;
        }
        store.clock.advance(MINUTE);
        store.expect_none("a minute after the last commit", &key)
    }),
    Case::timed("an absolute lifetime caps commits", |_, store| {
        let born = store.clock.now();
        let key = stored_capped(store)?;
        store.clock.advance(secs(50));
        store.lock(&key)?.lease.commit(&payload("1"), capped()?)?;
        let expires = store.record(&key)?.head.expires;
        equal("expires after a commit near the end", expires, born.plus(CAP))?;
        store.clock.advance(ms(49_999));
        store.expect_some("one ms before the absolute end", &key)?;
        store.clock.advance(ms(1));
        store.expect_none("at the absolute end", &key)
    }),
    Case::timed("a later ttl without a lifetime keeps the absolute end", |_, store| {
        let end = store.clock.now().plus(CAP);
        let key = stored_capped(store)?;
        store.clock.advance(secs(50));
        store.touch(&key, minute())?;
        equal("expires after a touch", store.record(&key)?.head.expires, end)?;
        let mut begun = store.lock(&key)?;
        begun.lease.touch(minute())?;
        begun.commit_text("1")?;
        let record = store.record(&key)?;
        equal(
            "expires and ends after a commit",
            (record.head.expires, record.head.ends),
            (end, Some(end)),
        )
    }),
    Case::timed("a record that expires under a lease goes on with the commit", |_, store| {
        let born = store.clock.now();
        let key = stored_capped(store)?;
        store.clock.advance(secs(30));
        let begun = store.lock(&key)?;
        store.clock.advance(secs(40)); // 70 s: the idle time is over, the absolute end is not
        store.expect_none("peek while it is held and expired", &key)?;
        begun.commit_text("1")?;
        let record = store.record(&key)?;
        equal("created", record.head.created, born)?;
        equal("its absolute end", record.head.ends, Some(born.plus(CAP)))?;
        equal("expires", record.head.expires, born.plus(CAP))
    }),
    Case::timed("a new record after expiry starts with a creation of its own", |_, store| {
        let key = stored_capped(store)?;
        store.clock.advance(secs(200));
        let begun = store.lock(&key)?;
        begun.expect_none("the expired record")?;
        begun.commit_text("1")?;
        let record = store.record(&key)?;
        equal("created", record.head.created, store.clock.now())?;
        equal("the absolute end", record.head.ends, None)?;
        ensure(record.head.version <= 1, || format!("the version went on: {}", record.head.version))
    }),
    Case::timed("a clock set back neither loses nor revives sessions", |_, store| {
        let hours = |n: u64| secs(n * 3_600);
        let (key, gone) = (new_key(), new_key());
        store.create(&key, &payload("0"), ttl(hours(3)))?;
        store.create(&gone, &payload("destroyed"), ttl(hours(3)))?;
        store.destroy(&gone)?;
        store.clock.set(store.clock.now().minus(hours(1)));
        store.expect_some("peek after the clock was set back", &key)?;
        store.expect_none("the destroyed one", &gone)?;
        store.lock(&key)?.lease.commit(&payload("1"), ttl(hours(3)))?;
        equal("expires", store.record(&key)?.head.expires, store.clock.now().plus(hours(3)))?;
        store.touch(&key, ttl(hours(2)))?;
        store.fill(1, hours(3))?;
        store.sweep(Budget::default())?;
        store.expect_some("peek after a sweep", &key)
    }),
    Case::new("a real clock expires a record by itself", |_, store| {
        let brief = ms(1_200);
        // On a busy machine its life may be over before it is read: then it is tried again.
        let mut tried = 0;
        let (key, made) = loop {
            let (key, asked) = (new_key(), Instant::now());
            store.create(&key, &payload("brief"), ttl(brief))?;
            let made = Instant::now();
            if store.peek(&key)?.is_some() {
                break (key, made);
            }
            ensure(asked.elapsed() >= brief, || {
                format!("it is gone after {:?} of {brief:?}", asked.elapsed())
            })?;
            tried += 1;
            ensure(tried < 20, || format!("no peek within {brief:?} after a create"))?;
        };
        eventually("it is gone", PATIENCE, || {
            let asked = made.elapsed();
            let gone = store.peek(&key)?.is_none();
            // However late it was asked, and not by how much this machine was late.
            ensure(gone || asked < brief * 2, || {
                format!("it is there when asked after {asked:?} of {brief:?}")
            })?;
            Ok(gone)
        })?;
        Ok(store.create_text(&key, "anew")?)
    }),
    Case::timed("the shortest and the longest ttl work", |_, store| {
        let (brief, endless) = (new_key(), new_key());
        store.create(&brief, &payload("1 ms"), ttl(ms(1)))?;
        store.create(&endless, &payload("10 years"), ttl(Limits::TTL_MAX))?;
        let end = store.clock.now().plus(Limits::TTL_MAX);
        equal("expires in ten years", store.record(&endless)?.head.expires, end)?;
        store.clock.advance(ms(1));
        store.expect_none("after 1 ms", &brief)?;
        store.clock.advance(Limits::TTL_MAX - ms(2));
        store.expect_some("in the last ms of ten years", &endless)?;
        store.clock.advance(ms(1));
        store.expect_none("after ten years", &endless)
    }),
    Case::new("a ttl of zero and one of a thousand years are refused", |_, _| {
        // No such ttl reaches a store, but the contract promises it for every store.
        for idle in [Duration::ZERO, Duration::from_micros(999), Limits::TTL_MAX + ms(1)] {
            refused_early("such a ttl", Ttl::sliding(idle), "invalid-argument")?;
        }
        Ok(())
    }),
];
