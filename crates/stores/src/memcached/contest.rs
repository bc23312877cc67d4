//! Writing an item that others change between our look and our write.
//!
//! Each attempt that fails is a success of somebody else. But two that look and write in step would go on like that: one always
//! writes between the look and the write of the other. So after some attempts each waits for a time of its own before it looks
//! again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use sessile_core::{Error, ErrorKind};

/// Others may change an item between our look and our write, but not for ever.
pub(super) const ATTEMPTS_MAX: usize = 64;
/// So many failures in a row are hardly chance.
const IN_STEP: usize = 8;
/// Several round trips of either.
const ASIDE_MAX: Duration = Duration::from_millis(2);

/// To be called before the look of an attempt, the first of which has the number 0.
pub(super) fn step_aside(attempt: usize) {
    if attempt >= IN_STEP {
        std::thread::sleep(aside());
    }
}

fn aside() -> Duration {
    // Any source of chance will do.
    let share = RandomState::new().hash_one(()) % 1_024;
    ASIDE_MAX * u32::try_from(share).unwrap_or(0) / 1_024
}

/// Others have changed the item again and again between our look and our write.
pub(super) fn busy() -> Error {
    Error::new(ErrorKind::Io, "the record was changed by others again and again").advice("try again")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Instant;

    use super::*;

    #[test]
    fn two_that_are_in_step_wait_for_times_of_their_own() {
        let times: BTreeSet<Duration> = (0..100).map(|_| aside()).collect();
        assert!(times.len() > 50 && times.iter().all(|time| *time < ASIDE_MAX), "{times:?}");
        let begun = Instant::now();
        (IN_STEP..IN_STEP + 30).for_each(step_aside);
        assert!(begun.elapsed() > ASIDE_MAX, "thirty of them, each half of that in the middle: {:?}", begun.elapsed());
    }
}
