//! `route:`, several stores as one: sessions in a home store, large payloads and whole bins in others.
//!
//! For a store with a limit (memcached refuses items over 1 MB) or with costly room (memory), and a few payloads that do
//! not belong there. What is larger than `larger_than` goes into the store `large`; the home store then keeps a stub that
//! names it. Bins named in `bins` live in the store `bins_in` altogether. The manual is `docs/stores/route.md`, the
//! protocol with its crashes `docs/decisions/0017-large-payloads-elsewhere.md`.
//!
//! Invariants: a large payload is written once, under an id that nobody used before, and never changed; the stub that
//! names it is written after it, by the home store's commit, and carries its checksum. So a stub leads to the payload that
//! it was written for or to none. The lock, the expiry and the version of a session are the home store's.
//!
//! Not here: a cache. Each read of a large payload is a read of two stores.

mod change;
mod listing;
mod look;
mod options;
mod parts;
mod stub;
mod sweeping;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use sessile_core::{
    Bin, Budget, Capabilities, Cursor, Detail, Durability, Expiry, Filter, Found, Key, Lease, Locked, Locking,
    Ownership, Page, Result, Sessions, Stat, Store, Swept, Ttl, Waiting,
};

use self::options::Opened;
use self::parts::Parts;
use self::stub::Stub;
use self::sweeping::Turn;
use crate::registry::{self, Context, Fixture, StoreEntry};
use crate::store_url::StoreUrl;

/// The registry line of this store.
pub const ENTRY: StoreEntry = StoreEntry {
    name: "route",
    schemes: &["route"],
    sentence: "Several stores as one: large payloads, or whole bins, in a store of their own",
    capabilities: super::files::ENTRY.capabilities,
    decorates: true,
    options: options::HELP,
    fixtures: &[Fixture {
        variant: "default",
        url: "route:?home=files:{shm}/home&large=files:{shm}/large&larger_than=900K",
    }],
    open,
};

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let Opened { home, large, elsewhere, inline_bytes_max } = options::open_parts(url, context)?;
    let limits = registry::limits(url)?;
    let label = label(&home, large.as_ref(), elsewhere.as_ref().map(|(_, store)| store));
    let parts = large.map(|large| Parts::new(large, context.clock.clone()));
    let store = Route { home, parts, elsewhere, inline_bytes_max, turn: Mutex::new(Turn::first()) };
    Ok(Sessions::new(label, store, limits))
}

/// What errors call the store: the redacted URLs of which it is made.
fn label(home: &Sessions, large: Option<&Sessions>, elsewhere: Option<&Sessions>) -> String {
    let mut label = format!("route:home={}", home.label());
    for (name, store) in [("large", large), ("bins_in", elsewhere)] {
        if let Some(store) = store {
            label.push_str(&format!(",{name}={}", store.label()));
        }
    }
    label
}

struct Route {
    home: Sessions,
    parts: Option<Parts>,
    /// The bins that do not live at home, and where they do.
    elsewhere: Option<(BTreeSet<Bin>, Sessions)>,
    /// Larger payloads go to the other store, if there is one.
    inline_bytes_max: u64,
    turn: Mutex<Turn>,
}

/// What the store remembers while a lease lives.
struct Held {
    /// The lease of the store in which the key lives: what makes this one good or void.
    lease: Lease,
    /// Whether that is the home store.
    at_home: bool,
    /// Where the payload was when the lease began, if not in the home store.
    stub: Option<Stub>,
}

impl Route {
    /// The other store, if the key belongs to a bin that lives there.
    fn elsewhere(&self, key: &Key) -> Option<&Sessions> {
        self.elsewhere.as_ref().filter(|(bins, _)| bins.contains(key.bin())).map(|(_, store)| store)
    }

    /// The stores in which keys live: the home store, and the one of the bins.
    fn homes(&self) -> impl Iterator<Item = &Sessions> {
        std::iter::once(&self.home).chain(self.elsewhere.as_ref().map(|(_, store)| store))
    }

    /// Every store of which this one is made.
    fn all(&self) -> impl Iterator<Item = &Sessions> {
        self.homes().chain(self.parts.as_ref().map(Parts::store))
    }

    fn every(&self, holds: impl Fn(Capabilities) -> bool) -> bool {
        self.all().all(|store| holds(store.capabilities()))
    }

