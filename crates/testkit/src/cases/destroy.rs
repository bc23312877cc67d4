//! A logged-out session never comes back.

use super::*;

/// How the commit of a lease whose session is gone may be refused when another has come.
const LOST: &str = "destroyed|stale";

pub(crate) const CASES: &[Case] = &[
    Case::new("destroy removes the session, and destroying nothing is success", |_, store| {
        let key = new_key();
        store.destroy(&key)?;
        store.create_text(&key, "x")?;
        store.destroy(&key)?;
        store.expect_none("peek", &key)?;
        Ok(store.destroy(&key)?)
    }),
    Case::new("a late commit after destroy is refused and counted", |_, store| {
        let (key, begun) = store.leased("x")?;
        store.destroy(&key)?;
        store.expect_none("peek after destroy", &key)?;
        refused("the late commit", begun.commit_text("late"), "destroyed")?;
        store.expect_none("peek after the late commit", &key)?;
        store.lock(&key)?.expect_none("begin after the late commit")?;
        equal("counted", store.count(Counter::DestroyedCommits), 1)?;
        equal("counted as a failed save", store.count(Counter::FailedSaves), 1)
    }),
    Case::new("a late commit is refused even when the session was created again", |_, store| {
        let (key, begun) = store.leased("first")?;
        store.destroy(&key)?;
        store.create_text(&key, "second")?;
        refused("the late commit", begun.commit_text("late"), LOST)?;
        store.expect_text("the new session", &key, "second")
    })
    .needs(&[FREED_BY_DESTROY]),
    Case::new("a late commit on a session that never was is refused after destroy", |_, store| {
        let key = new_key();
        let begun = store.lock(&key)?;
        store.destroy(&key)?;
        refused("the late commit", begun.commit_text("late"), "destroyed")?;
        store.expect_none("peek", &key)
    }),
    Case::new("a late commit of another process is refused", |bed, store| {
        let key = store.stored("x")?;
        let mut worker = bed.worker()?;
        worker.begin(&key)?;
        store.destroy(&key)?;
        worker.ask_refused("commit late", "destroyed")?;
        store.expect_none("peek", &key)?;
        // And the other way round.
        store.create_text(&key, "x")?;
        let begun = store.lock(&key)?;
        worker.ask(&command("destroy", &key))?;
        refused("our late commit", begun.commit_text("late"), "destroyed")?;
        store.expect_none("peek", &key)
    })
    .needs(&[PROCESSES]),
    Case::new("destroy does not wait for the lock", |_, store| {
        soon("destroy under another's lease", ms(500), || {
            let (key, _begun) = store.leased("x")?;
            let start = Instant::now();
            store.destroy(&key)?;
            Ok(start.elapsed())
        })
    }),
    Case::new("destroy lets another begin at once", |_, store| {
        soon("begin after destroy", FREE_WITHIN, || {
            let (key, old) = store.leased("x")?;
            store.destroy(&key)?;
            let (new, elapsed) = store.lock_free(&key)?;
            new.expect_none("the record")?;
            ensure(new.lease.fence() > old.lease.fence(), || "the fence did not grow".into())?;
            new.commit_text("new")?;
            refused("the late commit", old.commit_text("late"), LOST)?;
            store.expect_text("the new session", &key, "new")?;
            Ok(elapsed)
        })
    })
    .needs(&[FREED_BY_DESTROY]),
    Case::new("an old holder's release does not free its successor's lock", |_, store| {
        for late_commit in [false, true] {
            let (key, old) = store.leased("x")?;
            store.destroy(&key)?;
            // Where the old holder still occupies the lock, there is no successor yet, and nothing
            // to free.
            let Ok(new) = store.begin(&key, secs(1)) else { return Ok(()) };
            if late_commit {
                refused("the late commit", old.commit_text("late"), LOST)?;
            } else {
                old.lease.release()?;
            }
            store.expect_locked("a third begin", &key)?;
            store.expect_commit(new, &key, "successor")?;
        }
        Ok(())
    }),
    Case::new("a waiter finds nothing after destroy", |_, store| {
        let (key, begun) = store.leased("x")?;
        let waiter = behind_a_waiter(
            ms(30),
            || Ok(store.lock(&key)?),
            || {
                store.destroy(&key)?;
                Ok(begun.lease.release()?)
            },
        )?;
        waiter.expect_none("what the waiter found")
    }),
    Case::new("a session created again after destroy lives", |_, store| {
        let key = store.stored("x")?;
        store.destroy(&key)?;
        store.save(&key, "y")?;
        let begun = store.lock(&key)?;
        begun.expect_text("the record", "y")?;
        store.expect_commit(begun, &key, "z")
    }),
];
