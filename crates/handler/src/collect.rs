//! Removes expired sessions, for languages that collect garbage in requests.

use std::time::Duration;

use sessile_core::{Budget, Expiry, Result, Sessions};

/// Of a collection within a request. The next one continues where it ended.
const BUDGET: Budget = Budget { records_max: 200, time_max: Duration::from_millis(5) };

/// Removes expired sessions and returns their number. A visitor waits for little of it, and for
/// nothing where sessions go by themselves; `all` goes on to the end of the store.
///
/// # Errors
///
/// Those of [`Sessions::sweep`].
pub fn collect(sessions: &Sessions, all: bool) -> Result<u64> {
    let mut removed = 0;
    if !all && sessions.capabilities().expiry != Expiry::Sweep {
        return Ok(removed);
    }
    loop {
        let swept = sessions.sweep(BUDGET)?;
        removed += swept.removed;
        if !all || swept.complete {
            return Ok(removed);
        }
    }
}
