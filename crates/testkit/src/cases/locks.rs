//! The lock of a session: it excludes others, it is waited for fairly, and each session has its
//! own.

use super::*;

const SOON: Duration = ms(100);

/// Fails if a contender makes fewer than half the mean number of cycles in a time, in milliseconds,
/// that is given.
///
/// A contender that something else keeps off the processor or the disk makes fewer cycles too: the
/// best of three counts, each over twice the time of the one before.
pub(crate) fn fair(mut count_for: impl FnMut(u64) -> CaseResult<Vec<u64>>) -> CaseResult {
    let mut verdict = Ok(());
    for ms in [1_500, 3_000, 6_000] {
        let counts = count_for(ms)?;
        let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        let least = counts.iter().min().copied().unwrap_or(0);
        verdict = ensure(mean > 0.0 && least as f64 >= mean / 2.0, || {
            format!("in {ms} ms one made {least} cycles, the mean is {mean:.0}: {counts:?}")
        });
        if verdict.is_ok() {
            break;
        }
    }
    verdict
}

pub(crate) const CASES: &[Case] = &[
    Case::new("a held lock excludes a second holder", |_, store| {
        let key = new_key();
        let begun = store.lock(&key)?;
        store.expect_locked("a second begin", &key)?;
        refused("a third", store.begin(&key, ms(20)), "lock-timeout")?;
        begun.lease.release()?;
        store.begin(&key, Duration::ZERO)?;
        Ok(())
    }),
    Case::new("a held lock excludes another opener of the store", |bed, _| {
        let (here, there) = (bed.open()?, bed.open()?);
        let key = new_key();
        let begun = here.lock(&key)?;
        there.expect_locked("the other opener's begin", &key)?;
        begun.lease.release()?;
        there.lock(&key)?;
        Ok(())
    })
    .needs(&[PROCESSES]),
    Case::new("a held lock excludes another process", |bed, store| {
        let key = new_key();
        let mut worker = bed.worker()?;
        worker.begin(&key)?;
        store.expect_locked("begin", &key)?;
        worker.ask("commit theirs")?;
        let begun = store.lock(&key)?;
        begun.expect_text("the payload", "theirs")?;
        worker.ask_refused(&command("begin 0", &key), "lock-timeout")
    })
    .needs(&[PROCESSES]),
    Case::new("a lock time-out comes in time and names the holder", |_, store| {
        let key = new_key();
        let begun = store.lock(&key)?;
        let (wait_max, pid) = (ms(300), std::process::id());
        let counted = store.count(Counter::LockTimeouts);
        soon("a wait of 300 ms", ms(600), || {
            let start = Instant::now();
            let error = refused("begin", store.begin(&key, wait_max), "lock-timeout")?;
            let elapsed = start.elapsed();
            ensure(elapsed >= wait_max, || format!("it gave up after {elapsed:?} already"))?;
            let ErrorKind::LockTimeout { holder, waited } = error.kind() else {
                return Ok(elapsed);
            };
            ensure(*waited >= wait_max, || format!("it says that it waited {waited:?}"))?;
            equal("the holder", holder.pid, Some(pid))?;
            let named = error.to_string().contains(&pid.to_string());
            ensure(named, || "the text names no holder".into())?;
            Ok(elapsed)
        })?;
        soon("a wait of 0", ms(50), || {
            let start = Instant::now();
            store.expect_locked("begin", &key)?;
            Ok(start.elapsed())
        })?;
        for _ in 0..20 {
            let start = Instant::now();
            refused("begin", store.begin(&key, ms(3)), "lock-timeout")?;
            let elapsed = start.elapsed();
            ensure(elapsed >= ms(3), || format!("a wait of 3 ms ended after {elapsed:?}"))?;
        }
        let counted_now = store.count(Counter::LockTimeouts);
        ensure(counted_now >= counted + 22, || "not counted".into())?;
        Ok(begun.lease.release()?)
    }),
    Case::new("a lock time-out names the process that holds the lock", |bed, store| {
        let key = new_key();
        let mut worker = bed.worker()?;
        worker.begin(&key)?;
        let error = refused("begin", store.begin(&key, ms(50)), "lock-timeout")?;
        let ErrorKind::LockTimeout { holder, .. } = error.kind() else { return Ok(()) };
        equal("the holder's pid", holder.pid, Some(worker.pid()))?;
        let held = holder.since.map(|since| store.clock.now().since(since)).unwrap_or_default();
        ensure(held < secs(20), || format!("it holds the lock for {held:?}, it says"))
    })
    .needs(&[PROCESSES]),
    Case::new("a release, a commit and a dropped lease free the lock", |_, store| {
        soon("begin after a release, a commit or a dropped lease", FREE_WITHIN, || {
            let key = new_key();
            store.lock(&key)?.lease.release()?;
            let (begun, after_release) = store.lock_free(&key)?;
            begun.commit_text("x")?;
            let (begun, after_commit) = store.lock_free(&key)?;
            drop(begun);
            let (begun, after_drop) = store.lock_free(&key)?;
            begun.expect_text("the record", "x")?;
            Ok(after_release.max(after_commit).max(after_drop))
        })
    }),
    Case::new("a waiter begins soon after the release", |_, store| {
        let key = new_key();
        soon("the waiter after a commit", SOON, || {
            let begun = store.lock(&key)?;
            wait_after(store, &key, || Ok(begun.commit_text("x")?))
        })?;
        soon("the waiter after a release", SOON, || {
            let begun = store.lock(&key)?;
            wait_after(store, &key, || Ok(begun.lease.release()?))
        })
    }),
    Case::new("a waiter begins soon after the release in another process", |bed, store| {
        let key = new_key();
        let mut worker = bed.worker()?;
        soon("the waiter", SOON, || {
            worker.begin(&key)?;
            wait_after(store, &key, || worker.ask("commit x").map(drop))
        })
    })
    .needs(&[PROCESSES]),
    Case::new("a waiter reads what the holder committed", |_, store| {
        let (key, begun) = store.leased("old")?;
        // The waiter has seen the old record before it waits.
        let waiter =
            behind_a_waiter(ms(30), || Ok(store.lock(&key)?), || Ok(begun.commit_text("new")?))?;
        waiter.expect_text("what the waiter read", "new")
    }),
    Case::new("peek does not wait and sees the old payload", |_, store| {
        let (key, begun) = store.leased("old")?;
        soon("peek under a lease", ms(500), || {
            let start = Instant::now();
            store.expect_text("peek", &key, "old")?;
            Ok(start.elapsed())
        })?;
        store.expect_commit(begun, &key, "new")
    }),
    Case::new("peek sees whole payloads while others commit", |bed, _| {
        let writer = bed.open()?;
        let reader = bed.second_handle(&writer)?;
        let key = new_key();
        writer.create(&key, &seal(0, 64), minute())?;
        let peek = |last: u64| -> CaseResult<u64> {
            let payload = reader.record(&key)?.payload;
            let torn = || Failure(format!("peek saw a torn payload of {} bytes", payload.len()));
            let token = token_of(&payload).ok_or_else(torn)?;
            ensure(token >= last, || format!("peek saw payload {token} after payload {last}"))?;
            Ok(token)
        };
        let (mut seen, mut written) = (0, 0);
        let write = || {
            written += 1;
            let payload = seal(written, fastrand::usize(BYTES_MIN..60_000));
            Ok(writer.lock(&key)?.lease.commit(&payload, minute())?)
        };
        let read = || peek(seen).map(|token| seen = token);
        in_closed_loops(5, ms(600), read, write)?;
        equal("the last payload", peek(seen)?, written)
    }),
    Case::new("nobody waits for another session's lock", |_, store| {
        let mut held = Vec::new();
        for _ in 0..300 {
            held.push(store.begin(&new_key(), FREE)?);
        }
        Ok(held.into_iter().try_for_each(|begun| begun.commit_text("x"))?)
    }),
    Case::new("no update is lost among 8 threads", |_, store| {
        let key = new_key();
        on_threads(8, |_| {
            for _ in 0..200 {
                let begun = store.lock(&key)?;
                let text = begun.record.as_ref().map(|record| text_of(&record.payload));
                let sum: u64 = text.and_then(|text| text.parse().ok()).unwrap_or(0);
                begun.commit_text(&(sum + 1).to_string())?;
            }
            Ok(())
        })?;
        store.expect_text("the sum", &key, "1600")
    }),
    Case::new("threads in a closed loop are served fairly", |_, store| {
        let key = new_key();
        fair(|for_ms| on_threads(6, |_| Ok(count_cycles(store, &key, ms(for_ms))?)))
    }),
    Case::new("a waiter that gave up leaves the queue", |_, store| {
        soon("begin after waiters gave up", ms(100), || {
            let key = new_key();
            let begun = store.lock(&key)?;
            for _ in 0..3 {
                refused("begin", store.begin(&key, ms(10)), "lock-timeout")?;
            }
            begun.lease.release()?;
            Ok(store.lock_free(&key)?.1)
        })
    }),
];
