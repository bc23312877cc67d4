//! The file system of stores in plain files: whether it can carry one, and its `sync`.
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

/// On these locks and events do not reach other hosts, or rename is not atomic.
const NETWORK: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
];

pub fn refuse_network(place: impl AsFd) -> Result<()> {
    // One that does not say what it is gets the benefit of the doubt.
    fstatfs(place).map_or(Ok(()), |statfs| check_magic(statfs.filesystem_type().0 as u64))
}

fn check_magic(magic: u64) -> Result<()> {
    let is_named = |(network, _): &&(u32, &str)| u64::from(*network) == magic & 0xffff_ffff;
    let Some((_, name)) = NETWORK.iter().find(is_named) else { return Ok(()) };
    let why =
        format!("the directory is on {name}, where locks and events do not reach other hosts");
    Err(Error::new(ErrorKind::Unsupported, why)
        .advice("use a local file system, or a store with a server"))
}

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

    #[test]
    fn network_file_systems_are_refused() {
        // As 32 bits with a sign, which some platforms have.
        for magic in [0x6969, 0xff53_4d42, 0xffff_ffff_ff53_4d42] {
            assert_eq!(check_magic(magic).unwrap_err().kind().code(), "unsupported");
        }
        assert!(refuse_network(File::open("/dev/shm").unwrap()).is_ok());
        assert!(refuse_network(File::open(env!("CARGO_MANIFEST_DIR")).unwrap()).is_ok());
    }

    /// `/dev/shm` is a tmpfs on every Linux; a store that said "synced" there would lie.
    #[test]
    fn a_disk_is_synced_and_memory_is_refused() {
        let refused = sync(File::open("/dev/shm").unwrap()).unwrap_err();
        assert_eq!(refused.kind().code(), "unsupported");
        let here = File::open(env!("CARGO_MANIFEST_DIR")).unwrap();
        assert!(sync(here).is_ok());
    }
}
