//! The store of large payloads.
//!
//! Invariant: a payload is never changed, its id never used again, its life never shortened. So a
//! stub leads to its own payload or to none. Orphans (a process died before it wrote the stub, or
//! before it removed a replaced payload) expire, and a sweep removes them.

use std::time::Duration;

use sessile_core::{Bin, Clock, ErrorKind, Key, Limits, Result, Sessions, Ttl};

use super::stub::Stub;
use crate::locks::token::new_token;

/// The bin of large payloads. Not the session's: an id of this store must never do as a cookie,
/// should an application serve sessions from the same store.
pub const BIN: &str = "route_large";
/// A payload outlives its stub by this much, for clocks that differ and touches under way.
const LIFE_BEYOND_STUB: Duration = Duration::from_secs(600);

const EXTEND_WAIT: Duration = Duration::from_secs(5);

pub struct LargeStore {
    pub store: Sessions,
    pub clock: Clock,
}

impl LargeStore {
    pub fn write(&self, payload: &[u8], ttl: Ttl) -> Result<Stub> {
        let stub = Stub::new(new_token()?, payload, self.store.label());
        self.store.create(&key_of(&stub)?, payload, life(ttl)?)?;
        Ok(stub)
    }

    /// `None` if it is missing or does not fit.
    pub fn read(&self, stub: &Stub) -> Result<Option<Vec<u8>>> {
        let record = self.store.peek(&key_of(stub)?)?;
        Ok(record.map(|record| record.payload).filter(|payload| stub.fits(payload)))
    }

    /// Extends the life of a payload to that of a stub with this ttl; `false` if it is missing.
    ///
    /// Never shortens it: the touch may fail at home, or another touch give the stub more. It takes
    /// the payload's lock, so that the longer of two touches wins.
    pub fn extend(&self, stub: &Stub, ttl: Ttl) -> Result<bool> {
        let life = life(ttl)?;
        let begun = self.store.begin(&key_of(stub)?, EXTEND_WAIT)?;
        let (mut lease, Some(record)) = (begun.lease, begun.record) else { return Ok(false) };
        if record.head.expires >= self.clock.now().plus(Duration::from_millis(life.idle_ms())) {
            return Ok(true);
        }
        match lease.touch(life) {
            // A commit has replaced the payload meanwhile.
            Err(error) if matches!(error.kind(), ErrorKind::Gone | ErrorKind::Destroyed) => {
                Ok(false)
            }
            touched => touched.map(|()| true),
        }
    }

    /// A failure does not fail the request: the payload expires.
    pub fn remove(&self, stub: &Stub) {
        if let Err(error) = key_of(stub).and_then(|key| self.store.destroy(&key)) {
            log::warn!(
                "a large payload that is not needed any more stays until it expires: {error:#}"
            );
        }
    }
}

fn key_of(stub: &Stub) -> Result<Key> {
    let id = stub.token.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Key::in_bin(Bin::new(BIN)?, &id)
}

fn life(ttl: Ttl) -> Result<Ttl> {
    let idle = Duration::from_millis(ttl.idle_ms()).saturating_add(LIFE_BEYOND_STUB);
    Ttl::sliding(idle.min(Limits::TTL_MAX))
}
