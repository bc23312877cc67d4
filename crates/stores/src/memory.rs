//! `memory:`, the sessions of one process in a map.
//!
//! For tests, for development, and as the row of the benchmark that shows what the contract itself costs.
//! Threads of the process share it; other processes do not see it, and it ends with the process. Locks are
//! granted in order of arrival: a locked session has a queue of tickets, and a thread sleeps on a condition
//! variable until its ticket is first and the lock is free.
//!
//! Invariants: fences come from one counter of the store, never from a record; a slot that has neither
//! content, holder nor waiter is removed.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sessile_core::{
    Budget, Capabilities, Clock, Cursor, Durability, Entry, Error, ErrorKind, Expiry, Filter, Found, Holder, Key,
    Limits, Locked, Locking, Ownership, Page, Record, Result, Sessions, SessionsBound, Stat, Store, Swept, Timestamp,
    Trace, Ttl, Waiting,
};

use crate::registry::{self, Context, Fixture, StoreEntry};
use crate::store_url::{StoreUrl, invalid};

/// The registry line of this store.
pub const ENTRY: StoreEntry = StoreEntry {
    name: "memory",
    schemes: &["memory"],
    sentence: "One process's memory: for tests and development",
    capabilities: CAPABILITIES,
    decorates: false,
    options: &[],
    fixtures: &[Fixture { variant: "default", url: "memory:" }],
    open,
};

const CAPABILITIES: Capabilities = Capabilities {
    persistent_from: None,
    shared_by_processes: false,
    shared_by_hosts: false,
    server: None,
    locking: Locking::Native,
    waiting: Waiting::Event,
    ownership: Ownership::Process,
    expiry: Expiry::Sweep,
    value_bytes_max: 1 << 40,
    id_bytes_max: Limits::ID_BYTES_MAX,
    sessions_bounded_by: SessionsBound::ProcessMemory,
    compare_and_set: true,
    listing: true,
    durability: &[Durability::None],
};

/// Regenerated ids may lead to ids that were regenerated themselves; more steps than this are a loop.
const ALIAS_STEPS_MAX: usize = 16;

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    if !url.parts().path().is_empty() {
        return Err(invalid("memory: takes no path").advice("write memory:"));
    }
    let store = Memory { clock: context.clock.clone(), state: Mutex::default(), freed: Condvar::new() };
    Ok(Sessions::new(url.redacted(), store, registry::limits(url)?))
}

struct Memory {
    clock: Clock,
    state: Mutex<State>,
    /// Notified whenever a lock becomes free.
    freed: Condvar,
}

#[derive(Default)]
struct State {
    last_fence: u64,
    last_ticket: u64,
    slots: BTreeMap<Key, Slot>,
    swept_to: Option<Key>,
}

#[derive(Default)]
struct Slot {
    content: Content,
    holder: Option<Grant>,
    waiting: VecDeque<u64>,
}

struct Grant {
    fence: u64,
    since: Timestamp,
}

#[derive(Default)]
enum Content {
    #[default]
    Nothing,
    Live(Record),
    /// Destroyed or regenerated; leads to another key until the grace is over.
    Past {
        trace: Trace,
        leads_to: Option<(Key, Timestamp)>,
        forget: Timestamp,
    },
}

struct Held {
    key: Key,
    fence: u64,
}

impl State {
    /// Where a key leads at `now`, through regenerations whose grace still runs.
    fn resolve(&self, key: &Key, now: Timestamp) -> Key {
        let mut key = key.clone();
        for _ in 0..ALIAS_STEPS_MAX {
            match self.slots.get(&key).map(|slot| &slot.content) {
                Some(Content::Past { leads_to: Some((next, until)), .. }) if *until > now => key = next.clone(),
                _ => break,
            }
        }
        key
    }

    /// Removes the slot of a key if nothing is left in it.
    fn tidy(&mut self, key: &Key) {
        if let Some(slot) = self.slots.get(key)
            && matches!(slot.content, Content::Nothing)
            && slot.holder.is_none()
            && slot.waiting.is_empty()
        {
            self.slots.remove(key);
        }
    }

    /// The slot of a lease that is still good.
    fn leased(&mut self, held: &Held) -> Result<&mut Slot> {
        let destroyed = || Error::new(ErrorKind::Destroyed, "the session was destroyed after it was read");
        let slot = self.slots.get_mut(&held.key).ok_or_else(destroyed)?;
        // Only `destroy` takes a lease from its holder, so a foreign fence means the same as none.
        if slot.holder.as_ref().is_none_or(|grant| grant.fence != held.fence) {
            return Err(destroyed());
        }
        Ok(slot)
    }
}

impl Content {
    fn found(&self, now: Timestamp) -> Found {
        match self {
            Content::Live(record) if !record.expired(now) => Found::live(record.clone()),
            Content::Past { trace, forget, .. } if *forget > now => Found::traced(*trace),
            _ => Found::nothing(),
        }
    }

