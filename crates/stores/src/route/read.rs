//! Reading the record of the home store and its large payload.
//!
//! Between the two reads another request may commit and remove the payload. So the stub is read
//! again. Another stub, or none, answers the race. The same stub means a lost payload: an error,
//! never an empty session.

use std::time::{Duration, Instant};

use sessile_core::{Begun, Error, ErrorKind, Found, Key, Record, Result};

use super::stub::{HomeContent, Stub};
use super::{Held, Home, Route, stub};

/// Each failed attempt, also of a touch, is another request's commit, and they end.
const ATTEMPTS_TIME_MAX: Duration = Duration::from_secs(5);

pub fn attempts() -> impl Iterator {
    let start = Instant::now();
    (0..).take_while(move |failures| {
        if *failures >= 8 {
            std::thread::sleep(Duration::from_millis(1));
        }
        start.elapsed() < ATTEMPTS_TIME_MAX
    })
}

pub fn begin(route: &Route, asked: &Key, wait_max: Duration) -> Result<(Held, u64, Found)> {
    let (start, home) = (Instant::now(), route.home_of(asked));
    for _ in attempts() {
        let left = wait_max.saturating_sub(start.elapsed());
        let Begun { lease, record, absence, moved } = home.store.begin(asked, left)?;
        let moved_to = moved.then(|| lease.key().clone());
        let found = Found { record, moved_to, absence };
        match resolve(route, &home, found)? {
            Resolved::Whole(found, stub) => {
                let fence = lease.fence();
                return Ok((Held { lease, stubs: home.stubs, stub }, fence, found));
            }
            Resolved::Dangling(stub) if home.stub_of(asked)?.as_ref() == Some(&stub) => {
                return Err(lost(&stub));
            }
            // The session was destroyed, or the lease lapsed and another request has committed.
            Resolved::Dangling(_) => {}
        }
    }
    Err(unsettled())
}

pub fn peek(route: &Route, key: &Key) -> Result<Found> {
    let (home, mut before) = (route.home_of(key), None);
    for _ in attempts() {
        match resolve(route, &home, home.store.find(key)?)? {
            Resolved::Whole(found, _) => return Ok(found),
            Resolved::Dangling(stub) if before.as_ref() == Some(&stub) => return Err(lost(&stub)),
            Resolved::Dangling(stub) => before = Some(stub),
        }
    }
    Err(unsettled())
}

enum Resolved {
    /// With the stub of the payload, if it was large.
    Whole(Found, Option<Stub>),
    Dangling(Stub),
}

fn resolve(route: &Route, home: &Home<'_>, mut found: Found) -> Result<Resolved> {
    let Some(record) = &mut found.record else { return Ok(Resolved::Whole(found, None)) };
    match home.open(std::mem::take(&mut record.payload))? {
        HomeContent::Payload(payload) => {
            record.payload = payload;
            Ok(Resolved::Whole(found, None))
        }
        HomeContent::Stub(stub) => {
            let large = route.large.as_ref().ok_or_else(|| no_large_store(&stub))?;
            let Some(payload) = large.read(&stub)? else { return Ok(Resolved::Dangling(stub)) };
            record.payload = payload;
            Ok(Resolved::Whole(found, Some(stub)))
        }
    }
}

impl Home<'_> {
    pub fn stub_of(&self, key: &Key) -> Result<Option<Stub>> {
        if !self.stubs {
            return Ok(None);
        }
        match self.store.peek(key)?.map(|Record { payload, .. }| stub::open(payload)).transpose()? {
            Some(HomeContent::Stub(stub)) => Ok(Some(stub)),
            _ => Ok(None),
        }
    }

    fn open(&self, bytes: Vec<u8>) -> Result<HomeContent> {
        if self.stubs { stub::open(bytes) } else { Ok(HomeContent::Payload(bytes)) }
    }
}

fn no_large_store(stub: &Stub) -> Error {
    let why = format!(
        "the payload is large and was stored in {}, and the URL names no store for such",
        stub.store
    );
    Error::new(ErrorKind::InvalidUrl, why).advice("give that store as large= again")
}

/// A stub without its payload. It names the store into which the payload was written.
pub fn lost(stub: &Stub) -> Error {
    let why = format!(
        "the large payload of the session ({} bytes) is not in its store any more",
        stub.size
    );
    let advice = format!(
        "it was written to {}; look whether large= still names that store, or destroy the session",
        stub.store
    );
    Error::new(ErrorKind::Corrupt, why).advice(advice)
}

pub fn unsettled() -> Error {
    Error::new(
        ErrorKind::Io,
        format!("the session changed under every attempt to read it in {ATTEMPTS_TIME_MAX:?}"),
    )
    .advice("try again")
}
