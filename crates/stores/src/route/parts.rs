//! The store of large payloads: each is written once, read, kept for as long as its stub lives, and removed.
//!
//! Owns the rule that a payload is never changed and its id never used again, so that whoever follows a stub finds the
//! bytes for which it was written or none. Its life is never shortened. What nobody leads to any more (a process died before
//! it wrote the stub, or before it removed the payload of the stub that it replaced) ends with its time to live, and a
//! sweep removes it.

use std::time::Duration;

use sessile_core::{Bin, Clock, Error, ErrorKind, Key, Limits, Result, Sessions, Ttl};

use super::stub::{Stub, Token};

/// The bin of large payloads. Not that of the session: an id of this store must never do as a cookie, should somebody
/// serve sessions from the same store.
pub(super) const BIN: &str = "route_large";
/// A payload outlives its stub by this much, so that clocks that differ and a touch that is under way never leave a stub
/// without it.
const LIFE_BEYOND_STUB: Duration = Duration::from_secs(600);

/// How long a touch waits for another touch of the same payload.
const EXTEND_WAIT: Duration = Duration::from_secs(5);

pub(super) struct Parts(Sessions, Clock);

impl Parts {
    pub(super) fn new(store: Sessions, clock: Clock) -> Parts {
        Parts(store, clock)
    }

    pub(super) fn store(&self) -> &Sessions {
        &self.0
    }

    /// Stores a payload under an id of its own.
    pub(super) fn write(&self, payload: &[u8], ttl: Ttl) -> Result<Stub> {
        let stub = Stub::of(new_token()?, payload, self.0.label());
        self.0.create(&key_of(&stub)?, payload, life(ttl)?).map_err(about_this_store)?;
        Ok(stub)
    }

    /// The payload of a stub; `None` when there is none that fits.
    pub(super) fn read(&self, stub: &Stub) -> Result<Option<Vec<u8>>> {
        let record = self.0.peek(&key_of(stub)?).map_err(about_this_store)?;
        Ok(record.map(|record| record.payload).filter(|payload| stub.fits(payload)))
    }

    /// Lets a payload live at least as long as a stub that is given this time; `false` when it is not there.
    ///
    /// Whoever asks for less changes nothing: his touch may fail at home, or another one, on its way, give the stub more. Under
    /// the payload's lock, so that of two at a time the longer one holds.
    pub(super) fn extend(&self, stub: &Stub, ttl: Ttl) -> Result<bool> {
        let life = life(ttl)?;
        let begun = self.0.begin(&key_of(stub)?, EXTEND_WAIT).map_err(about_this_store)?;
        let (mut lease, Some(record)) = (begun.lease, begun.record) else { return Ok(false) };
        if record.expires >= self.1.now().plus(Duration::from_millis(life.idle_ms())) {
            return Ok(true);
        }
        match lease.touch(life) {
            Ok(()) => Ok(true),
            // A commit has replaced it meanwhile.
            Err(error) if matches!(error.kind(), ErrorKind::Gone | ErrorKind::Destroyed) => Ok(false),
            Err(error) => Err(about_this_store(error)),
        }
    }

    /// Removes a payload to which nothing leads any more. What cannot be removed now ends by itself: no reason to fail
    /// the request that has done what it was asked for.
    pub(super) fn remove(&self, stub: &Stub) {
        if let Err(error) = key_of(stub).and_then(|key| self.0.destroy(&key)) {
            log::warn!("a large payload that is not needed any more stays until it expires: {error:#}");
        }
    }
}

/// From the kernel, so that parent and child never draw the same.
fn new_token() -> Result<Token> {
    let mut token = Token::default();
    getrandom::fill(&mut token)
        .map_err(|error| Error::new(ErrorKind::Io, "the kernel gives no random bytes").source(error))?;
    Ok(token)
}

fn key_of(stub: &Stub) -> Result<Key> {
    let id = stub.token.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Key::in_bin(Bin::new(BIN)?, &id)
}

fn life(ttl: Ttl) -> Result<Ttl> {
    let idle = Duration::from_millis(ttl.idle_ms()).saturating_add(LIFE_BEYOND_STUB);
    Ttl::sliding(idle.min(Limits::TTL_MAX))
}

/// Says that it was the store of large payloads that failed, and which one that is.
fn about_this_store(error: Error) -> Error {
    Error::new(error.kind().clone(), format!("the store of large payloads failed: {error}")).source(error)
}
