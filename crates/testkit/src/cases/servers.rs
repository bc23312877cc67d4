//! Servers that go away and come back.

use std::time::{Duration, Instant};

use sessile_core::{Durability, Key};

use crate::case::{Case, Isolation, Outcome, locking, persistent, served};
use crate::check::{Failure, ensure, equal, eventually, refused, refused_with_one_of};
use crate::ground::{Ground, PATIENCE, minute, payload, payload_of, storm};
use crate::worker::{ANSWER_WITHIN, key_word};

pub(crate) const CASES: &[Case] = &[
    Case::new("every acknowledged commit survives a killed server in the most durable tier", survives)
        .needs(&[served, persistent, locking, durable])
        .on(Isolation::Durable),
    Case::new("a server that is gone is Unreachable for every operation, in bounded time", unreachable)
        .needs(&[served, locking])
        .on(Isolation::Durable)
        .within(300),
    Case::new("a lease over a server restart commits or is refused, and nothing in between", lease_over_restart)
        .needs(&[served, persistent, locking])
        .on(Isolation::Durable),
    Case::new("increments under a server that is killed again and again are not lost", killed_under_load)
        .needs(&[served, persistent, locking, durable])
        .on(Isolation::Durable)
        .within(300),
    Case::new("a waiter survives or is told when the server goes away", waiter)
        .needs(&[served, locking])
        .on(Isolation::Durable),
];

fn durable(store: &sessile_core::Capabilities) -> Option<&'static str> {
    (!store.durability.contains(&Durability::Commit)).then_some("promises no durability per commit")
}

fn survives(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let keys: Vec<Key> = (0..30).map(|_| ground.key()).collect();
    for key in &keys {
        store.create(key, &payload("created"), minute())?;
        store.begin(key, PATIENCE)?.lease.commit(&payload("committed"), minute())?;
    }
    ground.kill_server()?;
    ground.restart_server()?;
    // The first operation after a restart must work by itself: reading is idempotent and may be retried.
    for key in &keys {
        equal("after the restart", payload_of(&store, key)?, Some(payload("committed")))?;
    }
    store.begin(&ground.key(), PATIENCE)?.lease.commit(&payload("new"), minute())?;
    Ok(())
}

fn unreachable(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.create(&key, &payload("x"), minute())?;
    let begun = store.begin(&key, PATIENCE)?;
    ground.kill_server()?;
    let operations: [(&str, &dyn Fn() -> sessile_core::Result<()>); 5] = [
        ("begin", &|| store.begin(&ground.key(), PATIENCE).map(drop)),
        ("peek", &|| store.peek(&key).map(drop)),
        ("create", &|| store.create(&ground.key(), b"", minute())),
        ("touch", &|| store.touch(&key, minute())),
        ("destroy", &|| store.destroy(&ground.key())),
    ];
    for (name, operation) in operations {
        let start = Instant::now();
        refused(name, operation(), "unreachable")?;
        let elapsed = start.elapsed();
        ensure(elapsed < Duration::from_secs(20), || format!("{name} took {elapsed:?} to say so"))?;
    }
    refused("commit", begun.lease.commit(&payload("y"), minute()), "unreachable")?;
    // Opening may look for the server or leave that to the first operation; either says the same.
    let late = ground.open_raw().and_then(|late| late.peek(&key));
    refused("open and peek", late, "unreachable")?;
    ground.restart_server()?;
    store.create(&ground.key(), &payload("back"), minute())?;
    Ok(())
}

fn lease_over_restart(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.create(&key, &payload("old"), minute())?;
    let begun = store.begin(&key, PATIENCE)?;
    ground.kill_server()?;
    ground.restart_server()?;
    match begun.lease.commit(&payload("new"), minute()) {
        Ok(()) => equal("after the commit", payload_of(&store, &key)?, Some(payload("new"))),
        refusal => {
            refused_with_one_of("the commit", refusal, &["gone", "stale", "unreachable"])?;
            equal("after the refusal", payload_of(&store, &key)?, Some(payload("old")))
        }
    }
}

fn killed_under_load(ground: &Ground) -> Outcome {
    let key = ground.key();
    let url = ground.impatient_url(1_000);
    let (mut acknowledged, mut unknown, mut last, mut refused) = (0_u64, 0_u64, 0_u64, 0_u64);
    for _ in 0..4 * storm() {
        let mut worker = ground.worker_on(&url)?;
        worker.say(&format!("increment 1000000 {}", key_word(&key)))?;
        // Until it works, which takes a while if its predecessor died with the lock.
        let first = worker.hear(ANSWER_WITHIN).ok_or_else(|| Failure("a worker hangs or has ended".into()))?;
        // One of four may begin so, if the machine stalls at the wrong moment for longer than a lock lives.
        refused += u64::from(!first.starts_with("= "));
        ensure(refused <= storm(), || format!("{refused} workers began with an error, the last one with {first:?}"))?;
        std::thread::sleep(Duration::from_micros(fastrand::u64(50_000..200_000)));
        ground.kill_server()?;
        ground.restart_server()?;
        std::thread::sleep(Duration::from_millis(100)); // some more, by itself, if it reconnected
        worker.kill()?;
        // What it had begun when it was told or killed may or may not be stored; and its lock may be held.
        unknown += 2;
        for line in std::iter::once(first).chain(worker.rest()) {
            let Some(value) = line.strip_prefix("= ").and_then(|number| number.parse::<u64>().ok()) else {
                ensure(line.starts_with("err "), || format!("a worker said {line:?}"))?;
                continue;
            };
            ensure(value > last, || format!("{value} was acknowledged after {last}: an update was lost"))?;
            (acknowledged, last) = (acknowledged + 1, value);
        }
    }
    let begun = ground.open_url(&url)?.begin(&key, PATIENCE)?;
    let text = begun.record.map(|record| String::from_utf8_lossy(&record.payload).into_owned());
    let value: u64 = text.and_then(|text| text.parse().ok()).unwrap_or(0);
    ensure(acknowledged > 0, || "nothing was acknowledged".into())?;
    ensure((acknowledged.max(last)..=acknowledged + unknown).contains(&value), || {
        format!("{acknowledged} acknowledged, the last was {last}, the value is {value}")
    })
}

fn waiter(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.create(&key, &payload("x"), minute())?;
    let begun = store.begin(&key, PATIENCE)?;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.begin(&key, Duration::from_secs(4)).map(drop));
        std::thread::sleep(Duration::from_millis(100)); // so that it waits
        ground.kill_server()?;
        ground.restart_server()?;
        drop(begun);
        eventually("the waiter's end", Duration::from_secs(20), || Ok(waiting.is_finished()))?;
        match waiting.join().map_err(|_| Failure("the waiter panicked".into()))? {
            Ok(()) => Ok(()),
            told => refused_with_one_of("the waiter", told, &["unreachable", "lock-timeout"]).map(drop),
        }
    })?;
    let declared = ground.capabilities().survives_restart(Durability::Commit);
    equal("the record", store.peek(&key)?.is_some(), declared)
}
