//! Holders that die or stop while they hold a lock, and writers that die while they write.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sessile_core::Counter;

use crate::case::{Case, Outcome, locking, owned_by_process, owned_for_a_time, processes};
use crate::check::{Failure, ensure, equal, refused, soon};
use crate::ground::{Ground, PATIENCE, minute, payload, payload_of, storm};
use crate::sealed;
use crate::worker::key_word;

pub(crate) const CASES: &[Case] = &[
    Case::new("the lock of a killed holder is free at once", killed_holder).needs(&[
        locking,
        processes,
        owned_by_process,
    ]),
    Case::new("the lock of a killed holder is free when its time is over", killed_holder_lapses).needs(&[
        locking,
        processes,
        owned_for_a_time,
    ]),
    Case::new("a program that the holder started does not keep its lock", started_program).needs(&[
        locking,
        processes,
        owned_by_process,
    ]),
    Case::new("a killed waiter does not hold up the others", killed_waiter).needs(&[locking, processes]),
    Case::new("a stopped holder keeps its lock", stopped_holder).needs(&[locking, processes, owned_by_process]),
    Case::new("a lapsed lease without a successor still commits", lapsed).needs(&[locking, owned_for_a_time]),
    Case::new("a lapsed lease with a successor is Stale", succeeded).needs(&[locking, owned_for_a_time]),
    Case::new("200 writers killed at random moments leave whole payloads", killed_writers)
        .needs(&[locking, processes])
        .within(300),
];

fn killed_holder(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.create(&key, &payload("kept"), minute())?;
    // With a waiter, which must notice, and without.
    soon("the waiter behind a killed holder", Duration::from_millis(500), || {
        let mut worker = ground.worker()?;
        worker.begin(&key)?;
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| -> Result<Instant, Failure> {
                let begun = store.begin(&key, PATIENCE)?;
                equal("the payload", begun.record.map(|record| record.payload), Some(payload("kept")))?;
                Ok(Instant::now())
            });
            std::thread::sleep(Duration::from_millis(60)); // so that it waits
            ensure(!waiting.is_finished(), || "the waiter did not wait".into())?;
            let dead = Instant::now();
            worker.kill()?;
            let got = waiting.join().map_err(|_| Failure("the waiter panicked".into()))??;
            Ok(got.saturating_duration_since(dead))
        })
    })?;
    soon("begin after a killed holder", Duration::from_millis(500), || {
        let mut worker = ground.worker()?;
        worker.begin(&key)?;
        worker.kill()?;
        let start = Instant::now();
        store.begin(&key, PATIENCE)?.lease.release()?;
        Ok(start.elapsed())
    })
}

fn killed_holder_lapses(ground: &Ground) -> Outcome {
    let url = ground.impatient_url(1_500);
    let store = ground.open_url(&url)?;
    let key = ground.key();
    store.create(&key, &payload("kept"), minute())?;
    soon("the next holder's begin after a lease of 1.5 s", Duration::from_millis(2_500), || {
        let mut worker = ground.worker_on(&url)?;
        let before = Instant::now();
        worker.begin(&key)?;
        let after = Instant::now();
        worker.kill()?;
        let begun = store.begin(&key, PATIENCE)?;
        let (most, least) = (before.elapsed(), after.elapsed());
        equal("the payload", begun.record.map(|record| record.payload), Some(payload("kept")))?;
        ensure(most >= Duration::from_millis(1_490), || format!("the lock was taken away after {most:?} of 1.5 s"))?;
        begun.lease.release()?;
        Ok(least)
    })
}

fn started_program(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    soon("begin after the holder's death", Duration::from_millis(500), || {
        let mut worker = ground.worker()?;
        worker.begin(&key)?;
        // A page that starts a program (to send mail, to scale a picture) while it holds its session.
        worker.ask("start-program 20")?;
        worker.kill()?;
        let start = Instant::now();
        store.begin(&key, PATIENCE)?.lease.release()?;
        Ok(start.elapsed())
    })
}

