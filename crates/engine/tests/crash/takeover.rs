//! Death in the takeover of a lock whose owner has died half way.

use std::path::Path;

use sessile_core::Key;

use crate::{Ground, STUCK, Tier, dies, is_sound, payload, registers, sweep_all, ttl};

const FIRST_STRIDE: usize = 23;

/// The first process dies at every so many writes of its commit, the second at each write of a
/// begin that takes over from it.
pub fn deaths(path: &Path, tier: Tier) -> u64 {
    let ground = Ground::new(path, tier);
    let mut deaths = 0;
    let stride = if tier.all { 1 } else { FIRST_STRIDE };
    for first in (0..).step_by(stride) {
        let mut first_died = true;
        for second in 0.. {
            let name = format!("first killed at write {first}, second at {second}");
            let key = Key::session(&format!("key-{first}-{second}")).unwrap();
            ground.sessions.create(&key, &payload(200), ttl()).unwrap();
            let commit = || {
                let begun = ground.sessions.begin(&key, STUCK).unwrap();
                begun.lease.commit(&payload(300), ttl()).unwrap();
            };
            let warm_up = |child| registers(&ground, &format!("{child}-{first}-{second}"));
            first_died = dies(first, || warm_up("first"), commit, || ());
            let begin = || drop(ground.sessions.begin(&key, STUCK).unwrap());
            let second_died = dies(second, || warm_up("second"), begin, || ());
            let begun = ground.sessions.begin(&key, STUCK).unwrap();
            let bytes = begun.record.map(|record| record.payload.len());
            assert!(bytes == Some(200) || bytes == Some(300), "{name}: {bytes:?} bytes");
            begun.lease.commit(&payload(77), ttl()).unwrap();
            sweep_all(&ground.sessions);
            is_sound(&ground.sessions, &name);
            deaths += u64::from(second_died);
            if !second_died {
                break;
            }
        }
        if !first_died {
            return deaths;
        }
    }
    unreachable!("a commit writes less than 2^64 times")
}
