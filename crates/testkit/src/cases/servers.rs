//! Servers that go away and come back.

use super::*;

fn kill_and_restart(bed: &Testbed) -> CaseResult {
    bed.kill_server()?;
    bed.restart_server()
}

pub(crate) const CASES: &[Case] = &[
    Case::new(
        "every acknowledged commit survives a killed server in the most durable tier",
        |bed, store| {
            let keys = store.fill(30, MINUTE)?;
            keys.iter().try_for_each(|key| store.save(key, "committed"))?;
            kill_and_restart(bed)?;
            // The first operation after a restart must work by itself: reading is idempotent and
            // may be retried.
            for key in &keys {
                store.expect_text("after the restart", key, "committed")?;
            }
            Ok(store.save(&new_key(), "new")?)
        },
    )
    .needs(&[SERVED, PERSISTENT, DURABLE])
    .durable(),
    Case::new(
        "a server that is gone is Unreachable for every operation, in bounded time",
        |bed, store| {
            let (key, begun) = store.leased("x")?;
            bed.kill_server()?;
            let operations: [(&str, &dyn Fn() -> sessile_core::Result<()>); 5] = [
                ("begin", &|| store.lock(&new_key()).map(drop)),
                ("peek", &|| store.peek(&key).map(drop)),
                ("create", &|| store.create_text(&new_key(), "")),
                ("touch", &|| store.touch(&key, minute())),
                ("destroy", &|| store.destroy(&new_key())),
            ];
            for (name, operation) in operations {
                let start = Instant::now();
                refused(name, operation(), "unreachable")?;
                let elapsed = start.elapsed();
                ensure(elapsed < secs(20), || format!("{name} took {elapsed:?} to say so"))?;
            }
            refused("commit", begun.commit_text("y"), "unreachable")?;
            // Opening may look for the server or leave that to the first operation.
            let late = bed.open().and_then(|late| late.peek(&key));
            refused("open and peek", late, "unreachable")?;
            bed.restart_server()?;
            store.stored("back").map(drop).map_err(Failure::from)
        },
    )
    .needs(&[SERVED])
    .durable()
    .within(300),
    Case::new(
        "a lease over a server restart commits or is refused, and nothing in between",
        |bed, store| {
            let (key, begun) = store.leased("old")?;
            kill_and_restart(bed)?;
            let committed = begun.commit_text("new");
            let text = match unless_refused("the commit", committed, "gone|stale|unreachable")? {
                Some(()) => "new",
                None => "old",
            };
            store.expect_text("after the commit", &key, text)
        },
    )
    .needs(&[SERVED, PERSISTENT])
    .durable(),
    Case::new("increments under a server that is killed again and again are not lost", |bed, _| {
        let key = new_key();
        let url = bed.impatient_url(1_000);
        let (mut acknowledged, mut unknown, mut last, mut refused) = (0_u64, 0_u64, 0_u64, 0_u64);
        for _ in 0..4 * storm_factor() {
            let mut worker = bed.worker_on(&url)?;
            worker.send(&command("increment 1000000", &key))?;
            // Until it works, which takes a while if its predecessor died with the lock.
            let first =
                worker.next_line().ok_or_else(|| Failure("a worker hangs or has ended".into()))?;
            // One of four may begin so, if the machine stalls for longer than a lock lives.
            refused += u64::from(!first.starts_with("= "));
            ensure(refused <= storm_factor(), || {
                format!("{refused} workers began with an error, the last one with {first:?}")
            })?;
            std::thread::sleep(Duration::from_micros(fastrand::u64(50_000..200_000)));
            kill_and_restart(bed)?;
            std::thread::sleep(ms(100)); // some more, by itself, if it reconnected
            worker.kill()?;
            // What it had begun may or may not be stored, and its lock may be held.
            unknown += 2;
            for line in std::iter::once(first).chain(worker.rest()) {
                let Some(value) = number(&line, "= ") else {
                    ensure(line.starts_with("err "), || format!("a worker said {line:?}"))?;
                    continue;
                };
                ensure(value > last, || {
                    format!("{value} was acknowledged after {last}: an update was lost")
                })?;
                (acknowledged, last) = (acknowledged + 1, value);
            }
        }
        let begun = open(&url)?.lock(&key)?;
        let value = begun.record.and_then(|record| number(&text_of(&record.payload), ""));
        let value = value.unwrap_or(0);
        ensure(acknowledged > 0, || "nothing was acknowledged".into())?;
        ensure((acknowledged.max(last)..=acknowledged + unknown).contains(&value), || {
            format!("{acknowledged} acknowledged, the last was {last}, the value is {value}")
        })
    })
    .needs(&[SERVED, PERSISTENT, DURABLE])
    .durable()
    .within(300),
    Case::new("a waiter survives or is told when the server goes away", |bed, store| {
        let (key, begun) = store.leased("x")?;
        let wait = || {
            let start = Instant::now();
            Ok((store.begin(&key, secs(4)).map(drop), start.elapsed()))
        };
        let (waited, elapsed) = behind_a_waiter(ms(100), wait, || {
            kill_and_restart(bed)?;
            drop(begun);
            Ok(())
        })?;
        ensure(elapsed < secs(24), || format!("the waiter was told after {elapsed:?}"))?;
        unless_refused("the waiter", waited, "unreachable|lock-timeout")?;
        let survives = bed.capabilities().persistent_from.is_some();
        equal("the record", store.peek(&key)?.is_some(), survives)
    })
    .needs(&[SERVED])
    .durable(),
];
