//! The interface of applications: an opened store of any kind.
//!
//! [`Sessions`] owns the rules that no store should repeat: limits are checked before a store is
//! asked, failed saves are counted and logged, errors name the operation and the store, a dropped
//! lease is released. It adds no lock and no cache.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::counters::Counters;
use crate::erased::{AnyHeld, AnyStore, Erased};
use crate::store::no_owners;
use crate::{
    Absence, Budget, Capabilities, Counter, Cursor, Details, Error, ErrorKind, Filter, Found,
    HeldLock, Key, Limits, Listed, Operation, Owner, OwnerChange, Page, Record, Result,
    SharedCounters, SharedCounts, Stat, Store, Swept, Ttl, Verified,
};

/// A revocation whose passes find sessions again and again gives up after so many.
const REVOKE_PASSES_MAX: u32 = 16;

/// An opened store. Clones share it; threads and forked children may use it.
#[derive(Clone)]
pub struct Sessions(Arc<Opened>);

struct Opened {
    store: Box<dyn AnyStore>,
    label: String,
    limits: Limits,
    counters: Counters,
    stored_key: Option<fn(&Key) -> Key>,
    shared_counters: Option<Box<dyn SharedCounters>>,
}

/// The right to change one session until it is committed or released.
pub struct Lease {
    held: Box<dyn AnyHeld>,
    fence: u64,
    key: Key,
    sessions: Sessions,
}

/// The store's part of a granted `begin`.
type GrantedByStore = (Box<dyn AnyHeld>, u64, Found);

