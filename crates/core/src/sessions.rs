//! What applications call: an opened store of any kind.
//!
//! [`Sessions`] owns the rules that no store should have to repeat: limits are checked before a store is
//! asked, failed saves are counted and logged, errors say which operation on which store failed, and a
//! lease that is dropped is released. It adds no locking and keeps no cache.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::erased::{AnyHeld, AnyStore, Erased};
use crate::{
    Budget, Capabilities, Counter, Counters, Cursor, Detail, Error, ErrorKind, Filter, Found, Key, Limits, Operation,
    Page, Record, Result, Stat, Store, Swept, Trace, Ttl, Verified,
};

/// An opened store. Clones share it; it may be used from several threads and from forked children.
#[derive(Clone)]
pub struct Sessions(Arc<Opened>);

struct Opened {
    store: Box<dyn AnyStore>,
    label: String,
    limits: Limits,
    counters: Counters,
    stored_key: Option<fn(&Key) -> Key>,
    decorated: bool,
}

/// The right to change one session until it is committed or released.
pub struct Lease {
    held: Box<dyn AnyHeld>,
    key: Key,
    sessions: Sessions,
}

/// A granted `begin`.
#[derive(Debug)]
pub struct Begun {
    /// The lease; dropping it releases.
    pub lease: Lease,
    /// The record, if there is a live one.
    pub record: Option<Record>,
    /// Why there is none, where the store still knows.
    pub trace: Trace,
}

impl Sessions {
    /// Puts a store behind the common rules. `label` names it in errors: a URL without its secrets.
    pub fn new<S: Store>(label: impl Into<String>, store: S, limits: Limits) -> Sessions {
        let capabilities = store.capabilities();
        Sessions(Arc::new(Opened {
            label: label.into(),
            limits: Limits {
                payload_bytes_max: limits.payload_bytes_max.min(capabilities.value_bytes_max),
                id_bytes_max: limits.id_bytes_max.min(capabilities.id_bytes_max),
            },
            store: Box::new(Erased(Arc::new(store))),
            counters: Counters::default(),
            stored_key: None,
            decorated: false,
        }))
    }

    /// The same store, which from now on is a part of another one: that one counts and logs what fails, so that nothing
    /// is told twice. Errors still say which store it was; the tag of the key is left to the decorator, whose key it is.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` when the store is already shared: someone else expects it to count.
    pub fn under_a_decorator(mut self) -> Result<Sessions> {
        let shared = || Error::new(ErrorKind::InvalidArgument, "the store is already in use by itself");
        Arc::get_mut(&mut self.0).ok_or_else(shared)?.decorated = true;
        Ok(self)
    }

    /// The same store, which from now on sees `stored_key(key)` instead of each key: a digest, for example,
    /// so that a stolen dump logs nobody in. The function must be injective in practice and keep the bin.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` when the store is already shared: its keys cannot change under someone else.
    pub fn storing_keys_as(mut self, stored_key: fn(&Key) -> Key) -> Result<Sessions> {
        let shared = || Error::new(ErrorKind::InvalidArgument, "the store is already in use under plain ids");
        Arc::get_mut(&mut self.0).ok_or_else(shared)?.stored_key = Some(stored_key);
        Ok(self)
    }

    /// The redacted URL of the store.
    pub fn label(&self) -> &str {
        &self.0.label
    }

    /// What the store can do.
    pub fn capabilities(&self) -> Capabilities {
        self.0.store.capabilities()
    }

    /// The bounds in force.
    pub fn limits(&self) -> Limits {
        self.0.limits
    }

    /// What went wrong so far in this process.
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Takes the lock of a session and reads it. See [`Store::begin`].
    ///
    /// # Errors
    ///
    /// `LockTimeout` names the holder; it is never reported as an empty session.
    #[inline] // what it returns is large; a caller in another crate would have it copied once more
    pub fn begin(&self, key: &Key, wait_max: Duration) -> Result<Begun> {
        let wait_max = wait_max.min(Limits::WAIT_MAX);
        let begun = self.stored(key).and_then(|stored| self.0.store.begin(&stored, wait_max));
        let (held, found) = begun.map_err(|error| self.failed(error, Operation::Begin, Some(key)))?;
        self.note(found.trace, key);
        let lease = Lease { held, key: found.moved_to.unwrap_or_else(|| key.clone()), sessions: self.clone() };
        Ok(Begun { lease, record: found.record, trace: found.trace })
    }

    /// The record without a lock. See [`Store::peek`].
    pub fn peek(&self, key: &Key) -> Result<Option<Record>> {
        self.find(key).map(|found| found.record)
    }

