//! Looking at many files of a directory that is shared with PHP: sweep, stat, list.
//!
//! A walk visits the directory down to its depth, then the folders beside it, in the order that directories
//! give; the sweep keeps its place as a stack of open directories. Invariant of the sweep: a session is removed
//! only under its lock and gate, after looking again. It removes no more than PHP's collection would, at most
//! two seconds earlier, since PHP counts whole seconds.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{Dir, FileType, Mode, OFlags, Stat as FileStat, openat};
use rustix::io::Errno;
use sessile_core::{Bin, Budget, Cursor, Entry, Error, ErrorKind, Filter, Key, Page, Result, Stat, Swept};

use super::directory::Directory;
use super::gate;
use super::php::Php;
use super::php_directory::{BESIDE, PREFIX, is_temporary, unlink};
use super::php_note::Note;
use super::system::{Identity, failed, mtime, size};
use super::wait::try_flock;

/// As in the store's own mode: whoever is stopped for longer finds its temporary file gone.
const LEFTOVER_AGE_MAX: Duration = Duration::from_secs(900);
const STAT_TIME_MAX: Duration = Duration::from_secs(10);

/// Where the next sweep goes on.
#[derive(Default)]
pub struct SweepCursor {
    pid: u32,
    stack: Vec<Level>,
}

/// An open directory of a walk.
pub struct Level {
    /// Relative to the root; empty or ending in a slash.
    path: String,
    listing: Dir,
}

/// Which kind of file a path is.
enum Place {
    Session(Key),
    Past,
    Redo(Key),
    Temporary,
    Folder,
    Foreign,
}

impl Php {
    /// What a name in a directory of the walk is. `beside` is the part of the path below `.sessile/`.
    fn place(&self, path: &str, name: &str) -> Place {
        let key = |bin: &str, id: &str| Key::in_bin(Bin::new(bin).ok()?, id).ok();
        let Some(beside) = path.strip_prefix(&format!("{BESIDE}/")) else {
            let level = path.matches('/').count();
            return match name.strip_prefix(PREFIX) {
                Some(id) if level == self.shared.depth => key("session", id).map_or(Place::Foreign, Place::Session),
                _ if (level < self.shared.depth && name.len() == 1) || (path.is_empty() && name == BESIDE) => {
                    Place::Folder
                }
                _ => Place::Foreign,
            };
        };
        let mut parts = beside.split_terminator('/');
        match (parts.next(), parts.next()) {
            (Some(_), Some(_)) if is_temporary(name) => Place::Temporary,
            (Some(_), Some("past")) => Place::Past,
            (Some(bin), Some("redo")) => key(bin, name).map_or(Place::Foreign, Place::Redo),
            (Some(bin), Some("data")) => {
                name.strip_prefix(PREFIX).and_then(|id| key(bin, id)).map_or(Place::Foreign, Place::Session)
            }
            (Some(_), None) if matches!(name, "past" | "redo" | "data") => Place::Folder,
            (None, _) if Bin::new(name).is_ok() && !matches!(name, "format" | "waiting") => Place::Folder,
            (None, _) if is_temporary(name) => Place::Temporary,
            _ => Place::Foreign,
        }
    }

