//! `list` and `stat`: a page of the live records, and their counts and sizes. Both take no lock and
//! leave no trace.

use sessile_core::{Cursor, Filter, Key, Listed, Page, Result, Stat};

use crate::{memory::*, storage::*, table::*};

/// Entries read for one page: a page of a sparse table may be short, but it comes soon.
const ENTRIES_READ_MAX: u64 = 100_000;
const LIST_TRIES: usize = 10;

impl Plane {
    fn record_of(&self, number: u64) -> Option<(KeyDigest, Snapshot)> {
        let entry = self.entry(number);
        if entry.state().kind() != EntryKind::Live {
            return None;
        }
        // The read fails if the digest is not that of the record.
        let digest = entry.digest();
        match entry.read_entry(self, digest, ReadDepth::Header, LIST_TRIES) {
            Ok(EntryRead::Record(snapshot)) if snapshot.state.kind() == EntryKind::Live => {
                Some((digest, snapshot))
            }
            _ => None,
        }
    }

    /// The digest of a key that is locked, read, touched or destroyed. The key of a listing leads
    /// only to a record of its bin.
    #[inline(always)]
    pub fn digest_to_find(&self, key: &Key) -> KeyDigest {
        let listed = if key.is_listed() { self.listed_digest(key) } else { None };
        listed.unwrap_or_else(|| self.digest_of(key))
    }

    #[cold]
    fn listed_digest(&self, key: &Key) -> Option<KeyDigest> {
        let digest = shown_digest(key.id())?;
        let entry = self.entry(self.find_entry(digest)?);
        // Also an alias: the session has got a new id since it was listed, in the same bin.
        match entry.read_entry(self, digest, ReadDepth::Header, LOCKED_TRIES) {
            Ok(EntryRead::Record(Snapshot { header, .. })) => self.bin_of(header.bin),
            _ => None,
        }
        .filter(|bin| bin == key.bin())
        .map(|_| digest)
    }

    pub fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let start = cursor.map_or(Ok(0), |cursor| cursor.parse(|text| text.parse::<u64>().ok()))?;
        let (now, count) = (self.now(), self.entry_count());
        let end = count.min(start.saturating_add(ENTRIES_READ_MAX));
        let mut page = Page::default();
        let mut number = start;
        while number < end && page.entries.len() < filter.entries_max {
            if let Some((digest, Snapshot { header, head, .. })) = self.record_of(number)
                && !head.expired(now)
                && let Some(bin) = self.bin_of(header.bin)
                && let Ok(key) = shown_key(bin, digest)
                && filter.matches(&key, header.payload_bytes)
            {
                page.entries.push(Listed { key, payload_bytes: header.payload_bytes, head });
            }
            number += 1;
        }
        page.next = (number < count).then(|| Cursor(number.to_string()));
        Ok(page)
    }

    pub fn stat(&self) -> Stat {
        let now = self.now();
        let mut stat = Stat { complete: true, ..Stat::default() };
        for (_, record) in (0..self.entry_count()).filter_map(|number| self.record_of(number)) {
            stat.count(&record.head, record.header.payload_bytes, now);
        }
        stat
    }
}
