//! Listing and statistics: a walk over the entries that takes no lock and leaves no trace.

use sessile_core::{Cursor, Entry as Listed, Error, ErrorKind, Filter, Key, Page, Result, Stat};

use crate::bins;
use crate::engine::Engine;
use crate::plane::{Digest, Plane};
use crate::record::{Look, Part, Snapshot, look};
use crate::session::hex;
use crate::words::Kind;

/// Entries looked at for one page: a page of a sparse table may be short, but it comes soon.
const LOOKED_MAX: u64 = 100_000;
const TRIES: usize = 10;

/// The record of an entry, if it has one now.
fn record(plane: &Plane, number: u64) -> Option<(Digest, Snapshot)> {
    let entry = plane.entry(number);
    if entry.state().kind() != Kind::Live {
        return None;
    }
    // The look fails if the digest is not that of the record it finds.
    let digest = entry.digest();
    match look(plane, &entry, digest, Part::Header, TRIES) {
        Ok(Look::Record(snapshot)) if snapshot.state.kind() == Kind::Live => Some((digest, snapshot)),
        _ => None,
    }
}

impl Engine {
    pub(crate) fn list_page(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let foreign = || {
            Error::new(ErrorKind::InvalidArgument, "the cursor is not one of this store").advice("start without one")
        };
        let start = match cursor {
            None => 0,
            Some(cursor) => cursor.0.parse::<u64>().map_err(|_| foreign())?,
        };
        let (plane, now) = (&self.plane, self.plane.now());
        let count = plane.entry_count();
        let mut page = Page::default();
        let mut number = start;
        while number < count && page.entries.len() < filter.entries_max && number - start < LOOKED_MAX {
            if let Some((digest, Snapshot { header, expires, .. })) = record(plane, number)
                && expires > now
                && header.payload_bytes >= filter.payload_bytes_min
                && let Some(bin) = bins::bin(plane, header.bin)
                && filter.bin.as_ref().is_none_or(|wanted| *wanted == bin)
                && let Ok(key) = Key::in_bin(bin, &hex(digest))
            {
                let (version, created, written) = (header.version, header.created, header.written);
                let payload_bytes = header.payload_bytes;
                page.entries.push(Listed { key, payload_bytes, version, created, written, expires });
            }
            number += 1;
        }
        page.next = (number < count).then(|| Cursor(number.to_string()));
        Ok(page)
    }

    pub(crate) fn count(&self) -> Result<Stat> {
        let (plane, now) = (&self.plane, self.plane.now());
        let mut stat = Stat { complete: true, ..Stat::default() };
        for number in 0..plane.entry_count() {
            let Some((_, Snapshot { header, expires, .. })) = record(plane, number) else { continue };
            if expires <= now {
                stat.expired += 1;
                continue;
            }
            stat.sessions += 1;
            stat.payload_bytes += header.payload_bytes;
            let oldest = stat.oldest_written.map_or(header.written, |oldest| oldest.min(header.written));
            stat.oldest_written = Some(oldest);
        }
        Ok(stat)
    }
}
