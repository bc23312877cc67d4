//! `migrate:`: a live site changes its store. Sessions are read from the old store, `from`, where
//! the new one, `to`, has nothing, and are moved at their first request. Writes go to the new store
//! only. See `crates/stores/design/migrate.md`.
//!
//! Invariants: at every instant a session is whole in at least one of the two stores. The new store
//! counts where both have it: a record is committed there before it is destroyed in the old one,
//! under the locks of both, that of the new store first. A log-out goes the other way, old store
//! first, so that a move under way finds nothing to move, or loses its lease to the log-out. An id
//! that was replaced in the new store is not looked for in the old one.
//!
//! Leases, fences and waiting are those of the new store. Not a copy: what nobody asks for stays in
//! the old store until it expires (`sessile copy` moves what is listed).

mod moving;
#[cfg(all(test, feature = "memory"))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;

use std::time::Duration;

use sessile_core::{
    Absence, Begun, Budget, Capabilities, Clock, Cursor, Detail, Details, ErrorKind, Filter, Found,
    HeldLock, Key, Lease, Owner, OwnerChange, Page, Result, Sessions, Stat, Store, Swept, Ttl,
};

use crate::layouts::{self, Layout, Side};
use crate::locks::process_local::ProcessLocal;
use crate::locks::token;
use crate::registry::{self, Context, Fixture, StoreEntry, option};
use crate::several::{self, SweepPosition, open_inner};
use crate::store_url::{StoreUrl, invalid};

const LOCK_TTL: &str = "lock_ttl_ms";

pub const ENTRY: StoreEntry = StoreEntry {
    name: "migrate",
    schemes: &["migrate"],
    sentence: "A live site changes its store: sessions move from the old to the new one when used",
    capabilities: super::files::ENTRY.capabilities,
    decorates: true,
    options: &[
        option("from", "URL of the old store, also php+redis://host; nothing new is written there"),
        option("to", "URL of the new store, as from; `&` in both is written %26, `#` %23, `%` %25"),
        option(LOCK_TTL, "passed on to both stores, where their locks end with time"),
    ],
    server: None,
    fixtures: &[Fixture {
        variant: "default",
        url: "migrate:?from=files:{shm}/from&to=files:{shm}/to",
    }],
    open,
    exists,
    drop: Err("remove the stores that its URL names, one by one"),
};

const FORM: &str = "write migrate:?from=URL&to=URL";

fn inner_urls(url: &StoreUrl) -> Result<[&str; 2]> {
    if !url.parts().path().is_empty() || url.parts().host().is_some() {
        return Err(invalid("migrate: takes no path").advice(FORM));
    }
    match (url.text("from"), url.text("to")) {
        (Some(from), Some(to)) if from == to => {
            Err(invalid("the old and the new store are the same").advice(FORM))
        }
        (Some(from), Some(to)) => Ok([from, to]),
        _ => Err(invalid("migrate: needs an old and a new store").advice(FORM)),
    }
}

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let [from, to] = inner_urls(url)?;
    let lock_ttl = url.text(LOCK_TTL).map(|value| (LOCK_TTL, value.to_owned()));
    let open = |option, inner: &str, side| match Layout::of(inner) {
        Some(_) => layouts::open_to_move(inner, side, token::lock_ttl(url)?, &context.clock),
        None => open_inner(("migrate:", option), inner, lock_ttl.as_slice(), context),
    };
    let is_foreign = |url: &str| Layout::of(url).is_some();
    let (old_forgets, new_forgets) = (is_foreign(from), is_foreign(to));
    if old_forgets && new_forgets {
        return Err(invalid("neither store is one of Sessile").advice(FORM));
    }
    let (from, to) = (open("from", from, Side::Old)?, open("to", to, Side::New)?);
    let limits = registry::limits(url)?;
    let label = format!("migrate:from={},to={}", from.label(), to.label());
    let clock = context.clock.clone();
    let swept_to = ProcessLocal::default();
    let store = Migrate { from, to, old_forgets, new_forgets, clock, swept_to };
    Ok(Sessions::new(label, store, limits))
}

