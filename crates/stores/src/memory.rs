//! `memory:`, the sessions of one process in a map: for tests, for development, and to measure the
//! cost of the contract. Locks are granted in order of arrival: a thread sleeps on a condition
//! variable until its ticket is the first for its key and the lock is free.
//!
//! Invariant: fences come from one counter of the store, never from a record.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sessile_core::{
    Budget, Capabilities, Clock, Cursor, ErrorKind, Filter, Found, Head, Holder, Key, Listed,
    Owner, OwnerChange, Page, Result, Sessions, Stat, Store, Stored, Swept, Timestamp, Ttl,
    Waiting, destroy_aliases, follow_regenerated,
};

use crate::locks::lock;
use crate::registry::{self, Context, Fixture, StoreEntry};
use crate::store_url::{StoreUrl, invalid};

pub const ENTRY: StoreEntry = StoreEntry {
    name: "memory",
    schemes: &["memory"],
    sentence: "One process's memory: for tests and development",
    capabilities: CAPABILITIES,
    decorates: false,
    options: &[],
    server: None,
    fixtures: &[Fixture { variant: "default", url: "memory:" }],
    open,
    exists: StoreEntry::ALWAYS_EXISTS,
    drop: Err("end its process, and its sessions are gone"),
};

const CAPABILITIES: Capabilities = Capabilities {
    waiting: Waiting::Event,
    value_bytes_max: 1 << 40,
    listing: true,
    owners: true,
    ..Capabilities::MINIMAL
};

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    if !url.parts().path().is_empty() {
        return Err(invalid("memory: takes no path").advice("write memory:"));
    }
    let store =
        Memory { clock: context.clock.clone(), state: Mutex::default(), freed: Condvar::new() };
    Ok(Sessions::new(url.redacted(), store, registry::limits(url)?))
}

struct Memory {
    clock: Clock,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    last_number: u64,
    slots: BTreeMap<Key, Slot>,
    /// The tickets of waiting threads, and the keys of their locks.
    queue: BTreeMap<u64, Key>,
    swept_to: Option<Key>,
}

#[derive(Default)]
struct Slot {
    stored: Stored,
    payload: Vec<u8>,
    /// The fence, and since when.
    lease: Option<(u64, Timestamp)>,
}

type Held = (Key, u64);

impl State {
    /// The end of a chain of aliases at `now`. This store never makes a cycle.
    fn resolve(&self, asked: &Key, now: Timestamp) -> Key {
        let mut key = asked;
        while let Some(next) = self.slots.get(key).and_then(|slot| slot.stored.leads_to(now)) {
            key = next;
        }
        key.clone()
    }

    /// The session that a regenerated id leads to, also after its grace.
    fn behind(&self, target: &Key) -> Option<(&Key, &Slot)> {
        follow_regenerated(target.clone(), |key| {
            let (key, slot) = self.slots.get_key_value(key)?;
            Some(match slot.stored.regenerated_to() {
                Some(next) => ControlFlow::Continue(next.clone()),
                None => ControlFlow::Break((key, slot)),
            })
        })
    }

    /// The slot of a lease that is still good. Only `destroy` takes a lease from its holder.
    fn leased(&mut self, (key, fence): &Held) -> Result<&mut Slot> {
        let good = |slot: &&mut Slot| slot.lease.is_some_and(|(holder, _)| holder == *fence);
        self.slots.get_mut(key).filter(good).ok_or_else(|| ErrorKind::Destroyed.into())
    }
}

impl Slot {
    fn found(&self, now: Timestamp) -> Found {
        self.stored.clone().look_up(self.payload.clone(), now).break_value().unwrap_or_default()
    }

    fn put(&mut self, head: Head, payload: &[u8]) {
        (self.stored, self.payload) = (Stored::Live(head), payload.to_vec());
    }

    fn destroy(&mut self, now: Timestamp) {
        (self.stored, self.payload, self.lease) = (Stored::tombstone(0, now), Vec::new(), None);
    }

