//! Death in a rebuild.

use std::path::Path;
use std::time::Duration;

use sessile_core::{Clock, Key};

use crate::{START, STUCK, Tier, dies, is_sound, opened, payload, remove_control, ttl};

const SESSIONS: u64 = 24;
const STRIDE: u64 = 13;

fn key(number: u64) -> Key {
    Key::session(&format!("session-{number}")).unwrap()
}

/// What each session has been left with.
fn expected(number: u64) -> Option<Vec<u8>> {
    match number % 4 {
        0 => None,
        1 => Some(payload(140_000)),
        _ => Some(payload(200 + number as usize)),
    }
}

/// A process that rebuilds a store is killed at its n-th write, for every n until it has opened it.
/// The next one opens it whole.
pub fn deaths(path: &Path, tier: Tier) -> u64 {
    let clock = Clock::manual(START);
    let sessions = opened(path, &clock, tier);
    for number in 0..SESSIONS {
        sessions.create(&key(number), &payload(50), ttl()).unwrap();
        match expected(number) {
            Some(payload) => {
                let begun = sessions.begin(&key(number), STUCK).unwrap();
                begun.lease.commit(&payload, ttl()).unwrap();
            }
            None => sessions.destroy(&key(number)).unwrap(),
        }
    }
    let begun = sessions.begin(&key(2), Duration::ZERO).unwrap();
    begun.lease.release().unwrap();
    drop(sessions);
    for (deaths, writes) in (0..).step_by((STRIDE * tier.one_in) as usize).enumerate() {
        remove_control(path);
        let died = dies(writes, || (), || drop(opened(path, &clock, tier)), || ());
        let sessions = opened(path, &clock, tier);
        let name = format!("a rebuild killed at write {writes}");
        for number in 0..SESSIONS {
            let found = sessions.peek(&key(number)).unwrap().map(|record| record.payload);
            assert!(found == expected(number), "{name}: session {number} is another one");
        }
        is_sound(&sessions, &name);
        drop(sessions);
        if !died {
            remove_control(path);
            return deaths as u64;
        }
    }
    unreachable!("a rebuild writes less than 2^64 times")
}
