//! A new id takes the record; the old one leads to it for the grace and not longer.

use sessile_core::{Absence, Begun};

use super::*;

const GRACE: Duration = secs(30);
const LONG: Duration = secs(4 * 3_600);

/// A session that is leased and has just got a new id: the old one, the new one, and the lease.
fn regenerated(
    store: &TestStore,
    life: Duration,
    grace: Duration,
) -> CaseResult<(Key, Key, Begun)> {
    let (old, new) = (new_key(), new_key());
    store.create(&old, &payload("x"), ttl(life))?;
    let mut begun = store.lock(&old)?;
    begun.lease.regenerate(&new, grace)?;
    Ok((old, new, begun))
}

fn commit_long(begun: Begun) -> CaseResult {
    Ok(begun.lease.commit(&payload("y"), ttl(LONG))?)
}

/// Whether a waiter on the old id has the session when the grace ends; false if it came too late.
fn outlives_grace(bed: &Testbed, arrival: Duration) -> CaseResult<bool> {
    let store = bed.timed()?;
    let (old, new, begun) = regenerated(&store, LONG, GRACE)?;
    // The waiter comes to the new id and waits there.
    let waiter = behind_a_waiter(
        arrival,
        || Ok(store.lock(&old)?),
        || {
            store.clock.advance(GRACE);
            commit_long(begun)
        },
    )?;
    if waiter.record.is_none() && *waiter.lease.key() == old {
        return Ok(false);
    }
    equal("the key of the waiter's lease", waiter.lease.key(), &store.listed_key(&new))?;
    waiter.expect_text("what the waiter has", "y").map(|()| true)
}

