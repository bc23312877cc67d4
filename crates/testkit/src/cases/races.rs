//! Two operations at the same moment: some order of the two explains how they end.
//!
//! Each case repeats its race with random delays; `SESSILE_STORM` repeats it more often.

use super::*;

/// A race is repeated with these two handles of the store, and the number of the round.
fn each_round(bed: &Testbed, round: impl Fn(&TestStore, &TestStore) -> CaseResult) -> CaseResult {
    let here = bed.open()?;
    let there = bed.second_handle(&here)?;
    (0..60 * storm_factor()).try_for_each(|number| {
        round(&here, &there).map_err(|Failure(why)| Failure(format!("round {number}: {why}")))
    })
}

const BACK: &str = "the session is back after destroy";

pub(crate) const CASES: &[Case] = &[
    Case::new("destroy and commit at the same moment: the session is gone", |bed, _| {
        each_round(bed, |here, there| {
            let (key, begun) = here.leased("x")?;
            let (committed, destroyed) = race(|| begun.commit_text("y"), || there.destroy(&key))?;
            destroyed?;
            unless_refused("the commit", committed, "destroyed")?;
            here.expect_none(BACK, &key)?;
            there.expect_none(BACK, &key)
        })
    }),
    Case::new("destroy and regenerate at the same moment: both ids are gone", |bed, _| {
        each_round(bed, |here, there| {
            let ((old, mut begun), new) = (here.leased("x")?, new_key());
            let regenerate = || {
                begun.lease.regenerate(&new, secs(60))?;
                begun.commit_text("y")
            };
            let (moved, destroyed) = race(regenerate, || there.destroy(&old))?;
            destroyed?;
            unless_refused("regenerate or commit", moved, "destroyed|stale")?;
            here.expect_none(BACK, &old)?;
            here.expect_none(BACK, &new)
        })
    }),
    Case::new("destroy and touch at the same moment: the session is gone", |bed, _| {
        each_round(bed, |here, there| {
            let key = here.stored("x")?;
            let (touched, destroyed) = race(|| here.touch(&key, minute()), || there.destroy(&key))?;
            destroyed?;
            unless_refused("the touch", touched, "gone|destroyed")?;
            here.expect_none(BACK, &key)
        })
    }),
    Case::new("create and begin at the same moment: neither write is lost", |bed, _| {
        each_round(bed, |here, there| {
            let key = new_key();
            let change = || -> sessile_core::Result<bool> {
                let begun = here.lock(&key)?;
                let found = begun.record.is_some();
                begun.commit_text("committed").map(|()| found)
            };
            let (found, created) = race(change, || there.create_text(&key, "created"))?;
            let created = unless_refused("create", created, "exists")?.is_some();
            // A refused create leaves no record; a created one is not overwritten unseen.
            equal("whether the record was found, as it was created", found?, created)?;
            here.expect_text("the record", &key, "committed")
        })
    }),
    Case::new("touches beside commits never bring an old payload back", |bed, _| {
        let here = bed.open()?;
        let there = bed.second_handle(&here)?;
        let (key, mut count) = (here.stored("0")?, 0_u64);
        let touch = || Ok(there.touch(&key, minute())?);
        let write = || {
            let begun = here.lock(&key)?;
            begun.expect_text("what the last commit stored", &count.to_string())?;
            count += 1;
            Ok(begun.commit_text(&count.to_string())?)
        };
        in_closed_loops(300 * storm_factor(), ms(100), touch, write)
    }),
    Case::timed("a sweep beside writers removes nothing that they commit", |bed, store| {
        let other = bed.second_handle(store)?;
        for _ in 0..3 * storm_factor() {
            let keys = store.fill(60, MINUTE)?;
            store.clock.advance(MINUTE);
            let write = || keys.iter().try_for_each(|key| store.save(key, "new"));
            let budget = Budget { records_max: 10, time_max: ms(50) };
            let sweep = || (0..20).try_for_each(|_| other.sweep(budget).map(drop));
            let (written, swept) = race(write, sweep)?;
            written.and(swept)?;
            keys.iter().try_for_each(|key| store.expect_text("a committed record", key, "new"))?;
        }
        Ok(())
    })
    .needs(&[SWEEPING])
    .alone(),
];
