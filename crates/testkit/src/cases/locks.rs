//! The lock of a session: it excludes, it is waited for fairly, and nobody waits for someone else's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sessile_core::{ErrorKind, Key, Sessions};

use crate::case::{Case, Outcome, locking, no_locking, processes};
use crate::check::{Failure, ensure, equal, refused, soon};
use crate::ground::{FREE, FREE_WITHIN, Ground, PATIENCE, begin_free, minute, payload, payload_of};
use crate::sealed;
use crate::worker::key_word;

pub(crate) const CASES: &[Case] = &[
    Case::new("without locking, begin is Unsupported", unsupported).needs(&[no_locking]),
    Case::new("a held lock excludes a second holder", excludes).needs(&[locking]),
    Case::new("a held lock excludes another opener of the store", excludes_openers).needs(&[locking, processes]),
    Case::new("a held lock excludes another process", excludes_processes).needs(&[locking, processes]),
    Case::new("a lock time-out comes in time and names the holder", timeout).needs(&[locking]),
    Case::new("a lock time-out names the process that holds the lock", timeout_names).needs(&[locking, processes]),
    Case::new("a release, a commit and a dropped lease free the lock", freed).needs(&[locking]),
    Case::new("a waiter begins soon after the release", soon_after).needs(&[locking]),
    Case::new("a waiter begins soon after the release in another process", soon_after_process)
        .needs(&[locking, processes]),
    Case::new("a waiter reads what the holder committed", reads_latest).needs(&[locking]),
    Case::new("peek does not wait and sees the old payload", peek_under_lease).needs(&[locking]),
    Case::new("peek sees whole payloads while others commit", snapshots).needs(&[locking]),
    Case::new("nobody waits for another session's lock", independent).needs(&[locking]),
    Case::new("no update is lost among 8 threads", threads_increment).needs(&[locking]),
    Case::new("threads in a closed loop are served fairly", fair_threads).needs(&[locking]),
    Case::new("a waiter that gave up leaves the queue", given_up).needs(&[locking]),
];

fn unsupported(ground: &Ground) -> Outcome {
    refused("begin", ground.open()?.begin(&ground.key(), PATIENCE), "unsupported").map(drop)
}

fn excludes(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let begun = store.begin(&key, PATIENCE)?;
    refused("a second begin", store.begin(&key, Duration::ZERO), "lock-timeout")?;
    refused("a third", store.begin(&key, Duration::from_millis(20)), "lock-timeout")?;
    begun.lease.release()?;
    drop(store.begin(&key, Duration::ZERO)?);
    Ok(())
}

fn excludes_openers(ground: &Ground) -> Outcome {
    let (here, there) = (ground.open()?, ground.open()?);
    let key = ground.key();
    let begun = here.begin(&key, PATIENCE)?;
    refused("the other opener's begin", there.begin(&key, Duration::ZERO), "lock-timeout")?;
    begun.lease.release()?;
    drop(there.begin(&key, PATIENCE)?);
    Ok(())
}

fn excludes_processes(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let mut worker = ground.worker()?;
    worker.begin(&key)?;
    refused("begin", store.begin(&key, Duration::ZERO), "lock-timeout")?;
    worker.ask("commit theirs")?;
    let begun = store.begin(&key, PATIENCE)?;
    equal("the payload", begun.record.map(|record| record.payload), Some(b"theirs".to_vec()))?;
    worker.say(&format!("begin 0 {}", key_word(&key)))?;
    worker.refused("lock-timeout").map(drop)
}

fn timeout(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let begun = store.begin(&key, PATIENCE)?;
    let wait_max = Duration::from_millis(300);
    let counted = store.counters().get(sessile_core::Counter::LockTimeouts);
    soon("a wait of 300 ms", Duration::from_millis(600), || {
        let start = Instant::now();
        let error = refused("begin", store.begin(&key, wait_max), "lock-timeout")?;
        let elapsed = start.elapsed();
        ensure(elapsed >= wait_max, || format!("it gave up after {elapsed:?} already"))?;
        let ErrorKind::LockTimeout { holder, waited } = error.kind() else { return Ok(elapsed) };
        ensure(*waited >= wait_max, || format!("it says that it waited {waited:?}"))?;
        equal("the holder", holder.pid, Some(std::process::id()))?;
        ensure(error.to_string().contains(&std::process::id().to_string()), || "the text names no holder".into())?;
        Ok(elapsed)
    })?;
    soon("a wait of 0", Duration::from_millis(50), || {
        let start = Instant::now();
        refused("begin", store.begin(&key, Duration::ZERO), "lock-timeout")?;
        Ok(start.elapsed())
    })?;
    ensure(store.counters().get(sessile_core::Counter::LockTimeouts) >= counted + 2, || "not counted".into())?;
    Ok(begun.lease.release()?)
}

