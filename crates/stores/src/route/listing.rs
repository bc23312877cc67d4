//! Listing and stat over the stores in which keys live, with the sizes of payloads and not of stubs.
//!
//! A stub has a length of its own, so only entries of exactly that length are looked at again. Where the home store keeps
//! no ids (the engine) they cannot be, and the size shown is that of the stub; `sessile scan` of the large store shows the
//! sizes there. Large payloads are no records: they are never listed.

use sessile_core::{Bin, Cursor, Entry, Error, ErrorKind, Filter, Key, Page, Result, Sessions, Stat};

use super::stub::STUB_BYTES;
use super::{Route, parts};

/// A stat looks at no more pages than this; beyond it the sum of the bytes is a lower bound and says so.
const STAT_PAGES_MAX: usize = 20;

impl Route {
    pub(super) fn list_of_all(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let stores: Vec<&Sessions> = self.homes().collect();
        let foreign = || Error::new(ErrorKind::InvalidArgument, "the cursor is not one of this store");
        let (place, inner) = match cursor {
            None => (0, None),
            Some(Cursor(text)) => {
                let (place, inner) = text.split_once('/').ok_or_else(foreign)?;
                let place: usize = place.parse().ok().filter(|place| *place < stores.len()).ok_or_else(foreign)?;
                (place, Some(Cursor(inner.to_owned())).filter(|inner| !inner.0.is_empty()))
            }
        };
        let Some(store) = stores.get(place) else { return Err(foreign()) };
        // Sizes are known only after the stubs among the entries have been followed.
        let page = store.list(inner.as_ref(), &Filter { payload_bytes_min: 0, ..filter.clone() })?;
        let mut entries = Vec::with_capacity(page.entries.len());
        for entry in page.entries.into_iter().filter(|entry| self.lives_in(place, entry.key.bin())) {
            let entry = self.sized(place, entry)?;
            if entry.payload_bytes >= filter.payload_bytes_min {
                entries.push(entry);
            }
        }
        let next = match page.next {
            Some(Cursor(inner)) => Some(Cursor(format!("{place}/{inner}"))),
            None if place + 1 < stores.len() => Some(Cursor(format!("{}/", place + 1))),
            None => None,
        };
        Ok(Page { entries, next })
    }

    /// The counts of its stores, and the bytes of all payloads, large ones included.
    pub(super) fn stat_of_all(&self) -> Result<Stat> {
        let mut stat = Stat { complete: true, ..Stat::default() };
        for store in self.homes() {
            let part = store.stat()?;
            stat.sessions += part.sessions;
            stat.expired += part.expired;
            stat.payload_bytes += part.payload_bytes;
            stat.oldest_written = [stat.oldest_written, part.oldest_written].into_iter().flatten().min();
            stat.complete &= part.complete;
        }
        if self.parts.is_none() {
            return Ok(stat);
        }
        let mut cursor: Option<Cursor> = None;
        for _ in 0..STAT_PAGES_MAX {
            let page = self.home.list(cursor.as_ref(), &Filter::default())?;
            for entry in page.entries {
                let stored = entry.payload_bytes;
                let sized = self.sized(0, entry)?.payload_bytes;
                stat.payload_bytes = (stat.payload_bytes + sized).saturating_sub(stored);
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        stat.complete &= cursor.is_none() && self.keeps_ids();
        Ok(stat)
    }

    /// Whether records of this bin in the store of this place are sessions of ours: what a bin left behind when it was
    /// routed elsewhere is not, nor is a large payload.
    fn lives_in(&self, place: usize, bin: &Bin) -> bool {
        let routed = self.elsewhere.as_ref().is_some_and(|(bins, _)| bins.contains(bin));
        bin.name() != parts::BIN && routed == (place > 0)
    }

    /// The entry with the size of its payload.
    fn sized(&self, place: usize, entry: Entry) -> Result<Entry> {
        if place > 0 || entry.payload_bytes != STUB_BYTES as u64 || !self.keeps_ids() {
            return Ok(entry);
        }
        match self.stub_of(&entry.key) {
            Ok(Some(stub)) => Ok(Entry { payload_bytes: stub.size, ..entry }),
            Ok(None) => Ok(entry),
            // One damaged record is no reason to show none.
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Incompatible) => Ok(entry),
            Err(error) => Err(error),
        }
    }

    /// Whether what the home store lists are the keys under which it can be asked.
    fn keeps_ids(&self) -> bool {
        Key::session("probe").is_ok_and(|probe| self.home.listed_key(&probe) == probe)
    }
}
