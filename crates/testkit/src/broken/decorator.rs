//! The decorator that passes everything on to a good store, except where its fault says otherwise.
//!
//! It uses the public interface of the good store, so that a fault cannot depend on a store's
//! inside.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sessile_core::{
    Absence, Begun, Bin, Budget, Capabilities, Clock, Cursor, Details, Error, ErrorKind, Filter,
    Found, Holder, Key, Lease, Limits, Owner, OwnerChange, Page, Record, Result, Sessions, Stat,
    Store, Swept, Ttl, Verified,
};

use super::StoreFault::{self, *};
use crate::testbed::{ms, secs};

pub struct BrokenStore {
    fault: StoreFault,
    inner: Sessions,
    clock: Clock,
    scratch: Mutex<Scratch>,
}

#[derive(Default)]
struct Scratch {
    seen: HashMap<Key, Record>,
    /// The lease of each key, for the fault that does not know its owner.
    leases: HashMap<Key, Lease>,
    leased: HashSet<Key>,
}

pub struct BrokenLease {
    key: Key,
    lease: Option<Lease>,
    _global: Option<Lease>,
    was_missing: bool,
}

impl BrokenStore {
    pub fn wrap(fault: StoreFault, inner: Sessions, clock: Clock) -> Sessions {
        let mut limits = inner.limits();
        if fault == OversizeTruncates {
            limits.payload_bytes_max = u64::MAX;
        }
        let label = format!("broken-{}:{}", fault.name(), inner.label());
        Sessions::new(label, BrokenStore { fault, inner, clock, scratch: Mutex::default() }, limits)
    }

