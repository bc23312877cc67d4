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

/// What a touch says that moved the expiry of so many rows. One is right, also if that is what it was before; the row is locked, so
/// nobody else has removed it.
pub(super) fn of_one_row(rows: u64) -> Result<()> {
    match rows {
        1 => Ok(()),
        0 => Err(Error::new(ErrorKind::Gone, "the session to be touched is not there")),
        _ => Err(Error::new(ErrorKind::Corrupt, "a touch has moved the expiry of several sessions")),
    }
}

#[cfg(test)]
mod tests {
    use sessile_fixtures::{PrivateDir, ServerOptions};

    use crate::reference;
    use crate::spread::Spread;
    use crate::worker::protocol::What;

    use super::*;

    /// Whatever became of its row, a touch succeeded: it is the one operation whose effect no sample reads.
    #[test]
    fn a_touch_that_finds_no_row_is_an_error_and_one_that_changes_nothing_is_none() {
        for name in ["mysql-transaction", "postgres-transaction"] {
            let Some((reference, kind)) = reference::with_server(name) else { continue };
            let dir = PrivateDir::on_disk().unwrap();
            let server = kind.start(dir.path(), &ServerOptions::default()).unwrap();
            let what = What::Reference { name: name.to_owned(), place: server.socket().to_owned() };
            let (ttl, spread) = (Duration::from_secs(60), Spread::Fixed);
            let opening = Opening { what, worker: 0, seed: 7, ids: 2, payload_bytes: 64, spread, ttl, lock_ttl: None };
            let mut contender = (reference.open)(server.socket(), &opening).unwrap();
            contender.create(0, b"a cart", ttl).unwrap();
            // Most of them in the second of the one before: the expiry is moved to where it is.
            for _ in 0..20 {
                assert_eq!(contender.begin(0).unwrap(), Some(&b"a cart"[..]), "{name}");
                contender.touch().unwrap();
            }
            assert_eq!(contender.begin(1).unwrap(), None, "{name}");
            let error = contender.touch().unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Gone), "{name}: {error}");
            // The transaction is over: the same connection begins another one, and what was there is there.
            assert_eq!(contender.begin(0).unwrap(), Some(&b"a cart"[..]), "{name}");
            contender.touch().unwrap();
        }
    }

    #[test]
    fn a_touch_of_more_rows_than_one_is_an_error() {
        assert!(of_one_row(1).is_ok());
        assert!(matches!(of_one_row(2).unwrap_err().kind(), ErrorKind::Corrupt));
    }
}