pub(crate) const CASES: &[Case] = &[
    Case::new("regenerate moves the record and the lease", |_, store| {
        let (_, new, begun) = regenerated(store, MINUTE, GRACE)?;
        equal("the key of the lease", begun.lease.key(), &new)?;
        store.expect_locked("begin on the new id", &new)?;
        store.expect_commit(begun, &new, "y")
    }),
    Case::timed("the old id leads to the new one until the grace ends", |_, store| {
        let (old, new, begun) = regenerated(store, LONG, GRACE)?;
        commit_long(begun)?;
        store.expect_text("peek at the old id", &old, "y")?;
        store.clock.advance(GRACE - ms(1));
        store.expect_text("in the last ms of the grace", &old, "y")?;
        store.clock.advance(ms(1));
        store.expect_none("at the end of the grace", &old)?;
        store.lock(&old)?.expect_none("begin on it")?;
        store.expect_text("the new id", &new, "y")
    }),
    Case::new("without grace the old id is gone at once", |_, store| {
        let (old, new, begun) = regenerated(store, MINUTE, Duration::ZERO)?;
        store.expect_none("the old id before the commit", &old)?;
        begun.commit_text("y")?;
        store.expect_none("the old id after the commit", &old)?;
        let again = store.lock(&old)?;
        again.expect_none("begin on the old id")?;
        equal("its absence", again.absence, Absence::Regenerated)?;
        equal("the key of that lease", again.lease.key(), &old)?;
        store.expect_text("the new id", &new, "y")
    }),
    Case::timed("the use of an id whose grace is over is told and counted", |_, store| {
        let (old, _, begun) = regenerated(store, LONG, GRACE)?;
        commit_long(begun)?;
        let counted = || store.count(Counter::SpentIds);
        store.expect_text("peek within the grace", &old, "y")?;
        equal("uses counted within the grace", counted(), 0)?;
        // Spent ids are remembered for an hour.
        store.clock.advance(GRACE + secs(50 * 60));
        store.expect_none("peek", &old)?;
        equal("uses counted", counted(), 1)?;
        equal("the absence", store.lock(&old)?.absence, Absence::Regenerated)?;
        equal("uses counted", counted(), 2)
    }),
    Case::timed("an old id in its grace can be touched and locked", |_, store| {
        let (old, new, begun) = regenerated(store, MINUTE, GRACE)?;
        store.expect_locked("begin on the old id", &old)?;
        begun.lease.release()?;
        store.clock.advance(secs(10));
        store.touch(&old, minute())?;
        equal("expires", store.record(&new)?.head.expires, store.clock.now().plus(MINUTE))?;
        let begun = store.lock(&old)?;
        equal("the key of the lease", begun.lease.key(), &store.listed_key(&new))?;
        begun.expect_text("the record", "x")?;
        store.expect_locked("begin on the new id", &new)?;
        store.expect_commit(begun, &new, "y")
    }),
    Case::new("destroying an old id in its grace destroys the session", |_, store| {
        let (old, new, begun) = regenerated(store, MINUTE, GRACE)?;
        store.destroy(&old)?;
        store.expect_none("the new id", &new)?;
        store.expect_none("the old id", &old)?;
        refused("the late commit", begun.commit_text("late"), "destroyed")?;
        store.expect_none("the new id", &new)
    }),
    Case::new("an old id in its grace is taken", |_, store| {
        let (old, new, begun) = regenerated(store, MINUTE, GRACE)?;
        begun.commit_text("y")?;
        refused("create of an id in its grace", store.create_text(&old, "z"), "exists")?;
        let (_, mut third) = store.leased("third")?;
        let moved = third.lease.regenerate(&old, GRACE);
        refused("regenerate onto an id in its grace", moved, "exists")?;
        store.expect_text("the new id", &new, "y")
    }),
    Case::new("a waiter on the old id ends up on the new one", |_, store| {
        let ((old, mut begun), new) = (store.leased("x")?, new_key());
        let waiter = behind_a_waiter(
            ms(30),
            || Ok(store.lock(&old)?),
            || {
                begun.lease.regenerate(&new, GRACE)?;
                Ok(begun.commit_text("y")?)
            },
        )?;
        equal("the key of its lease", waiter.lease.key(), &store.listed_key(&new))?;
        waiter.expect_text("what the waiter has", "y")
    }),
    // A parallel request of the page arrives in time, and the holder works longer than the grace.
    // The old id would answer it with an empty session, as if its visitor were logged out, and
    // count an attack.
    Case::new(
        "a waiter that came within the grace keeps its session when the grace ends",
        |bed, _| {
            // Waiting cannot be seen from outside: a late waiter rightly finds a spent id.
            for arrival_ms in [100, 500, 2_500] {
                if outlives_grace(bed, ms(arrival_ms))? {
                    return Ok(());
                }
            }
            let why =
                "three times the waiter has the old id without its session when the grace ends";
            Err(Failure(why.into()))
        },
    ),
    Case::new("regenerate refuses an id that is taken and keeps the lease", |_, store| {
        let (other, new) = (store.stored("other")?, new_key());
        let (old, mut begun) = store.leased("x")?;
        let mut onto = |key| begun.lease.regenerate(key, GRACE);
        refused("regenerate onto a live session", onto(&other), "exists")?;
        let held = store.lock(&new)?;
        refused("regenerate onto a leased id", onto(&new), "exists")?;
        held.lease.release()?;
        equal("the key of the lease", begun.lease.key(), &old)?;
        store.expect_locked("begin on the old id", &old)?;
        store.expect_commit(begun, &old, "y")?;
        store.expect_text("the other", &other, "other")
    }),
    Case::new("regenerate on a destroyed session is refused", |_, store| {
        let ((old, mut begun), new) = (store.leased("x")?, new_key());
        store.destroy(&old)?;
        refused("regenerate", begun.lease.regenerate(&new, GRACE), "destroyed|stale")?;
        drop(begun);
        store.expect_none("the new id", &new)?;
        store.expect_none("the old id", &old)?;
        Ok(store.create_text(&new, "free")?)
    }),
    Case::new("two regenerations in a row lead from the first id to the last", |_, store| {
        let (first, second, mut begun) = regenerated(store, MINUTE, GRACE)?;
        let third = new_key();
        begun.lease.regenerate(&third, GRACE)?;
        begun.commit_text("y")?;
        for key in [&first, &second, &third] {
            store.expect_text("peek", key, "y")?;
        }
        let begun = store.lock(&first)?;
        equal("the key of the lease", begun.lease.key(), &store.listed_key(&third))?;
        begun.lease.release()?;
        store.destroy(&first)?;
        store.expect_none("the last id after destroying the first", &third)
    }),
    Case::timed("regenerate keeps creation and absolute end", |_, store| {
        let (old, new, born) = (new_key(), new_key(), store.clock.now());
        let end = born.plus(secs(100));
        store.create(&old, &payload("x"), minute().within(secs(100))?)?;
        store.clock.advance(secs(50));
        let mut begun = store.lock(&old)?;
        begun.lease.regenerate(&new, GRACE)?;
        begun.commit_text("y")?;
        let record = store.record(&new)?;
        equal("created", record.head.created, born)?;
        equal("expires", record.head.expires, end)?;
        equal("the absolute end", record.head.ends, Some(end))?;
        store.clock.advance(MINUTE);
        store.expect_none("after the absolute end", &new)
    }),
    Case::new("regenerate on a missing session moves the lock", |_, store| {
        let new = new_key();
        let mut begun = store.lock(&new_key())?;
        begun.lease.regenerate(&new, GRACE)?;
        store.expect_locked("begin on the new id", &new)?;
        store.expect_commit(begun, &new, "x")
    }),
    Case::new("a regenerated session that is released keeps its payload", |_, store| {
        soon("begin after the release", FREE_WITHIN, || {
            let (_, new, begun) = regenerated(store, MINUTE, Duration::ZERO)?;
            drop(begun);
            store.expect_text("the new id", &new, "x")?;
            Ok(store.lock_free(&new)?.1)
        })
    }),
    Case::new("another process finds a regenerated session under both ids", |bed, store| {
        let mut worker = bed.worker()?;
        let (old, new, begun) = regenerated(store, MINUTE, GRACE)?;
        worker.ask_refused(&command("begin 0", &old), "lock-timeout")?;
        begun.commit_text("y")?;
        for key in [&old, &new] {
            equal("the worker's peek", worker.ask(&command("peek", key))?, "y".into())?;
        }
        worker.begin(&old)?;
        worker.ask("commit z")?;
        store.expect_text("the new id", &new, "z")
    })
    .needs(&[PROCESSES]),
    Case::new("regenerate refuses another bin, itself, and an endless grace", |_, store| {
        let ((old, mut begun), other_bin) = (store.leased("x")?, new_key_in(Bin::new("other")?));
        let mut regenerate = |key, grace| begun.lease.regenerate(key, grace);
        let invalid = "invalid-argument";
        refused("regenerate into another bin", regenerate(&other_bin, GRACE), invalid)?;
        refused("regenerate onto itself", regenerate(&old, GRACE), "exists")?;
        let endless = Limits::GRACE_MAX + ms(1);
        refused("an endless grace", regenerate(&new_key(), endless), invalid)?;
        store.expect_commit(begun, &old, "y")
    }),
];
