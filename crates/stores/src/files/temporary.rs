//! New files of the store's own mode: written under a temporary name, then given their real one.
//!
//! Invariant: what gets a real name is complete (and on disk, if the store is durable). A temporary file that is
//! not published removes itself; one that a killed process leaves is removed by the sweep.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, OFlags, RenameFlags, fsync, futimens, renameat, renameat_with, unlinkat};
use rustix::io::{Errno, writev};
use sessile_core::{Error, ErrorKind, Key, Result, Timestamp};

use super::content::read_once;
use super::directory::temporary_name;
use super::frame::{Header, Kind, PAGE_BYTES};
use super::gate;
use super::own::Own;
use super::system::{Identity, failed, modified_at};
use super::wait::try_flock;

/// A file under a temporary name.
pub struct Temporary<'a> {
    store: &'a Own,
    file: OwnedFd,
    name: Option<String>,
}

impl Own {
    /// Writes a complete file under a temporary name beside the key's.
    pub(super) fn write(&self, key: &Key, header: &Header, payload: &[u8], time: Timestamp) -> Result<Temporary<'_>> {
        let temporary = self.create_temporary(key)?;
        let zeros = [0; PAGE_BYTES];
        // A session that grows a little later finds room, and its commits stay in place.
        let filling = if header.kind == Kind::Live { zeros.get(header.end()..).unwrap_or_default() } else { &[] };
        let header = header.encode();
        let mut parts = [IoSlice::new(&header), IoSlice::new(payload), IoSlice::new(filling)];
        let mut left = &mut parts[..];
        while !left.is_empty() {
            // A disk that is almost full takes a part, and says why only the next time.
            let written =
                writev(&temporary.file, left).map_err(|errno| failed("a session file cannot be written", errno))?;
            IoSlice::advance_slices(&mut left, written);
        }
        futimens(&temporary.file, &modified_at(time)).map_err(|errno| failed("a file's time cannot be set", errno))?;
        if self.durable {
            fsync(&temporary.file).map_err(|errno| failed("a session file cannot be written to disk", errno))?;
        }
        Ok(temporary)
    }

    /// An empty temporary file; makes the directories on first use.
    pub(super) fn create_temporary(&self, key: &Key) -> Result<Temporary<'_>> {
        let folder = Own::folder(key);
        let name = temporary_name(&folder);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        let file = match self.open_file(&name, flags)? {
            Some(file) => file,
            None => {
                self.make_folder(key)?;
                let gone = || Error::new(ErrorKind::Io, "the store's directory was removed").advice("open it again");
                self.open_file(&name, flags)?.ok_or_else(gone)?
            }
        };
        Ok(Temporary { store: self, file, name: Some(name) })
    }

    /// Publishes a file under a name that must be free: the last step of `create`, the first of `regenerate`.
    ///
    /// # Errors
    ///
    /// `Exists` when the name stands for a live record, an alias within its grace, or a locked file.
    pub(super) fn publish_if_free(&self, key: &Key, new: &mut Temporary<'_>) -> Result<()> {
        let name = Own::name(key);
        let taken = || Error::new(ErrorKind::Exists, "the id is taken");
        loop {
            if new.link(&name)? {
                return Ok(());
            }
            let Some((old, stat)) = self.open_checked(&name)? else { continue };
            // A locked id is taken: its holder may be about to create it.
            if !try_flock(&old)? {
                return Err(taken());
            }
            gate::enter(&old)?;
            // Not what was seen before the lock: an empty file may have got its first record since.
            let Some(stat) = self.named(&name, Identity::of(&stat))? else { continue };
            let now = self.clock.now();
            let content = read_once(&old, &stat)?;
            if content.leads_to(key, now).is_some() || content.found(key, now).record.is_some() {
                return Err(taken());
            }
            return new.publish(&name);
        }
    }
}

impl Temporary<'_> {
    /// The open file.
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Gives it a name, replacing what had it. The caller has the gate of that.
    pub fn publish(&mut self, name: &str) -> Result<()> {
        let Some(from) = self.name.take() else { return Ok(()) };
        let directory = &self.store.directory.fd;
        renameat(directory, &from, directory, name).map_err(|errno| {
            let error = failed("a session file cannot be put in place", errno);
            self.name = Some(from);
            error
        })
    }

    /// Gives it a name that nothing has; false when something has it.
    fn link(&mut self, name: &str) -> Result<bool> {
        let Some(from) = self.name.take() else { return Ok(true) };
        let directory = &self.store.directory.fd;
        let renamed = renameat_with(directory, &from, directory, name, RenameFlags::NOREPLACE);
        if renamed.is_err() {
            self.name = Some(from);
        }
        match renamed {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(failed("a session file cannot be put in place", errno)),
        }
    }

    /// Changes the header before it is published.
    pub fn rewrite_header(&self, header: &Header, time: Timestamp) -> Result<()> {
        rustix::io::pwrite(&self.file, &header.encode(), 0)
            .map_err(|errno| failed("a session file cannot be written", errno))?;
        futimens(&self.file, &modified_at(time)).map_err(|errno| failed("a file's time cannot be set", errno))?;
        if self.store.durable {
            fsync(&self.file).map_err(|errno| failed("a session file cannot be written to disk", errno))?;
        }
        Ok(())
    }

    /// The file as the file of a lease: the same open file description, so its locks go on.
    pub fn share_file(&self) -> Result<OwnedFd> {
        self.file.try_clone().map_err(|error| Error::new(ErrorKind::Io, "a file cannot be kept open").source(error))
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // A failure leaves it to the sweep.
            let _ = unlinkat(&self.store.directory.fd, name.as_str(), AtFlags::empty());
        }
    }
}