/// A granted `begin`.
#[derive(Debug)]
pub struct Begun {
    /// The lease; dropping it releases.
    pub lease: Lease,
    /// The record, if there is a live one.
    pub record: Option<Record>,
    /// Why there is none, if the store knows.
    pub absence: Absence,
    /// Whether the asked id was regenerated and led to the key of the lease.
    pub moved: bool,
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
            shared_counters: None,
        }))
    }

    /// Makes the store see `stored_key(key)` instead of each key, for example a digest. The
    /// function must be injective in practice and keep the bin.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` when the store is already shared: its keys may be in use.
    pub fn storing_keys_as(mut self, stored_key: fn(&Key) -> Key) -> Result<Sessions> {
        let shared = || {
            Error::new(ErrorKind::InvalidArgument, "the store is already in use under plain ids")
        };
        Arc::get_mut(&mut self.0).ok_or_else(shared)?.stored_key = Some(stored_key);
        Ok(self)
    }

    /// Counts into shared memory. Without effect once `self` has clones.
    #[must_use]
    pub fn counting_into(mut self, counters: Box<dyn SharedCounters>) -> Sessions {
        if let Some(opened) = Arc::get_mut(&mut self.0) {
            opened.shared_counters = Some(counters);
        }
        self
    }

    /// Counts a save that a decorator has refused before it reached this store.
    pub fn count_failed_save(&self) {
        match &self.0.shared_counters {
            Some(counters) => counters.count_failed_save(),
            None => self.0.store.count_failed_save(),
        }
    }

    /// What all processes of this store have counted; `None` if no process has counted yet.
    pub fn shared_counts(&self) -> Option<SharedCounts> {
        match &self.0.shared_counters {
            Some(counters) => counters.shared_counts(),
            None => self.0.store.shared_counts(),
        }
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

    /// The value of a counter of this process.
    pub fn count(&self, counter: Counter) -> u64 {
        self.0.counters.get(counter)
    }

    /// Counts events that a handler has seen.
    pub fn add_to_count(&self, counter: Counter, events: u64) {
        self.0.counters.add(counter, events);
    }

    /// Takes the lock of a session and reads it. See [`Store::begin`].
    #[inline(always)] // what it returns is large; without this it would be copied once more
    pub fn begin(&self, key: &Key, wait_max: Duration) -> Result<Begun> {
        let wait_max = wait_max.min(Limits::WAIT_MAX);
        if self.0.shared_counters.is_some() {
            return self.begin_counted(key, wait_max);
        }
        let begun = self.stored(key).and_then(|stored| self.0.store.begin(&stored, wait_max));
        self.granted(key, begun)
    }

    #[inline(never)] // inlined, it slows down the other branch of `begin`
    fn begin_counted(&self, key: &Key, wait_max: Duration) -> Result<Begun> {
        let begun = self.ask_counted(key, wait_max);
        self.granted(key, begun)
    }

    /// A store without shared counters of its own costs far more than a clock.
    fn ask_counted(&self, key: &Key, wait_max: Duration) -> Result<GrantedByStore> {
        let start = Instant::now();
        let begun = self.stored(key).and_then(|stored| self.0.store.begin(&stored, wait_max));
        if let Some(counters) = &self.0.shared_counters {
            let hit = begun.as_ref().is_ok_and(|(.., found)| found.record.is_some());
            counters.count_begin(hit, start.elapsed());
        }
        begun
    }

    #[inline(always)] // as `begin`
    fn granted(&self, key: &Key, begun: Result<GrantedByStore>) -> Result<Begun> {
        let (held, fence, found) =
            begun.map_err(|error| self.failed(error, Operation::Begin, Some(key)))?;
        self.count_spent_id(found.absence, key);
        let moved = found.moved_to.is_some();
        let lease = Lease {
            held,
            fence,
            key: found.moved_to.unwrap_or_else(|| key.clone()),
            sessions: self.clone(),
        };
        Ok(Begun { lease, record: found.record, absence: found.absence, moved })
    }

    /// [`Sessions::begin`] without a wait. A lock that is not free is an answer here, so that
    /// `LockTimeout` is not counted.
    pub fn begin_at_once(&self, key: &Key) -> Result<Begun> {
        let begun = self.ask_counted(key, Duration::ZERO);
        match begun {
            Err(error) if matches!(error.kind(), ErrorKind::LockTimeout { .. }) => {
                Err(error.during(Operation::Begin, &self.0.label, Some(key.tag())))
            }
            begun => self.granted(key, begun),
        }
    }

    /// Whether a begin leaves what another program takes for a session. See
    /// [`Store::begin_leaves_placeholder`].
    pub fn begin_leaves_placeholder(&self, key: &Key) -> Result<bool> {
        let leaves = self.stored(key).and_then(|it| self.0.store.begin_leaves_placeholder(&it));
        self.done(Operation::Begin, Some(key), leaves)
    }

    /// The record without a lock. See [`Store::peek`].
    pub fn peek(&self, key: &Key) -> Result<Option<Record>> {
        let found = self.find(key)?;
        self.count_spent_id(found.absence, key);
        Ok(found.record)
    }

    /// The record without a lock, its key after a regeneration, and the reason if there is none.
    /// Counts no spent id: a handler may go on to [`Sessions::begin`], which does.
    pub fn find(&self, key: &Key) -> Result<Found> {
        let found = self.stored(key).and_then(|stored| self.0.store.peek(&stored));
        self.done(Operation::Peek, Some(key), found)
    }

    /// Stores a new record; `TooLarge` over the limit, `InvalidArgument` under a key of a listing.
    /// See [`Store::create`].
    pub fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let created = self.stored(key).and_then(|stored| {
            check_unlisted(key)?;
            self.check_size(payload)?;
            self.0.store.create(&stored, payload, ttl)
        });
        created.map_err(|error| self.unsaved(error, Operation::Create, key, payload))
    }

    /// Moves the expiry without a lease. See [`Store::touch`].
    pub fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        let touched = self.stored(key).and_then(|stored| self.0.store.touch(&stored, ttl));
        self.done(Operation::Touch, Some(key), touched)
    }

    /// Removes a session at once and voids its lease. See [`Store::destroy`].
    pub fn destroy(&self, key: &Key) -> Result<()> {
        let destroyed = self.stored(key).and_then(|stored| self.0.store.destroy(&stored));
        self.done(Operation::Destroy, Some(key), destroyed)
    }

    /// Destroys the session of exactly this key if it belongs to the owner at that moment. Returns
    /// whether it did. See [`Store::destroy_owned`].
    pub fn destroy_owned(&self, key: &Key, owner: Owner) -> Result<bool> {
        let declared = if self.capabilities().owners { Ok(()) } else { Err(no_owners()) };
        let stored = declared.and_then(|()| self.stored(key));
        let destroyed = stored.and_then(|stored| self.0.store.destroy_owned(&stored, owner));
        self.done(Operation::Destroy, Some(key), destroyed)
    }

    /// Removes what has expired, within the budget. See [`Store::sweep`].
    pub fn sweep(&self, budget: Budget) -> Result<Swept> {
        self.done(Operation::Sweep, None, self.0.store.sweep(budget))
    }

    /// See [`Store::stat`].
    pub fn stat(&self) -> Result<Stat> {
        self.done(Operation::Stat, None, self.0.store.stat())
    }

    /// One page of the live records; `InvalidArgument` for a page size outside its limits. See
    /// [`Store::list`].
    pub fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let page = if filter.owner.is_some() && !self.capabilities().owners {
            Err(no_owners())
        } else if (1..=Limits::PAGE_ENTRIES_MAX).contains(&filter.entries_max) {
            self.0.store.list(cursor, filter)
        } else {
            let why = format!("a page has 1 to {} entries", Limits::PAGE_ENTRIES_MAX);
            Err(Error::new(ErrorKind::InvalidArgument, why))
        };
        self.done(Operation::List, None, page)
    }

    /// The live sessions of an owner, each once, in the order of their keys. `key.as_listed()` of
    /// each reads or ends it. Keeps them all in memory, unlike [`Sessions::each_of`].
    ///
    /// A session is in it if it has the owner as long as the call lasts.
    ///
    /// # Errors
    ///
    /// `Unsupported` when owners are not declared.
    pub fn sessions_of(&self, owner: Owner) -> Result<Vec<Listed>> {
        let mut listed = BTreeMap::new();
        self.each_of(owner, |entry| {
            listed.insert(entry.key.clone(), entry);
            Ok(())
        })?;
        Ok(listed.into_values().collect())
    }

    /// The live sessions of an owner by pages, perhaps one more than once. See
    /// [`Sessions::sessions_of`]. An error of `each` ends it.
    pub fn each_of(&self, owner: Owner, mut each: impl FnMut(Listed) -> Result<()>) -> Result<()> {
        let filter = Filter { owner: Some(owner), ..Filter::default() };
        let mut cursor = None;
        loop {
            let page = self.list(cursor.as_ref(), &filter)?;
            page.entries.into_iter().try_for_each(&mut each)?;
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Ends all sessions of an owner, but for one: a log-out everywhere. Returns how many it has
    /// ended. `but` is a key as the application knows it, also a late one that leads to its session
    /// after a regeneration; without one no session is left.
    ///
    /// The store is looked through until the second or a later pass finds no other session of the
    /// owner. So no session is missed that had the owner before the call began, also if it gets
    /// another id meanwhile, but for those that `CONTRACT.md` lists. Each is looked at again when
    /// it is ended: one that belongs to somebody else by then stays. A session that gets the owner
    /// during the call may be ended or not: change the password first.
    ///
    /// # Errors
    ///
    /// `Unsupported` when owners are not declared; `Io` when sessions of the owner appear as fast
    /// as they are ended; those of [`Store::destroy`]. Some sessions have then been ended, and the
    /// call can be repeated.
    pub fn revoke(&self, owner: Owner, but: Option<&Key>) -> Result<u64> {
        let mut ended = 0;
        for pass in 0..REVOKE_PASSES_MAX {
            let mut kept = but.map_or(Ok(Vec::new()), |key| self.kept_keys(key))?;
            let mut found = false;
            self.each_of(owner, |entry| {
                if kept.contains(&entry.key) {
                    return Ok(());
                }
                if let Some(key) = but {
                    // Another request of the visitor may have given the session this new id.
                    kept = self.kept_keys(key)?;
                    if kept.contains(&entry.key) {
                        return Ok(());
                    }
                }
                found = true;
                ended += u64::from(self.destroy_owned(&entry.key.as_listed(), owner)?);
                Ok(())
            })?;
            // What one pass misses may be the only session.
            if !found && pass > 0 {
                return Ok(ended);
            }
        }
        let why = "sessions of the owner appear as fast as they are ended";
        let error = Error::new(ErrorKind::Io, why)
            .advice("repeat it, after the password was changed or the user was locked out");
        self.done(Operation::Revoke, None, Err(error))
    }

    /// The keys under which a listing may show the session now: an id within its grace leads to
    /// another one.
    fn kept_keys(&self, key: &Key) -> Result<Vec<Key>> {
        let mut kept = self.listed_keys(key);
        if let Some(target) = self.find(key)?.moved_to {
            kept.extend(self.listed_keys(&target));
            kept.push(target);
        }
        kept.push(key.clone());
        Ok(kept)
    }

    /// `Unsupported` where sessions cannot have owners: before a handler promises one.
    pub fn check_owners(&self) -> Result<()> {
        let declared = if self.capabilities().owners { Ok(()) } else { Err(no_owners()) };
        self.done(Operation::SetOwner, None, declared)
    }

    /// See [`Store::details`].
    pub fn details(&self) -> Result<Details> {
        self.done(Operation::Details, None, self.0.store.details())
    }

    /// At most `limit` of the locks that are held now. See [`Store::locks`].
    pub fn locks(&self, limit: usize) -> Result<Vec<HeldLock>> {
        self.done(Operation::Locks, None, self.0.store.locks(limit))
    }

    /// Checks the stored data and changes nothing. See [`Store::verify`].
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        self.done(Operation::Verify, None, self.0.store.verify(progress))
    }

    /// Makes every acknowledged write survive a power cut. See [`Store::sync`].
    pub fn sync(&self) -> Result<()> {
        self.done(Operation::Sync, None, self.0.store.sync())
    }

    /// Counts and logs a save that a handler refuses before it reaches the store, and completes its
    /// error.
    pub fn refuse_save(&self, key: &Key, error: Error) -> Error {
        self.failed(error, Operation::Commit, Some(key))
    }

    /// The key as listings show it: the key itself, or a digest in the same bin if the store keeps
    /// no ids.
    pub fn listed_key(&self, key: &Key) -> Key {
        self.0.store.stored_key(&self.hashed(key))
    }

    /// All keys under which a listing may show the session of this key. See
    /// [`Store::listed_keys`].
    pub fn listed_keys(&self, key: &Key) -> Vec<Key> {
        self.0.store.listed_keys(&self.hashed(key))
    }

    /// The key as the store sees it.
    fn hashed<'k>(&self, key: &'k Key) -> Cow<'k, Key> {
        match self.0.stored_key {
            Some(stored_key) if !key.is_listed() => Cow::Owned(stored_key(key)),
            _ => Cow::Borrowed(key),
        }
    }

    /// [`Sessions::hashed`], checked against the store's limit.
    fn stored<'k>(&self, key: &'k Key) -> Result<Cow<'k, Key>> {
        let stored = self.hashed(key);
        let limit = self.0.limits.id_bytes_max;
        if stored.id().len() > limit {
            let why = format!(
                "the id is malformed: it is longer than the {limit} bytes that this store takes"
            );
            return Err(Error::new(ErrorKind::InvalidId, why));
        }
        Ok(stored)
    }

    fn check_size(&self, payload: &[u8]) -> Result<()> {
        let size = payload.len() as u64;
        let limit = self.0.limits.payload_bytes_max;
        if size > limit {
            return Err(ErrorKind::TooLarge { size, limit }.into());
        }
        Ok(())
    }

    /// Counts and logs the use of a key after [`Sessions::find`], if it is a spent id.
    pub fn count_spent_id(&self, absence: Absence, key: &Key) {
        if absence == Absence::Regenerated {
            self.0.counters.add(Counter::SpentIds, 1);
            let (label, tag) = (&self.0.label, key.tag());
            log::warn!(
                "{label}: session {tag} was used although it was regenerated and its grace is over"
            );
        }
    }

    fn done<T>(&self, operation: Operation, key: Option<&Key>, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.failed(error, operation, key))
    }

    /// Completes the error of a failed save with the size of the payload and the limit.
    fn unsaved(&self, error: Error, operation: Operation, key: &Key, payload: &[u8]) -> Error {
        let known = error.of_payload(payload.len() as u64, self.0.limits.payload_bytes_max);
        self.failed(known, operation, Some(key))
    }

    /// Completes and counts an error, and logs a failed save, unless a store behind a decorator has
    /// logged it.
    fn failed(&self, error: Error, operation: Operation, key: Option<&Key>) -> Error {
        let logged = error.operation().is_some_and(Operation::saves);
        let error = error.during(operation, &self.0.label, key.map(Key::tag));
        let counters = &self.0.counters;
        match error.kind() {
            ErrorKind::TooLarge { .. } => counters.add(Counter::TooLarge, 1),
            ErrorKind::LockTimeout { .. } => counters.add(Counter::LockTimeouts, 1),
            ErrorKind::Stale => counters.add(Counter::StaleCommits, 1),
            ErrorKind::Destroyed => counters.add(Counter::DestroyedCommits, 1),
            _ => {}
        }
        // A taken id is an answer, not a failed save.
        if operation.saves() && *error.kind() != ErrorKind::Exists {
            counters.add(Counter::FailedSaves, 1);
            // A store behind a decorator has counted its own in the counters that both share.
            if self.0.shared_counters.is_some() || !logged {
                self.count_failed_save();
            }
            if !logged {
                log::warn!("{error:#}");
            }
        }
        error
    }
}

