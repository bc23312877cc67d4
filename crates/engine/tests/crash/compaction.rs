//! Death in a sweep that moves records.

use std::path::Path;
use std::time::Duration;

use sessile_core::{Key, Ttl};

use crate::{
    Ground, STUCK, Tier, dies, everything_goes, is_sound, payload, rebuilt, sweep_all, ttl,
};

/// Dies at every write of a sweep that moves records out of sparse segments.
pub fn deaths(path: &Path, tier: Tier) -> u64 {
    let ground = Ground::new(path, tier);
    let key = |at: u64| Key::session(&format!("kept-{at}")).unwrap();
    let long = Ttl::sliding(Duration::from_secs(36_000)).unwrap();
    let mut deaths = 0;
    for round in 0.. {
        // 400 records fill several segments; all but each eighth expire, so that the rest has to
        // move.
        for at in 0..400 {
            if at % 8 == 0 {
                ground
                    .sessions
                    .begin(&key(at), STUCK)
                    .unwrap()
                    .lease
                    .commit(&payload(1_500), long)
                    .unwrap();
            } else {
                let passing = Key::session(&format!("passing-{round}-{at}")).unwrap();
                ground.sessions.create(&passing, &payload(1_500), ttl()).unwrap();
            }
        }
        ground.clock.advance(Duration::from_secs(700));
        let survived =
            !dies(round * 503 * tier.one_in, || (), || sweep_all(&ground.sessions), || ());
        sweep_all(&ground.sessions);
        for at in (0..400).step_by(8) {
            let read = ground
                .sessions
                .peek(&key(at))
                .unwrap()
                .unwrap_or_else(|| panic!("round {round}: {at} is lost"));
            assert!(read.payload == payload(1_500), "round {round}: {at} is torn");
        }
        is_sound(&ground.sessions, &format!("round {round}"));
        rebuilt(&ground, |sessions| {
            for at in (0..400).step_by(8) {
                let read = sessions
                    .peek(&key(at))
                    .unwrap()
                    .unwrap_or_else(|| panic!("round {round}: {at} is lost"));
                assert!(read.payload == payload(1_500), "round {round}: {at} is torn");
            }
        });
        if survived {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 20 / tier.one_in, "only {deaths} deaths in compaction");
    ground.clock.advance(Duration::from_secs(40_000));
    everything_goes(&ground, "compaction");
    deaths
}