    /// Where the parts of a session survive a restart, all of it does.
    fn persistent_from(&self) -> Option<Durability> {
        let tiers: Option<Vec<Durability>> = self.all().map(|store| store.capabilities().persistent_from).collect();
        tiers?.into_iter().max()
    }

    fn every_home(&self, holds: impl Fn(Capabilities) -> bool) -> bool {
        self.homes().all(|store| holds(store.capabilities()))
    }
}

impl Store for Route {
    type Held = Held;

    /// The weakest of its stores decides; who locks and expires is the business of those in which keys live.
    fn capabilities(&self) -> Capabilities {
        let home = self.home.capabilities();
        let locks = self.every_home(|store| store.locking != Locking::None);
        let events = self.every_home(|store| store.waiting == Waiting::Event);
        let by_process = self.every_home(|store| store.ownership == Ownership::Process);
        let native = self.every_home(|store| store.expiry == Expiry::Native);
        let unswept = self.every_home(|store| store.expiry != Expiry::Sweep);
        let volatile = |store: &Sessions| store.capabilities().durability == [Durability::None];
        Capabilities {
            persistent_from: self.persistent_from(),
            shared_by_processes: self.every(|store| store.shared_by_processes),
            shared_by_hosts: self.every(|store| store.shared_by_hosts),
            server: self.all().find_map(|store| store.capabilities().server),
            locking: if locks { home.locking } else { Locking::None },
            waiting: if events { Waiting::Event } else { Waiting::Retry },
            ownership: if by_process { Ownership::Process } else { Ownership::Time },
            expiry: match (native, unswept) {
                (true, _) => Expiry::Native,
                (false, true) => Expiry::Changes,
                (false, false) => Expiry::Sweep,
            },
            value_bytes_max: self.all().map(|store| store.limits().payload_bytes_max).max().unwrap_or(0),
            id_bytes_max: self.homes().map(|store| store.limits().id_bytes_max).min().unwrap_or(0),
            sessions_bounded_by: home.sessions_bounded_by,
            compare_and_set: self.every_home(|store| store.compare_and_set),
            listing: self.every_home(|store| store.listing),
            durability: if self.all().any(volatile) { &[Durability::None] } else { home.durability },
        }
    }

    fn begin(&self, key: &Key, wait_max: Duration) -> Result<Locked<Held>> {
        match self.elsewhere(key) {
            Some(store) => look::begin_as_it_is(store, key, wait_max),
            None => self.begin_at_home(key, wait_max),
        }
    }

    fn fence(&self, held: &Held) -> u64 {
        held.lease.fence()
    }

    fn peek(&self, key: &Key) -> Result<Found> {
        match self.elsewhere(key) {
            Some(store) => store.find(key),
            None => self.find_at_home(key),
        }
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        match self.elsewhere(key) {
            Some(store) => store.create(key, payload, ttl),
            None => self.create_at_home(key, payload, ttl),
        }
    }

    fn commit(&self, held: Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        if held.at_home { self.commit_at_home(held, payload, ttl) } else { held.lease.commit(payload, ttl) }
    }

    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        match self.elsewhere(key) {
            Some(store) => store.touch(key, ttl),
            None => self.touch_at_home(key, ttl),
        }
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        self.touch_under_lease(held, ttl)
    }

    fn release(&self, held: Held) -> Result<()> {
        held.lease.release()
    }

    fn destroy(&self, key: &Key) -> Result<()> {
        match self.elsewhere(key) {
            Some(store) => store.destroy(key),
            None => self.destroy_at_home(key),
        }
    }

    /// The stub moves with its record: no payload is copied.
    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        held.lease.regenerate(new, grace)
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        self.sweep_in_turn(budget)
    }

    fn stored_key(&self, key: &Key) -> Key {
        self.elsewhere(key).unwrap_or(&self.home).listed_key(key)
    }

    fn stat(&self) -> Result<Stat> {
        self.stat_of_all()
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        self.list_of_all(cursor, filter)
    }

    /// Those of its stores, one after the other, each after its name.
    fn details(&self) -> Result<Vec<Detail>> {
        let mut details = Vec::new();
        for store in self.all() {
            details.push(Detail::text("store", store.label()));
            details.extend(store.details()?);
        }
        Ok(details)
    }

    /// Large payloads first: a stub on the disk whose payload is not would be a session that cannot be read.
    fn sync(&self) -> Result<()> {
        let parts = self.parts.as_ref().map(Parts::store);
        parts.into_iter().chain(self.homes()).try_for_each(Sessions::sync)
    }
}