fn timeout_names(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let mut worker = ground.worker()?;
    worker.begin(&key)?;
    let error = refused("begin", store.begin(&key, Duration::from_millis(50)), "lock-timeout")?;
    let ErrorKind::LockTimeout { holder, .. } = error.kind() else { return Ok(()) };
    equal("the holder's pid", holder.pid, Some(worker.pid()))?;
    if let Some(since) = holder.since {
        let held = sessile_core::Clock::system().now().since(since);
        ensure(held < Duration::from_secs(20), || format!("it holds the lock for {held:?}, it says"))?;
    }
    Ok(())
}

fn freed(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    soon("begin after a release, a commit or a dropped lease", FREE_WITHIN, || {
        let key = ground.key();
        store.begin(&key, PATIENCE)?.lease.release()?;
        let (begun, after_release) = begin_free(&store, &key)?;
        begun.lease.commit(&payload("x"), minute())?;
        let (begun, after_commit) = begin_free(&store, &key)?;
        drop(begun);
        let (begun, after_drop) = begin_free(&store, &key)?;
        equal("the record", begun.record.map(|record| record.payload), Some(payload("x")))?;
        Ok(after_release.max(after_commit).max(after_drop))
    })
}

/// How long after `free` a thread that waits for the lock has it.
fn wait_after(store: &Sessions, key: &Key, free: impl FnOnce() -> Outcome) -> Result<Duration, Failure> {
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| -> Result<Instant, Failure> {
            let begun = store.begin(key, PATIENCE)?;
            let got = Instant::now();
            begun.lease.release()?;
            Ok(got)
        });
        // So that it has begun to wait; if it has not, the case asserts less, not wrongly.
        std::thread::sleep(Duration::from_millis(60));
        ensure(!waiter.is_finished(), || "the waiter did not wait".into())?;
        let released = Instant::now();
        free()?;
        let got = waiter.join().map_err(|_| Failure("the waiter panicked".into()))??;
        Ok(got.saturating_duration_since(released))
    })
}

const SOON: Duration = Duration::from_millis(100);

fn soon_after(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    soon("the waiter after a commit", SOON, || {
        let begun = store.begin(&key, PATIENCE)?;
        wait_after(&store, &key, || Ok(begun.lease.commit(&payload("x"), minute())?))
    })?;
    soon("the waiter after a release", SOON, || {
        let begun = store.begin(&key, PATIENCE)?;
        wait_after(&store, &key, || Ok(begun.lease.release()?))
    })
}

fn soon_after_process(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let mut worker = ground.worker()?;
    soon("the waiter", SOON, || {
        worker.begin(&key)?;
        wait_after(&store, &key, || worker.ask("commit x").map(drop))
    })
}

fn reads_latest(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.create(&key, &payload("old"), minute())?;
    let begun = store.begin(&key, PATIENCE)?;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| store.begin(&key, PATIENCE).map(|begun| begun.record.map(|record| record.payload)));
        std::thread::sleep(Duration::from_millis(30)); // so that it waits, having seen the old record
        begun.lease.commit(&payload("new"), minute())?;
        let read = waiter.join().map_err(|_| Failure("the waiter panicked".into()))??;
        equal("what the waiter read", read, Some(payload("new")))
    })
}

fn peek_under_lease(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.create(&key, &payload("old"), minute())?;
    let begun = store.begin(&key, PATIENCE)?;
    soon("peek under a lease", Duration::from_millis(500), || {
        let start = Instant::now();
        equal("peek", payload_of(&store, &key)?, Some(payload("old")))?;
        Ok(start.elapsed())
    })?;
    begun.lease.commit(&payload("new"), minute())?;
    equal("after the commit", payload_of(&store, &key)?, Some(payload("new")))
}