impl Lease {
    /// The key of the leased record: the one that was asked for, or that of the last
    /// [`Lease::regenerate`]. If an alias led here, it is the new key as the store shows it, which
    /// is a digest where the store keeps no ids.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// A number that grows with each new holder of this session.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Replaces the payload, sets the expiry and releases; `TooLarge` over the limit. After any
    /// error the lease has ended, and after any but `Unreachable` nothing was written. See
    /// [`Store::commit`].
    pub fn commit(self, payload: &[u8], ttl: Ttl) -> Result<()> {
        let Lease { held, key, sessions, .. } = self;
        // On `TooLarge` the lease is dropped at the end of this function, which releases it.
        let committed = sessions.check_size(payload).and_then(|()| held.commit(payload, ttl));
        if let Some(counters) = &sessions.0.shared_counters
            && committed.is_ok()
        {
            counters.count_commit();
        }
        committed.map_err(|error| sessions.unsaved(error, Operation::Commit, &key, payload))
    }

    /// Makes the commit of this lease set the owner of the session, or take it away. The owner then
    /// stays with the session until another commit sets one. Nothing is written before the commit.
    ///
    /// # Errors
    ///
    /// `Unsupported` when owners are not declared; the lease stays good.
    pub fn set_owner(&mut self, owner: Option<Owner>) -> Result<()> {
        self.sessions.check_owners()?;
        self.held.set_owner(owner);
        Ok(())
    }

