//! The common part of today's session handlers: ids, expiry in whole seconds, and lock polling.
//!
//! Invariant: their rows differ only in their commands to the servers, which are not here.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sessile_core::{Error, ErrorKind, Holder, Result};

use crate::defaults::WAIT_MAX;
use crate::worker::protocol::OpenRequest;

/// Lifetime of a lock, unless an experiment needs it shorter.
pub(super) const LOCK: Duration = Duration::from_secs(60);

/// How a row keeps others from the session of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Locking {
    /// Lock, read, write and unlock, one round trip each.
    FourTrips,
    /// The first two in one, and the last two.
    TwoTrips,
    /// Read and write, while others do the same.
    Without,
}

/// In the order of the sessions.
pub(super) fn ids(opening: &OpenRequest) -> impl Iterator<Item = String> {
    let mut random = fastrand::Rng::with_seed(opening.seed);
    std::iter::repeat_with(move || format!("{:032x}", random.u128(..))).take(opening.ids)
}

/// Brings ids or keys into the processor's cache.
pub(super) fn prefetch<'a>(texts: impl Iterator<Item = &'a String>) {
    let first = |text: &String| text.as_bytes().first().copied().unwrap_or(0);
    std::hint::black_box(texts.fold(0, |all, text| all ^ first(text)));
}

/// Seconds since 1970.
pub(super) fn expiry_seconds(ttl: Duration) -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| (now + ttl).as_secs())
}

/// Tries again every `poll`, which each handler has of its own.
pub(super) fn wait_for_lock(
    poll: Duration,
    mut attempt: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let start = Instant::now();
    while !attempt()? {
        let waited = start.elapsed();
        if waited > WAIT_MAX {
            return Err(lock_timeout(waited));
        }
        std::thread::sleep(poll);
    }
    Ok(())
}

pub(super) fn lock_timeout(waited: Duration) -> Error {
    let kind = ErrorKind::LockTimeout { holder: Holder::default(), waited };
    Error::new(kind, "another request holds the session")
}

/// Checks the number of rows whose expiry a touch has set. One is right, also if the expiry was the
/// same; the row is locked, so nobody else has removed it.
pub(super) fn check_one_row(rows: u64) -> Result<()> {
    match rows {
        1 => Ok(()),
        0 => Err(Error::new(ErrorKind::Gone, "the session to be touched is not there")),
        _ => {
            Err(Error::new(ErrorKind::Corrupt, "a touch has moved the expiry of several sessions"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All rows had the shortest poll of any handler.
    #[test]
    fn a_lock_is_tried_again_after_the_poll_of_its_row() {
        let poll = Duration::from_millis(30);
        let (start, mut tries) = (Instant::now(), 0);
        wait_for_lock(poll, || {
            tries += 1;
            Ok(tries == 3)
        })
        .unwrap();
        assert!(start.elapsed() >= 2 * poll);
    }
    use crate::reference::tests::Place;

    /// A touch once succeeded without a row: no sample reads the effect of a touch.
    #[test]
    fn a_touch_that_finds_no_row_is_an_error_and_one_that_changes_nothing_is_none() {
        for name in [
            "mysql-transaction",
            "mysql-two-trips",
            "mysql-unlocked",
            "postgres-transaction",
            "postgres-two-trips",
            "postgres-unlocked",
            "sqlite-plain",
        ] {
            let Some(place) = Place::start(name) else { continue };
            let (mut contender, ttl) = (place.open(), Duration::from_secs(60));
            contender.create(0, b"a cart", ttl).unwrap();
            // Most touches fall into the second of the one before and change nothing.
            for _ in 0..20 {
                assert_eq!(contender.begin(0).unwrap(), Some(&b"a cart"[..]), "{name}");
                contender.touch().unwrap();
            }
            assert_eq!(contender.begin(1).unwrap(), None, "{name}");
            let error = contender.touch().unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Gone), "{name}: {error}");
            // The transaction is over: the connection begins another one on intact data.
            assert_eq!(contender.begin(0).unwrap(), Some(&b"a cart"[..]), "{name}");
            contender.touch().unwrap();
        }
    }

    #[test]
    fn a_touch_of_more_rows_than_one_is_an_error() {
        assert!(check_one_row(1).is_ok());
        assert!(matches!(check_one_row(2).unwrap_err().kind(), ErrorKind::Corrupt));
    }
}