    fn replace_payload(&mut self, payload: &[u8], ttl: Ttl, now: Timestamp) {
        let old = match std::mem::take(self) {
            Content::Live(record) => Some(record),
            _ => None,
        };
        let created = old.as_ref().map_or(now, |record| record.created);
        let (expires, ends) = ttl.deadline(now, created, old.as_ref().and_then(|record| record.ends));
        let (version, mut bytes) = old.map_or((0, Vec::new()), |record| (record.version, record.payload));
        bytes.clear();
        bytes.extend_from_slice(payload);
        *self = Content::Live(Record { payload: bytes, version: version + 1, created, written: now, expires, ends });
    }

    fn touch(&mut self, ttl: Ttl, now: Timestamp) -> Result<()> {
        match self {
            Content::Live(record) if !record.expired(now) => {
                (record.expires, record.ends) = ttl.deadline(now, record.created, record.ends);
                Ok(())
            }
            _ => Err(Error::new(ErrorKind::Gone, "there is no record to touch")),
        }
    }

    fn past(trace: Trace, now: Timestamp) -> Content {
        Content::Past { trace, leads_to: None, forget: now.plus(Limits::TOMBSTONE_TTL) }
    }

    /// Whether a sweep may remove it, and whether it counts as a removed record.
    fn due(&self, now: Timestamp) -> (bool, bool) {
        match self {
            Content::Live(record) => (record.expired(now), true),
            Content::Past { forget, .. } => (*forget <= now, false),
            Content::Nothing => (false, false),
        }
    }
}

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another thread cannot leave the map half-changed: each change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Memory {
    type Held = Held;

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn begin(&self, asked: &Key, wait_max: Duration) -> Result<Locked<Held>> {
        let start = Instant::now();
        let mut state = self.state();
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        let mut key = asked.clone();
        loop {
            let now = self.clock.now();
            // Looked up anew after each wait: the session may have been regenerated meanwhile. From where this
            // wait had come to, not from `asked`: a request of the grace keeps its session when the grace ends.
            key = state.resolve(&key, now);
            let slot = state.slots.entry(key.clone()).or_default();
            let first = slot.waiting.front().is_none_or(|front| *front == ticket);
            if slot.holder.is_none() && first {
                slot.waiting.pop_front();
                if slot.content.due(now).0 {
                    slot.content = Content::Nothing;
                }
                let found = slot.content.found(now);
                state.last_fence += 1;
                let fence = state.last_fence;
                if let Some(slot) = state.slots.get_mut(&key) {
                    slot.holder = Some(Grant { fence, since: now });
                }
                let moved_to = (key != *asked).then(|| key.clone());
                return Ok(Locked { held: Held { key, fence }, found: Found { moved_to, ..found } });
            }
            if !slot.waiting.contains(&ticket) {
                slot.waiting.push_back(ticket);
            }
            let waited = start.elapsed();
            let Some(left) = wait_max.checked_sub(waited).filter(|left| !left.is_zero()) else {
                slot.waiting.retain(|other| *other != ticket);
                let holder = Holder {
                    pid: Some(std::process::id()),
                    host: None,
                    since: slot.holder.as_ref().map(|grant| grant.since),
                };
                state.tidy(&key);
                drop(state);
                self.freed.notify_all(); // whoever queued behind this ticket may be first now
                return Err(Error::new(ErrorKind::LockTimeout { holder, waited }, "another request holds the session"));
            };
            state = self.freed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            let moved = state.resolve(&key, self.clock.now()) != key;
            if moved && let Some(slot) = state.slots.get_mut(&key) {
                slot.waiting.retain(|other| *other != ticket);
                state.tidy(&key);
            }
        }
    }

    fn fence(&self, held: &Held) -> u64 {
        held.fence
    }

    fn peek(&self, asked: &Key) -> Result<Found> {
        let now = self.clock.now();
        let state = self.state();
        let key = state.resolve(asked, now);
        let found = state.slots.get(&key).map_or(Found::nothing(), |slot| slot.content.found(now));
        Ok(Found { moved_to: (key != *asked).then_some(key), ..found })
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        let mut state = self.state();
        let leads_on = state.resolve(key, now) != *key;
        let slot = state.slots.entry(key.clone()).or_default();
        if leads_on || slot.holder.is_some() || slot.content.found(now).record.is_some() {
            return Err(Error::new(ErrorKind::Exists, "the id is taken"));
        }
        slot.content = Content::Nothing;
        slot.content.replace_payload(payload, ttl, now);
        Ok(())
    }

    fn commit(&self, held: Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        let mut state = self.state();
        let slot = state.leased(&held)?;
        slot.holder = None;
        slot.content.replace_payload(payload, ttl, now);
        drop(state);
        self.freed.notify_all();
        Ok(())
    }

    fn touch(&self, asked: &Key, ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        let mut state = self.state();
        let key = state.resolve(asked, now);
        match state.slots.get_mut(&key) {
            Some(slot) => slot.content.touch(ttl, now),
            None => Content::Nothing.touch(ttl, now),
        }
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        self.state().leased(held)?.content.touch(ttl, self.clock.now())
    }

    fn release(&self, held: Held) -> Result<()> {
        let mut state = self.state();
        if let Ok(slot) = state.leased(&held) {
            slot.holder = None;
            state.tidy(&held.key);
            drop(state);
            self.freed.notify_all();
        }
        Ok(())
    }

    fn destroy(&self, asked: &Key) -> Result<()> {
        let now = self.clock.now();
        let mut state = self.state();
        for key in [state.resolve(asked, now), asked.clone()] {
            if let Some(slot) = state.slots.get_mut(&key) {
                slot.content = Content::past(Trace::Destroyed, now);
                slot.holder = None;
            }
        }
        drop(state);
        self.freed.notify_all();
        Ok(())
    }

    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        let now = self.clock.now();
        let mut state = self.state();
        let since = state.leased(held)?.holder.as_ref().map_or(now, |grant| grant.since);
        let leads_on = state.resolve(new, now) != *new;
        let taken = state.slots.get(new).is_some_and(|slot| {
            slot.holder.is_some() || !slot.waiting.is_empty() || slot.content.found(now).record.is_some()
        });
        if leads_on || taken {
            return Err(Error::new(ErrorKind::Exists, "the new id is taken"));
        }
        let old = state.leased(held)?;
        let past = Content::Past {
            trace: Trace::Regenerated,
            leads_to: (!grace.is_zero()).then(|| (new.clone(), now.plus(grace))),
            forget: now.plus(grace).plus(Limits::TOMBSTONE_TTL),
        };
        let content = match &old.content {
            Content::Live(_) => std::mem::replace(&mut old.content, past),
            _ => Content::Nothing,
        };
        old.holder = None;
        let old_key = std::mem::replace(&mut held.key, new.clone());
        state.tidy(&old_key);
        let grant = Grant { fence: held.fence, since };
        state.slots.insert(new.clone(), Slot { content, holder: Some(grant), waiting: VecDeque::new() });
        drop(state);
        self.freed.notify_all();
        Ok(())
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        let (now, start) = (self.clock.now(), Instant::now());
        let mut state = self.state();
        let from = state.swept_to.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut swept = Swept { complete: true, ..Swept::default() };
        let mut due = Vec::new();
        let mut last = None;
        for (key, slot) in state.slots.range((from, Bound::Unbounded)) {
            if swept.examined >= budget.records_max || start.elapsed() >= budget.time_max {
                swept.complete = false;
                break;
            }
            swept.examined += 1;
            let (expired, counts) = slot.content.due(now);
            if expired && slot.holder.is_none() && slot.waiting.is_empty() {
                due.push(key.clone());
                swept.removed += u64::from(counts);
            }
            last = Some(key);
        }
        let last = last.cloned();
        for key in due {
            state.slots.remove(&key);
        }
        if !swept.complete {
            state.swept_to = last;
        }
        Ok(swept)
    }

    fn stat(&self) -> Result<Stat> {
        let now = self.clock.now();
        let mut stat = Stat { complete: true, ..Stat::default() };
        for slot in self.state().slots.values() {
            match &slot.content {
                Content::Live(record) if record.expired(now) => stat.expired += 1,
                Content::Live(record) => {
                    stat.sessions += 1;
                    stat.payload_bytes += record.payload.len() as u64;
                    let oldest = stat.oldest_written.get_or_insert(record.written);
                    *oldest = record.written.min(*oldest);
                }
                _ => {}
            }
        }
        Ok(stat)
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let now = self.clock.now();
        let from = match cursor.map(parse_cursor) {
            None => Bound::Unbounded,
            Some(Some(key)) => Bound::Excluded(key),
            Some(None) => return Err(Error::new(ErrorKind::InvalidArgument, "the cursor is not one of this store")),
        };
        let state = self.state();
        let mut page = Page::default();
        for (count, (key, slot)) in state.slots.range((from, Bound::Unbounded)).enumerate() {
            if let Content::Live(record) = &slot.content
                && !record.expired(now)
                && record.payload.len() as u64 >= filter.payload_bytes_min
                && filter.bin.as_ref().is_none_or(|bin| bin == key.bin())
            {
                page.entries.push(Entry::of(key, record));
            }
            if count + 1 == filter.entries_max {
                page.next = Some(Cursor(format!("{}/{}", key.bin().name(), key.id())));
                break;
            }
        }
        Ok(page)
    }
}

fn parse_cursor(cursor: &Cursor) -> Option<Key> {
    let (bin, id) = cursor.0.split_once('/')?;
    Key::in_bin(sessile_core::Bin::new(bin).ok()?, id).ok()
}
