//! The decorator that passes everything on to a good store, except where its fault says otherwise.
//!
//! It works on the public interface of the good store, as an application would, so that a fault cannot
//! depend on a store's inside.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sessile_core::{
    Begun, Bin, Budget, Capabilities, Clock, Counter, Cursor, Detail, Error, ErrorKind, Filter, Found, Holder, Key,
    Lease, Limits, Locked, Page, Record, Result, Sessions, Stat, Store, Swept, Trace, Ttl, Verified,
};

use super::Fault;

/// A good store behind one fault.
pub struct Broken {
    fault: Fault,
    inner: Sessions,
    clock: Clock,
    scratch: Mutex<Scratch>,
}

/// What some faults remember.
#[derive(Default)]
struct Scratch {
    /// The last record seen under each key.
    seen: HashMap<Key, Record>,
    /// The lease of each key, for the fault that does not know its owner.
    leases: HashMap<Key, Lease>,
    /// Every key that was ever leased.
    leased: HashSet<Key>,
}

/// A lease of the good store, or what a fault has instead.
pub struct Held {
    key: Key,
    lease: Option<Lease>,
    /// A second lock, or the record that serves as a lock.
    extra: Option<Lease>,
    was_missing: bool,
    fence: u64,
}

impl Broken {
    /// Puts a good store behind a fault.
    pub fn wrap(fault: Fault, inner: Sessions, clock: Clock) -> Sessions {
        let limits = match fault {
            Fault::OversizeTruncates => Limits { payload_bytes_max: u64::MAX, ..inner.limits() },
            _ => inner.limits(),
        };
        let label = format!("broken-{}:{}", fault.name(), inner.label());
        Sessions::new(label, Broken { fault, inner, clock, scratch: Mutex::default() }, limits)
    }

    fn scratch(&self) -> MutexGuard<'_, Scratch> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// The key under which the good store is asked.
    fn key(&self, key: &Key) -> Result<Key> {
        match self.fault {
            Fault::IdsFoldCase => Key::in_bin(key.bin().clone(), &key.id().to_ascii_lowercase()),
            Fault::BinsMix => Key::in_bin(Bin::new("any")?, key.id()),
            _ => Ok(key.clone()),
        }
    }

    fn ttl(&self, ttl: Ttl) -> Result<Ttl> {
        match self.fault {
            Fault::TtlIgnored => Ttl::sliding(Duration::from_secs(86_400 * 365)),
            Fault::EndIgnored => Ttl::sliding(Duration::from_millis(ttl.idle_ms())),
            _ => Ok(ttl),
        }
    }

