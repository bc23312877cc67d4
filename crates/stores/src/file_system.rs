//! `sync` of stores in plain files: it syncs their whole file system.
//!
//! Several processes write the files of one store, and an `fsync` of each would miss those that
//! come and go meanwhile. In a process that has SQLite open, closing a descriptor of its database
//! would even drop its locks. `syncfs(2)` is one call and opens no file; but it also waits for
//! other files of that file system. Invariant: a file system in memory is refused, never reported
//! as synced.

use std::os::fd::AsFd;

use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use nix::unistd::syncfs;
use sessile_core::{Error, ErrorKind, Result};

pub fn sync(place: impl AsFd) -> Result<()> {
    let failed = |errno: nix::Error| {
        Error::new(ErrorKind::Io, "the file system could not be written to its disk")
            .advice("check the kernel's log and the disk; what was unsynced may be lost")
            .source(std::io::Error::from(errno))
    };
    let kind = fstatfs(&place).map_err(failed)?.filesystem_type();
    if kind == TMPFS_MAGIC {
        let why = "the store lies in memory, where nothing survives a power cut";
        return Err(Error::new(ErrorKind::Unsupported, why).advice("put it on a disk if it must"));
    }
    syncfs(place).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// `/dev/shm` is a tmpfs on every Linux; a store that said "synced" there would lie.
    #[test]
    fn a_disk_is_synced_and_memory_is_refused() {
        let refused = sync(File::open("/dev/shm").unwrap()).unwrap_err();
        assert_eq!(refused.kind().code(), "unsupported");
        let here = File::open(env!("CARGO_MANIFEST_DIR")).unwrap();
        assert!(sync(here).is_ok());
    }
}
