//! Many processes on one store: no update is lost, each is served, and a forked child leaves its
//! parent's lock alone.

use std::collections::BTreeSet;

use super::*;

fn together(workers: &mut [SuiteWorker], line: &str) -> CaseResult<Vec<String>> {
    workers.iter_mut().try_for_each(|worker| worker.send(line))?;
    workers.iter_mut().map(SuiteWorker::wait_ok).collect()
}

pub(crate) const CASES: &[Case] = &[
    Case::new("8 processes make 2,000 increments each and the sum is exact", |bed, store| {
        let key = new_key();
        let mut workers = bed.workers(8)?;
        // In parts: a worker that says nothing for long counts as hanging, and a server takes a
        // millisecond for each.
        for _ in 0..4 {
            together(&mut workers, &command("increment 500", &key))?;
        }
        store.expect_text("the sum", &key, "16000")
    })
    .needs(&[PROCESSES])
    .within(300),
    Case::new("8 processes in a closed loop are served fairly", |bed, _| {
        let mut workers = bed.workers(8)?;
        locks::fair(|ms| {
            let replies = together(&mut workers, &command(&format!("cycle {ms}"), &new_key()))?;
            let counts: Vec<u64> = replies.iter().filter_map(|reply| number(reply, "")).collect();
            equal("replies", counts.len(), 8)?;
            Ok(counts)
        })
    })
    .needs(&[PROCESSES]),
    Case::new("increments that were acknowledged before a kill are all there", |bed, _| {
        let url = bed.impatient_url(1_000);
        let key = new_key();
        let (mut acknowledged, mut repeated, mut killed) = (BTreeSet::new(), 0, 0);
        for _ in 0..6 * storm_factor() {
            let mut workers = (0..3).map(|_| bed.worker_on(&url)).collect::<Result<Vec<_>, _>>()?;
            for worker in &mut workers {
                worker.send(&command("increment 100000", &key))?;
            }
            for mut worker in workers {
                // However slow the machine is, one of them gets something done before it is killed.
                let first = if acknowledged.is_empty() { worker.next_line() } else { None };
                std::thread::sleep(Duration::from_micros(fastrand::u64(1_000..60_000)));
                worker.kill()?;
                killed += 1;
                for line in first.into_iter().chain(worker.rest()) {
                    let value = number(&line, "= ");
                    let value = value.ok_or_else(|| Failure(format!("a worker said {line:?}")))?;
                    repeated += u64::from(!acknowledged.insert(value));
                }
            }
        }
        equal("values acknowledged twice", repeated, 0)?;
        let begun = bed.open()?.lock(&key)?;
        let value = begun.record.and_then(|record| number(&text_of(&record.payload), ""));
        let (value, count) = (value.unwrap_or(0), acknowledged.len() as u64);
        ensure(count > 0, || "no increment was acknowledged".into())?;
        // Each kill may hide one increment that was stored but not yet acknowledged.
        ensure((count..=count + killed).contains(&value), || {
            format!(
                "{count} increments acknowledged, {killed} workers killed, the value is {value}"
            )
        })
    })
    .needs(&[PROCESSES])
    .within(120),
    Case::new(
        "a forked child leaves its parent's lock alone and works on its own",
        |bed, store| {
            let (key, other) = (store.stored("x")?, new_key());
            let mut worker = bed.worker()?;
            worker.begin(&key)?;
            worker.ask(&command("fork", &other))?;
            store.expect_text("the child's session", &other, "from-the-child")?;
            store.expect_locked("begin on the parent's session", &key)?;
            worker.ask("commit from-the-parent")?;
            store.expect_text("the parent's session", &key, "from-the-parent")
        },
    )
    .needs(&[PROCESSES]),
    // The sweeps of all stores in files and tables held a mutex: it stays locked in a child.
    Case::new(
        "a child forked during a sweep works or is refused, and never hangs",
        |bed, store| {
            store.fill(500, MINUTE)?;
            let key = new_key();
            bed.worker()?.ask(&command("fork-in-sweeps 20", &key)).map(drop)
        },
    )
    .needs(&[PROCESSES])
    .alone(),
];
