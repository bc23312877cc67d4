//! What an owner costs a locked request on the engine:
//! `cargo test --release -p sessile-testkit --test owner_cost -- --ignored --nocapture`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sessile_core::{Key, Owner, Sessions, Ttl};
use sessile_stores::{Context, open};

const SESSIONS: u64 = 50_000;
const CYCLES: u32 = 20_000;
const BLOCKS: usize = 60;

fn key(number: u64) -> Key {
    Key::session(&format!("session-{number:08}")).unwrap()
}

/// One request: begin, and commit what was read. `says_owner` is an application that names its user
/// in each request.
fn cycle(sessions: &Sessions, key: &Key, ttl: Ttl, says_owner: Option<&[u8]>) {
    let mut begun = sessions.begin(key, Duration::ZERO).unwrap();
    if let Some(name) = says_owner {
        begun.lease.set_owner(Some(Owner::new(name).unwrap())).unwrap();
    }
    begun.lease.commit(&begun.record.unwrap().payload, ttl).unwrap();
}

/// Nanoseconds of processor time that this thread has had: what others take does not count.
fn now() -> f64 {
    Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap()).as_nanos() as f64
}

/// Nanoseconds of a cycle on sessions from `first` on.
fn block(sessions: &Sessions, ttl: Ttl, first: u64, says_owner: Option<&[u8]>) -> f64 {
    let keys: Vec<Key> = (0..CYCLES).map(|_| key(first + fastrand::u64(0..SESSIONS))).collect();
    let begun = now();
    keys.iter().for_each(|key| cycle(sessions, key, ttl, says_owner));
    (now() - begun) / f64::from(CYCLES)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    *values.get(values.len() / 2).unwrap()
}

/// Blocks of the three kinds alternate, so that a busy moment of the machine meets all of them.
#[test]
#[ignore = "a measurement of the release build, alone on the machine"]
fn a_session_with_an_owner_costs_a_request_at_most_three_per_cent() {
    let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let url = format!("sessile:{}/store", folder.path().display());
    let sessions = open(&url, &Context::default()).unwrap();
    let ttl = Ttl::sliding(Duration::from_secs(3600)).unwrap();
    for number in 0..2 * SESSIONS {
        sessions.create(&key(number), &[b'x'; 1500], ttl).unwrap();
        if number >= SESSIONS {
            cycle(&sessions, &key(number), ttl, Some(b"17"));
        }
    }
    let [mut without, mut kept, mut said] = [(); 3].map(|()| Vec::new());
    for _ in 0..BLOCKS {
        without.push(block(&sessions, ttl, 0, None));
        kept.push(block(&sessions, ttl, SESSIONS, None));
        said.push(block(&sessions, ttl, SESSIONS, Some(b"17")));
    }
    let [without, kept, said] = [without, kept, said].map(median);
    println!(
        "ns a cycle: {without:.0} without an owner, {kept:.0} with one ({:.3}), {said:.0} if each \
         request names it ({:.3})",
        kept / without,
        said / without
    );
    assert!(kept <= 1.03 * without && said <= 1.03 * without);
}
