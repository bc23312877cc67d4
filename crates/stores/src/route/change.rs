//! Writing: the large payload first, the stub last, the payload that it replaces after that.
//!
//! Invariant: at every instant the home store holds either a payload or a stub whose payload is complete. A process that
//! dies in between leaves at most one large payload to which nothing leads; it ends with its time to live.

use sessile_core::{ErrorKind, Key, Result, Ttl};

use super::look::{lost, unsettled};
use super::parts::Parts;
use super::stub::Stub;
use super::{Held, Route, stub};

/// Commits that come between the two steps of a touch; more than this in a row are no coincidence.
const TOUCHES_MAX: usize = 64;

impl Route {
    /// The store for this payload, if it is too large for the home store.
    fn store_for(&self, payload: &[u8]) -> Option<&Parts> {
        let too_large = payload.len() as u64 > self.inline_bytes_max
            || stub::inline_bytes(payload) > self.home.limits().payload_bytes_max;
        self.parts.as_ref().filter(|_| too_large)
    }

    /// Puts the payload where it belongs and hands what the home store is to hold to `write`.
    fn put(&self, payload: &[u8], ttl: Ttl, write: impl FnOnce(&[u8]) -> Result<()>) -> Result<()> {
        let Some(parts) = self.store_for(payload) else { return write(&stub::inline(payload)) };
        let stub = parts.write(payload, ttl)?;
        write(&stub.encode()).inspect_err(|error| {
            // Only this is said before anything is sent. A store may call a write stale whose answer was lost and which it has done:
            // then the stub stands in the home store.
            if matches!(error.kind(), ErrorKind::TooLarge { .. }) {
                parts.remove(&stub);
            }
        })
    }

    pub(super) fn create_at_home(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        self.put(payload, ttl, |bytes| self.home.create(key, bytes, ttl))
    }

    /// Where the large payload cannot be written the lease is dropped with `held`, and the old value stays.
    pub(super) fn commit_at_home(&self, held: Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        let Held { lease, stub: replaced, .. } = held;
        self.put(payload, ttl, |bytes| lease.commit(bytes, ttl))?;
        self.remove(replaced.as_ref());
        Ok(())
    }

    /// The large payload is given its time first, so that it outlives its stub whenever the process dies. A commit that
    /// comes in between brings a payload whose time is its own: hence the second look.
    pub(super) fn touch_at_home(&self, key: &Key, ttl: Ttl) -> Result<()> {
        let mut before = self.stub_of(key)?;
        for _ in 0..TOUCHES_MAX {
            let there = before.as_ref().map_or(Ok(true), |stub| self.extend(stub, ttl))?;
            self.home.touch(key, ttl)?;
            match self.stub_of(key)? {
                after if after != before => before = after,
                Some(stub) if !there => return Err(lost(&stub)),
                _ => return Ok(()),
            }
        }
        Err(unsettled())
    }

    pub(super) fn touch_under_lease(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        let Some(stub) = &held.stub else { return held.lease.touch(ttl) };
        let there = self.extend(stub, ttl)?;
        // What became of the lease is the better answer to why the payload is not there.
        held.lease.touch(ttl)?;
        if there { Ok(()) } else { Err(lost(stub)) }
    }

    /// The log-out counts; what is left of a payload whose store does not answer ends by itself.
    pub(super) fn destroy_at_home(&self, key: &Key) -> Result<()> {
        // A damaged stub is no reason to keep the session.
        let stub = self.stub_of(key).unwrap_or_default();
        self.home.destroy(key)?;
        self.remove(stub.as_ref());
        Ok(())
    }

    fn extend(&self, stub: &Stub, ttl: Ttl) -> Result<bool> {
        self.parts.as_ref().map_or(Ok(false), |parts| parts.extend(stub, ttl))
    }

    fn remove(&self, stub: Option<&Stub>) {
        if let (Some(parts), Some(stub)) = (&self.parts, stub) {
            parts.remove(stub);
        }
    }
}
