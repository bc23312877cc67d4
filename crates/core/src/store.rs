//! The trait that every store implements.
//!
//! # Tutorial: a complete store
//!
//! A store keeps records under keys and lets one holder at a time change a record. You write one type, say
//! what it can do ([`Capabilities`]), and implement [`Store`]. Applications never call it directly; they
//! use [`Sessions`](crate::Sessions), which checks limits, counts failures, adds the store's name to errors
//! and releases leases that are dropped. So a store only has to do its own work, and to say honestly what
//! went wrong.
//!
//! Four rules carry the contract:
//!
//! 1. Missing and expired are [`Found::nothing`], never an error; expiry is decided by the clock.
//! 2. `commit` replaces the whole payload or nothing, and is refused when the lease is no longer good.
//! 3. `destroy` never waits, and makes every lease that was taken before it worthless.
//! 4. What a store cannot do answers [`ErrorKind::Unsupported`].
//!
//! Here is one for a single process: a map under a mutex. `Held` is whatever the store must remember while
//! a lease lives; here it is the key and the fence.
//!
//! ```
//! use sessile_core::*;
//! use std::collections::HashMap;
//! use std::sync::{Mutex, MutexGuard};
//! use std::time::{Duration, Instant};
//!
//! const CAPABILITIES: Capabilities = Capabilities {
//!     persistent_from: None,
//!     shared_by_processes: false,
//!     shared_by_hosts: false,
//!     server: None,
//!     locking: Locking::Native,
//!     waiting: Waiting::Retry,
//!     ownership: Ownership::Process,
//!     expiry: Expiry::Sweep,
//!     value_bytes_max: 64 << 20,
//!     id_bytes_max: 256,
//!     sessions_bounded_by: SessionsBound::ProcessMemory,
//!     compare_and_set: true,
//!     listing: false,
//!     durability: &[Durability::None],
//! };
//!
//! #[derive(Default)]
//! struct Slot {
//!     record: Option<Record>,
//!     /// The fence of the present holder. `destroy` clears it, which voids the lease.
//!     holder: Option<u64>,
//! }
//!
//! struct Toy {
//!     clock: Clock,
//!     slots: Mutex<(u64, HashMap<Key, Slot>)>, // the last fence, and the sessions
//! }
//!
//! struct ToyHeld {
//!     key: Key,
//!     fence: u64,
//! }
//!
//! impl Toy {
//!     fn slots(&self) -> MutexGuard<'_, (u64, HashMap<Key, Slot>)> {
//!         self.slots.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
//!     }
//!
//!     /// The live record in a slot: expired reads as missing.
//!     fn live(&self, slot: &Slot) -> Found {
//!         match &slot.record {
//!             Some(record) if !record.expired(self.clock.now()) => Found::live(record.clone()),
//!             _ => Found::nothing(),
//!         }
//!     }
//!
//!     fn fill(&self, slot: &mut Slot, payload: &[u8], ttl: Ttl) {
//!         let now = self.clock.now();
//!         let old = slot.record.take(); // one that expires under a lease goes on: same creation, same absolute end
//!         let created = old.as_ref().map_or(now, |record| record.created);
//!         let (expires, ends) = ttl.deadline(now, created, old.as_ref().and_then(|record| record.ends));
//!         let version = old.map_or(0, |record| record.version) + 1;
//!         slot.record = Some(Record { payload: payload.to_vec(), version, created, written: now, expires, ends });
//!     }
//! }
//!
//! impl Store for Toy {
//!     type Held = ToyHeld;
//!
//!     fn capabilities(&self) -> Capabilities {
//!         CAPABILITIES
//!     }
//!
//!     fn begin(&self, key: &Key, wait_max: Duration) -> Result<Locked<ToyHeld>> {
//!         let start = Instant::now();
//!         loop {
//!             let mut slots = self.slots();
//!             let (last_fence, map) = &mut *slots;
//!             let slot = map.entry(key.clone()).or_default();
//!             if slot.holder.is_none() {
//!                 *last_fence += 1;
//!                 slot.holder = Some(*last_fence);
//!                 slot.record.take_if(|record| record.expired(self.clock.now()));
//!                 let held = ToyHeld { key: key.clone(), fence: *last_fence };
//!                 return Ok(Locked { held, found: self.live(slot) });
//!             }
//!             drop(slots);
//!             if start.elapsed() >= wait_max {
//!                 let holder = Holder { pid: Some(std::process::id()), ..Holder::default() };
//!                 let kind = ErrorKind::LockTimeout { holder, waited: start.elapsed() };
//!                 return Err(Error::new(kind, "another request holds the session"));
//!             }
//!             std::thread::sleep(Duration::from_micros(500)); // hence `waiting: Retry`
//!         }
//!     }
//!
//!     fn fence(&self, held: &ToyHeld) -> u64 {
//!         held.fence
//!     }
//!
//!     fn peek(&self, key: &Key) -> Result<Found> {
//!         Ok(self.slots().1.get(key).map_or(Found::nothing(), |slot| self.live(slot)))
//!     }
//!
//!     fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
//!         let mut slots = self.slots();
//!         let slot = slots.1.entry(key.clone()).or_default();
//!         if slot.holder.is_some() || self.live(slot).record.is_some() {
//!             return Err(Error::new(ErrorKind::Exists, "the id is taken"));
//!         }
//!         slot.record = None; // an expired one
//!         self.fill(slot, payload, ttl);
//!         Ok(())
//!     }
//!
//!     fn commit(&self, held: ToyHeld, payload: &[u8], ttl: Ttl) -> Result<()> {
//!         match self.slots().1.get_mut(&held.key) {
//!             Some(slot) if slot.holder == Some(held.fence) => {
//!                 slot.holder = None;
//!                 self.fill(slot, payload, ttl);
//!                 Ok(())
//!             }
//!             // Only `destroy` takes a lease away here, so the session was destroyed after it was read.
//!             _ => Err(Error::new(ErrorKind::Destroyed, "the session was destroyed meanwhile")),
//!         }
//!     }
//!
//!     fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
//!         let now = self.clock.now();
//!         match self.slots().1.get_mut(key).and_then(|slot| slot.record.as_mut()) {
//!             Some(record) if !record.expired(now) => {
//!                 (record.expires, record.ends) = ttl.deadline(now, record.created, record.ends);
//!                 Ok(())
//!             }
//!             _ => Err(Error::new(ErrorKind::Gone, "there is no record to touch")),
//!         }
//!     }
//!
//!     fn touch_held(&self, held: &mut ToyHeld, ttl: Ttl) -> Result<()> {
//!         self.touch(&held.key, ttl)
//!     }
//!
//!     fn release(&self, held: ToyHeld) -> Result<()> {
//!         if let Some(slot) = self.slots().1.get_mut(&held.key)
//!             && slot.holder == Some(held.fence)
//!         {
//!             slot.holder = None;
//!         }
//!         Ok(())
//!     }
//!
//!     fn destroy(&self, key: &Key) -> Result<()> {
//!         self.slots().1.remove(key); // the holder goes with the slot: rule 3
//!         Ok(())
//!     }
//!
//!     fn regenerate(&self, held: &mut ToyHeld, new: &Key, _grace: Duration) -> Result<()> {
//!         let mut slots = self.slots();
//!         if slots.1.contains_key(new) {
//!             return Err(Error::new(ErrorKind::Exists, "the new id is taken"));
//!         }
//!         match slots.1.remove(&held.key) {
//!             // The lease moves along: same fence, new key. (A real store lets the old id lead here for `grace`.)
//!             Some(slot) if slot.holder == Some(held.fence) => {
//!                 held.key = new.clone();
//!                 slots.1.insert(new.clone(), slot);
//!                 Ok(())
//!             }
//!             _ => Err(Error::new(ErrorKind::Destroyed, "the session was destroyed meanwhile")),
//!         }
//!     }
//!
//!     fn sweep(&self, budget: Budget) -> Result<Swept> {
//!         let now = self.clock.now();
//!         let mut slots = self.slots();
//!         let expired = |slot: &Slot| slot.record.as_ref().is_some_and(|record| record.expired(now));
//!         let most = usize::try_from(budget.records_max).unwrap_or(usize::MAX);
//!         let due: Vec<Key> = (slots.1.iter())
//!             .filter(|(_, slot)| expired(slot) && slot.holder.is_none())
//!             .map(|(key, _)| key.clone())
//!             .take(most)
//!             .collect();
//!         due.iter().for_each(|key| drop(slots.1.remove(key)));
//!         let removed = due.len() as u64;
//!         Ok(Swept { examined: removed, removed, complete: removed < budget.records_max })
//!     }
//! }
//!
//! // What an application does with it:
//! let clock = Clock::system();
//! let toy = Toy { clock: clock.clone(), slots: Mutex::default() };
//! let sessions = Sessions::new("toy:", toy, Limits::default());
//! let key = Key::session("0123456789abcdef")?;
//! let ttl = Ttl::sliding(Duration::from_secs(1_440))?;
//!
//! let begun = sessions.begin(&key, Duration::from_secs(5))?;
//! assert!(begun.record.is_none());
//! begun.lease.commit(b"cart: 1 book", ttl)?;
//! assert_eq!(sessions.peek(&key)?.map(|record| record.payload), Some(b"cart: 1 book".to_vec()));
//!
//! let begun = sessions.begin(&key, Duration::from_secs(5))?;
//! sessions.destroy(&key)?; // a log-out in another tab
//! assert!(begun.lease.commit(b"cart: 2 books", ttl).is_err());
//! assert!(sessions.peek(&key)?.is_none());
//! # Ok::<(), Error>(())
//! ```
//!
//! To ship it, put it into one file under `crates/stores/src/` with an `ENTRY`, and its name on one line of
//! `stores!` in `crates/stores/src/lib.rs`: the conformance suite, the feature table and the benchmark then run
//! it. (The suite will tell you that the toy above ignores the grace and forgets destroyed ids, and what else
//! it owes.)