    fn payload<'a>(&self, payload: &'a [u8]) -> &'a [u8] {
        let length = match self.fault {
            Fault::OversizeTruncates => usize::try_from(self.inner.limits().payload_bytes_max).unwrap_or(usize::MAX),
            Fault::CutAtNul => payload.iter().position(|byte| *byte == 0).unwrap_or(payload.len()),
            _ => payload.len(),
        };
        payload.get(..length).unwrap_or(payload)
    }

    fn leaky(&self, error: Error, key: &Key) -> Error {
        if !self.is(Fault::ErrorLeaksId) {
            return error;
        }
        Error::new(error.kind().clone(), format!("failed for session {}", key.id()))
    }

    /// What some faults do to a record that was read.
    fn seen(&self, key: &Key, record: Option<Record>) -> Option<Record> {
        match self.fault {
            Fault::EmptyIsMissing => record.filter(|record| !record.payload.is_empty()),
            Fault::ExpiredForOneMs => {
                let mut scratch = self.scratch();
                if let Some(record) = &record {
                    scratch.seen.insert(key.clone(), record.clone());
                }
                let last = scratch.seen.get(key).filter(|last| last.expires == self.clock.now());
                record.or_else(|| last.cloned())
            }
            _ => record,
        }
    }

    fn told(&self, trace: Trace) -> Trace {
        if self.is(Fault::SpentIdsUntold) { Trace::Unknown } else { trace }
    }

    fn begin_inner(&self, key: &Key, wait_max: Duration) -> Result<Begun> {
        if !self.is(Fault::UnfairLock) {
            return self.inner.begin(key, wait_max);
        }
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            match self.inner.begin(key, Duration::ZERO) {
                Err(error) if error.kind().code() == "lock-timeout" && start.elapsed() < wait_max => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(400));
                }
                answer => return answer,
            }
        }
    }

    /// Takes a lock that is a record of its own, as a home-made lock would.
    fn take_home_made_lock(&self, key: &Key, wait_max: Duration) -> Result<()> {
        let start = Instant::now();
        let lock = Key::in_bin(Bin::new("locks")?, key.id())?;
        let ttl = Ttl::sliding(Duration::from_secs(3_600))?;
        while let Err(error) = self.inner.create(&lock, b"", ttl) {
            if error.kind().code() != "exists" {
                return Err(error);
            }
            if start.elapsed() >= wait_max {
                let holder = Holder { pid: Some(std::process::id()), ..Default::default() };
                let kind = ErrorKind::LockTimeout { holder, waited: start.elapsed() };
                return Err(Error::new(kind, "another request holds the session"));
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        Ok(())
    }

    fn free_home_made_lock(&self, key: &Key) -> Result<()> {
        self.inner.destroy(&Key::in_bin(Bin::new("locks")?, key.id())?)
    }

    fn unlocked(&self, key: &Key) -> Result<Locked<Held>> {
        let record = self.inner.peek(key)?;
        let held = Held { key: key.clone(), lease: None, extra: None, was_missing: false, fence: 1 };
        Ok(Locked { held, found: Found { record, ..Found::default() } })
    }

    /// Takes the lock, or does as if after a short wait, with a fence that looks right.
    fn steal(&self, key: &Key) -> Result<Locked<Held>> {
        match self.inner.begin(key, Duration::from_millis(2)) {
            Err(error) if error.kind().code() == "lock-timeout" => {
                let mut locked = self.unlocked(key)?;
                locked.held.fence = self.clock.now().as_ms() << 20;
                Ok(locked)
            }
            begun => {
                let Begun { lease, record, .. } = begun?;
                let fence = (self.clock.now().as_ms() << 20) + 1;
                let held =
                    Held { key: lease.key().clone(), lease: Some(lease), extra: None, was_missing: false, fence };
                Ok(Locked { held, found: Found { record, ..Found::default() } })
            }
        }
    }

    fn without_lock(&self) -> bool {
        matches!(self.fault, Fault::LockNeverTaken | Fault::LostUpdates | Fault::LockOutlivesHolder)
    }

    /// Stores without a lease of one's own.
    fn force(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        self.inner.begin(key, Duration::from_secs(5))?.lease.commit(payload, ttl)
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

    fn lease_of(&self, held: &mut Held) -> Option<Lease> {
        held.lease.take().or_else(|| self.scratch().leases.remove(&held.key))
    }
}

fn lost(key: &Key) -> Error {
    Error::new(ErrorKind::Stale, format!("no lease for session {}", key.tag()))
}

impl Store for Broken {
    type Held = Held;

    fn capabilities(&self) -> Capabilities {
        let inner = self.inner.capabilities();
        Capabilities { listing: inner.listing && !self.is(Fault::UndeclaredListing), ..inner }
    }

    fn begin(&self, asked: &Key, wait_max: Duration) -> Result<Locked<Held>> {
        let key = self.key(asked)?;
        if self.is(Fault::LockOutlivesHolder) {
            self.take_home_made_lock(&key, wait_max)?;
        }
        if self.without_lock() {
            return self.unlocked(&key);
        }
        if self.is(Fault::StealsFromLiving) {
            return self.steal(&key);
        }
        let extra = match self.fault {
            Fault::GlobalLock => Some(self.inner.begin(&Key::in_bin(Bin::new("all")?, "all")?, wait_max)?.lease),
            _ => None,
        };
        let begun = match self.begin_inner(&key, wait_max) {
            Err(error) if self.is(Fault::TimeoutLooksEmpty) && error.kind().code() == "lock-timeout" => {
                let held = Held { key, lease: None, extra, was_missing: true, fence: 1 };
                return Ok(Locked { held, found: Found::nothing() });
            }
            Err(error) if self.is(Fault::HolderUnnamed) && error.kind().code() == "lock-timeout" => {
                let kind = ErrorKind::LockTimeout { holder: Holder::default(), waited: wait_max };
                return Err(Error::new(kind, "someone holds the session"));
            }
            begun => begun.map_err(|error| self.leaky(error, &key))?,
        };
        self.scratch().leased.insert(key.clone());
        let moved_to = (*begun.lease.key() != key).then(|| begun.lease.key().clone());
        let key = begun.lease.key().clone();
        let fence = match self.fault {
            Fault::FenceFromRecord => begun.record.as_ref().map_or(0, |record| record.version),
            _ => begun.lease.fence(),
        };
        let found = Found { record: self.seen(&key, begun.record), moved_to, trace: self.told(begun.trace) };
        let mut held = Held { key, lease: Some(begun.lease), extra, was_missing: found.record.is_none(), fence };
        if self.is(Fault::UnlockWithoutOwnerCheck)
            && let Some(lease) = held.lease.take()
        {
            let former = self.scratch().leases.insert(held.key.clone(), lease);
            drop(former);
        }
        Ok(Locked { held, found })
    }

    fn fence(&self, held: &Held) -> u64 {
        held.fence
    }

    fn peek(&self, key: &Key) -> Result<Found> {
        let key = self.key(key)?;
        if self.is(Fault::PeekWaits) {
            drop(self.inner.begin(&key, Duration::from_secs(5))?);
        }
        let spent = self.inner.counters().get(Counter::SpentIds);
        let record = self.inner.peek(&key)?;
        let reported = self.inner.counters().get(Counter::SpentIds) > spent;
        let trace = if reported && record.is_none() { Trace::Regenerated } else { Trace::Unknown };
        Ok(Found { record: self.seen(&key, record), moved_to: None, trace: self.told(trace) })
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let (key, payload, ttl) = (self.key(key)?, self.payload(payload), self.ttl(ttl)?);
        match self.inner.create(&key, payload, ttl) {
            Err(error) if self.is(Fault::CreateOverwrites) && error.kind().code() == "exists" => {
                self.force(&key, payload, ttl)
            }
            answer => answer.map_err(|error| self.leaky(error, &key)),
        }
    }

    fn commit(&self, mut held: Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        let (payload, ttl) = (self.payload(payload), self.ttl(ttl)?);
        if self.without_lock() {
            self.force(&held.key, payload, ttl)?;
            return if self.is(Fault::LockOutlivesHolder) { self.free_home_made_lock(&held.key) } else { Ok(()) };
        }
        let Some(lease) = self.lease_of(&mut held) else {
            return if self.is(Fault::StealsFromLiving) {
                self.force(&held.key, payload, ttl)
            } else {
                Err(lost(&held.key))
            };
        };
        let committed = match self.fault {
            Fault::LostWrite => lease.release(),
            Fault::TornWrite | Fault::TornByCrash => self.tear(lease, &held.key, payload, ttl),
            _ => lease.commit(payload, ttl),
        };
        match committed {
            Err(error) if self.is(Fault::ResurrectedByCommit) && error.kind().code() == "destroyed" => {
                self.force(&held.key, payload, ttl)
            }
            Err(_) if self.is(Fault::StaleAccepted) && self.inner.peek(&held.key)?.is_some() => {
                self.force(&held.key, payload, ttl)
            }
            committed => committed.map_err(|error| self.leaky(error, &held.key)),
        }
    }

    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        let (key, ttl) = (self.key(key)?, self.ttl(ttl)?);
        if self.is(Fault::TouchDoesNothing) && self.inner.peek(&key)?.is_some() {
            return Ok(());
        }
        if self.is(Fault::TouchRewrites)
            && let Some(record) = self.inner.peek(&key)?
        {
            std::thread::sleep(Duration::from_micros(200)); // as a round trip to a server would take
            return self.force(&key, &record.payload, ttl);
        }
        match self.inner.touch(&key, ttl) {
            Err(_) if self.is(Fault::TouchRecreates) => self.inner.create(&key, b"", ttl),
            touched => touched.map_err(|error| self.leaky(error, &key)),
        }
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        let ttl = self.ttl(ttl)?;
        match &mut held.lease {
            Some(lease) => lease.touch(ttl),
            None => self.inner.touch(&held.key, ttl),
        }
    }

    fn release(&self, mut held: Held) -> Result<()> {
        if self.is(Fault::LockOutlivesHolder) {
            return self.free_home_made_lock(&held.key);
        }
        let lease = self.lease_of(&mut held);
        match self.fault {
            Fault::DroppedLeaseStays => {
                std::mem::forget(lease);
                return Ok(());
            }
            Fault::BeginLeavesRecord if held.was_missing => {
                let ttl = Ttl::sliding(Duration::from_secs(60))?;
                return lease.map_or(Ok(()), |lease| lease.commit(b"", ttl));
            }
            _ => {}
        }
        drop(held.extra);
        lease.map_or(Ok(()), Lease::release)
    }

    fn destroy(&self, key: &Key) -> Result<()> {
        let key = self.key(key)?;
        if self.is(Fault::DestroyWaits) {
            drop(self.inner.begin(&key, Duration::from_secs(5))?);
        }
        self.inner.destroy(&key)
    }

    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        let new = self.key(new)?;
        let grace = if self.is(Fault::OldIdStaysAlive) { Limits::GRACE_MAX } else { grace };
        let moved = match &mut held.lease {
            Some(lease) => lease.regenerate(&new, grace),
            None => Err(lost(&held.key)),
        };
        moved.map_err(|error| self.leaky(error, &new))?;
        held.key = new;
        Ok(())
    }

    fn stored_key(&self, key: &Key) -> Key {
        self.inner.listed_key(key)
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        let mut swept = self.inner.sweep(budget)?;
        match self.fault {
            Fault::SweepCountsLie => swept.removed += 1,
            Fault::SweepRemovesLive => {
                for entry in self.inner.list(None, &Filter::default())?.entries {
                    self.inner.destroy(&entry.key)?;
                }
            }
            Fault::SweepRemovesLeased => {
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
        let mut page = self.inner.list(cursor, filter)?;
        if self.is(Fault::ListSkips) {
            page.entries.pop();
        }
        Ok(page)
    }

    fn details(&self) -> Result<Vec<Detail>> {
        self.inner.details()
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        self.inner.verify(progress)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
}
