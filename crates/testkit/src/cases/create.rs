//! Creating is not saving.

use crate::case::{Case, Outcome, locking, processes};
use crate::check::{ensure, equal, refused};
use crate::ground::{Ground, MINUTE, PATIENCE, minute, payload, payload_of};
use crate::worker::{ANSWER_WITHIN, key_word};

pub(crate) const CASES: &[Case] = &[
    Case::new("create refuses an id that is taken and leaves its record alone", taken),
    Case::new("create refuses an id whose lock is held", held).needs(&[locking]),
    Case::new("a destroyed id is free for create", after_destroy),
    Case::new("an expired id is free for create", after_expiry),
    Case::new("of 8 threads that create one id, one wins", threads),
    Case::new("of 8 processes that create one id, one wins", eight_processes).needs(&[processes]),
];

fn taken(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.create(&key, &payload("first"), minute())?;
    refused("a second create", store.create(&key, &payload("second"), minute()), "exists")?;
    equal("the record", payload_of(&store, &key)?, Some(payload("first")))
}

fn held(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let begun = store.begin(&key, PATIENCE)?;
    refused("create of a leased id", store.create(&key, &payload("x"), minute()), "exists")?;
    begun.lease.commit(&payload("the holder's"), minute())?;
    equal("the record", payload_of(&store, &key)?, Some(payload("the holder's")))
}

fn after_destroy(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.create(&key, &payload("old"), minute())?;
    store.destroy(&key)?;
    store.create(&key, &payload("new"), minute())?;
    equal("the record", payload_of(&store, &key)?, Some(payload("new")))
}

fn after_expiry(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let key = ground.key();
    store.create(&key, &payload("old"), minute())?;
    clock.advance(MINUTE);
    store.create(&key, &payload("new"), minute())?;
    let record = store.peek(&key)?.ok_or_else(|| crate::Failure("nothing was created".into()))?;
    equal("the payload", record.payload, payload("new"))?;
    equal("created", record.created, clock.now())?;
    ensure(record.version <= 1, || format!("the version went on from the expired record: {}", record.version))
}

fn threads(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    for _ in 0..20 {
        let key = ground.key();
        let results: Vec<_> = std::thread::scope(|scope| {
            let create = |n: u8| store.create(&key, &[n], minute()).map(|()| n);
            let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || create(n))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        let winners: Vec<u8> = results.iter().filter_map(|result| result.as_ref().ok().copied()).collect();
        for result in results.into_iter().filter(Result::is_err) {
            refused("a loser", result, "exists")?;
        }
        equal("winners", winners.len(), 1)?;
        equal("the record is the winner's", payload_of(&store, &key)?, Some(winners))?;
    }
    Ok(())
}

fn eight_processes(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let mut workers = (0..8).map(|_| ground.worker()).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..10 {
        let key = ground.key();
        for (n, worker) in workers.iter_mut().enumerate() {
            worker.say(&format!("create {n} {}", key_word(&key)))?;
        }
        let answers: Vec<_> = workers.iter_mut().map(|worker| worker.hear(ANSWER_WITHIN)).collect();
        let is = |answer: &Option<String>, start: &str| answer.as_ref().is_some_and(|text| text.starts_with(start));
        let winner = answers.iter().position(|answer| is(answer, "ok"));
        let losers = answers.iter().filter(|answer| is(answer, "err exists")).count();
        equal("losers", losers, 7)?;
        let stored = store.peek(&key)?.map(|record| String::from_utf8_lossy(&record.payload).into_owned());
        equal("the record is the winner's", stored, winner.map(|n| n.to_string()))?;
    }
    Ok(())
}
