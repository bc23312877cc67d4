//! Listing and stat over the stores in which keys live. Sizes are those of payloads, not of stubs.
//!
//! Only an entry with the length of a stub is read. If the home store keeps no ids (the engine), it
//! cannot be read, and the stub's size is shown; `sessile analyze` of the large store shows sizes
//! there. Large payloads are never listed.

use sessile_core::{Bin, Cursor, ErrorKind, Filter, Key, Listed, Page, Result, Sessions, Stat};

use super::stub::STUB_BYTES;
use super::{Route, large_store};
use crate::several;

/// The most pages that a stat follows. Beyond, the sum of the bytes is a lower bound, marked as
/// incomplete.
const STAT_PAGES_MAX: usize = 20;

impl Route {
    pub fn list_sessions(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let stores: Vec<&Sessions> = self.homes().collect();
        // Sizes are known only after the stubs have been followed.
        let unsized_filter = Filter { payload_bytes_min: 0, ..filter.clone() };
        let (place, page) = several::list(&stores, cursor, &unsized_filter)?;
        let mut entries = Vec::with_capacity(page.entries.len());
        for entry in page.entries.into_iter().filter(|entry| self.lives_in(place, entry.key.bin()))
        {
            let entry = self.sized(place, entry)?;
            if entry.payload_bytes >= filter.payload_bytes_min {
                entries.push(entry);
            }
        }
        Ok(Page { entries, next: page.next })
    }

    pub fn count_sessions(&self) -> Result<Stat> {
        let mut stat = several::stat(&self.homes().collect::<Vec<_>>())?;
        if self.large.is_none() {
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

    /// Whether records of this bin in this store are sessions. Leftovers of a bin that was routed
    /// elsewhere are not, nor are large payloads.
    fn lives_in(&self, place: usize, bin: &Bin) -> bool {
        let routed = self.elsewhere.as_ref().is_some_and(|(bins, _)| bins.contains(bin));
        bin.name() != large_store::BIN && routed == (place > 0)
    }

    fn sized(&self, place: usize, entry: Listed) -> Result<Listed> {
        if place > 0 || entry.payload_bytes != STUB_BYTES as u64 || !self.keeps_ids() {
            return Ok(entry);
        }
        match self.home_of(&entry.key).stub_of(&entry.key) {
            Ok(Some(stub)) => Ok(Listed { payload_bytes: stub.size, ..entry }),
            Ok(None) => Ok(entry),
            // A damaged record must not hide the others.
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Incompatible) => {
                Ok(entry)
            }
            Err(error) => Err(error),
        }
    }

    fn keeps_ids(&self) -> bool {
        Key::session("probe").is_ok_and(|probe| self.home.listed_key(&probe) == probe)
    }
}