fn exists(url: &StoreUrl) -> Result<bool> {
    let mut urls = inner_urls(url)?.into_iter();
    urls.try_for_each(registry::check_exists).map(|()| true)
}

struct Migrate {
    from: Sessions,
    to: Sessions,
    /// Another program writes there, which keeps no tombstones.
    old_forgets: bool,
    /// The same of the new store, from which sessions may come back.
    new_forgets: bool,
    clock: Clock,
    swept_to: ProcessLocal<SweepPosition>,
}

impl Migrate {
    /// The old store first: a session that moves while they are listed is seen twice, not never.
    fn both(&self) -> [&Sessions; 2] {
        [&self.from, &self.to]
    }

    /// Whether an alias of the old store tells a digest, which is no id of the new one.
    fn old_keeps_digests(&self) -> bool {
        Key::session("probe").is_ok_and(|probe| self.from.listed_key(&probe) != probe)
    }

    /// The key in the new store of what the old one lists. `None` where the old one lists a digest
    /// that is no key of the new one.
    fn key_in_new(&self, key: &Key) -> Option<Key> {
        if !key.is_listed() {
            return Some(key.clone());
        }
        let probe = Key::session("probe").ok()?;
        let [old, new] = self.both().map(|store| store.listed_key(&probe));
        if old == probe {
            return Key::in_bin(key.bin().clone(), key.id()).ok();
        }
        (old == new).then(|| key.clone())
    }

    /// `Exists` for an id that the old store knows.
    fn check_free(&self, key: &Key) -> Result<()> {
        let old = self.from.find(key)?;
        if old.record.is_some() || old.moved_to.is_some() {
            return Err(ErrorKind::Exists.into());
        }
        Ok(())
    }
}

impl Store for Migrate {
    /// Of the new store.
    type Held = Lease;

    /// The weaker of the two decides; locks are those of the new store.
    fn capabilities(&self) -> Capabilities {
        let id_bytes_max = self.both().map(|store| store.limits().id_bytes_max);
        Capabilities {
            // Those of an old store without owners have none until they have moved.
            owners: self.to.capabilities().owners,
            value_bytes_max: self.to.limits().payload_bytes_max,
            id_bytes_max: id_bytes_max.into_iter().min().unwrap_or(0),
            ..several::capabilities(&[&self.to, &self.from], &self.both())
        }
    }

    fn begin(&self, key: &Key, wait_max: Duration) -> Result<(Lease, u64, Found)> {
        let Begun { lease, record, absence, moved } = self.begin_moving(key, wait_max)?;
        let (fence, moved_to) = (lease.fence(), moved.then(|| lease.key().clone()));
        Ok((lease, fence, Found { record, moved_to, absence }))
    }

    fn begin_leaves_placeholder(&self, key: &Key) -> Result<bool> {
        self.to.begin_leaves_placeholder(key)
    }

    /// The third look answers a move that came between the first two.
    fn peek(&self, key: &Key) -> Result<Found> {
        let found = self.to.find(key)?;
        if found.record.is_some() {
            return Ok(found);
        }
        let there = found.moved_to.as_ref().unwrap_or(key);
        let old = self.find_old(there, found.absence)?;
        if old.record.is_some() {
            return Ok(Found { moved_to: old.moved_to.or(found.moved_to), ..old });
        }
        let there = old.moved_to.filter(|_| !self.old_keeps_digests()).unwrap_or(key.clone());
        let late = self.to.find(&there)?;
        let moved_to = late.moved_to.or((there != *key).then_some(there));
        let known = late.absence != Absence::Unknown;
        let absence = if known { late.absence } else { old.absence };
        Ok(Found { moved_to, absence, ..late })
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        self.check_free(key)?;
        self.to.create(key, payload, ttl)
    }

    fn commit(&self, mut lease: Lease, payload: &[u8], ttl: Ttl, owner: OwnerChange) -> Result<()> {
        lease.change_owner(owner)?;
        lease.commit(payload, ttl)
    }

