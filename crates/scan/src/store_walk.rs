//! A walk over one of our stores: the listing of the contract, page by page.
//!
//! Sizes come without payloads wherever possible. Expired records are not listed, so they are not
//! seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use sessile_core::{
    Clock, Cursor, Error, ErrorKind, Filter, Key, Listed, Operation, Result, Sessions,
};
use sessile_stores::Context;
use sessile_stores::layouts::{EntryName, ScannedEntry, Walk};

/// The limit of interned bin names; more are legal but unusual.
const BINS_KEPT_MAX: usize = 1_000;

pub(crate) struct StoreWalk {
    store: Sessions,
    /// The store has the keys themselves, as the log does; some have only digests.
    has_keys: bool,
    cursor: Option<Cursor>,
    bins: BTreeMap<String, Arc<str>>,
}

pub(crate) fn open(url: &str, clock: &Clock) -> Result<(String, StoreWalk)> {
    let store = sessile_stores::open(url, &Context { clock: clock.clone() })?;
    if !store.capabilities().listing {
        let error = Error::new(ErrorKind::Unsupported, "the store cannot list what it has");
        let error = error.advice("see `sessile stores`, row \"can list sessions\"");
        return Err(error.during(Operation::List, store.label(), None));
    }
    let sample = Key::session("sample")?;
    let has_keys = store.listed_key(&sample) == sample;
    Ok((
        store.label().to_owned(),
        StoreWalk { store, has_keys, cursor: None, bins: BTreeMap::new() },
    ))
}

impl Walk for StoreWalk {
    fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(ScannedEntry)) -> Result<bool> {
        let filter = Filter { entries_max, ..Filter::default() };
        let page = self.store.list(self.cursor.as_ref(), &filter)?;
        for entry in page.entries {
            show(self.seen(entry));
        }
        self.cursor = page.next;
        Ok(self.cursor.is_some())
    }
}

impl StoreWalk {
    fn seen(&mut self, entry: Listed) -> ScannedEntry {
        let bin = entry.key.bin().name();
        let id = entry.key.id().as_bytes();
        let name = match EntryName::of(bin, id) {
            _ if !self.has_keys => EntryName::Secret(id.to_vec()),
            EntryName::Secret(_) => EntryName::Tagged(entry.key.clone()),
            name => name,
        };
        ScannedEntry {
            bin: self.bin(bin),
            name,
            bytes: entry.payload_bytes,
            created: Some(entry.head.created),
            used: Some(entry.head.written),
            expires: Some(entry.head.expires),
        }
    }

    fn bin(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.bins.get(name) {
            return Arc::clone(known);
        }
        let new: Arc<str> = name.into();
        if self.bins.len() < BINS_KEPT_MAX {
            self.bins.insert(name.to_owned(), Arc::clone(&new));
        }
        new
    }
}
