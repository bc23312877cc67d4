//! Requests of both configurations at once, as while the workers of a site are restarted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sessile_core::{ErrorKind, Key, Sessions};

use crate::setup::{Pair, WAIT, key, ttl};

const SESSIONS: u64 = 20;

/// Adds one to the number in a session. False when there is no session, or it ended meanwhile.
fn increment(store: &Sessions, key: &Key) -> bool {
    let begun = store.begin(key, WAIT).unwrap();
    let Some(record) = begun.record else { return false };
    let number = u64::from_le_bytes(record.payload.try_into().unwrap());
    match begun.lease.commit(&(number + 1).to_le_bytes(), ttl()) {
        Ok(()) => true,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Destroyed | ErrorKind::Stale), "{error:#}");
            false
        }
    }
}

/// Workers with the old URL end their requests while those with the new one move the sessions.
#[test]
fn no_increment_is_lost_while_sessions_move() {
    let pair = Pair::new();
    let [old, new, _] = pair.stores();
    let keys: Vec<Key> = (0..SESSIONS).map(|number| key(&format!("visitor{number}"))).collect();
    let counts: Vec<AtomicU64> = keys.iter().map(|_| AtomicU64::new(0)).collect();
    for key in &keys {
        old.create(key, &0_u64.to_le_bytes(), ttl()).unwrap();
    }
    let has_begun = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let [old, _, both] = pair.stores();
            let (keys, counts, has_begun) = (&keys, &counts, &has_begun);
            scope.spawn(move || {
                let store = if worker < 3 { old } else { both };
                while worker >= 3 && !has_begun.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                let start = Instant::now();
                let mut random = fastrand::Rng::with_seed(worker);
                while start.elapsed() < Duration::from_millis(700) {
                    let chosen = random.usize(0..keys.len());
                    let counted = increment(&store, &keys[chosen]);
                    counts[chosen].fetch_add(counted.into(), Ordering::SeqCst);
                    has_begun.store(true, Ordering::SeqCst);
                    assert!(worker < 3 || counted, "a visitor was logged out");
                }
            });
        }
    });
    for (key, count) in keys.iter().zip(&counts) {
        let record = new.peek(key).unwrap().expect("it has moved");
        let number = u64::from_le_bytes(record.payload.try_into().unwrap());
        assert_eq!(number, count.load(Ordering::SeqCst));
        assert!(old.peek(key).unwrap().is_none(), "it is in one store");
    }
}

/// Each session is logged out once while others read, change and move it.
#[test]
fn no_session_comes_back_after_its_log_out() {
    let pair = Pair::new();
    let [old, _, _] = pair.stores();
    let stores = [(); 4].map(|()| pair.stores()[2].clone());
    for round in 0..500 {
        let key = key(&format!("visitor{round}"));
        old.create(&key, &0_u64.to_le_bytes(), ttl()).unwrap();
        let [ends, is_over] = [(); 2].map(|()| AtomicBool::new(false));
        std::thread::scope(|scope| {
            for both in &stores[..3] {
                let (key, is_over) = (&key, &is_over);
                scope.spawn(move || {
                    for _ in 0..3 {
                        let was_over = is_over.load(Ordering::SeqCst);
                        let is_there = increment(both, key);
                        assert!(!(was_over && is_there), "it came back");
                    }
                });
            }
            let (both, ends) = (&stores[3], &ends);
            scope.spawn(|| {
                while both.peek(&key).unwrap().is_some() {}
                assert!(ends.load(Ordering::SeqCst), "a look missed a session that moved");
            });
            let (start, wait) = (Instant::now(), Duration::from_micros(fastrand::u64(0..600)));
            while start.elapsed() < wait {
                std::hint::spin_loop();
            }
            ends.store(true, Ordering::SeqCst);
            both.destroy(&key).unwrap();
            is_over.store(true, Ordering::SeqCst);
            assert!(both.peek(&key).unwrap().is_none(), "it came back");
        });
    }
}