fn snapshots(ground: &Ground) -> Outcome {
    let writer = ground.open()?;
    let reader = if ground.capabilities().shared_by_processes { ground.open()? } else { writer.clone() };
    let key = ground.key();
    writer.create(&key, &sealed::seal(0, 64), minute())?;
    // The last payload that was seen, the greatest number once nothing is read any more.
    let (done, seen) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| -> Outcome {
            let start = Instant::now();
            let mut written: Outcome = Ok(());
            for seed in 1.. {
                // Relaxed: only its own value counts. Until the reader has had its share, however busy the machine is.
                let enough = seen.load(Ordering::Relaxed) > 0 && start.elapsed() > Duration::from_millis(600);
                if enough || start.elapsed() > PATIENCE || written.is_err() {
                    break;
                }
                let payload = sealed::seal(seed, fastrand::usize(16..60_000));
                let begun = writer.begin(&key, PATIENCE);
                written = begun.and_then(|begun| begun.lease.commit(&payload, minute())).map_err(Failure::from);
            }
            done.store(1, Ordering::Release); // pairs with the Acquire in the reader's loop
            written
        });
        let read = || -> Outcome {
            let mut last = 0;
            while done.load(Ordering::Acquire) == 0 {
                let record = reader.peek(&key)?.ok_or_else(|| Failure("peek saw no record during a commit".into()))?;
                let seed = sealed::open(&record.payload)
                    .ok_or_else(|| Failure(format!("peek saw a torn payload of {} bytes", record.payload.len())))?;
                ensure(seed >= last, || format!("peek saw payload {seed} after payload {last}"))?;
                last = seed;
                seen.store(last, Ordering::Relaxed);
            }
            ensure(last > 0, || "no commit was seen".into())
        };
        let outcome = read();
        seen.store(u64::MAX, Ordering::Relaxed);
        writing.join().map_err(|_| Failure("the writer panicked".into()))??;
        outcome
    })
}

fn independent(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let mut held = Vec::new();
    for _ in 0..300 {
        held.push(store.begin(&ground.key(), FREE)?);
    }
    for begun in held {
        begun.lease.commit(&payload("x"), minute())?;
    }
    Ok(())
}

fn threads_increment(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let increment = || -> Outcome {
        for _ in 0..200 {
            let begun = store.begin(&key, PATIENCE)?;
            let bytes = begun.record.and_then(|record| <[u8; 8]>::try_from(record.payload).ok()).unwrap_or_default();
            begun.lease.commit(&(u64::from_le_bytes(bytes) + 1).to_le_bytes(), minute())?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(increment)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| Failure("a thread panicked".into()))?)
    })?;
    equal("the sum", payload_of(&store, &key)?, Some(1_600_u64.to_le_bytes().to_vec()))
}

/// No contender may make fewer than half the mean number of cycles in a time, in milliseconds, that is given.
///
/// Who is kept off the processor, or off the disk, by something else makes fewer cycles too: the best of three counts,
/// each over twice the time of the one before.
pub(crate) fn fair(mut count_for: impl FnMut(u64) -> Result<Vec<u64>, Failure>) -> Outcome {
    let mut told = Ok(());
    for ms in [1_500, 3_000, 6_000] {
        let counts = count_for(ms)?;
        let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        let least = counts.iter().min().copied().unwrap_or(0);
        told = ensure(mean > 0.0 && least as f64 >= mean / 2.0, || {
            format!("in {ms} ms one made {least} cycles, the mean is {mean:.0}: {counts:?}")
        });
        if told.is_ok() {
            break;
        }
    }
    told
}

fn fair_threads(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let cycle = |during: Duration| -> Result<u64, Failure> {
        let (start, mut count) = (Instant::now(), 0);
        while start.elapsed() < during {
            let begun = store.begin(&key, PATIENCE)?;
            let busy = Instant::now();
            while busy.elapsed() < Duration::from_micros(200) {
                std::hint::spin_loop();
            }
            begun.lease.commit(b"x", minute())?;
            count += 1;
        }
        Ok(count)
    };
    fair(|ms| {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(|| cycle(Duration::from_millis(ms)))).collect();
            let joined =
                threads.into_iter().map(|thread| thread.join().map_err(|_| Failure("a thread panicked".into()))?);
            joined.collect::<Result<_, _>>()
        })
    })
}

fn given_up(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    soon("begin after waiters gave up", Duration::from_millis(100), || {
        let key = ground.key();
        let begun = store.begin(&key, PATIENCE)?;
        for _ in 0..3 {
            refused("begin", store.begin(&key, Duration::from_millis(10)), "lock-timeout")?;
        }
        begun.lease.release()?;
        let start = Instant::now();
        drop(store.begin(&key, PATIENCE)?);
        Ok(start.elapsed())
    })
}