    /// The owner that the session has after the commit.
    pub fn owner(&self) -> Option<Owner> {
        self.held.owner()
    }

    /// [`Lease::set_owner`], for a store that is made of another one.
    ///
    /// # Errors
    ///
    /// As [`Lease::set_owner`].
    pub fn change_owner(&mut self, change: OwnerChange) -> Result<()> {
        match change {
            OwnerChange::Keep => Ok(()),
            OwnerChange::Set(owner) => self.set_owner(owner),
        }
    }

    /// Moves the expiry and keeps the lease. See [`Store::touch_held`].
    pub fn touch(&mut self, ttl: Ttl) -> Result<()> {
        let touched = self.held.touch(ttl);
        self.sessions.done(Operation::Touch, Some(&self.key), touched)
    }

    /// Lets the record expire at once and keeps the lease. That is no log-out and leaves no
    /// tombstone: the session lives on in another store.
    pub fn end(&mut self) -> Result<()> {
        self.touch(Ttl::ENDED)
    }

    /// Releases the lease without writing. Dropping a lease releases it too, but can only log a
    /// failure.
    pub fn release(self) -> Result<()> {
        let Lease { held, key, sessions, .. } = self;
        sessions.done(Operation::Release, Some(&key), held.release())
    }

    /// Gives the record a new id, which the lease follows; `InvalidArgument` for a grace over the
    /// limit, and for a key of a listing as the new one. See [`Store::regenerate`].
    pub fn regenerate(&mut self, new: &Key, grace: Duration) -> Result<()> {
        let moved = self.sessions.stored(new).and_then(|stored| {
            check_regeneration(&self.key, new, grace)?;
            self.held.regenerate(&stored, grace)
        });
        self.sessions.done(Operation::Regenerate, Some(&self.key), moved)?;
        self.key = new.clone();
        Ok(())
    }
}

/// A digest that listings show is no secret: no session may have it as its id.
fn check_unlisted(new: &Key) -> Result<()> {
    if new.is_listed() {
        let why = "a key of a listing is to read or to destroy a session, and not to make one";
        return Err(Error::new(ErrorKind::InvalidArgument, why));
    }
    Ok(())
}

fn check_regeneration(old: &Key, new: &Key, grace: Duration) -> Result<()> {
    check_unlisted(new)?;
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