    /// What [`Sessions::peek`] found, and where, and why nothing: for decorators, which have to pass it on.
    pub fn find(&self, key: &Key) -> Result<Found> {
        let found = self.stored(key).and_then(|stored| self.0.store.peek(&stored));
        let found = found.map_err(|error| self.failed(error, Operation::Peek, Some(key)))?;
        self.note(found.trace, key);
        Ok(found)
    }

    /// Stores a new record. See [`Store::create`].
    ///
    /// # Errors
    ///
    /// `Exists` when the id is taken, `TooLarge` over the limit.
    pub fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let created = self.stored(key).and_then(|stored| {
            self.check_size(payload)?;
            self.0.store.create(&stored, payload, ttl)
        });
        created.map_err(|error| self.unsaved(error, Operation::Create, key, payload))
    }

    /// Moves the expiry without a lease. See [`Store::touch`].
    ///
    /// # Errors
    ///
    /// `Gone` when there is no live record.
    pub fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        let touched = self.stored(key).and_then(|stored| self.0.store.touch(&stored, ttl));
        touched.map_err(|error| self.failed(error, Operation::Touch, Some(key)))
    }

    /// Removes a session at once and voids its lease. See [`Store::destroy`].
    pub fn destroy(&self, key: &Key) -> Result<()> {
        let destroyed = self.stored(key).and_then(|stored| self.0.store.destroy(&stored));
        destroyed.map_err(|error| self.failed(error, Operation::Destroy, Some(key)))
    }

    /// Removes what has expired, within the budget. See [`Store::sweep`].
    pub fn sweep(&self, budget: Budget) -> Result<Swept> {
        let swept = self.0.store.sweep(budget);
        swept.map_err(|error| self.failed(error, Operation::Sweep, None))
    }

    /// Counts and sizes. See [`Store::stat`].
    pub fn stat(&self) -> Result<Stat> {
        let stat = self.0.store.stat();
        stat.map_err(|error| self.failed(error, Operation::Stat, None))
    }

    /// One page of the live records. See [`Store::list`].
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a page size outside its limits.
    pub fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let page = if (1..=Limits::PAGE_ENTRIES_MAX).contains(&filter.entries_max) {
            self.0.store.list(cursor, filter)
        } else {
            let why = format!("a page has 1 to {} entries", Limits::PAGE_ENTRIES_MAX);
            Err(Error::new(ErrorKind::InvalidArgument, why))
        };
        page.map_err(|error| self.failed(error, Operation::List, None))
    }

    /// What only this kind of store can tell an operator. See [`Store::details`].
    pub fn details(&self) -> Result<Vec<Detail>> {
        let details = self.0.store.details();
        details.map_err(|error| self.failed(error, Operation::Details, None))
    }

    /// Checks everything that can be checked and changes nothing. See [`Store::verify`].
    ///
    /// # Errors
    ///
    /// `Unsupported` where the store cannot. What it finds wrong is no error but the answer.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        let verified = self.0.store.verify(progress);
        verified.map_err(|error| self.failed(error, Operation::Verify, None))
    }

    /// Makes every write that was acknowledged so far survive a power cut. See [`Store::sync`].
    ///
    /// # Errors
    ///
    /// `Unsupported` where the store cannot, `Io` when the device failed.
    pub fn sync(&self) -> Result<()> {
        let synced = self.0.store.sync();
        synced.map_err(|error| self.failed(error, Operation::Sync, None))
    }

    /// The key as listings show it: the key itself, or a digest in the same bin where the store keeps no ids.
    pub fn listed_key(&self, key: &Key) -> Key {
        let stored = self.0.stored_key.map_or(Cow::Borrowed(key), |stored_key| Cow::Owned(stored_key(key)));
        self.0.store.stored_key(&stored)
    }

    /// The key as the store sees it, checked against the store's limit.
    fn stored<'k>(&self, key: &'k Key) -> Result<Cow<'k, Key>> {
        let stored = self.0.stored_key.map_or(Cow::Borrowed(key), |stored_key| Cow::Owned(stored_key(key)));
        let limit = self.0.limits.id_bytes_max;
        if stored.id().len() > limit {
            let why = format!("the id is malformed: it is longer than the {limit} bytes that this store takes");
            return Err(Error::new(ErrorKind::InvalidId, why));
        }
        Ok(stored)
    }

    fn check_size(&self, payload: &[u8]) -> Result<()> {
        let size = payload.len() as u64;
        let limit = self.0.limits.payload_bytes_max;
        if size > limit {
            return Err(Error::new(ErrorKind::TooLarge { size, limit }, "the payload is too large"));
        }
        Ok(())
    }

    fn note(&self, trace: Trace, key: &Key) {
        if trace == Trace::Regenerated && !self.0.decorated {
            self.0.counters.add(Counter::SpentIds);
            let (label, tag) = (&self.0.label, key.tag());
            log::warn!("{label}: session {tag} was used although it was regenerated and its grace is over");
        }
    }

    /// The same for a save: how much it was, and how much is allowed, belongs to what is logged. A part of another store may
    /// have been asked for something else, so what counts is what the decorator was to save.
    fn unsaved(&self, error: Error, operation: Operation, key: &Key, payload: &[u8]) -> Error {
        let known = if self.0.decorated {
            error
        } else {
            error.of_payload(payload.len() as u64, self.0.limits.payload_bytes_max)
        };
        self.failed(known, operation, Some(key))
    }

    /// Completes an error, counts it and logs what must not pass in silence.
    fn failed(&self, error: Error, operation: Operation, key: Option<&Key>) -> Error {
        if self.0.decorated {
            return error.during(operation, &self.0.label, None);
        }
        let error = error.during(operation, &self.0.label, key.map(Key::tag));
        let counters = &self.0.counters;
        match error.kind() {
            ErrorKind::TooLarge { .. } => counters.add(Counter::TooLarge),
            ErrorKind::LockTimeout { .. } => counters.add(Counter::LockTimeouts),
            ErrorKind::Stale => counters.add(Counter::StaleCommits),
            ErrorKind::Destroyed => counters.add(Counter::DestroyedCommits),
            _ => {}
        }
        // An id that is taken is an answer, not a failed save.
        let saving = matches!(operation, Operation::Create | Operation::Commit | Operation::Regenerate);
        if saving && *error.kind() != ErrorKind::Exists {
            counters.add(Counter::FailedSaves);
            log::warn!("{error:#}");
        }
        error
    }
}

