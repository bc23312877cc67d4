//! Writing: first the large payload, then the stub, then the removal of the replaced payload.
//!
//! Invariant: at every instant the home store holds a payload, or a stub whose payload is complete.
//! A process that dies in between leaves at most one orphan, which expires.

use sessile_core::{ErrorKind, Key, Owner, OwnerChange, Result, Ttl};

use super::read::{attempts, lost, unsettled};
use super::stub::Stub;
use super::{Held, Route, stub};

pub fn create(route: &Route, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
    let home = route.home_of(key);
    store_payload(route, home.stubs, payload, ttl, |bytes| home.store.create(key, bytes, ttl))
}

/// If the large payload cannot be written, dropping `held` ends the lease, and the old value stays.
pub fn commit(
    route: &Route,
    held: Held,
    payload: &[u8],
    ttl: Ttl,
    owner: OwnerChange,
) -> Result<()> {
    let Held { mut lease, stubs, stub: replaced } = held;
    lease.change_owner(owner)?;
    store_payload(route, stubs, payload, ttl, |bytes| lease.commit(bytes, ttl))?;
    remove(route, replaced.as_ref());
    Ok(())
}

/// The large payload is extended first, so that it outlives its stub whenever the process dies. A
/// commit in between brings another payload with a life of its own: hence the second look.
pub fn touch(route: &Route, key: &Key, ttl: Ttl) -> Result<()> {
    let home = route.home_of(key);
    let mut before = home.stub_of(key)?;
    for _ in attempts() {
        let exists = before.as_ref().map_or(Ok(true), |stub| extend(route, stub, ttl))?;
        home.store.touch(key, ttl)?;
        match home.stub_of(key)? {
            after if after != before => before = after,
            Some(stub) if !exists => return Err(lost(&stub)),
            _ => return Ok(()),
        }
    }
    Err(unsettled())
}

pub fn touch_held(route: &Route, held: &mut Held, ttl: Ttl) -> Result<()> {
    let Some(stub) = &held.stub else { return held.lease.touch(ttl) };
    let exists = extend(route, stub, ttl)?;
    // The state of the lease explains better why the payload is missing.
    held.lease.touch(ttl)?;
    if exists { Ok(()) } else { Err(lost(stub)) }
}

/// The log-out counts: a payload whose store does not answer expires.
pub fn destroy(route: &Route, key: &Key) -> Result<()> {
    let home = route.home_of(key);
    let stub = match home.stub_of(key) {
        // It would not answer the next request either, after another time-out.
        Err(error) if *error.kind() == ErrorKind::Unreachable => return Err(error),
        // A damaged stub must not keep the session.
        looked => looked.unwrap_or_default(),
    };
    home.store.destroy(key)?;
    remove(route, stub.as_ref());
    Ok(())
}

/// As [`destroy`], of exactly this key. A session that has moved to another id is not looked at,
/// and keeps its large payload.
pub fn destroy_owned(route: &Route, key: &Key, owner: Owner) -> Result<bool> {
    let home = route.home_of(key);
    let has_moved = home.store.find(key).is_ok_and(|found| found.moved_to.is_some());
    let stub = if has_moved { None } else { home.stub_of(key).unwrap_or_default() };
    let is_destroyed = home.store.destroy_owned(key, owner)?;
    if is_destroyed {
        remove(route, stub.as_ref());
    }
    Ok(is_destroyed)
}

/// `write` stores the home record.
fn store_payload(
    route: &Route,
    stubs: bool,
    payload: &[u8],
    ttl: Ttl,
    write: impl FnOnce(&[u8]) -> Result<()>,
) -> Result<()> {
    if !stubs {
        return write(payload);
    }
    let too_large = payload.len() as u64 > route.inline_bytes_max
        || stub::inline_bytes(payload) > route.home.limits().payload_bytes_max;
    let Some(large) = route.large.as_ref().filter(|_| too_large) else {
        return write(&stub::inline(payload));
    };
    let stub = large.write(payload, ttl)?;
    write(&stub.encode()).inspect_err(|error| {
        // Only this error is certain to come before anything is sent. A store may call a write
        // stale that it has done, when the answer was lost: then the stub is in the home store.
        if matches!(error.kind(), ErrorKind::TooLarge { .. }) {
            large.remove(&stub);
        }
    })
}

fn extend(route: &Route, stub: &Stub, ttl: Ttl) -> Result<bool> {
    route.large.as_ref().map_or(Ok(false), |large| large.extend(stub, ttl))
}

fn remove(route: &Route, stub: Option<&Stub>) {
    if let (Some(large), Some(stub)) = (&route.large, stub) {
        large.remove(stub);
    }
}