    /// A session that has not moved yet is touched where it is: a touch waits for no lock. It may
    /// move meanwhile, so the new store is asked again.
    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        let is_gone = |touched: &Result<()>| {
            touched.as_ref().is_err_and(|error| *error.kind() == ErrorKind::Gone)
        };
        let touched = self.to.touch(key, ttl);
        if !is_gone(&touched) {
            return touched;
        }
        let old = self.from.touch(key, ttl);
        let new = self.to.touch(key, ttl);
        if is_gone(&new) { old } else { new }
    }

    fn touch_held(&self, lease: &mut Lease, ttl: Ttl) -> Result<()> {
        lease.touch(ttl)
    }

    fn release(&self, lease: Lease) -> Result<()> {
        lease.release()
    }

    /// In both, also when one of them fails. An id within its grace in the old store leads to a
    /// session that may have moved.
    fn destroy(&self, key: &Key) -> Result<()> {
        let target = self.from.find(key).map(|old| old.moved_to);
        let old = self.from.destroy(key);
        let led_to = target.and_then(|target| match target {
            Some(target) if !self.old_keeps_digests() => self.to.destroy(&target),
            _ => Ok(()),
        });
        self.to.destroy(key).and(old).and(led_to)
    }

    /// In both, also when one of them fails. A move may have read the session in the old store and
    /// commit it to the new one afterwards: a log-out there, where nothing is yet, voids its lease.
    /// What the new store has by then belongs to somebody else, and stays.
    fn destroy_owned(&self, key: &Key, owner: Owner) -> Result<bool> {
        let has_owners = self.from.capabilities().owners;
        let old = if has_owners { self.from.destroy_owned(key, owner) } else { Ok(false) };
        let new = self.to.destroy_owned(key, owner)?;
        // An old store that did not answer may have ended it.
        if !matches!(old, Ok(false))
            && !new
            && let Some(there) = self.key_in_new(key)
            && !self.to.destroy_owned(&there, owner)?
            && self.to.find(&there)?.record.is_none()
        {
            self.to.destroy(&there)?;
        }
        Ok(old? || new)
    }

    /// What an interrupted move left under the old id would be a session again.
    fn regenerate(&self, lease: &mut Lease, new: &Key, grace: Duration) -> Result<()> {
        self.check_free(new)?;
        self.from.destroy(lease.key())?;
        lease.regenerate(new, grace)
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        several::sweep(&self.both(), 2, &self.swept_to, budget)
    }

    fn stored_key(&self, key: &Key) -> Key {
        self.to.listed_key(key)
    }

    /// Each store shows a session as it keeps ids.
    fn listed_keys(&self, key: &Key) -> Vec<Key> {
        self.both().into_iter().flat_map(|store| store.listed_keys(key)).collect()
    }

    fn stat(&self) -> Result<Stat> {
        several::stat(&self.both())
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let both = self.both();
        let [old, new @ ..] = &both;
        let has_owned = filter.owner.is_none() || old.capabilities().owners;
        let stores = if has_owned { both.as_slice() } else { new };
        several::list(stores, cursor, filter).map(|(_, page)| page)
    }

    fn locks(&self, limit: usize) -> Result<Vec<HeldLock>> {
        several::locks(&self.both(), limit)
    }

    fn details(&self) -> Result<Details> {
        let mut details = Vec::new();
        for (name, store) in [("old_store", &self.from), ("new_store", &self.to)] {
            details.push((name, Detail::Text(store.label().into())));
            details.extend(store.details()?);
        }
        if self.from.capabilities().listing {
            details.push(("left_in_old_store", Detail::Count(self.from.stat()?.sessions)));
        }
        Ok(details)
    }

    fn sync(&self) -> Result<()> {
        // phpredis and servers cannot be told to; the new store is synced all the same.
        let old = self.from.sync();
        self.to.sync()?;
        match old {
            Err(error) if *error.kind() != ErrorKind::Unsupported => Err(error),
            _ => Ok(()),
        }
    }
}