use std::time::Duration;

use crate::{
    Budget, Capabilities, Cursor, Detail, Error, ErrorKind, Filter, Found, Key, Page, Result, Stat, Swept, Ttl,
    Verified,
};

/// A granted lock, and what was found under it.
#[derive(Debug)]
pub struct Locked<H> {
    /// What the store needs to commit or release later.
    pub held: H,
    /// What was read after the lock was taken, never before.
    pub found: Found,
}

/// A place where sessions are kept. See the module documentation for a complete example.
///
/// All methods may be called from several threads and, on one opened store, from children forked after it
/// was opened: a store never uses a connection or releases a lock that it inherited from its parent.
pub trait Store: Send + Sync + 'static {
    /// What the store remembers while a lease lives. Dropping it without [`Store::release`] must be safe,
    /// but may leave the lock taken; in a forked child dropping it must not disturb the parent's lock.
    type Held: Send + 'static;

    /// What this opened store can do. May be narrower than what its kind of store declares.
    fn capabilities(&self) -> Capabilities;

    /// Takes the session's lock, waiting at most `wait_max` (zero: one try), and reads the record.
    ///
    /// A missing or expired record is no error: the lease is granted, and a commit creates the record. An
    /// id within its grace after a regeneration leads to the new one, which is locked instead; the answer
    /// says so in `moved_to`. Waiters are served fairly.
    ///
    /// # Errors
    ///
    /// `LockTimeout`, which names the holder; `Corrupt` when the stored bytes are not what was written (the
    /// lock is then not held, the bytes stay); `Unsupported` without locking.
    fn begin(&self, key: &Key, wait_max: Duration) -> Result<Locked<Self::Held>>;

    /// A number that grows with each new holder of the same session and never repeats, not even after
    /// the session was destroyed and created again.
    fn fence(&self, held: &Self::Held) -> u64;

    /// The record without excluding anyone: a consistent snapshot, also while others commit. Follows an
    /// id within its grace.
    fn peek(&self, key: &Key) -> Result<Found>;

    /// Stores a new record. Creating is not saving.
    ///
    /// # Errors
    ///
    /// `Exists` when a live record has the id, when the id is within its grace, or when someone holds the
    /// id's lock (and so may be creating it). A destroyed or expired id is free.
    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()>;

    /// Replaces the payload atomically, sets the expiry and releases. A record that was missing is created.
    /// One that expired while the lease was held goes on: it keeps `created` and its absolute end.
    ///
    /// # Errors
    ///
    /// `Stale` when another holder has had the lock since; `Destroyed` when the session was destroyed since
    /// `begin`; `Gone` when the lock was lost (server restart) and the record with it. In every error case
    /// the stored state is the one from before the call, and the lock is no longer ours.
    fn commit(&self, held: Self::Held, payload: &[u8], ttl: Ttl) -> Result<()>;

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

    /// Gives up the lease without writing. Releasing a lease that is no longer good does nothing.
    fn release(&self, held: Self::Held) -> Result<()>;

    /// Removes the record without waiting for its lock and voids its lease. Destroying nothing is success.
    /// An id within its grace leads to the new one, which is destroyed too.
    fn destroy(&self, key: &Key) -> Result<()>;

    /// Gives the leased record a new id; the lease follows it. For `grace` the old id leads to the new one;
    /// after that, and at once when `grace` is zero, it reads as missing with
    /// [`Trace::Regenerated`](crate::Trace). Without a record only the lock moves.
    ///
    /// # Errors
    ///
    /// `Exists` when the new id is taken (the lease stays good under the old one), `Destroyed` and `Stale`
    /// as in [`Store::commit`].
    fn regenerate(&self, held: &mut Self::Held, new: &Key, grace: Duration) -> Result<()>;

    /// Removes what has expired, at most as much as the budget says; the next call goes on from there.
    /// Leased records are left alone. Stores with native expiry have nothing to do and say `complete`.
    fn sweep(&self, budget: Budget) -> Result<Swept>;

    /// The key as [`Store::list`] and [`Found::moved_to`] show it: the key itself, or a digest of it in the same bin
    /// where the store keeps no ids.
    fn stored_key(&self, key: &Key) -> Key {
        key.clone()
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
    /// # Errors
    ///
    /// `Unsupported` when listing is not declared; `InvalidArgument` for a cursor of another store.
    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let _ = (cursor, filter);
        Err(no_listing())
    }

    /// What only this kind of store can tell an operator: files and their sizes, locks held and by whom, the
    /// age of the oldest byte that is not on the disk. In display order, without ids and payloads. Bounded,
    /// does not block others. A store with nothing to add says nothing.
    fn details(&self) -> Result<Vec<Detail>> {
        Ok(Vec::new())
    }

    /// Checks every invariant of what is stored, and changes nothing: it neither repairs nor removes, and others
    /// go on working. What it saw in the middle of a change by someone else it looks at again before it calls
    /// it a problem. Calls `progress` with the number of things checked so far, from time to time.
    ///
    /// May take long. That something is wrong is an answer ([`Verified::problems`]), not an error.
    ///
    /// # Errors
    ///
    /// `Unsupported` when there is nothing that this store could check (a server checks its own data).
    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        let _ = progress;
        Err(Error::new(ErrorKind::Unsupported, "this store cannot check what it has stored"))
    }

    /// Returns when every write that was acknowledged before the call, by whichever process, survives a power
    /// cut. A store that leaves nothing for later (each commit is on the disk when it returns) has nothing to
    /// do and says `Ok`.
    ///
    /// The default refuses rather than succeeds: success is a promise, and a store that nobody taught to sync
    /// (memory, a server that writes when it likes) would break it.
    ///
    /// # Errors
    ///
    /// `Unsupported` when the store cannot promise that; `Io` when the device failed, and then nothing is known
    /// about what was unsynced: a second call that succeeds proves nothing about it.
    fn sync(&self) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "this store cannot be told to write its data to the disk"))
    }
}

fn no_listing() -> Error {
    Error::new(ErrorKind::Unsupported, "this store cannot list its sessions")
}
