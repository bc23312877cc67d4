//! The trait that every store implements.
//!
//! # Tutorial: a complete store
//!
//! A store keeps records under keys and lets one holder at a time change a record. You write one
//! type, say what it can do ([`Capabilities`]), and implement [`Store`]. Applications call it
//! through [`Sessions`](crate::Sessions), which checks limits, counts failures, adds the store's
//! name to errors and releases leases that are dropped. What a session is (record, tombstone or
//! alias, expiry, the next version) is decided by [`Stored`](crate::Stored) and
//! [`Head`](crate::Head). So a store takes its lock, reads, writes, and says honestly what went
//! wrong.
//!
//! Four rules carry the contract:
//!
//! 1. Missing and expired are `Found::default()`, never an error; expiry is decided by the clock.
//! 2. `commit` replaces the whole payload or nothing, and is refused when the lease is no longer
//!    good.
//! 3. `destroy` never waits, and makes every lease that was taken before it worthless.
//! 4. What a store cannot do answers [`ErrorKind::Unsupported`].
//!
//! Here is one for a single process: a map under a mutex. `Held` is whatever the store must
//! remember while a lease lives; here it is the key and the fence.
//!
//! ```
//! use sessile_core::*;
//! use std::collections::HashMap;
//! use std::sync::{Mutex, MutexGuard, PoisonError};
//! use std::time::{Duration, Instant};
//!
//! /// What is stored, its payload, and the fence of the lease, if there is one.
//! #[derive(Default)]
//! struct Slot(Stored, Vec<u8>, Option<u64>);
//!
//! /// The clock; the last fence, and the slots.
//! struct Toy(Clock, Mutex<(u64, HashMap<Key, Slot>)>);
//!
//! impl Toy {
//!     fn slots(&self) -> MutexGuard<'_, (u64, HashMap<Key, Slot>)> {
//!         self.1.lock().unwrap_or_else(PoisonError::into_inner)
//!     }
//!
//!     fn found(&self, Slot(stored, payload, _): &Slot) -> Found {
//!         stored.clone().look_up(payload.clone(), self.0.now()).break_value().unwrap_or_default()
//!     }
//!
//!     /// Changes the slot of a lease that is still good: only `destroy` takes one away here.
//!     fn change<T>(&self, held: &(Key, u64), change: impl FnOnce(&mut Slot) -> T) -> Result<T> {
//!         let mut slots = self.slots();
//!         let slot = slots.1.get_mut(&held.0).filter(|slot| slot.2 == Some(held.1));
//!         slot.map(change).ok_or_else(|| ErrorKind::Destroyed.into())
//!     }
//! }
//!
//! impl Store for Toy {
//!     type Held = (Key, u64);
//!
//!     fn capabilities(&self) -> Capabilities {
//!         Capabilities { expiry: Expiry::Native, ..Capabilities::MINIMAL }
//!     }
//!
//!     fn begin(&self, key: &Key, wait_max: Duration) -> Result<((Key, u64), u64, Found)> {
//!         let (start, mut slots) = (Instant::now(), self.slots());
//!         while slots.1.get(key).is_some_and(|slot| slot.2.is_some()) {
//!             drop(slots);
//!             let waited = start.elapsed();
//!             if waited >= wait_max {
//!                 let holder = Holder { pid: Some(std::process::id()), ..Holder::default() };
//!                 return Err(ErrorKind::LockTimeout { holder, waited }.into());
//!             }
//!             std::thread::sleep(Duration::from_micros(500)); // hence `Waiting::Retry`
//!             slots = self.slots();
//!         }
//!         let (fence, now) = (slots.0 + 1, self.0.now());
//!         slots.0 = fence;
//!         slots.1.retain(|_, slot| slot.2.is_some() || slot.0.due().is_some_and(|due| due > now));
//!         let slot = slots.1.entry(key.clone()).or_default();
//!         slot.2 = Some(fence);
//!         Ok(((key.clone(), fence), fence, self.found(slot)))
//!     }
//!
//!     fn peek(&self, key: &Key) -> Result<Found> {
//!         Ok(self.slots().1.get(key).map_or(Found::default(), |slot| self.found(slot)))
//!     }
//!
//!     fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
//!         let (now, mut slots) = (self.0.now(), self.slots());
//!         let slot = slots.1.entry(key.clone()).or_default();
//!         if slot.2.is_some() || slot.0.takes_id(now) {
//!             return Err(ErrorKind::Exists.into());
//!         }
//!         (slot.0, slot.1) = (Stored::Live(Head::next(None, ttl, now)), payload.to_vec());
//!         Ok(())
//!     }
//!
//!     fn commit(
//!         &self,
//!         held: (Key, u64),
//!         payload: &[u8],
//!         ttl: Ttl,
//!         owner: OwnerChange,
//!     ) -> Result<()> {
//!         self.change(&held, |slot| {
//!             let next = Head::next(slot.0.head(), ttl, self.0.now()).with_owner(owner);
//!             *slot = Slot(Stored::Live(next), payload.to_vec(), None);
//!         })
//!     }
//!
//!     fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
//!         let mut slots = self.slots();
//!         let slot = slots.1.get_mut(key).ok_or(ErrorKind::Gone)?;
//!         slot.0 = Stored::Live(slot.0.touched(ttl, self.0.now())?);
//!         Ok(())
//!     }
//!
//!     fn touch_held(&self, held: &mut (Key, u64), ttl: Ttl) -> Result<()> {
//!         self.touch(&held.0, ttl)
//!     }
//!
//!     fn release(&self, held: (Key, u64)) -> Result<()> {
//!         self.change(&held, |slot| slot.2 = None).or(Ok(()))
//!     }
//!
//!     fn destroy(&self, key: &Key) -> Result<()> {
//!         self.slots().1.remove(key); // and with the slot the lease: rule 3
//!         Ok(())
//!     }
//!
//!     fn regenerate(&self, held: &mut (Key, u64), new: &Key, _grace: Duration) -> Result<()> {
//!         if self.slots().1.contains_key(new) {
//!             return Err(ErrorKind::Exists.into());
//!         }
//!         let slot = self.change(held, std::mem::take)?; // a real store leaves `Stored::alias`
//!         self.slots().1.insert(new.clone(), slot);
//!         held.0 = new.clone(); // the lease moves along: same fence, new key
//!         Ok(())
//!     }
//! }
//!
//! // What an application does with it:
//! let sessions = Sessions::new("toy:", Toy(Clock::system(), Mutex::default()), Limits::default());
//! let (key, wait_max) = (Key::session("0123456789abcdef")?, Duration::from_secs(5));
//! let ttl = Ttl::sliding(Duration::from_secs(1_440))?;
//! sessions.begin(&key, wait_max)?.lease.commit(b"cart: 1 book", ttl)?;
//! let begun = sessions.begin(&key, wait_max)?;
//! assert_eq!(begun.record.map(|record| record.payload), Some(b"cart: 1 book".to_vec()));
//! sessions.destroy(&key)?; // a log-out in another tab
//! assert!(begun.lease.commit(b"cart: 2 books", ttl).is_err());
//! assert!(sessions.peek(&key)?.is_none());
//! # Ok::<(), Error>(())
//! ```
//!
//! To ship it, put it into one file under `crates/stores/src/` with an `ENTRY`, and its name on one
//! line of `stores!` in `crates/stores/src/lib.rs`: the conformance suite, the feature table and
//! the benchmark then run it. (The suite will tell you that the toy above ignores the grace and
//! forgets destroyed ids, and what else it owes.)

