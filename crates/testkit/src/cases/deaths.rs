//! Holders that die or stop while they hold a lock, and writers that die while they write.

use nix::sys::signal::Signal;

use super::*;

const LAPSE_MS: u64 = 300;

pub(crate) const CASES: &[Case] = &[
    Case::new("the lock of a killed holder is free at once", |bed, store| {
        let key = store.stored("kept")?;
        // With a waiter, which must notice, and without.
        soon("the waiter behind a killed holder", ms(500), || {
            let mut worker = bed.worker()?;
            worker.begin(&key)?;
            wait_after(store, &key, || worker.kill())
        })?;
        soon("begin after a killed holder", ms(500), || {
            let mut worker = bed.worker()?;
            worker.begin(&key)?;
            worker.kill()?;
            let (begun, elapsed) = store.lock_free(&key)?;
            begun.expect_text("the payload", "kept")?;
            Ok(elapsed)
        })
    })
    .needs(&[PROCESSES, OWNED_BY_PROCESS]),
    Case::new("the lock of a killed holder is free when its time is over", |bed, _| {
        let url = bed.impatient_url(1_500);
        let store = open(&url)?;
        let key = store.stored("kept")?;
        soon("the next holder's begin after a lease of 1.5 s", ms(2_500), || {
            let mut worker = bed.worker_on(&url)?;
            let before = Instant::now();
            worker.begin(&key)?;
            let after = Instant::now();
            worker.kill()?;
            let begun = store.lock(&key)?;
            let (most, least) = (before.elapsed(), after.elapsed());
            begun.expect_text("the payload", "kept")?;
            ensure(most >= ms(1_490), || {
                format!("the lock was taken away after {most:?} of 1.5 s")
            })?;
            begun.lease.release()?;
            Ok(least)
        })
    })
    .needs(&[PROCESSES, OWNED_FOR_A_TIME]),
    Case::new("a program that the holder started does not keep its lock", |bed, store| {
        let key = new_key();
        soon("begin after the holder's death", ms(500), || {
            let mut worker = bed.worker()?;
            worker.begin(&key)?;
            // A page that starts a program (to send mail, to scale a picture) while it holds its
            // session.
            worker.ask("start-program 20")?;
            worker.kill()?;
            Ok(store.lock_free(&key)?.1)
        })
    })
    .needs(&[PROCESSES, OWNED_BY_PROCESS]),
    Case::new("a killed waiter does not hold up the others", |bed, store| {
        let key = new_key();
        soon("begin behind a killed waiter", ms(500), || {
            let begun = store.lock(&key)?;
            let mut worker = bed.worker()?;
            worker.send(&command("begin 10000", &key))?;
            std::thread::sleep(ms(60)); // so that it is first in the queue
            worker.kill()?;
            begun.lease.release()?;
            Ok(store.lock_free(&key)?.1)
        })
    })
    .needs(&[PROCESSES]),
    Case::new("a stopped holder keeps its lock", |bed, store| {
        let key = new_key();
        let mut worker = bed.worker()?;
        worker.begin(&key)?;
        worker.signal(Signal::SIGSTOP)?;
        let waited = refused("begin", store.begin(&key, secs(3)), "lock-timeout");
        worker.signal(Signal::SIGCONT)?;
        waited?;
        worker.ask("commit late-but-good")?;
        store.expect_text("the record", &key, "late-but-good")
    })
    .needs(&[PROCESSES, OWNED_BY_PROCESS]),
    Case::new("a lapsed lease without a successor still commits", |bed, _| {
        let store = open(&bed.impatient_url(LAPSE_MS))?;
        let (key, begun) = store.leased("old")?;
        // The lease is a time on the server's clock, which no test can move.
        std::thread::sleep(ms(2 * LAPSE_MS));
        store.expect_commit(begun, &key, "new")
    })
    .needs(&[OWNED_FOR_A_TIME]),
    Case::new("a lapsed lease with a successor is Stale", |bed, _| {
        let (store, patient) = (open(&bed.impatient_url(LAPSE_MS))?, bed.open()?);
        let (key, paused) = store.leased("old")?;
        let dropped = store.lock(&key)?;
        let successor = patient.lock(&key)?;
        let grew = successor.lease.fence() > dropped.lease.fence();
        ensure(grew, || "the fence did not grow".into())?;
        refused("the paused holder's commit", paused.commit_text("stale"), "stale")?;
        equal("counted", store.count(Counter::StaleCommits), 1)?;
        dropped.lease.release()?;
        patient.expect_locked("a third begin", &key)?;
        store.expect_text("the record", &key, "old")?;
        store.expect_commit(successor, &key, "new")
    })
    .needs(&[OWNED_FOR_A_TIME]),
    Case::new("200 writers killed at random moments leave whole payloads", |bed, store| {
        for round in 0..200 * storm_factor() {
            let key = new_key();
            store.create(&key, &seal(0, 100), minute())?;
            let mut worker = bed.worker()?;
            worker.send(&command("rewrite 40000", &key))?;
            std::thread::sleep(Duration::from_micros(fastrand::u64(0..8_000)));
            worker.kill()?;
            let lines = worker.rest();
            let last = |mark| lines.iter().filter_map(|line| number(line, mark)).max().unwrap_or(0);
            let (acknowledged, announced) = (last("= "), last("+ "));
            let payload = store.record(&key)?.payload;
            let token = token_of(&payload)
                .ok_or_else(|| Failure(format!("round {round}: {} torn bytes", payload.len())))?;
            ensure((acknowledged..=announced).contains(&token), || {
                format!(
                    "round {round}: {acknowledged} acknowledged, {announced} begun, payload \
                     {token} found"
                )
            })?;
        }
        Ok(())
    })
    .needs(&[PROCESSES])
    .within(300),
];
