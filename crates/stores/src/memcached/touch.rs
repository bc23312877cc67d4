//! Moving the expiry: with a lease and without.
//!
//! The exact expiry is in the record, and memcached can only replace a whole item: so a touch reads
//! and rewrites the record, by its CAS number, and keeps the mark of its writer. A lease recognises
//! its record by that mark.

use std::ops::ControlFlow;

use sessile_core::{ErrorKind, Key, Result, Stored, Ttl, follow_aliases};

use super::Held;
use super::bounded::Bounded;
use super::commit::stale;
use super::lock::Lock;
use super::read::ReadItem;
use super::reply::Item;
use super::request::Commands;
use crate::locks::check_process;

pub fn touch(store: &Bounded<'_>, asked: &Key, ttl: Ttl) -> Result<()> {
    let touched = follow_aliases(asked, |key| {
        store.contend(|| {
            let item = store.data_of(key)?.unwrap_or_default();
            let (cas, writer) = (item.cas, item.writer().unwrap_or(0));
            let (stored, payload) = store.decode(key, item)?;
            let now = store.clock.now();
            if let Some(target) = stored.leads_to(now) {
                return Ok(Some(ControlFlow::Continue(target.clone())));
            }
            let touched = Stored::Live(stored.touched(ttl, now)?);
            let commands = store.put(key, &touched, writer, &payload, Some(cas));
            let [stored] = store.send(key, commands)?;
            let stored = store.is_stored(key, stored, payload.len())?;
            Ok(stored.then_some(ControlFlow::Break(())))
        })
    });
    touched.map(drop)
}

pub fn touch_held(store: &Bounded<'_>, held: &mut Held, ttl: Ttl) -> Result<()> {
    check_process(held.pid)?;
    let (lock_name, data_name) = (store.lock_name(&held.key), store.data_name(&held.key));
    store.contend(|| {
        let commands = Commands::default().get(&lock_name).get(&data_name);
        let [lock, item] = store.send(&held.key, commands)?;
        let lock = lock.lock()?;
        let item = store.still_ours(held, lock.as_ref(), item.item()?)?;
        let (cas, writer) = (item.cas, item.writer().unwrap_or(0));
        let (stored, payload) = store.decode(&held.key, item)?;
        // A lease on nothing stays good: its commit makes the record.
        held.read.head.ok_or(ErrorKind::Gone)?;
        let touched = Stored::Live(stored.touched(ttl, store.clock.now())?);
        let commands = store.put(&held.key, &touched, writer, &payload, Some(cas));
        let commands = store.renewal(commands, held, lock.as_ref()).get(&lock_name).get(&data_name);
        let [touched, _, lock, item] = store.send(&held.key, commands)?;
        let touched = store.is_stored(&held.key, touched, payload.len())?;
        let lock = lock.lock()?;
        let item = store.still_ours(held, lock.as_ref(), item.item()?)?;
        held.read.cas = item.cas;
        let head = store.decode(&held.key, item)?.0.head();
        held.read.head = head.or(held.read.head);
        let ours = lock.filter(|lock| lock.is_held_by(&held.token));
        held.lock_cas = ours.map(|lock| lock.cas_without_waiters()).unwrap_or_default();
        // If another touch came between our look and our write, it has decided the expiry; ours
        // came later, so it goes once more.
        Ok(touched.then_some(()))
    })
}

impl Bounded<'_> {
    fn still_ours(&self, held: &Held, lock: Option<&Lock>, item: Option<Item>) -> Result<Item> {
        if lock.is_some_and(|lock| !lock.is_held_by(&held.token)) {
            // Either the lock was taken over, or the session was destroyed and begun anew.
            self.check_item(held, item)?;
            return Err(stale());
        }
        let ReadItem { cas, writer, .. } = held.read;
        match item {
            Some(item) if item.cas == cas => Ok(item),
            Some(item) if writer.is_some() && item.writer() == writer => Ok(item),
            // Only a destruction that was tidied up leaves the lease good here, and there is
            // nothing to touch then.
            other => self.check_item(held, other).and_then(|_| Err(ErrorKind::Gone.into())),
        }
    }

    /// Starts the time of a lock anew. If another token joins its queue at the same moment, the old
    /// time goes on.
    fn renewal(&self, commands: Commands, held: &Held, lock: Option<&Lock>) -> Commands {
        let waiters = lock.map_or(Vec::new(), |lock| lock.waiters_without(&held.token));
        let renewed = Lock::held(held.token, self.lock_ttl, held.since, waiters);
        renewed.put(commands, &self.lock_name(&held.key), lock.map(|lock| lock.cas))
    }
}