    fn scratch(&self) -> MutexGuard<'_, Scratch> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, fault: StoreFault) -> bool {
        self.fault == fault
    }

    fn key(&self, key: &Key) -> Result<Key> {
        match self.fault {
            IdsFoldCase => Key::in_bin(key.bin().clone(), &key.id().to_ascii_lowercase()),
            BinsMix => Key::in_bin(Bin::new("any")?, key.id()),
            _ => Ok(key.clone()),
        }
    }

    fn ttl(&self, ttl: Ttl) -> Result<Ttl> {
        match self.fault {
            TtlIgnored => Ttl::sliding(secs(86_400 * 365)),
            EndIgnored => Ttl::sliding(ms(ttl.idle_ms())),
            _ => Ok(ttl),
        }
    }

    fn payload<'a>(&self, payload: &'a [u8]) -> &'a [u8] {
        let length = match self.fault {
            OversizeTruncates => {
                usize::try_from(self.inner.limits().payload_bytes_max).unwrap_or(usize::MAX)
            }
            CutAtNul => payload.iter().position(|byte| *byte == 0).unwrap_or(payload.len()),
            _ => payload.len(),
        };
        payload.get(..length).unwrap_or(payload)
    }

    fn leaky<T>(&self, result: Result<T>, key: &Key) -> Result<T> {
        let leak = |error: Error| {
            Error::new(error.kind().clone(), format!("failed for session {}", key.id()))
        };
        if self.is(ErrorLeaksId) { result.map_err(leak) } else { result }
    }

    fn found(&self, key: &Key, record: Option<Record>, absence: Absence) -> Found {
        let record = match self.fault {
            EmptyIsMissing => record.filter(|record| !record.payload.is_empty()),
            ExpiredForOneMs => {
                let mut scratch = self.scratch();
                if let Some(record) = &record {
                    scratch.seen.insert(key.clone(), record.clone());
                }
                let last =
                    scratch.seen.get(key).filter(|last| last.head.expires == self.clock.now());
                record.or_else(|| last.cloned())
            }
            _ => record,
        };
        let absence = if self.is(SpentIdsUntold) { Absence::Unknown } else { absence };
        Found { record, moved_to: None, absence }
    }

    /// Polls with growing pauses instead of waiting in the queue.
    fn begin_unfairly(&self, key: &Key, wait_max: Duration) -> Result<Begun> {
        let start = Instant::now();
        let mut pause = ms(1);
        loop {
            let begun = self.inner.begin(key, Duration::ZERO);
            if !failed_with(&begun, "lock-timeout") || start.elapsed() >= wait_max {
                return begun;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(ms(400));
        }
    }

    fn take_home_made_lock(&self, key: &Key, wait_max: Duration) -> Result<()> {
        let (start, lock) = (Instant::now(), home_made_lock(key)?);
        let ttl = Ttl::sliding(secs(3_600))?;
        loop {
            let created = self.inner.create(&lock, b"", ttl);
            if !failed_with(&created, "exists") {
                return created;
            }
            if start.elapsed() >= wait_max {
                let holder = Holder { pid: Some(std::process::id()), ..Default::default() };
                let kind = ErrorKind::LockTimeout { holder, waited: start.elapsed() };
                return Err(Error::new(kind, "another request holds the session"));
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    fn unlocked(&self, key: &Key, fence: u64) -> Result<(BrokenLease, u64, Found)> {
        let record = self.inner.peek(key)?;
        Ok((BrokenLease::new(key, None), fence, only(record)))
    }

    /// Takes the lock, or pretends to after a short wait, with a fence that looks right.
    fn steal(&self, key: &Key) -> Result<(BrokenLease, u64, Found)> {
        let begun = self.inner.begin(key, ms(2));
        let fence = self.clock.now().as_ms() << 20;
        if failed_with(&begun, "lock-timeout") {
            return self.unlocked(key, fence);
        }
        let Begun { lease, record, .. } = begun?;
        let held = BrokenLease::new(&lease.key().clone(), Some(lease));
        Ok((held, fence + 1, only(record)))
    }

    fn force(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        self.inner.begin(key, secs(5))?.lease.commit(payload, ttl)
    }

    /// Half of the new payload over the old one, and only then all of it.
    fn tear(&self, lease: Lease, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let mut mix = self.inner.peek(key)?.map_or_else(Vec::new, |record| record.payload);
        let half = payload.len() / 2;
        mix.resize(mix.len().max(half), 0);
        mix.splice(..half, payload.iter().take(half).copied());
        lease.commit(&mix, ttl)?;
        std::thread::sleep(Duration::from_micros(500));
        self.force(key, payload, ttl)
    }

    fn change_owner(&self, lease: &mut Lease, owner: OwnerChange) -> Result<()> {
        let forgets = self.is(OwnerForgotten) && owner == OwnerChange::Keep;
        if forgets && self.inner.capabilities().owners {
            return lease.set_owner(None);
        }
        let has_one = || {
            let record = self.inner.peek(lease.key())?;
            Ok::<_, Error>(record.is_some_and(|record| record.head.owner.is_some()))
        };
        if self.is(OwnerDropped) || self.is(OwnerStays) && has_one()? {
            return Ok(());
        }
        lease.change_owner(owner)
    }

    fn lease_of(&self, held: &mut BrokenLease) -> Option<Lease> {
        held.lease.take().or_else(|| self.scratch().leases.remove(&held.key))
    }
}

impl BrokenLease {
    fn new(key: &Key, lease: Option<Lease>) -> BrokenLease {
        BrokenLease { key: key.clone(), lease, _global: None, was_missing: false }
    }

    fn lost(&self) -> Error {
        Error::new(ErrorKind::Stale, format!("no lease for session {}", self.key.tag()))
    }
}

fn only(record: Option<Record>) -> Found {
    Found { record, ..Found::default() }
}

fn home_made_lock(key: &Key) -> Result<Key> {
    Key::in_bin(Bin::new("locks")?, key.id())
}

fn failed_with<T>(result: &Result<T>, code: &str) -> bool {
    result.as_ref().is_err_and(|error| error.kind().code() == code)
}

impl Store for BrokenStore {
    type Held = BrokenLease;

    fn capabilities(&self) -> Capabilities {
        let inner = self.inner.capabilities();
        Capabilities { listing: inner.listing && !self.is(UndeclaredListing), ..inner }
    }

    fn begin(&self, asked: &Key, wait_max: Duration) -> Result<(BrokenLease, u64, Found)> {
        let key = self.key(asked)?;
        let mut global = None;
        match self.fault {
            LockOutlivesHolder => {
                self.take_home_made_lock(&key, wait_max)?;
                return self.unlocked(&key, 1);
            }
            LockNeverTaken | LostUpdates => return self.unlocked(&key, 1),
            StealsFromLiving => return self.steal(&key),
            GlobalLock => {
                let all = Key::in_bin(Bin::new("all")?, "all")?;
                global = Some(self.inner.begin(&all, wait_max)?.lease);
            }
            _ => {}
        }
        let begun = match self.fault {
            UnfairLock => self.begin_unfairly(&key, wait_max),
            _ => self.inner.begin(&key, wait_max),
        };
        if failed_with(&begun, "lock-timeout") {
            if self.is(TimeoutLooksEmpty) {
                let held = BrokenLease { was_missing: true, ..BrokenLease::new(&key, None) };
                return Ok((held, 1, Found::default()));
            }
            if self.is(HolderUnnamed) {
                let kind = ErrorKind::LockTimeout { holder: Holder::default(), waited: wait_max };
                return Err(Error::new(kind, "someone holds the session"));
            }
        }
        let Begun { lease, record, absence, moved } = self.leaky(begun, &key)?;
        self.scratch().leased.insert(key.clone());
        let moved_to = moved.then(|| lease.key().clone());
        let key = lease.key().clone();
        let fence = match self.fault {
            FenceFromRecord => record.as_ref().map_or(0, |record| record.head.version),
            _ => lease.fence(),
        };
        let found = Found { moved_to, ..self.found(&key, record, absence) };
        let mut held = BrokenLease {
            _global: global,
            was_missing: found.record.is_none(),
            ..BrokenLease::new(&key, Some(lease))
        };
        if self.is(UnlockWithoutOwnerCheck)
            && let Some(lease) = held.lease.take()
        {
            let former = self.scratch().leases.insert(key, lease);
            drop(former);
        }
        Ok((held, fence, found))
    }

    fn peek(&self, key: &Key) -> Result<Found> {
        let key = self.key(key)?;
        if self.is(PeekWaits) {
            drop(self.inner.begin(&key, secs(5))?);
        }
        let found = self.inner.find(&key)?;
        let moved_to = found.moved_to;
        Ok(Found { moved_to, ..self.found(&key, found.record, found.absence) })
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let (key, payload, ttl) = (self.key(key)?, self.payload(payload), self.ttl(ttl)?);
        let created = self.inner.create(&key, payload, ttl);
        if self.is(CreateOverwrites) && failed_with(&created, "exists") {
            return self.force(&key, payload, ttl);
        }
        self.leaky(created, &key)
    }

    fn commit(
        &self,
        mut held: BrokenLease,
        payload: &[u8],
        ttl: Ttl,
        owner: OwnerChange,
    ) -> Result<()> {
        let (payload, ttl) = (self.payload(payload), self.ttl(ttl)?);
        let force = || self.force(&held.key, payload, ttl);
        match self.fault {
            LockNeverTaken | LostUpdates => return force(),
            LockOutlivesHolder => {
                force()?;
                return self.inner.destroy(&home_made_lock(&held.key)?);
            }
            StealsFromLiving if held.lease.is_none() => return force(),
            _ => {}
        }
        let mut lease = self.lease_of(&mut held).ok_or_else(|| held.lost())?;
        self.change_owner(&mut lease, owner)?;
        let committed = match self.fault {
            LostWrite => lease.release(),
            TornWrite | TornByCrash => self.tear(lease, &held.key, payload, ttl),
            _ => lease.commit(payload, ttl),
        };
        let overwrites = match self.fault {
            ResurrectedByCommit => failed_with(&committed, "destroyed"),
            StaleAccepted => committed.is_err() && self.inner.peek(&held.key)?.is_some(),
            _ => false,
        };
        if overwrites {
            return self.force(&held.key, payload, ttl);
        }
        self.leaky(committed, &held.key)
    }

    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        let (key, ttl) = (self.key(key)?, self.ttl(ttl)?);
        if self.is(TouchDoesNothing) && self.inner.peek(&key)?.is_some() {
            return Ok(());
        }
        if self.is(TouchRewrites)
            && let Some(record) = self.inner.peek(&key)?
        {
            // As a round trip to a server would take.
            std::thread::sleep(Duration::from_micros(200));
            return self.force(&key, &record.payload, ttl);
        }
        let touched = self.inner.touch(&key, ttl);
        if self.is(TouchRecreates) && touched.is_err() {
            return self.inner.create(&key, b"", ttl);
        }
        self.leaky(touched, &key)
    }

    fn touch_held(&self, held: &mut BrokenLease, ttl: Ttl) -> Result<()> {
        let ttl = self.ttl(ttl)?;
        match &mut held.lease {
            Some(lease) => lease.touch(ttl),
            None => self.inner.touch(&held.key, ttl),
        }
    }

    fn release(&self, mut held: BrokenLease) -> Result<()> {
        if self.is(LockOutlivesHolder) {
            return self.inner.destroy(&home_made_lock(&held.key)?);
        }
        let Some(lease) = self.lease_of(&mut held) else { return Ok(()) };
        match self.fault {
            DroppedLeaseStays => {
                std::mem::forget(lease);
                Ok(())
            }
            BeginLeavesRecord if held.was_missing => lease.commit(b"", Ttl::sliding(secs(60))?),
            _ => lease.release(),
        }
    }

    fn destroy(&self, key: &Key) -> Result<()> {
        let key = self.key(key)?;
        if self.is(DestroyWaits) {
            drop(self.inner.begin(&key, secs(5))?);
        }
        self.inner.destroy(&key)
    }

    fn destroy_owned(&self, key: &Key, owner: Owner) -> Result<bool> {
        let key = self.key(key)?;
        if self.is(RevokesBlindly) {
            return self.inner.destroy(&key).map(|()| true);
        }
        self.inner.destroy_owned(&key, owner)
    }

    fn regenerate(&self, held: &mut BrokenLease, new: &Key, grace: Duration) -> Result<()> {
        let new = self.key(new)?;
        let grace = if self.is(OldIdStaysAlive) { Limits::GRACE_MAX } else { grace };
        let moved = match &mut held.lease {
            Some(lease) => lease.regenerate(&new, grace),
            None => Err(held.lost()),
        };
        self.leaky(moved, &new)?;
        held.key = new;
        Ok(())
    }

    fn stored_key(&self, key: &Key) -> Key {
        self.inner.listed_key(key)
    }

    fn listed_keys(&self, key: &Key) -> Vec<Key> {
        self.inner.listed_keys(key)
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        let mut swept = self.inner.sweep(budget)?;
        match self.fault {
            SweepCountsLie => swept.removed += 1,
            SweepRemovesLive => {
                for entry in self.inner.list(None, &Filter::default())?.entries {
                    self.inner.destroy(&entry.key)?;
                }
            }
            SweepRemovesLeased => {
                let leased: Vec<Key> = self.scratch().leased.iter().cloned().collect();
                for key in leased {
                    if self.inner.peek(&key)?.is_none() {
                        self.inner.destroy(&key)?;
                    }
                }
            }
            _ => {}
        }
        Ok(swept)
    }

    fn stat(&self) -> Result<Stat> {
        self.inner.stat()
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let all = Filter { owner: None, ..filter.clone() };
        let filter = if self.is(OwnersMix) { &all } else { filter };
        let mut page = self.inner.list(cursor, filter)?;
        if self.is(ListSkips) || self.is(OwnedSkips) && filter.owner.is_some() {
            page.entries.pop();
        }
        Ok(page)
    }

    fn details(&self) -> Result<Details> {
        self.inner.details()
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        self.inner.verify(progress)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
}