    fn open_level(&self, path: String) -> Result<Option<Level>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let name = if path.is_empty() { "." } else { path.trim_end_matches('/') };
        match openat(&self.shared.root.fd, name, flags, Mode::empty()).and_then(Dir::new) {
            Ok(listing) => Ok(Some(Level { path, listing })),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(failed("the directory cannot be listed", errno)
                .advice("sweep and list as a user who may read it; on Debian PHP's own is for root only")),
        }
    }

    pub(super) fn sweep_some(&self, budget: Budget) -> Result<Swept> {
        let start = Instant::now();
        let mut cursor = self.swept_to.lock().unwrap_or_else(PoisonError::into_inner);
        if cursor.pid != std::process::id() || cursor.stack.is_empty() {
            // A forked child would share the position of its parent's directories.
            *cursor =
                SweepCursor { pid: std::process::id(), stack: self.open_level(String::new())?.into_iter().collect() };
        }
        let mut swept = Swept::default();
        while let Some(level) = cursor.stack.last_mut() {
            if swept.examined >= budget.records_max || start.elapsed() >= budget.time_max {
                return Ok(swept);
            }
            let entry = match level.listing.read() {
                Some(entry) => entry.map_err(|errno| failed("the directory cannot be listed", errno))?,
                None => {
                    cursor.stack.pop();
                    continue;
                }
            };
            let Ok(name) = entry.file_name().to_str() else { continue };
            let path = format!("{}{name}", level.path);
            match self.place(&level.path, name) {
                Place::Foreign => continue,
                Place::Folder => {
                    let below = self.open_level(path + "/")?;
                    cursor.stack.extend(below);
                    continue;
                }
                Place::Session(key) => swept.removed += u64::from(self.sweep_session(&key)?),
                place => self.sweep_beside(&place, &path)?,
            }
            swept.examined += 1;
        }
        swept.complete = true;
        Ok(swept)
    }

    fn sweep_session(&self, key: &Key) -> Result<bool> {
        let now = self.clock.now();
        let due = |stat: &FileStat| {
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && self.expiry(stat) <= now
        };
        if !self.shared.stat(key)?.is_some_and(|stat| due(&stat)) {
            return Ok(false);
        }
        let Some((file, stat)) = self.shared.open_checked(key, OFlags::RDWR)? else { return Ok(false) };
        if !try_flock(&file)? {
            return Ok(false);
        }
        gate::enter(&file)?;
        let Some(named) =
            self.shared.stat(key)?.filter(|named| Identity::of(named) == Identity::of(&stat) && due(named))
        else {
            return Ok(false);
        };
        let record = size(&named) > 0 || Note::read(&file).is_some_and(|note| note.payload_bytes == 0);
        self.shared.remove(key)?;
        Ok(record)
    }

    fn sweep_beside(&self, place: &Place, path: &str) -> Result<()> {
        let root = &self.shared.root;
        let Some(stat) = root.stat(path)? else { return Ok(()) };
        // By the kernel's clock, which nobody drives: whoever writes it may be at work.
        let changed = Duration::from_secs(u64::try_from(stat.st_ctime).unwrap_or(0));
        let age = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(changed);
        match place {
            Place::Temporary if age > LEFTOVER_AGE_MAX => unlink(root, path),
            Place::Redo(key) if age > LEFTOVER_AGE_MAX => match self.shared.open_checked(key, OFlags::RDWR)? {
                None => unlink(root, path),
                Some((file, _)) if try_flock(&file)? => self.finish_redo(key, &file).map(drop),
                Some(_) => Ok(()),
            },
            Place::Past if mtime(&stat) <= self.clock.now() => sweep_past(root, path, &stat),
            _ => Ok(()),
        }
    }

    /// All sessions of a directory and those below, in order of their names, after a path; `visit` says when to
    /// stop. The order is ours because that of readdir is not stable across calls on every file system.
    fn walk(&self, path: &str, after: &str, visit: &mut impl FnMut(&str, &Key) -> Result<bool>) -> Result<bool> {
        let mut from = after.to_owned();
        loop {
            let names = self.names(path, &from, BATCH)?;
            let last = names.len() < BATCH;
            for name in names {
                let entry = format!("{path}{name}");
                let go_on = match self.place(path, &name) {
                    Place::Session(key) if entry.as_str() > after => visit(&entry, &key)?,
                    Place::Folder => self.walk(&format!("{entry}/"), after, visit)?,
                    _ => true,
                };
                if !go_on {
                    return Ok(false);
                }
                from = entry;
            }
            if last {
                return Ok(true);
            }
        }
    }

    /// The first names of a directory after a path, in order, and the folder that leads to that path.
    fn names(&self, path: &str, after: &str, most: usize) -> Result<Vec<String>> {
        let mut first = BTreeSet::new();
        let Some(level) = self.open_level(path.to_owned())? else { return Ok(Vec::new()) };
        for entry in level.listing {
            let entry = entry.map_err(|errno| failed("the directory cannot be listed", errno))?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let full = format!("{path}{name}");
            let leads_there = after.strip_prefix(full.as_str()).is_some_and(|rest| rest.starts_with('/'));
            if (full.as_str() > after || leads_there) && !matches!(self.place(path, name), Place::Foreign) {
                first.insert(name.to_owned());
                if first.len() > most {
                    first.pop_last();
                }
            }
        }
        Ok(first.into_iter().collect())
    }

    pub(super) fn count(&self) -> Result<Stat> {
        let (start, now) = (Instant::now(), self.clock.now());
        let mut stat = Stat::default();
        stat.complete = self.walk("", "", &mut |_, key| {
            if let Ok(Some(record)) = self.snapshot(key) {
                if record.expired(now) {
                    stat.expired += 1;
                } else {
                    stat.sessions += 1;
                    stat.payload_bytes += record.payload.len() as u64;
                    let oldest = stat.oldest_written.get_or_insert(record.written);
                    *oldest = record.written.min(*oldest);
                }
            }
            Ok(start.elapsed() < STAT_TIME_MAX)
        })?;
        Ok(stat)
    }

    pub(super) fn page(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let now = self.clock.now();
        let after = match cursor.map(|cursor| cursor.0.strip_prefix("php:")) {
            None => "",
            Some(Some(after)) => after,
            Some(None) => return Err(Error::new(ErrorKind::InvalidArgument, "the cursor is not one of this store")),
        };
        let (mut page, mut looked_at) = (Page::default(), 0);
        self.walk("", after, &mut |path, key| {
            looked_at += 1;
            // What cannot be read is not a session; whoever asks for it is told.
            if filter.bin.as_ref().is_none_or(|bin| bin == key.bin())
                && let Ok(Some(record)) = self.snapshot(key)
                && !record.expired(now)
                && record.payload.len() as u64 >= filter.payload_bytes_min
            {
                page.entries.push(Entry::of(key, &record));
            }
            let full = looked_at == filter.entries_max;
            page.next = full.then(|| Cursor(format!("php:{path}")));
            Ok(!full)
        })?;
        Ok(page)
    }
}

/// Names that a walk holds in memory for each level.
const BATCH: usize = 10_000;

fn sweep_past(root: &Directory, path: &str, stat: &FileStat) -> Result<()> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let Ok(file) = openat(&root.fd, path, flags, Mode::empty()) else { return Ok(()) };
    gate::enter(&file)?;
    match root.stat(path)? {
        Some(named) if Identity::of(&named) == Identity::of(stat) => unlink(root, path),
        _ => Ok(()),
    }
}