fn killed_waiter(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    soon("begin behind a killed waiter", Duration::from_millis(500), || {
        let begun = store.begin(&key, PATIENCE)?;
        let mut worker = ground.worker()?;
        worker.say(&format!("begin 10000 {}", key_word(&key)))?;
        std::thread::sleep(Duration::from_millis(60)); // so that it is first in the queue
        worker.kill()?;
        begun.lease.release()?;
        let start = Instant::now();
        store.begin(&key, PATIENCE)?.lease.release()?;
        Ok(start.elapsed())
    })
}

fn stopped_holder(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let mut worker = ground.worker()?;
    worker.begin(&key)?;
    worker.signal(Signal::SIGSTOP)?;
    let waited = refused("begin", store.begin(&key, Duration::from_secs(3)), "lock-timeout");
    worker.signal(Signal::SIGCONT)?;
    waited?;
    worker.ask("commit late-but-good")?;
    equal("the record", payload_of(&store, &key)?, Some(b"late-but-good".to_vec()))
}

const LAPSE_MS: u64 = 300;

fn lapsed(ground: &Ground) -> Outcome {
    let store = ground.open_url(&ground.impatient_url(LAPSE_MS))?;
    let key = ground.key();
    store.create(&key, &payload("old"), minute())?;
    let begun = store.begin(&key, PATIENCE)?;
    // The lease is a time on the server's clock, which no test can move.
    std::thread::sleep(Duration::from_millis(2 * LAPSE_MS));
    begun.lease.commit(&payload("new"), minute())?;
    equal("the record", payload_of(&store, &key)?, Some(payload("new")))
}

fn succeeded(ground: &Ground) -> Outcome {
    let store = ground.open_url(&ground.impatient_url(LAPSE_MS))?;
    let patient = ground.open()?;
    let key = ground.key();
    store.create(&key, &payload("old"), minute())?;
    let (paused, dropped) = (store.begin(&key, PATIENCE)?, store.begin(&key, PATIENCE)?);
    let successor = patient.begin(&key, PATIENCE)?;
    ensure(successor.lease.fence() > dropped.lease.fence(), || "the fence did not grow".into())?;
    refused("the paused holder's commit", paused.lease.commit(&payload("stale"), minute()), "stale")?;
    equal("counted", store.counters().get(Counter::StaleCommits), 1)?;
    dropped.lease.release()?;
    refused("a third begin", patient.begin(&key, Duration::ZERO), "lock-timeout")?;
    equal("the record", payload_of(&store, &key)?, Some(payload("old")))?;
    successor.lease.commit(&payload("new"), minute())?;
    equal("the record", payload_of(&store, &key)?, Some(payload("new")))
}

fn killed_writers(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let number = |line: &str, mark: &str| line.strip_prefix(mark).and_then(|rest| rest.parse::<u64>().ok());
    for round in 0..200 * storm() {
        let key = ground.key();
        store.create(&key, &sealed::seal(0, 100), minute())?;
        let mut worker = ground.worker()?;
        worker.say(&format!("rewrite 40000 {}", key_word(&key)))?;
        std::thread::sleep(Duration::from_micros(fastrand::u64(0..8_000)));
        worker.kill()?;
        let lines = worker.rest();
        let acknowledged = lines.iter().filter_map(|line| number(line, "= ")).max().unwrap_or(0);
        let announced = lines.iter().filter_map(|line| number(line, "+ ")).max().unwrap_or(0);
        let record = store.peek(&key)?.ok_or_else(|| Failure("a killed writer left no record".into()))?;
        let seed = sealed::open(&record.payload)
            .ok_or_else(|| Failure(format!("round {round}: {} torn bytes", record.payload.len())))?;
        ensure((acknowledged..=announced).contains(&seed), || {
            format!("round {round}: {acknowledged} acknowledged, {announced} begun, payload {seed} found")
        })?;
    }
    Ok(())
}
