//! The sweep of the store's own mode.
//!
//! It walks through the bins, their 256 directories and the files in each, looks only at what stat says, and
//! keeps its place between calls as an open directory: no listing is ever held in memory. Invariant: a file is
//! removed only under its lock and gate, after looking again, so that what is leased or was touched in this
//! instant stays.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use sessile_core::{Bin, Budget, Result, Swept};

use super::content::read_header_once;
use super::directory::TEMPORARY;
use super::frame::Kind;
use super::gate;
use super::own::Own;
use super::system::{Identity, failed, mtime, size};
use super::wait::try_flock;

/// A temporary file lives for microseconds. A process that was stopped longer than this in between finds its
/// file gone and fails to commit, with the old record intact.
const TEMPORARY_AGE_MAX: Duration = Duration::from_secs(900);

/// Where the next sweep goes on. In the memory of the process: another one starts anew, which costs only time.
#[derive(Default)]
pub struct SweepCursor {
    pid: u32,
    place: Option<Place>,
}

pub(super) struct Place {
    pub(super) bin: String,
    pub(super) folder: u8,
    pub(super) listing: Dir,
}

impl Own {
    pub(super) fn sweep_some(&self, budget: Budget) -> Result<Swept> {
        let start = Instant::now();
        let mut cursor = self.swept_to.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if cursor.pid != std::process::id() {
            // A forked child would share the position of its parent's directory.
            *cursor = SweepCursor { pid: std::process::id(), place: None };
        }
        let mut swept = Swept::default();
        let mut place = match cursor.place.take() {
            Some(place) => Some(place),
            None => self.next_folder(None)?,
        };
        while let Some(at) = &mut place {
            if swept.examined >= budget.records_max || start.elapsed() >= budget.time_max {
                cursor.place = place;
                return Ok(swept);
            }
            match at.listing.read() {
                None => {
                    let (bin, folder) = (at.bin.clone(), at.folder);
                    place = self.next_folder(Some((&bin, folder)))?;
                }
                Some(Err(errno)) => return Err(failed("a directory of session files cannot be listed", errno)),
                Some(Ok(entry)) => {
                    let Ok(name) = entry.file_name().to_str() else { continue };
                    if matches!(name, "." | "..") {
                        continue;
                    }
                    swept.examined += 1;
                    swept.removed += u64::from(self.sweep_file(&format!("{}/{:02x}/{name}", at.bin, at.folder), name)?);
                }
            }
        }
        swept.complete = true;
        Ok(swept)
    }

    /// True when an expired record was removed.
    fn sweep_file(&self, path: &str, name: &str) -> Result<bool> {
        let Some(stat) = self.directory.stat(path)? else { return Ok(false) };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(false);
        }
        if name.starts_with(TEMPORARY) {
            // By the kernel's clock, which nobody drives: its writer may be at work.
            let changed = Duration::from_secs(u64::try_from(stat.st_ctime).unwrap_or(0));
            let age = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(changed);
            if age > TEMPORARY_AGE_MAX {
                self.unlink(path)?;
            }
            return Ok(false);
        }
        let now = self.clock.now();
        if mtime(&stat) > now && size(&stat) > 0 {
            return Ok(false);
        }
        let Some((file, _)) = self.open_checked(path)? else { return Ok(false) };
        if !try_flock(&file)? {
            return Ok(false);
        }
        gate::enter(&file)?;
        let Some(stat) = self
            .directory
            .stat(path)?
            .filter(|named| rustix::fs::fstat(&file).is_ok_and(|stat| Identity::of(&stat) == Identity::of(named)))
        else {
            return Ok(false);
        };
        // What cannot be read is left for a human to look at.
        let Ok(header) = read_header_once(&file) else { return Ok(false) };
        let expires = header.and_then(|header| header.expires).unwrap_or(mtime(&stat));
        if header.is_some() && expires > now {
            return Ok(false);
        }
        self.unlink(path)?;
        Ok(header.is_some_and(|header| header.kind == Kind::Live))
    }

    fn unlink(&self, path: &str) -> Result<()> {
        match unlinkat(&self.directory.fd, path, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed("an expired session file cannot be removed", errno)),
        }
    }

    /// The first directory of files after this one, in the order of bins and digits.
    pub(super) fn next_folder(&self, after: Option<(&str, u8)>) -> Result<Option<Place>> {
        let mut bins = self.bins()?;
        bins.retain(|bin| after.is_none_or(|(last, _)| bin.as_str() >= last));
        for bin in bins {
            let first = match after {
                Some((last, folder)) if last == bin => u16::from(folder) + 1,
                _ => 0,
            };
            for folder in first..=255 {
                let folder = u8::try_from(folder).unwrap_or(u8::MAX);
                if let Some(listing) = self.open_listing(&format!("{bin}/{folder:02x}"))? {
                    return Ok(Some(Place { bin, folder, listing }));
                }
            }
        }
        Ok(None)
    }

    pub(super) fn bins(&self) -> Result<Vec<String>> {
        let cannot_list = |errno| failed("the directory cannot be listed", errno);
        let mut bins = Vec::new();
        for entry in Dir::read_from(&self.directory.fd).map_err(cannot_list)? {
            let name = entry.map_err(cannot_list)?.file_name().to_string_lossy().into_owned();
            let is_directory = || {
                let stat = self.directory.stat(&name).ok().flatten();
                stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
            };
            if Bin::new(&name).is_ok() && is_directory() {
                bins.push(name);
            }
        }
        bins.sort_unstable();
        Ok(bins)
    }

    pub(super) fn open_listing(&self, path: &str) -> Result<Option<Dir>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match openat(&self.directory.fd, path, flags, Mode::empty()).and_then(Dir::new) {
            Ok(listing) => Ok(Some(listing)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed("a directory of session files cannot be listed", errno)),
        }
    }
}
