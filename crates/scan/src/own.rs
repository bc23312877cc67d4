//! One of our own stores as a walk: the listing of the contract, page by page.
//!
//! A store tells sizes without reading payloads wherever it can. What has expired is not listed, so it is not seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use sessile_core::{Clock, Cursor, Entry, Error, ErrorKind, Filter, Key, Operation, Result, Sessions};
use sessile_stores::Context;
use sessile_stores::foreign::{Name, Seen, Walk};

/// Names of bins that are kept; more are legal and useless.
const BINS_KEPT_MAX: usize = 1_000;

pub(crate) struct Own {
    store: Sessions,
    /// The store has the keys themselves, of which the log speaks, too; some have digests of them only.
    has_keys: bool,
    cursor: Option<Cursor>,
    bins: BTreeMap<String, Arc<str>>,
}

pub(crate) fn open(url: &str, clock: &Clock) -> Result<(String, Own)> {
    let store = sessile_stores::open(url, &Context { clock: clock.clone() })?;
    if !store.capabilities().listing {
        let error = Error::new(ErrorKind::Unsupported, "the store cannot list what it has");
        let error = error.advice("see `sessile stores`, row \"can list sessions\"");
        return Err(error.during(Operation::List, store.label(), None));
    }
    let sample = Key::session("sample")?;
    let has_keys = store.listed_key(&sample) == sample;
    Ok((store.label().to_owned(), Own { store, has_keys, cursor: None, bins: BTreeMap::new() }))
}

impl Walk for Own {
    fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(Seen)) -> Result<bool> {
        let filter = Filter { entries_max, ..Filter::default() };
        let page = self.store.list(self.cursor.as_ref(), &filter)?;
        for entry in page.entries {
            show(self.seen(entry));
        }
        self.cursor = page.next;
        Ok(self.cursor.is_some())
    }
}

impl Own {
    fn seen(&mut self, entry: Entry) -> Seen {
        let bin = entry.key.bin().name();
        let id = entry.key.id().as_bytes();
        let name = match Name::of(bin, id) {
            _ if !self.has_keys => Name::Secret(id.to_vec()),
            Name::Secret(_) => Name::Tagged(entry.key.clone()),
            name => name,
        };
        Seen {
            bin: self.bin(bin),
            name,
            bytes: entry.payload_bytes,
            created: Some(entry.created),
            used: Some(entry.written),
            expires: Some(entry.expires),
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
