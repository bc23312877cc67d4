//! Sweep removes what has expired, counts truly, and leaves the rest alone.

use super::*;

const AMPLE: Budget = Budget { records_max: 10_000, time_max: secs(10) };

/// Sweeps until a pass is complete; returns the number of calls and the records removed.
fn pass(store: &TestStore, budget: Budget) -> CaseResult<(u64, u64)> {
    let (mut calls, mut removed) = (0, 0);
    loop {
        let swept = store.sweep(budget)?;
        calls += 1;
        removed += swept.removed;
        ensure(swept.removed <= swept.examined, || {
            format!("removed more than it looked at: {swept:?}")
        })?;
        if swept.complete {
            return Ok((calls, removed));
        }
        ensure(calls < 10_000, || "the sweep never completes".into())?;
    }
}

fn expect_removed(what: &str, store: &TestStore, wanted: u64) -> CaseResult {
    equal(what, pass(store, AMPLE)?.1, wanted)
}

fn expect_living(store: &TestStore, keys: &[Key]) -> CaseResult {
    keys.iter().try_for_each(|key| store.expect_some("a living record", key))
}

pub(crate) const CASES: &[Case] = &[
    Case::timed(
        "a sweep removes the expired, counts them truly and leaves the living",
        |_, store| {
            let expired = store.fill(40, MINUTE)?;
            let living = store.fill(30, 2 * MINUTE)?;
            expect_removed("removed before anything expired", store, 0)?;
            store.clock.advance(MINUTE);
            expect_removed("removed", store, 40)?;
            expect_removed("removed again", store, 0)?;
            expect_living(store, &living)?;
            expired.iter().try_for_each(|key| store.expect_none("an expired record", key))
        },
    )
    .needs(&[SWEEPING])
    .alone(),
    Case::timed("a sweep keeps to its budget and goes on where it stopped", |_, store| {
        store.fill(100, MINUTE)?;
        let living = store.fill(20, 5 * MINUTE)?;
        store.clock.advance(2 * MINUTE);
        let small = Budget { records_max: 7, time_max: secs(10) };
        let first = store.sweep(small)?;
        ensure(first.examined <= 7 && first.removed <= 7, || {
            format!("a budget of 7 records: {first:?}")
        })?;
        ensure(!first.complete, || "it says that it is complete".into())?;
        let (calls, removed) = pass(store, small)?;
        let (_, rest) = pass(store, small)?;
        equal("removed by two passes", first.removed + removed + rest, 100)?;
        ensure(calls >= 9, || format!("100 records in {calls} calls of 7"))?;
        expect_living(store, &living)
    })
    .needs(&[SWEEPING])
    .alone(),
    Case::timed("a sweep leaves leased records alone", |_, store| {
        store.fill(10, MINUTE)?;
        let (key, begun) = store.leased("leased")?;
        store.clock.advance(MINUTE);
        expect_removed("removed", store, 10)?;
        // It expired while it was leased: the commit goes on with it.
        let born = begun.record.as_ref().map(|record| record.head.created);
        begun.commit_text("goes on")?;
        equal("created", Some(store.record(&key)?.head.created), born)?;
        store.clock.advance(MINUTE);
        expect_removed("removed after the release", store, 1)
    })
    .needs(&[SWEEPING])
    .alone(),
    Case::timed("a sweep counts neither destroyed nor regenerated ids", |_, store| {
        store.destroy(&store.stored("x")?)?;
        let ((old, mut begun), new) = (store.leased("x")?, new_key());
        begun.lease.regenerate(&new, secs(30))?;
        begun.lease.commit(&payload("y"), ttl(secs(86_400)))?;
        expect_removed("removed now", store, 0)?;
        store.expect_some("the old id in its grace", &old)?;
        store.clock.advance(secs(3 * 3_600));
        expect_removed("removed when all is forgotten", store, 0)?;
        store.expect_some("the living one", &new)?;
        store.expect_none("uses of a forgotten id", &old)?;
        Ok(store.create_text(&old, "free")?)
    })
    .needs(&[SWEEPING])
    .alone(),
    Case::new("a sweep of an empty store is complete at once", |bed, _| {
        let swept = bed.open()?.sweep(Budget::default())?;
        equal("swept", (swept.removed, swept.complete), (0, true))
    })
    .alone(),
    Case::timed("a sweep stops when its time is up", |_, store| {
        let (mut filled, mut removed) = (0, 0);
        soon("1 ms of budget", ms(500), || {
            // Each time as many, or a sweep that takes all of them would have nothing to do the
            // second time.
            filled += store.fill(800, MINUTE)?.len() as u64;
            store.clock.advance(MINUTE);
            let start = Instant::now();
            removed += store.sweep(Budget { records_max: u64::MAX, time_max: ms(1) })?.removed;
            Ok(start.elapsed())
        })?;
        let rest = pass(store, AMPLE)?.1 + pass(store, AMPLE)?.1;
        equal("removed in all", removed + rest, filled)
    })
    .needs(&[SWEEPING])
    .alone(),
    Case::timed("stat tells what a sweep will remove", |_, store| {
        store.fill(12, MINUTE)?;
        store.fill(5, 2 * MINUTE)?;
        store.clock.advance(MINUTE);
        let stat = store.stat()?;
        equal("living, expired", (stat.sessions, stat.expired), (5, 12))?;
        pass(store, AMPLE)?;
        let stat = store.stat()?;
        equal("living, expired after the sweep", (stat.sessions, stat.expired), (5, 0))
    })
    .needs(&[SWEEPING, LISTING])
    .alone(),
    Case::timed("a sweep on a store with expiry of its own has nothing to do", |_, store| {
        let living = store.fill(5, 5 * MINUTE)?;
        store.clock.advance(MINUTE);
        equal("complete", store.sweep(Budget::default())?.complete, true)?;
        expect_living(store, &living)
    })
    .needs(&[EXPIRING_NATIVELY])
    .alone(),
    Case::timed("two sweeps at once count each record once", |bed, store| {
        store.fill(400, MINUTE)?;
        store.clock.advance(MINUTE);
        let other = bed.second_handle(store)?;
        let small = Budget { records_max: 50, time_max: secs(5) };
        let (ours, theirs) = race(|| pass(store, small), || pass(&other, small))?;
        let rest = pass(store, AMPLE)?.1 + pass(store, AMPLE)?.1;
        equal("removed by both and after", ours?.1 + theirs?.1 + rest, 400)
    })
    .needs(&[SWEEPING])
    .alone(),
];