use std::time::Duration;

use crate::{
    Budget, Capabilities, Cursor, Details, Error, ErrorKind, Filter, Found, HeldLock, Key, Owner,
    OwnerChange, Page, Result, SharedCounts, Stat, Swept, Ttl, Verified,
};

/// A place where sessions are kept. The module documentation has a complete example.
///
/// Several threads may call all methods, and so may children forked after the store was opened: a
/// store never uses a connection or releases a lock that it inherited from its parent.
pub trait Store: Send + Sync + 'static {
    /// What the store remembers while a lease lives. Dropping it without [`Store::release`] must be
    /// safe, but may leave the lock taken; in a forked child dropping it must not disturb the
    /// parent's lock.
    type Held: Send + 'static;

    /// The capabilities of this opened store. May be narrower than those of its kind.
    fn capabilities(&self) -> Capabilities;

    /// Takes the session's lock, waiting at most `wait_max` (zero: one try), and reads the record.
    ///
    /// Returns the store's part of the lease, the fence, and the record, which is read after the
    /// lock was taken, never before. The fence is a number that grows with each new holder of the
    /// same session and never repeats, not even after the session was destroyed and created again.
    ///
    /// A missing or expired record is no error: the lease is granted, and a commit creates the
    /// record. An id within its grace leads to the new one, which is locked instead and returned in
    /// `moved_to`. Waiters are served fairly.
    ///
    /// # Errors
    ///
    /// `LockTimeout`, which names the holder; `Corrupt` when the stored bytes are not what was
    /// written (the lock is then not held, the bytes stay).
    fn begin(&self, key: &Key, wait_max: Duration) -> Result<(Self::Held, u64, Found)>;

    /// Whether [`Store::begin`] of this key would leave a placeholder even if the lease is
    /// released, which another program takes for a session: an empty file is one to PHP. Then
    /// nobody holds the key, so a caller that wants no new session can [`Store::peek`] instead.
    fn begin_leaves_placeholder(&self, key: &Key) -> Result<bool> {
        let _ = key;
        Ok(false)
    }

    /// The record without its lock: a consistent snapshot, also while others commit, unless they
    /// are [`Capabilities::foreign_writers`]. Follows an id within its grace.
    fn peek(&self, key: &Key) -> Result<Found>;

    /// Stores a new record. Creating is not saving.
    ///
    /// # Errors
    ///
    /// `Exists` when a live record has the id, when the id is within its grace, or when its
    /// lock is held (the holder may be creating it). A destroyed or expired id is free.
    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()>;

    /// Replaces the payload atomically, sets the expiry and the owner, and releases. A missing
    /// record is created. A record that expired under its lease keeps `created` and its absolute
    /// end.
    ///
    /// `owner` says what becomes of the owner of the session: it stays, or is set or taken away. A
    /// new record has none unless one is set. Without [`Capabilities::owners`] it always stays:
    /// [`Lease::set_owner`](crate::Lease::set_owner) refuses any other change. A store that keeps
    /// an index of owners writes it before the record, and looks at each record that the index
    /// names: so a listing of an owner misses no session and shows none of another owner.
    ///
    /// # Errors
    ///
    /// `Stale` when another holder has had the lock since; `Destroyed` when the session was
    /// destroyed since `begin`; `Gone` when the lock and the record were lost (server restart).
    /// After an error the lock is released, and after any but `Unreachable` the stored state is
    /// unchanged: a change that may have been made is never told as refused.
    fn commit(&self, held: Self::Held, payload: &[u8], ttl: Ttl, owner: OwnerChange) -> Result<()>;

    /// Moves the expiry without a lease and without writing the payload.
    ///
    /// # Errors
    ///
    /// `Gone` when there is no live record. Never creates one.
    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()>;

    /// Moves the expiry of the leased record and keeps the lease.
    ///
    /// # Errors
    ///
    /// `Gone` when there is no live record, `Destroyed` and `Stale` as in [`Store::commit`].
    fn touch_held(&self, held: &mut Self::Held, ttl: Ttl) -> Result<()>;

    /// Releases the lease without writing. Releasing a lease that is no longer good does nothing.
    fn release(&self, held: Self::Held) -> Result<()>;

    /// Removes the record without waiting for its lock, and voids its lease. Destroying nothing is
    /// success. An id within its grace leads to the new one, which is destroyed too.
    fn destroy(&self, key: &Key) -> Result<()>;

    /// Destroys the live record of exactly this key if it belongs to the owner, and returns whether
    /// it did: the look at the owner and the destruction are one step. Does not wait for the lock,
    /// voids the lease, and follows no regenerated id.
    ///
    /// # Errors
    ///
    /// `Unsupported` when owners are not declared.
    fn destroy_owned(&self, key: &Key, owner: Owner) -> Result<bool> {
        let _ = (key, owner);
        Err(no_owners())
    }

    /// Gives the leased record a new id; the lease follows it. For `grace` the old id leads to the
    /// new one; after that, and at once when `grace` is zero, it reads as missing with
    /// [`Absence::Regenerated`](crate::Absence). Without a record only the lock moves.
    ///
    /// # Errors
    ///
    /// `Exists` when the new id is taken (the lease stays good under the old one), `Destroyed` and
    /// `Stale` as in [`Store::commit`].
    fn regenerate(&self, held: &mut Self::Held, new: &Key, grace: Duration) -> Result<()>;

    /// Removes expired records within the budget; the next call continues there. Leased records
    /// stay. Stores with native expiry have nothing to do and return `complete`.
    fn sweep(&self, budget: Budget) -> Result<Swept> {
        let _ = budget;
        Ok(Swept { complete: true, ..Swept::default() })
    }

    /// The key as [`Store::list`] and [`Found::moved_to`] show it: the key itself, or a digest in
    /// the same bin if the store keeps no ids.
    fn stored_key(&self, key: &Key) -> Key {
        key.clone()
    }

    /// All keys under which [`Store::list`] may show the session of this key: more than one where
    /// sessions are in one of several stores.
    fn listed_keys(&self, key: &Key) -> Vec<Key> {
        vec![self.stored_key(key)]
    }

    /// Counts and sizes. Bounded, does not block others.
    ///
    /// # Errors
    ///
    /// `Unsupported` when listing is not declared.
    fn stat(&self) -> Result<Stat> {
        Err(no_listing())
    }

    /// One page of the live records. Bounded, does not block others.
    ///
    /// With [`Filter::owner`], a session that has the owner from the first page to the last is in
    /// one of them, also if it is regenerated meanwhile: a store whose pages a session can evade by
    /// a new id follows the regenerated ids that it meets. It may be in more than one.
    ///
    /// # Errors
    ///
    /// `Unsupported` when listing is not declared, and for the sessions of an owner when owners are
    /// not; `InvalidArgument` for a cursor of another store.
    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let _ = (cursor, filter);
        Err(no_listing())
    }

    /// Facts for the operator that only this kind of store has: sizes of files, locks and their
    /// holders, the age of the oldest unsynced byte. In display order, without ids and payloads.
    /// Bounded, does not block others.
    fn details(&self) -> Result<Details> {
        Ok(Vec::new())
    }

    /// At most `limit` of the locks that are held now. Takes no lock and blocks no request.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the store cannot list its locks.
    fn locks(&self, limit: usize) -> Result<Vec<HeldLock>> {
        let _ = limit;
        Err(Error::new(ErrorKind::Unsupported, "this store does not know which locks are held"))
    }

    /// What all processes have counted; `None` unless the store itself counts in shared memory.
    fn shared_counts(&self) -> Option<SharedCounts> {
        None
    }

    /// Counts a failed save, which may not have reached the store, for [`Store::shared_counts`].
    fn count_failed_save(&self) {}

    /// Checks every invariant of the stored data, changes nothing, and does not stop other
    /// requests. A problem that may be a change in progress is looked at again before it is
    /// reported. Calls `progress` with the number of checked records and structures, every few
    /// hundred of them and without a lock, so that the caller may rest in it.
    ///
    /// May take long. Damage is a result ([`Verified::problems`]), not an error. `Unsupported`
    /// where a server checks its own data.
    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        let _ = progress;
        Err(Error::new(ErrorKind::Unsupported, "this store cannot check what it has stored"))
    }

    /// Returns when every write that any process got acknowledged before the call survives a power
    /// cut. A store whose commits are on the disk when they return has nothing to do.
    ///
    /// The default refuses: success is a promise.
    ///
    /// # Errors
    ///
    /// `Unsupported` when the store cannot promise that; `Io` when the device failed. The state of
    /// unsynced data is then unknown: a later success proves nothing about it.
    fn sync(&self) -> Result<()> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "this store cannot be told to write its data to the disk",
        ))
    }
}

fn no_listing() -> Error {
    Error::new(ErrorKind::Unsupported, "this store cannot list its sessions")
}

pub(crate) fn no_owners() -> Error {
    Error::new(ErrorKind::Unsupported, "this store keeps no owners of sessions")
        .advice("use another store, or keep a list of a user's sessions in your application")
}
