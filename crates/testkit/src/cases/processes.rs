//! Many processes on one store: nothing is lost, nobody starves, a forked child minds its own business.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::case::{Case, Outcome, locking, processes};
use crate::check::{Failure, ensure, equal, refused};
use crate::ground::{Ground, PATIENCE, minute, payload, payload_of, storm};
use crate::worker::{ANSWER_WITHIN, Worker, key_word};

use super::locks::fair;

pub(crate) const CASES: &[Case] = &[
    Case::new("8 processes make 2,000 increments each and the sum is exact", increments)
        .needs(&[locking, processes])
        .within(300),
    Case::new("8 processes in a closed loop are served fairly", fairness).needs(&[locking, processes]),
    Case::new("increments that were acknowledged before a kill are all there", killed_increments)
        .needs(&[locking, processes])
        .within(120),
    Case::new("a forked child leaves its parent's lock alone and works on its own", forked)
        .needs(&[locking, processes]),
];

fn start(ground: &Ground, count: usize) -> Result<Vec<Worker>, Failure> {
    (0..count).map(|_| ground.worker()).collect()
}

/// Asks all at once and collects their answers.
fn together(workers: &mut [Worker], line: &str) -> Result<Vec<String>, Failure> {
    workers.iter_mut().try_for_each(|worker| worker.say(line))?;
    workers.iter_mut().map(Worker::ok).collect()
}

fn increments(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let mut workers = start(ground, 8)?;
    // In parts: a worker that says nothing for long counts as hanging, and a server takes a millisecond for each.
    for _ in 0..4 {
        together(&mut workers, &format!("increment 500 {}", key_word(&key)))?;
    }
    let sum = store.peek(&key)?.map(|record| String::from_utf8_lossy(&record.payload).into_owned());
    equal("the sum", sum.as_deref(), Some("16000"))
}

fn fairness(ground: &Ground) -> Outcome {
    let mut workers = start(ground, 8)?;
    fair(|ms| {
        let answers = together(&mut workers, &format!("cycle {ms} {}", key_word(&ground.key())))?;
        let counts: Vec<u64> = answers.iter().filter_map(|answer| answer.parse().ok()).collect();
        equal("answers", counts.len(), 8)?;
        Ok(counts)
    })
}

fn killed_increments(ground: &Ground) -> Outcome {
    let url = ground.impatient_url(1_000);
    let key = ground.key();
    let line = format!("increment 100000 {}", key_word(&key));
    let (mut acknowledged, mut repeated, mut killed) = (BTreeSet::new(), 0, 0);
    for _ in 0..6 * storm() {
        let mut workers = (0..3).map(|_| ground.worker_on(&url)).collect::<Result<Vec<_>, _>>()?;
        workers.iter_mut().try_for_each(|worker| worker.say(&line))?;
        for mut worker in workers {
            // However slow the machine is, one of them gets something done before it is killed.
            let first = if acknowledged.is_empty() { worker.hear(ANSWER_WITHIN) } else { None };
            std::thread::sleep(Duration::from_micros(fastrand::u64(1_000..60_000)));
            worker.kill()?;
            killed += 1;
            for said in first.into_iter().chain(worker.rest()) {
                let value = said.strip_prefix("= ").and_then(|number| number.parse::<u64>().ok());
                let value = value.ok_or_else(|| Failure(format!("a worker said {said:?}")))?;
                repeated += u64::from(!acknowledged.insert(value));
            }
        }
    }
    equal("values acknowledged twice", repeated, 0)?;
    let begun = ground.open()?.begin(&key, PATIENCE)?;
    let text = begun.record.map(|record| String::from_utf8_lossy(&record.payload).into_owned());
    let value: u64 = text.and_then(|text| text.parse().ok()).unwrap_or(0);
    let count = acknowledged.len() as u64;
    ensure(count > 0, || "no increment was acknowledged".into())?;
    // Each kill may hide one increment that was stored but not yet acknowledged.
    ensure((count..=count + killed).contains(&value), || {
        format!("{count} increments were acknowledged, {killed} workers killed, the value is {value}")
    })
}

fn forked(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let (key, other) = (ground.key(), ground.key());
    store.create(&key, &payload("x"), minute())?;
    let mut worker = ground.worker()?;
    worker.begin(&key)?;
    worker.ask(&format!("fork {}", key_word(&other)))?;
    equal("the child's session", payload_of(&store, &other)?, Some(b"from-the-child".to_vec()))?;
    refused("begin on the parent's session", store.begin(&key, Duration::ZERO), "lock-timeout")?;
    worker.ask("commit from-the-parent")?;
    equal("the parent's session", payload_of(&store, &key)?, Some(b"from-the-parent".to_vec()))
}
