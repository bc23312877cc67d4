//! Reading: from what the home store holds to the payload.
//!
//! Between the read of a stub and the read of its payload somebody else may commit, which removes the payload. The stub
//! is then read again: another one, or none, is the answer to the race; the same one twice means that the payload is
//! lost, and is an error and never an empty session.

use std::time::{Duration, Instant};

use sessile_core::{Begun, Error, ErrorKind, Found, Key, Locked, Record, Result, Sessions};

use super::stub::{Content, Stub};
use super::{Held, Route, stub};

/// Each attempt that fails is a commit of somebody else, so this many in a row are no coincidence.
const ATTEMPTS_MAX: usize = 64;

/// What became of a stub.
enum Followed {
    Payload(Vec<u8>),
    /// There is no such payload (any more).
    Nothing,
}

impl Route {
    /// Takes the home store's lock and reads what it leads to.
    pub(super) fn begin_at_home(&self, asked: &Key, wait_max: Duration) -> Result<Locked<Held>> {
        let start = Instant::now();
        for _ in 0..ATTEMPTS_MAX {
            let left = wait_max.saturating_sub(start.elapsed());
            let Begun { lease, record, trace } = self.home.begin(asked, left)?;
            let moved_to = (lease.key() != asked).then(|| lease.key().clone());
            let found = |record| Found { record, moved_to, trace };
            let Some((record, content)) = record.map(opened).transpose()? else {
                return Ok(Locked { held: Held { lease, at_home: true, stub: None }, found: found(None) });
            };
            let (payload, stub) = match content {
                Content::Payload(payload) => (payload, None),
                Content::Elsewhere(stub) => match self.follow(&stub)? {
                    Followed::Payload(payload) => (payload, Some(stub)),
                    Followed::Nothing if self.stub_of(asked)?.as_ref() == Some(&stub) => return Err(lost(&stub)),
                    // The session was destroyed, or the lease ran out and somebody else has committed: begin again.
                    Followed::Nothing => continue,
                },
            };
            let held = Held { lease, at_home: true, stub };
            return Ok(Locked { held, found: found(Some(Record { payload, ..record })) });
        }
        Err(unsettled())
    }

    /// A consistent snapshot: a stub and the payload that belongs to it.
    pub(super) fn find_at_home(&self, key: &Key) -> Result<Found> {
        let mut before: Option<Stub> = None;
        for _ in 0..ATTEMPTS_MAX {
            let mut found = self.home.find(key)?;
            let Some((record, content)) = found.record.take().map(opened).transpose()? else { return Ok(found) };
            let payload = match content {
                Content::Payload(payload) => payload,
                Content::Elsewhere(stub) => match self.follow(&stub)? {
                    Followed::Payload(payload) => payload,
                    Followed::Nothing if before.as_ref() == Some(&stub) => return Err(lost(&stub)),
                    Followed::Nothing => {
                        before = Some(stub);
                        continue;
                    }
                },
            };
            return Ok(Found { record: Some(Record { payload, ..record }), ..found });
        }
        Err(unsettled())
    }

    /// The stub of a session now, if it has one.
    pub(super) fn stub_of(&self, key: &Key) -> Result<Option<Stub>> {
        match self.home.peek(key)?.map(opened).transpose()? {
            Some((_, Content::Elsewhere(stub))) => Ok(Some(stub)),
            _ => Ok(None),
        }
    }

    fn follow(&self, stub: &Stub) -> Result<Followed> {
        let Some(parts) = &self.parts else {
            let why =
                format!("the payload is large and was stored in {}, and the URL names no store for such", stub.store);
            return Err(Error::new(ErrorKind::InvalidUrl, why).advice("give that store as large= again"));
        };
        Ok(parts.read(stub)?.map_or(Followed::Nothing, Followed::Payload))
    }
}

/// A key that lives in the other store: nothing there is a stub.
pub(super) fn begin_as_it_is(store: &Sessions, key: &Key, wait_max: Duration) -> Result<Locked<Held>> {
    let Begun { lease, record, trace } = store.begin(key, wait_max)?;
    let moved_to = (lease.key() != key).then(|| lease.key().clone());
    Ok(Locked { held: Held { lease, at_home: false, stub: None }, found: Found { record, moved_to, trace } })
}

/// A record of the home store without its bytes, and what they stand for.
fn opened(mut record: Record) -> Result<(Record, Content)> {
    let bytes = std::mem::take(&mut record.payload);
    Ok((record, stub::open(bytes)?))
}

/// A stub that leads nowhere. The store in it is the one into which the payload was written.
pub(super) fn lost(stub: &Stub) -> Error {
    let why = format!("the large payload of the session ({} bytes) is not in its store any more", stub.size);
    let advice =
        format!("it was written to {}; look whether large= still names that store, or destroy the session", stub.store);
    Error::new(ErrorKind::Corrupt, why).advice(advice)
}

/// Whoever reads met another commit each time.
pub(super) fn unsettled() -> Error {
    Error::new(ErrorKind::Io, format!("the session changed under each of {ATTEMPTS_MAX} attempts to read it"))
        .advice("try again")
}
