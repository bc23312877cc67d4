//! Whether a table has the columns of owners, which somebody else may add while a store is open.
//!
//! A table from before owners gets them from the next opening that may add them: another worker's,
//! or the same user's after a failure that passed. Invariant: once they are there, they stay.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sessile_core::{Result, Timestamp};

/// Between two looks at a table that lacks them: a look is one round trip.
const LOOK_PAUSE: Duration = Duration::from_secs(60);

/// By default they are not there.
#[derive(Default)]
pub struct OwnerColumns {
    are_there: AtomicBool,
    /// When somebody looked last.
    looked_ms: AtomicU64,
}

impl OwnerColumns {
    pub fn new(are_there: bool, now: Timestamp) -> OwnerColumns {
        OwnerColumns { are_there: are_there.into(), looked_ms: now.as_ms().into() }
    }

    #[inline]
    pub fn are_there(&self) -> bool {
        // Relaxed: nothing else is published by it.
        self.are_there.load(Ordering::Relaxed)
    }

    /// Looks again, if they were not there and it is time. A look that fails is the next one's
    /// matter: the store is as good as it was.
    #[inline]
    pub fn look(&self, now: impl FnOnce() -> Timestamp, look: impl FnOnce() -> Result<bool>) {
        if !self.are_there() {
            self.look_if_due(now(), look);
        }
    }

    #[cold]
    fn look_if_due(&self, now: Timestamp, look: impl FnOnce() -> Result<bool>) {
        let looked = self.looked_ms.load(Ordering::Relaxed);
        if now.since(Timestamp::from_ms(looked)) < LOOK_PAUSE {
            return;
        }
        // One thread looks. Relaxed: the number is all that the threads share.
        let turn = (now.as_ms(), Ordering::Relaxed);
        if self.looked_ms.compare_exchange(looked, turn.0, turn.1, turn.1).is_err() {
            return;
        }
        match look() {
            Ok(true) => self.are_there.store(true, Ordering::Relaxed),
            Ok(false) => {}
            Err(error) => log::debug!("no look at the columns of owners: {error:#}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_owners_is_looked_at_again_once_a_minute() {
        let at = |second: u64| move || Timestamp::from_ms(second * 1_000);
        let columns = OwnerColumns::new(false, at(0)());
        columns.look(at(59), || unreachable!("too early"));
        columns.look(at(60), || Ok(false));
        columns.look(at(119), || unreachable!("too early"));
        columns.look(at(120), || Err(sessile_core::ErrorKind::Io.into()));
        assert!(!columns.are_there());
        columns.look(at(180), || Ok(true));
        assert!(columns.are_there());
        columns.look(at(999), || unreachable!("they are there"));
    }
}
