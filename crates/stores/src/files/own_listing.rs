//! `stat` and `list` of the store's own mode.
//!
//! Both read the header of each file and nothing else, take no lock and stand in nobody's way. Memory is
//! bounded by the page, not by the directory. They remove nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fstat};
use sessile_core::{Bin, Cursor, Entry, Error, ErrorKind, Filter, Key, Page, Result, Stat, Timestamp};

use super::content::read_header;
use super::directory::TEMPORARY;
use super::frame::{Header, Kind};
use super::own::Own;
use super::system::{failed, mtime, size};

/// `stat` stops here and says that it is not complete.
const STAT_TIME_MAX: Duration = Duration::from_secs(10);

impl Own {
    pub(super) fn count(&self) -> Result<Stat> {
        let (start, now) = (Instant::now(), self.clock.now());
        let mut stat = Stat { complete: true, ..Stat::default() };
        let mut place = self.next_folder(None)?;
        while let Some(at) = &mut place {
            while let Some(Ok(entry)) = at.listing.read() {
                let Ok(name) = entry.file_name().to_str() else { continue };
                let Some((header, expires)) = self.examine(&format!("{}/{:02x}/{name}", at.bin, at.folder), name)?
                else {
                    continue;
                };
                if expires <= now {
                    stat.expired += 1;
                } else {
                    stat.sessions += 1;
                    stat.payload_bytes += header.payload_bytes;
                    let oldest = stat.oldest_written.get_or_insert(header.written);
                    *oldest = header.written.min(*oldest);
                }
                if start.elapsed() >= STAT_TIME_MAX {
                    return Ok(Stat { complete: false, ..stat });
                }
            }
            let (bin, folder) = (at.bin.clone(), at.folder);
            place = self.next_folder(Some((&bin, folder)))?;
        }
        Ok(stat)
    }

    /// The header and the expiry of a live or expired record; `None` for anything else.
    fn examine(&self, path: &str, name: &str) -> Result<Option<(Header, Timestamp)>> {
        if name.starts_with(TEMPORARY) || matches!(name, "." | "..") {
            return Ok(None);
        }
        // A damaged file or a link is not a session; whoever asks for that session is told.
        let Ok(Some(file)) = self.open_file(path, OFlags::RDONLY) else { return Ok(None) };
        let (Ok(Some(header)), Ok(stat)) = (read_header(&file), fstat(&file)) else { return Ok(None) };
        let record = header.kind == Kind::Live && header.fits(size(&stat));
        Ok(record.then_some((header, header.expires.unwrap_or(mtime(&stat)))))
    }

    pub(super) fn page(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let now = self.clock.now();
        let mut at = match cursor {
            None => (String::new(), 0, String::new()),
            Some(cursor) => parse_cursor(cursor)
                .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "the cursor is not one of this store"))?,
        };
        let mut page = Page::default();
        let mut looked_at = 0;
        for bin in self.bins()? {
            if bin < at.0 || filter.bin.as_ref().is_some_and(|only| only.name() != bin) {
                continue;
            }
            if bin != at.0 {
                at = (bin.clone(), 0, String::new());
            }
            for folder in at.1..=255 {
                let after = if folder == at.1 { at.2.as_str() } else { "" };
                for name in self.names(&format!("{bin}/{folder:02x}"), after, filter.entries_max - looked_at)? {
                    looked_at += 1;
                    page.entries.extend(self.entry(&bin, folder, &name, filter, now)?);
                    if looked_at == filter.entries_max {
                        page.next = Some(Cursor(format!("{bin}/{folder:02x}/{name}")));
                        return Ok(page);
                    }
                }
            }
        }
        Ok(page)
    }

    fn entry(&self, bin: &str, folder: u8, name: &str, filter: &Filter, now: Timestamp) -> Result<Option<Entry>> {
        let Some((header, expires)) = self.examine(&format!("{bin}/{folder:02x}/{name}"), name)? else {
            return Ok(None);
        };
        if expires <= now || header.payload_bytes < filter.payload_bytes_min {
            return Ok(None);
        }
        let Ok(key) = Bin::new(bin).and_then(|bin| Key::in_bin(bin, name)) else { return Ok(None) };
        Ok(Some(Entry {
            key,
            payload_bytes: header.payload_bytes,
            version: header.version,
            created: header.created,
            written: header.written,
            expires,
        }))
    }

    /// The first names of a directory after this one, in order. The order is ours because that of readdir is
    /// not stable across calls on every file system.
    fn names(&self, path: &str, after: &str, most: usize) -> Result<Vec<String>> {
        let mut first = BTreeSet::new();
        let Some(listing) = self.open_listing(path)? else { return Ok(Vec::new()) };
        for entry in listing {
            let entry = entry.map_err(|errno| failed("a directory of session files cannot be listed", errno))?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name > after && !matches!(name, "." | "..") && !name.starts_with(TEMPORARY) {
                first.insert(name.to_owned());
                if first.len() > most {
                    first.pop_last();
                }
            }
        }
        Ok(first.into_iter().collect())
    }
}

fn parse_cursor(cursor: &Cursor) -> Option<(String, u8, String)> {
    let mut parts = cursor.0.splitn(3, '/');
    let (bin, folder, name) = (parts.next()?, parts.next()?, parts.next()?);
    Bin::new(bin).ok()?;
    Some((bin.to_owned(), u8::from_str_radix(folder, 16).ok()?, name.to_owned()))
}
