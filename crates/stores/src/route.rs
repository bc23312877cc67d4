//! `route:`: several stores as one. The home store keeps the sessions; other stores keep large
//! payloads or whole bins.
//!
//! Payloads over `larger_than` go into the store `large`, and the home store keeps a stub that
//! names them: for a store with a limit (memcached refuses items over 1 MB) or with costly room
//! (memory). Bins in `bins` live in the store `bins_in`. What operators see is in
//! `crates/stores/design/route.md`; the protocol with its crashes is
//! `docs/decisions/0017-large-payloads-elsewhere.md`.
//!
//! Invariants: a large payload is written once, under a new id, and never changed. Its stub carries
//! its checksum and is written after it, by the home store's commit. So a stub leads to its own
//! payload or to none. Lock, expiry and version are the home store's.
//!
//! Not a cache: each read of a large payload reads two stores.

mod large_store;
mod list;
mod options;
mod read;
mod stub;
mod write;

use std::collections::BTreeSet;
use std::time::Duration;

use sessile_core::{
    Bin, Budget, Capabilities, Cursor, Detail, Details, Filter, Found, HeldLock, Key, Lease, Owner,
    OwnerChange, Page, Result, Sessions, Stat, Store, Swept, Ttl,
};

use self::large_store::LargeStore;
use self::options::RouteStores;
use self::stub::Stub;
use crate::locks::process_local::ProcessLocal;
use crate::registry::{self, Context, Fixture, StoreEntry};
use crate::several::{self, SweepPosition};
use crate::store_url::StoreUrl;

pub const ENTRY: StoreEntry = StoreEntry {
    name: "route",
    schemes: &["route"],
    sentence: "Several stores as one: large payloads, or whole bins, in a store of their own",
    capabilities: super::files::ENTRY.capabilities,
    decorates: true,
    options: options::HELP,
    server: None,
    fixtures: &[Fixture {
        variant: "default",
        url: "route:?home=files:{shm}/home&large=files:{shm}/large&larger_than=900K",
    }],
    open,
    exists,
    drop: Err("remove the stores that its URL names, one by one"),
};

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let RouteStores { home, large, elsewhere, inline_bytes_max } =
        options::open_stores(url, context)?;
    let limits = registry::limits(url)?;
    let label = label(&home, large.as_ref(), elsewhere.as_ref().map(|(_, store)| store));
    let large = large.map(|store| LargeStore { store, clock: context.clock.clone() });
    let store =
        Route { home, large, elsewhere, inline_bytes_max, swept_to: ProcessLocal::default() };
    Ok(Sessions::new(label, store, limits))
}

/// The name in errors: the redacted URLs of the stores.
fn label(home: &Sessions, large: Option<&Sessions>, elsewhere: Option<&Sessions>) -> String {
    let mut label = format!("route:home={}", home.label());
    for (name, store) in [("large", large), ("bins_in", elsewhere)] {
        if let Some(store) = store {
            label.push_str(&format!(",{name}={}", store.label()));
        }
    }
    label
}

fn exists(url: &StoreUrl) -> Result<bool> {
    let urls = ["home", "large", "bins_in"].into_iter().filter_map(|name| url.text(name));
    let mut checked = urls.map(registry::check_exists);
    checked.try_for_each(|checked| checked).map(|()| true)
}

struct Route {
    home: Sessions,
    large: Option<LargeStore>,
    /// The bins that do not live at home, and their store.
    elsewhere: Option<(BTreeSet<Bin>, Sessions)>,
    /// Larger payloads go to the large store, if there is one.
    inline_bytes_max: u64,
    swept_to: ProcessLocal<SweepPosition>,
}

struct Held {
    /// The lease of the store in which the key lives. It decides whether this one is good.
    lease: Lease,
    stubs: bool,
    stub: Option<Stub>,
}

struct Home<'r> {
    store: &'r Sessions,
    /// Whether its records may be stubs: not in the store of `bins_in`.
    stubs: bool,
}

impl Route {
    fn home_of(&self, key: &Key) -> Home<'_> {
        match &self.elsewhere {
            Some((bins, store)) if bins.contains(key.bin()) => Home { store, stubs: false },
            _ => Home { store: &self.home, stubs: true },
        }
    }

    fn homes(&self) -> impl Iterator<Item = &Sessions> {
        std::iter::once(&self.home).chain(self.elsewhere.iter().map(|(_, store)| store))
    }

    fn all(&self) -> impl Iterator<Item = &Sessions> {
        self.homes().chain(self.large.iter().map(|large| &large.store))
    }
}

impl Store for Route {
    type Held = Held;

    /// The weakest store decides. Locks and expiry are those of the stores in which keys live.
    fn capabilities(&self) -> Capabilities {
        let (homes, all): (Vec<_>, Vec<_>) = (self.homes().collect(), self.all().collect());
        let largest = all.iter().map(|store| store.limits().payload_bytes_max).max();
        let id_bytes_max = homes.iter().map(|store| store.limits().id_bytes_max).min();
        Capabilities {
            value_bytes_max: largest.unwrap_or(0),
            id_bytes_max: id_bytes_max.unwrap_or(0),
            ..several::capabilities(&homes, &all)
        }
    }

    fn begin(&self, key: &Key, wait_max: Duration) -> Result<(Held, u64, Found)> {
        read::begin(self, key, wait_max)
    }

    fn begin_leaves_placeholder(&self, key: &Key) -> Result<bool> {
        self.home_of(key).store.begin_leaves_placeholder(key)
    }

    fn peek(&self, key: &Key) -> Result<Found> {
        read::peek(self, key)
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        write::create(self, key, payload, ttl)
    }

    fn commit(&self, held: Held, payload: &[u8], ttl: Ttl, owner: OwnerChange) -> Result<()> {
        write::commit(self, held, payload, ttl, owner)
    }

    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        write::touch(self, key, ttl)
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        write::touch_held(self, held, ttl)
    }

    fn release(&self, held: Held) -> Result<()> {
        held.lease.release()
    }

    fn destroy(&self, key: &Key) -> Result<()> {
        write::destroy(self, key)
    }

    fn destroy_owned(&self, key: &Key, owner: Owner) -> Result<bool> {
        write::destroy_owned(self, key, owner)
    }

    /// The stub moves with its record; no payload is copied.
    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        held.lease.regenerate(new, grace)
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        // Large payloads do not count as removed: they are no sessions.
        let (stores, homes): (Vec<_>, _) = (self.all().collect(), self.homes().count());
        several::sweep(&stores, homes, &self.swept_to, budget)
    }

    fn stored_key(&self, key: &Key) -> Key {
        self.home_of(key).store.listed_key(key)
    }

    fn listed_keys(&self, key: &Key) -> Vec<Key> {
        self.home_of(key).store.listed_keys(key)
    }

    fn stat(&self) -> Result<Stat> {
        self.count_sessions()
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        self.list_sessions(cursor, filter)
    }

    fn details(&self) -> Result<Details> {
        let mut details = Vec::new();
        for store in self.all() {
            details.push(("store", Detail::Text(store.label().into())));
            details.extend(store.details()?);
        }
        Ok(details)
    }

    fn locks(&self, limit: usize) -> Result<Vec<HeldLock>> {
        several::locks(&self.homes().collect::<Vec<_>>(), limit)
    }

    /// Large payloads first: a stub on disk without its payload would be an unreadable session.
    fn sync(&self) -> Result<()> {
        let large = self.large.iter().map(|large| &large.store);
        large.chain(self.homes()).try_for_each(Sessions::sync)
    }
}
