//! Death in a log-out with an id within its grace.

use std::path::Path;
use std::time::Duration;

use sessile_core::Key;

use crate::{Ground, STUCK, Tier, dies, is_sound, payload, rebuilt, registers, sweep_all, ttl};

/// Killed and repeated: once it is acknowledged the session is gone. The old id got its tombstone
/// first, and then nothing led to the session any more that still lived.
pub fn deaths_in_destroy(path: &Path, tier: Tier) -> u64 {
    let ground = Ground::new(path, tier);
    for writes in 0.. {
        let [old, new] = ["old", "new"].map(|id| Key::session(&format!("{id}-{writes}")).unwrap());
        ground.sessions.create(&old, &payload(200), ttl()).unwrap();
        let mut begun = ground.sessions.begin(&old, STUCK).unwrap();
        begun.lease.regenerate(&new, Duration::from_secs(30)).unwrap();
        begun.lease.commit(&payload(200), ttl()).unwrap();
        let warm_up = || registers(&ground, &format!("child-{writes}"));
        let survived = !dies(writes, warm_up, || ground.sessions.destroy(&old).unwrap(), || ());
        if !survived {
            ground.sessions.destroy(&old).unwrap();
        }
        let name = format!("killed at write {writes}");
        assert!(ground.sessions.peek(&new).unwrap().is_none(), "{name}: it is still there");
        let back = rebuilt(&ground, |sessions| sessions.peek(&new).unwrap().is_some());
        assert!(back != Some(true), "{name}: a rebuild brings the session back");
        sweep_all(&ground.sessions);
        is_sound(&ground.sessions, &name);
        if survived {
            return writes;
        }
    }
    unreachable!("a destroy writes less than 2^64 times")
}