impl Lease {
    /// The key of the leased record. If the id asked for led here after a regeneration, it is the new key
    /// as stored (a digest where ids are hashed).
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// A number that grows with each new holder of this session.
    pub fn fence(&self) -> u64 {
        self.held.fence()
    }

    /// Replaces the payload, sets the expiry and releases. See [`Store::commit`].
    ///
    /// # Errors
    ///
    /// `TooLarge`, `Stale`, `Destroyed`, `Gone`: nothing was written, the lease is given up.
    pub fn commit(self, payload: &[u8], ttl: Ttl) -> Result<()> {
        let Lease { held, key, sessions } = self;
        // On `TooLarge` the lease is dropped at the end of this function, which releases it.
        let committed = sessions.check_size(payload).and_then(|()| held.commit(payload, ttl));
        committed.map_err(|error| sessions.unsaved(error, Operation::Commit, &key, payload))
    }

    /// Moves the expiry and keeps the lease. See [`Store::touch_held`].
    ///
    /// # Errors
    ///
    /// `Gone`, `Destroyed`, `Stale`.
    pub fn touch(&mut self, ttl: Ttl) -> Result<()> {
        let touched = self.held.touch(ttl);
        touched.map_err(|error| self.sessions.failed(error, Operation::Touch, Some(&self.key)))
    }

    /// Gives up the lease without writing. Dropping does the same, but can only log a failure.
    pub fn release(self) -> Result<()> {
        let Lease { held, key, sessions } = self;
        let released = held.release();
        released.map_err(|error| sessions.failed(error, Operation::Release, Some(&key)))
    }

    /// Gives the record a new id, which the lease follows. See [`Store::regenerate`].
    ///
    /// # Errors
    ///
    /// `Exists` when the new id is taken (the lease stays good), `InvalidArgument` for a grace over the limit.
    pub fn regenerate(&mut self, new: &Key, grace: Duration) -> Result<()> {
        let moved = self.sessions.stored(new).and_then(|stored| {
            check_regeneration(&self.key, new, grace)?;
            self.held.regenerate(&stored, grace)
        });
        moved.map_err(|error| self.sessions.failed(error, Operation::Regenerate, Some(&self.key)))?;
        self.key = new.clone();
        Ok(())
    }
}

fn check_regeneration(old: &Key, new: &Key, grace: Duration) -> Result<()> {
    if grace > Limits::GRACE_MAX {
        let why = format!("a grace is at most {} s", Limits::GRACE_MAX.as_secs());
        return Err(Error::new(ErrorKind::InvalidArgument, why));
    }
    if old.bin() != new.bin() {
        return Err(Error::new(ErrorKind::InvalidArgument, "a record cannot move to another bin"));
    }
    if old == new {
        return Err(Error::new(ErrorKind::Exists, "the new id is the old one"));
    }
    Ok(())
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sessions({})", self.0.label)
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({:?} on {})", self.key, self.sessions.0.label)
    }
}
