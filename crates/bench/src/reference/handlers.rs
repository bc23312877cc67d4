//! What the session handlers of today do alike, whatever their server is: ids, expiry in whole seconds, waiting for a lock.
//!
//! Invariant: the rows that stand for them differ in what they say to their servers, and in nothing else. That is not here.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sessile_core::{Error, ErrorKind, Holder, Result};

use crate::worker::protocol::Opening;
use crate::workload::WAIT_MAX;

/// A lock that somebody else holds is tried again after this.
const POLL: Duration = Duration::from_millis(20);
/// How long a lock lasts, unless an experiment needs it shorter.
pub(super) const LOCK: Duration = Duration::from_secs(60);

/// The ids of the sessions, in their order.
pub(super) fn ids(opening: &Opening) -> impl Iterator<Item = String> {
    let mut random = fastrand::Rng::with_seed(opening.seed);
    std::iter::repeat_with(move || format!("{:032x}", random.u128(..))).take(opening.ids)
}

/// Reads the beginning of ids or keys, so that they lie in the processor's cache.
pub(super) fn touch<'a>(texts: impl Iterator<Item = &'a String>) {
    let first = |text: &String| text.as_bytes().first().copied().unwrap_or(0);
    std::hint::black_box(texts.fold(0, |all, text| all ^ first(text)));
}

/// When a session expires, in seconds since 1970.
pub(super) fn expires(ttl: Duration) -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| (now + ttl).as_secs())
}

/// Tries to take a lock until that succeeds, or a request has waited for too long.
pub(super) fn take(mut attempt: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !attempt()? {
        let waited = start.elapsed();
        if waited > WAIT_MAX {
            return Err(held(waited));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Somebody else has had the lock all the time.
pub(super) fn held(waited: Duration) -> Error {
    let kind = ErrorKind::LockTimeout { holder: Holder::default(), waited };
    Error::new(kind, "another request holds the session")
}
