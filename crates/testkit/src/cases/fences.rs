//! The fence grows with each holder of a session and never comes back.

use super::*;

/// Takes the lock, fails unless the fence is above the last one, and notes it.
fn lock_after(store: &TestStore, key: &Key, last: &mut u64) -> CaseResult<sessile_core::Begun> {
    let begun = store.lock(key)?;
    let fence = begun.lease.fence();
    ensure(fence > *last, || format!("fence {fence} after {last}"))?;
    *last = fence;
    Ok(begun)
}

pub(crate) const CASES: &[Case] = &[
    Case::new("the fence grows with each holder", |_, store| {
        let (key, mut last) = (new_key(), 0);
        for round in 0..5 {
            let begun = lock_after(store, &key, &mut last)?;
            if round % 2 == 0 {
                begun.commit_text("x")?;
            }
        }
        Ok(())
    }),
    Case::new("the fence does not repeat after destroy and create", |_, store| {
        let (key, mut last) = (new_key(), 0);
        for _ in 0..4 {
            store.create_text(&key, "x")?;
            lock_after(store, &key, &mut last)?.commit_text("y")?;
            lock_after(store, &key, &mut last)?.commit_text("y")?;
            store.destroy(&key)?;
        }
        Ok(())
    }),
    Case::timed("the fence does not repeat after expiry", |_, store| {
        let (key, mut last) = (new_key(), 0);
        for _ in 0..3 {
            lock_after(store, &key, &mut last)?.commit_text("x")?;
            store.clock.advance(secs(90));
            store.sweep(Budget::default())?;
        }
        Ok(())
    }),
    Case::new("the fence grows across processes", |bed, store| {
        let (key, mut last) = (new_key(), 0);
        let mut worker = bed.worker()?;
        for _ in 0..3 {
            let reply = worker.begin(&key)?;
            let theirs = reply.split(' ').next().and_then(|word| number(word, "")).unwrap_or(0);
            ensure(theirs > last, || format!("fence {theirs} after {last}"))?;
            last = theirs;
            worker.ask("commit x")?;
            lock_after(store, &key, &mut last)?;
        }
        Ok(())
    })
    .needs(&[PROCESSES]),
    Case::new("the fence grows over a restart of the server from an older state", |bed, store| {
        let (key, mut last) = (new_key(), 0);
        // Twice, because going on from the older state by a fixed number repeats that. For a second
        // each, because MySQL counts the starts of a server in seconds.
        for act in [Testbed::save_server, Testbed::restore_server, Testbed::restore_server] {
            let start = Instant::now();
            while start.elapsed() < secs(1) {
                lock_after(store, &key, &mut last)?;
            }
            act(bed)?;
        }
        lock_after(store, &key, &mut last).map(drop)
    })
    .needs(&[SERVED])
    .durable(),
    Case::new("the fence of a lease stays while it lives", |_, store| {
        let ((_, mut begun), new) = (store.leased("x")?, new_key());
        let mut fence = begun.lease.fence();
        begun.lease.touch(minute())?;
        equal("after a touch", begun.lease.fence(), fence)?;
        begun.lease.regenerate(&new, Duration::ZERO)?;
        begun.commit_text("y")?;
        lock_after(store, &new, &mut fence).map(drop)
    }),
];
