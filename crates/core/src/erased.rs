//! Type erasure: [`Store`] has an associated type, so that an author never downcasts; applications
//! and decorators need one type for all stores.

use std::sync::Arc;
use std::time::Duration;

use crate::{
    Budget, Capabilities, Cursor, Details, Filter, Found, HeldLock, Key, Owner, OwnerChange, Page,
    Result, SharedCounts, Stat, Store, Swept, Ttl, Verified,
};

/// A store of any type.
pub(crate) trait AnyStore: Send + Sync {
    fn capabilities(&self) -> Capabilities;
    fn begin(&self, key: &Key, wait_max: Duration) -> Result<(Box<dyn AnyHeld>, u64, Found)>;
    fn begin_leaves_placeholder(&self, key: &Key) -> Result<bool>;
    fn peek(&self, key: &Key) -> Result<Found>;
    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()>;
    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()>;
    fn destroy(&self, key: &Key) -> Result<()>;
    fn destroy_owned(&self, key: &Key, owner: Owner) -> Result<bool>;
    fn stored_key(&self, key: &Key) -> Key;
    fn listed_keys(&self, key: &Key) -> Vec<Key>;
    fn sweep(&self, budget: Budget) -> Result<Swept>;
    fn stat(&self) -> Result<Stat>;
    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page>;
    fn details(&self) -> Result<Details>;
    fn locks(&self, limit: usize) -> Result<Vec<HeldLock>>;
    fn shared_counts(&self) -> Option<SharedCounts>;
    fn count_failed_save(&self);
    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified>;
    fn sync(&self) -> Result<()>;
}

/// A lease of any store. Dropping it releases.
pub(crate) trait AnyHeld: Send {
    fn commit(self: Box<Self>, payload: &[u8], ttl: Ttl) -> Result<()>;
    fn owner(&self) -> Option<Owner>;
    fn set_owner(&mut self, owner: Option<Owner>);
    fn touch(&mut self, ttl: Ttl) -> Result<()>;
    fn release(self: Box<Self>) -> Result<()>;
    fn regenerate(&mut self, new: &Key, grace: Duration) -> Result<()>;
}

/// A typed store, shared with the leases that it has granted.
pub(crate) struct Erased<S>(pub(crate) Arc<S>);

struct Hold<S: Store> {
    store: Arc<S>,
    /// `None` once committed or released.
    held: Option<S::Held>,
    /// That of the record which was read, or the one that the commit sets. Here, and not in the
    /// lease, which is moved about.
    owner: Option<Owner>,
    sets_owner: bool,
}

impl<S: Store> AnyStore for Erased<S> {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn begin(&self, key: &Key, wait_max: Duration) -> Result<(Box<dyn AnyHeld>, u64, Found)> {
        let (held, fence, found) = self.0.begin(key, wait_max)?;
        let owner = found.record.as_ref().and_then(|record| record.head.owner);
        let hold = Hold { store: Arc::clone(&self.0), held: Some(held), owner, sets_owner: false };
        Ok((Box::new(hold), fence, found))
    }

    fn begin_leaves_placeholder(&self, key: &Key) -> Result<bool> {
        self.0.begin_leaves_placeholder(key)
    }

    fn peek(&self, key: &Key) -> Result<Found> {
        self.0.peek(key)
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        self.0.create(key, payload, ttl)
    }

    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        self.0.touch(key, ttl)
    }

    fn destroy(&self, key: &Key) -> Result<()> {
        self.0.destroy(key)
    }

    fn destroy_owned(&self, key: &Key, owner: Owner) -> Result<bool> {
        self.0.destroy_owned(key, owner)
    }

    fn stored_key(&self, key: &Key) -> Key {
        self.0.stored_key(key)
    }

    fn listed_keys(&self, key: &Key) -> Vec<Key> {
        self.0.listed_keys(key)
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        self.0.sweep(budget)
    }

    fn stat(&self) -> Result<Stat> {
        self.0.stat()
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        self.0.list(cursor, filter)
    }

    fn details(&self) -> Result<Details> {
        self.0.details()
    }

    fn locks(&self, limit: usize) -> Result<Vec<HeldLock>> {
        self.0.locks(limit)
    }

    fn shared_counts(&self) -> Option<SharedCounts> {
        self.0.shared_counts()
    }

    fn count_failed_save(&self) {
        self.0.count_failed_save();
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        self.0.verify(progress)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
}

impl<S: Store> AnyHeld for Hold<S> {
    fn commit(mut self: Box<Self>, payload: &[u8], ttl: Ttl) -> Result<()> {
        let owner = if self.sets_owner { OwnerChange::Set(self.owner) } else { OwnerChange::Keep };
        match self.held.take() {
            Some(held) => self.store.commit(held, payload, ttl, owner),
            None => Ok(()),
        }
    }

    fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// A commit that changes no owner is cheaper.
    fn set_owner(&mut self, owner: Option<Owner>) {
        self.sets_owner |= owner != self.owner;
        self.owner = owner;
    }

    fn touch(&mut self, ttl: Ttl) -> Result<()> {
        match &mut self.held {
            Some(held) => self.store.touch_held(held, ttl),
            None => Ok(()),
        }
    }

    fn release(mut self: Box<Self>) -> Result<()> {
        match self.held.take() {
            Some(held) => self.store.release(held),
            None => Ok(()),
        }
    }

    fn regenerate(&mut self, new: &Key, grace: Duration) -> Result<()> {
        match &mut self.held {
            Some(held) => self.store.regenerate(held, new, grace),
            None => Ok(()),
        }
    }
}

impl<S: Store> Drop for Hold<S> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take()
            && let Err(error) = self.store.release(held)
        {
            log::warn!("a dropped lease could not be released: {error:#}");
        }
    }
}
