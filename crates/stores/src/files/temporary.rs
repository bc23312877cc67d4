//! New files: written under a temporary name, then given their real one.
//!
//! Invariant: a file that gets a real name is complete (and on disk, if the store is durable). A
//! temporary file that is not published removes itself. The sweep removes those of killed
//! processes.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{OFlags, RenameFlags};
use rustix::io::writev;
use sessile_core::{ErrorKind, Result, Timestamp};

use super::directory::FileName;
use super::system::{failed, fence, set_time, sync_if};

/// No id contains this first character of temporary files.
pub const TEMPORARY: char = '~';

pub struct Temporary<'a> {
    pub file: OwnedFd,
    pub name: FileName<'a>,
    published: bool,
}

impl<'a> Temporary<'a> {
    pub fn create(beside: &FileName<'a>) -> Result<Temporary<'a>> {
        let name = beside.directory.name(temporary_name(&beside.path));
        Ok(Temporary { file: name.create(OFlags::EXCL)?, name, published: false })
    }

    pub fn write(&self, mut left: &mut [IoSlice<'_>]) -> Result<()> {
        while left.iter().any(|part| !part.is_empty()) {
            // A disk that is almost full takes a part, and fails the next write.
            let written = writev(&self.file, left)
                .map_err(|errno| failed("a session file cannot be written", errno))?;
            IoSlice::advance_slices(&mut left, written);
        }
        Ok(())
    }

    /// Sets the modification time, after the last write.
    pub fn finish(&self, time: Timestamp, durable: bool) -> Result<()> {
        set_time(&self.file, time)?;
        sync_if(&self.file, durable)
    }

    /// Gives the file a name, replacing the file that has it. The caller has that file's gate.
    pub fn publish(&mut self, to: &FileName<'_>) -> Result<()> {
        self.published = self.name.rename(to, RenameFlags::empty())?;
        self.published.then_some(()).ok_or_else(|| ErrorKind::Exists.into())
    }

    /// Gives the file a free name; false if the name stands for a file.
    pub fn link(&mut self, to: &FileName<'_>) -> Result<bool> {
        self.published = self.name.rename(to, RenameFlags::NOREPLACE)?;
        Ok(self.published)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.published {
            // If this fails, the sweep removes it.
            let _ = self.name.unlink();
        }
    }
}

fn temporary_name(path: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the count only has to differ. The clock makes names differ between pid namespaces.
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = path.trim_end_matches(|letter| letter != '/');
    format!("{folder}{TEMPORARY}{}-{count}-{}", std::process::id(), fence() % 1_000_000_000)
}
