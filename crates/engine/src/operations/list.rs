//! `list` and `stat`: a page of the live records, or of those of one owner, and their counts and
//! sizes. They take no lock and leave no trace.

use sessile_core::{
    Cursor, Error, ErrorKind, Filter, Key, Limits, Listed, Owner, Page, Result, Stat, Stored,
    Timestamp,
};

use crate::{memory::*, storage::*, table::*};

/// Entries read for one page: a page of a sparse table may be short, but it comes soon.
const ENTRIES_READ_MAX: u64 = 100_000;
/// Owner hints read for one page: eight to a line.
const OWNER_HINTS_READ_MAX: u64 = 4_000_000;
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
        let start = position(cursor)?;
        let (now, count) = (self.now(), self.entry_count());
        let end = count.min(start.saturating_add(ENTRIES_READ_MAX));
        let mut page = Page::default();
        let mut number = start;
        while number < end && page.entries.len() < filter.entries_max {
            let record = self.record_of(number);
            page.entries.extend(record.and_then(|record| self.listed(record, filter, now)));
            number += 1;
        }
        page.next = (number < count).then(|| Cursor(number.to_string()));
        Ok(page)
    }

    fn listed(
        &self,
        (digest, Snapshot { header, head, .. }): (KeyDigest, Snapshot),
        filter: &Filter,
        now: Timestamp,
    ) -> Option<Listed> {
        let key = shown_key(self.bin_of(header.bin)?, digest).ok()?;
        let payload_bytes = header.payload_bytes;
        let matches = !head.expired(now) && filter.matches(&key, payload_bytes, head.owner);
        matches.then_some(Listed { key, payload_bytes, head })
    }

    /// Reads the hints of all entries, and the records of those that may have the owner.
    pub fn list_owned(
        &self,
        owner: Owner,
        cursor: Option<&Cursor>,
        filter: &Filter,
    ) -> Result<Page> {
        let mut number = position(cursor)?;
        let (now, count) = (self.now(), self.entry_count());
        let end = count.min(number.saturating_add(OWNER_HINTS_READ_MAX));
        let mut page = Page::default();
        for _ in 0..filter.entries_max {
            let Some(found) = self.find_owner_hint(owner, number..end) else {
                number = end;
                break;
            };
            let record = self.record_of_owner(found, owner)?;
            page.entries.extend(record.and_then(|record| self.listed(record, filter, now)));
            number = found + 1;
        }
        page.next = (number < count).then(|| Cursor(number.to_string()));
        Ok(page)
    }

    /// The record of an entry, if it has this owner. A regenerated id leads to its session, also
    /// after its grace: the session may have moved to an entry that was passed before.
    fn record_of_owner(&self, number: u64, owner: Owner) -> Result<Option<(KeyDigest, Snapshot)>> {
        let mut number = number;
        for _ in 0..=Limits::ALIAS_STEPS_MAX {
            let entry = self.entry(number);
            let digest = entry.digest();
            let viewed = entry.view_entry(self, digest, ReadDepth::Header, LOCKED_TRIES);
            let (stored, snapshot) = match viewed {
                Ok(EntryView::Stored(stored, snapshot)) => (stored, snapshot),
                Ok(EntryView::Contended) => return Err(too_busy()),
                // A damaged record is told to whoever asks for it by its id.
                Ok(EntryView::Elsewhere | EntryView::Leaving) | Err(_) => return Ok(None),
            };
            if snapshot.head.owner != Some(owner) {
                return Ok(None);
            }
            number = match stored {
                Stored::Live(_) => return Ok(Some((digest, snapshot))),
                Stored::Alias { target, .. } => match self.find_entry(target) {
                    Some(number) => number,
                    None => return Ok(None),
                },
                _ => return Ok(None),
            };
        }
        Ok(None)
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

fn position(cursor: Option<&Cursor>) -> Result<u64> {
    cursor.map_or(Ok(0), |cursor| cursor.parse(|text| text.parse::<u64>().ok()))
}

fn too_busy() -> Error {
    Error::new(ErrorKind::Io, "a record changed each time that it was read").advice("try again")
}
