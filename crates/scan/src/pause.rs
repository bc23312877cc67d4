//! The pause between two batches of work on a store, so that requests get their turn.
//!
//! Invariant: a pause is at least as long as the batch took, unless there is none, and ends.

use std::time::Duration;

use sessile_core::Budget;

/// How long to rest after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// So many times as long as the batch took, at most a second. 0: no pause.
    Times(u32),
    /// So long, and as long as the batch took. Zero: no pause.
    AtLeast(Duration),
}

impl Pause {
    /// No pause.
    pub const NONE: Pause = Pause::Times(0);

    /// The pause after a batch that took so long.
    pub fn after(self, batch: Duration) -> Duration {
        match self {
            Pause::Times(times) => Budget::rest_after(batch, times),
            Pause::AtLeast(Duration::ZERO) => Duration::ZERO,
            Pause::AtLeast(shortest) => shortest.max(batch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_as_long_as_the_batch_or_longer_or_none() {
        let batch = Duration::from_millis(20);
        let after = |pause: Pause| pause.after(batch).as_millis();
        assert_eq!([after(Pause::NONE), after(Pause::Times(4))], [0, 80]);
        let at_least = |ms| after(Pause::AtLeast(Duration::from_millis(ms)));
        assert_eq!([at_least(0), at_least(10), at_least(30)], [0, 20, 30]);
    }
}
