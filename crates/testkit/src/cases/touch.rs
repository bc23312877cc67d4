//! Touch moves the expiry, and never makes a record.

use sessile_core::Absence;

use super::*;

pub(crate) const CASES: &[Case] = &[
    Case::timed("a touch moves the expiry and nothing else", |_, store| {
        let key = store.stored("x")?;
        let before = store.record(&key)?;
        store.clock.advance(secs(40));
        store.touch(&key, minute())?;
        let mut after = store.record(&key)?;
        equal("expires", after.head.expires, store.clock.now().plus(MINUTE))?;
        after.head.expires = before.head.expires;
        equal("the rest", after, before)?;
        store.clock.advance(MINUTE);
        store.expect_none("a minute later", &key)
    }),
    Case::timed(
        "a touch of a missing, destroyed or expired session says so and makes nothing",
        |_, store| {
            let (missing, destroyed, expired) = (new_key(), store.stored("x")?, store.stored("x")?);
            store.destroy(&destroyed)?;
            store.clock.advance(MINUTE);
            let touch = |key| store.touch(key, minute());
            refused("touch of a missing session", touch(&missing), "gone")?;
            // `Gone` by the letter; `Destroyed` says more and no less.
            refused("touch of a destroyed one", touch(&destroyed), "gone|destroyed")?;
            refused("touch of an expired one", touch(&expired), "gone")?;
            [missing, destroyed, expired].iter().try_for_each(|key| store.expect_none("peek", key))
        },
    ),
    Case::timed("a touch under the lease keeps the lease", |_, store| {
        let (key, mut begun) = store.leased("x")?;
        store.clock.advance(secs(40));
        begun.lease.touch(minute())?;
        let record = store.record(&key)?;
        equal("the text", text_of(&record.payload), "x".into())?;
        equal("expires", record.head.expires, store.clock.now().plus(MINUTE))?;
        store.expect_locked("another begin", &key)?;
        store.expect_commit(begun, &key, "y")
    }),
    Case::new("a touch under the lease of a missing session is Gone", |_, store| {
        let key = new_key();
        let mut begun = store.lock(&key)?;
        refused("touch", begun.lease.touch(minute()), "gone")?;
        begun.commit_text("the lease is still good")?;
        store.expect_some("peek", &key)
    }),
    Case::new("a touch under a voided lease is refused", |_, store| {
        let (key, mut begun) = store.leased("x")?;
        store.destroy(&key)?;
        refused("touch", begun.lease.touch(minute()), "destroyed|gone")?;
        store.expect_none("peek", &key)
    }),
    Case::timed("a touch does not wait for the lock", |_, store| {
        let (key, begun) = store.leased("x")?;
        store.clock.advance(secs(30));
        soon("touch", ms(500), || {
            let start = Instant::now();
            store.touch(&key, minute())?;
            Ok(start.elapsed())
        })?;
        store.expect_commit(begun, &key, "y")
    }),
    Case::timed("a touch can shorten a life", |_, store| {
        let key = new_key();
        store.create(&key, &payload("x"), ttl(secs(600)))?;
        store.touch(&key, minute())?;
        store.clock.advance(MINUTE);
        store.expect_none("a minute later", &key)
    }),
    Case::timed("a lease may end its record at once, and that is no log-out", |_, store| {
        let (key, mut begun) = store.leased("x")?;
        begun.lease.end()?;
        store.expect_none("peek", &key)?;
        store.expect_locked("another begin", &key)?;
        begun.lease.release()?;
        store.sweep(Budget::default())?;
        let again = store.lock(&key)?;
        equal("what is known", again.absence, Absence::Unknown)?;
        again.expect_none("begin")?;
        again.commit_text("y")?;
        equal("the new record's version", store.record(&key)?.head.version, 1)
    }),
];
