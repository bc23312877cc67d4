//! Destroying a session.
//!
//! The lock is deleted and the item invalidated in one write: an invalidated item has a new CAS
//! number, so no lease that began before can replace it, and it reads as destroyed from then on.
//! Nothing has to be read before, so nothing can come in between. Replacing the payload by a
//! tombstone comes after and may fail.

use std::ops::ControlFlow;

use sessile_core::{Key, Result, Stored};

use super::bounded::Bounded;
use super::data::{ALIAS, decode};
use super::request::Commands;
use crate::locks::token::{mark, new_token};

/// Destroys one id. `Continue` with the id to which it has led.
pub fn destroy(store: &Bounded<'_>, key: &Key) -> Result<ControlFlow<(), Key>> {
    let name = store.data_name(key);
    // The lock first: one that is taken in between is that of a lease which this destroys, not of
    // its successor.
    let commands = Commands::default()
        .delete_any(&store.lock_name(key))
        .invalidate(&name, store.exptime_of_nothing())
        .head(&name);
    let [_, invalidated, head] = store.send(key, commands)?;
    // A session that was begun has an item; without one, no lease can commit. One that is not stale
    // was begun anew already.
    let item = invalidated.item()?.and(head.item()?).filter(|item| item.stale);
    let Some(item) = item else { return Ok(ControlFlow::Break(())) };
    if item.flags == u32::from(ALIAS) {
        let item = store.data_of(key)?.filter(|item| item.stale);
        // Whatever the bytes are, the id is destroyed.
        let alias = item.and_then(|item| decode(key, item.value).ok());
        let Some(Stored::Alias { target, grace_ends, .. }) = alias.map(|alias| alias.stored) else {
            return Ok(ControlFlow::Break(()));
        };
        if grace_ends > store.clock.now() {
            return Ok(ControlFlow::Continue(target));
        }
        store.complete(&target, key)?;
        return Ok(ControlFlow::Break(()));
    }
    // A tombstone is small and tells nothing of the visitor.
    let tombstone = Stored::tombstone(item.cas.number, store.clock.now());
    let commands = store.put(key, &tombstone, mark(&new_token()?), b"", Some(item.cas));
    // Refused: begun anew. Failed: no room even for this; the invalidated item does as well.
    let [_] = store.send(key, commands)?;
    Ok(ControlFlow::Break(()))
}