    fn touch(&mut self, ttl: Ttl, now: Timestamp) -> Result<()> {
        self.stored.touched(ttl, now).map(|head| self.stored = Stored::Live(head))
    }

    fn listed(&self, key: &Key, filter: &Filter, now: Timestamp) -> Option<Listed> {
        let (head, payload_bytes) = (self.stored.live(now)?, self.payload.len() as u64);
        let matches = filter.matches(key, payload_bytes, head.owner);
        matches.then(|| Listed { key: key.clone(), payload_bytes, head })
    }

    fn is_taken(&self, now: Timestamp) -> bool {
        self.lease.is_some() || self.stored.takes_id(now)
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.lease.is_none() && self.stored.due().is_none_or(|due| due <= now)
    }
}

impl Memory {
    fn wake(&self, state: MutexGuard<'_, State>) {
        drop(state);
        self.freed.notify_all();
    }
}

impl Store for Memory {
    type Held = Held;

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn begin(&self, asked: &Key, wait_max: Duration) -> Result<(Held, u64, Found)> {
        let (start, mut key, mut state) = (Instant::now(), asked.clone(), lock(&self.state));
        state.last_number += 1;
        let ticket = state.last_number;
        loop {
            let now = self.clock.now();
            // Resolved after each wait, because the session may have been regenerated; and from
            // `key`, not `asked`: a request within the grace keeps its session when the grace ends.
            key = state.resolve(&key, now);
            let lease = state.slots.get(&key).and_then(|slot| slot.lease);
            let first = state.queue.iter().find(|(_, wanted)| **wanted == key);
            if lease.is_none() && first.is_none_or(|(first, _)| *first == ticket) {
                state.queue.remove(&ticket);
                state.last_number += 1;
                let fence = state.last_number;
                let slot = state.slots.entry(key.clone()).or_default();
                if slot.is_due(now) {
                    slot.stored = Stored::Nothing; // a commit makes a new record
                }
                slot.lease = Some((fence, now));
                let moved_to = (key != *asked).then(|| key.clone());
                let found = Found { moved_to, ..slot.found(now) };
                return Ok(((key, fence), fence, found));
            }
            let waited = start.elapsed();
            let left = wait_max.saturating_sub(waited);
            if left.is_zero() {
                state.queue.remove(&ticket);
                self.wake(state); // the next ticket may be first now
                let since = lease.map(|(_, since)| since);
                let holder = Holder { pid: Some(std::process::id()), host: None, since };
                return Err(ErrorKind::LockTimeout { holder, waited }.into());
            }
            state.queue.insert(ticket, key.clone());
            state = self.freed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn peek(&self, asked: &Key) -> Result<Found> {
        let (now, state) = (self.clock.now(), lock(&self.state));
        let key = state.resolve(asked, now);
        let found = state.slots.get(&key).map_or_else(Found::default, |slot| slot.found(now));
        Ok(Found { moved_to: (key != *asked).then_some(key), ..found })
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let (now, mut state) = (self.clock.now(), lock(&self.state));
        let slot = state.slots.entry(key.clone()).or_default();
        if slot.is_taken(now) {
            return Err(ErrorKind::Exists.into());
        }
        slot.put(Head::next(None, ttl, now), payload);
        Ok(())
    }

    fn commit(&self, held: Held, payload: &[u8], ttl: Ttl, owner: OwnerChange) -> Result<()> {
        let (now, mut state) = (self.clock.now(), lock(&self.state));
        let slot = state.leased(&held)?;
        slot.put(Head::next(slot.stored.head(), ttl, now).with_owner(owner), payload);
        slot.lease = None;
        self.wake(state);
        Ok(())
    }

    fn touch(&self, asked: &Key, ttl: Ttl) -> Result<()> {
        let (now, mut state) = (self.clock.now(), lock(&self.state));
        let key = state.resolve(asked, now);
        state.slots.get_mut(&key).ok_or(ErrorKind::Gone)?.touch(ttl, now)
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        lock(&self.state).leased(held)?.touch(ttl, self.clock.now())
    }

    fn release(&self, held: Held) -> Result<()> {
        let mut state = lock(&self.state);
        if let Ok(slot) = state.leased(&held) {
            slot.lease = None;
            if slot.stored == Stored::Nothing {
                state.slots.remove(&held.0);
            }
            self.wake(state);
        }
        Ok(())
    }

    fn destroy(&self, asked: &Key) -> Result<()> {
        let (now, mut state) = (self.clock.now(), lock(&self.state));
        destroy_aliases(asked, |key, visited| -> Result<_> {
            let Some(slot) = state.slots.get_mut(key) else { return Ok(None) };
            if let Some(next) = slot.stored.leads_to(now).filter(|next| !visited.contains(next)) {
                return Ok(Some(next.clone()));
            }
            slot.destroy(now);
            Ok(None)
        })?;
        self.wake(state);
        Ok(())
    }

    fn destroy_owned(&self, key: &Key, owner: Owner) -> Result<bool> {
        let (now, mut state) = (self.clock.now(), lock(&self.state));
        let owned = |slot: &&mut Slot| slot.stored.live(now).and_then(|head| head.owner);
        let Some(slot) = state.slots.get_mut(key).filter(|slot| owned(slot) == Some(owner)) else {
            return Ok(false);
        };
        slot.destroy(now);
        self.wake(state);
        Ok(true)
    }

    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        let (now, mut state) = (self.clock.now(), lock(&self.state));
        let taken = state.slots.get(new).is_some_and(|slot| slot.is_taken(now));
        let old = state.leased(held)?;
        if taken {
            return Err(ErrorKind::Exists.into());
        }
        let mut moved = Slot { lease: old.lease.take(), ..Slot::default() };
        if old.stored.head().is_some() {
            moved.payload = std::mem::take(&mut old.payload);
            moved.stored =
                std::mem::replace(&mut old.stored, Stored::alias(new.clone(), grace, now));
        }
        state.slots.insert(new.clone(), moved);
        held.0 = new.clone();
        self.wake(state);
        Ok(())
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        let (now, start, mut state) = (self.clock.now(), Instant::now(), lock(&self.state));
        let from = state.swept_to.take().map_or(Unbounded, Excluded);
        let mut swept = Swept { complete: true, ..Swept::default() };
        let (mut due, mut last) = (Vec::new(), None);
        for (key, slot) in state.slots.range((from, Unbounded)) {
            if swept.examined >= budget.records_max || start.elapsed() >= budget.time_max {
                swept.complete = false;
                break;
            }
            swept.examined += 1;
            if slot.is_due(now) {
                due.push(key.clone());
                swept.removed += u64::from(slot.stored.head().is_some());
            }
            last = Some(key);
        }
        state.swept_to = last.filter(|_| !swept.complete).cloned();
        due.iter().for_each(|key| drop(state.slots.remove(key)));
        Ok(swept)
    }

    fn stat(&self) -> Result<Stat> {
        let (now, mut stat) = (self.clock.now(), Stat { complete: true, ..Stat::default() });
        for slot in lock(&self.state).slots.values() {
            if let Some(head) = slot.stored.head() {
                stat.count(&head, slot.payload.len() as u64, now);
            }
        }
        Ok(stat)
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let from = cursor.map(Key::try_from).transpose()?.map_or(Unbounded, Excluded);
        let (now, state, mut page) = (self.clock.now(), lock(&self.state), Page::default());
        for (count, (key, slot)) in state.slots.range((from, Unbounded)).enumerate() {
            let found = match slot.stored.regenerated_to() {
                Some(target) if filter.owner.is_some() => state.behind(target),
                _ => Some((key, slot)),
            };
            page.entries.extend(found.and_then(|(key, slot)| slot.listed(key, filter, now)));
            if count + 1 == filter.entries_max {
                page.next = Some(key.into());
                break;
            }
        }
        Ok(page)
    }
}
