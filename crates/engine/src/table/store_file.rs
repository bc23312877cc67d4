//! The file `format` of a store, as a process that is attached to it sees it.
//!
//! Invariant: the shared lock on it says that the control plane is in use, for as long as the file
//! is in its place. Where it is not, other processes may make another store under the same path.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use rustix::fs::{fstat, stat};
use sessile_core::{Error, ErrorKind, Result, Timestamp};

use crate::memory::*;

/// How long a process may go without looking whether its store is still in its place.
const LOOK_EVERY_MS: u64 = 1_000;

pub struct StoreFile {
    pub file: OwnedFd,
    /// Absolute: a process may change its directory.
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    looked_ms: AtomicU64,
}

impl StoreFile {
    pub fn new(file: OwnedFd, path: PathBuf, identity: (u64, u64)) -> StoreFile {
        StoreFile { file, path, identity, looked_ms: AtomicU64::new(0) }
    }

    /// Error: `Io` when the store was removed, or another one is in its place; at the latest a
    /// second after that.
    #[inline]
    pub fn check_in_place(&self, now: Timestamp) -> Result<()> {
        // A clock that was set back is far away, too.
        if now.as_ms().wrapping_sub(self.looked_ms.load(Relaxed)) < LOOK_EVERY_MS {
            return Ok(());
        }
        self.look(now)
    }

    #[cold]
    fn look(&self, now: Timestamp) -> Result<()> {
        let in_place = match stat(&self.path) {
            Ok(found) => (found.st_dev, found.st_ino) == self.identity,
            // The directory was moved, or is not to be seen from here: no other store either.
            Err(_) => fstat(&self.file).is_ok_and(|held| held.st_nlink > 0),
        };
        if !in_place {
            return Err(store_removed());
        }
        self.looked_ms.store(now.as_ms(), Relaxed);
        Ok(())
    }
}

pub fn store_removed() -> Error {
    let why = "the store was removed while this process used it, and there may be another one now";
    Error::new(ErrorKind::Io, why)
        .advice("restart this process; keep tmp cleaners and RemoveIPC= away from the directory")
}
