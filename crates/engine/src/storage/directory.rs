//! The directory of a store: opened, checked, attached to.
//!
//! Invariant: every attached process holds a shared lock of the file `format`.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, fstatfs, fsync, mkdir, open, openat};
use rustix::io::Errno;
use sessile_core::{Error, ErrorKind, Result};

use super::format::DataMedium;
use crate::{memory::*, table::*};

pub const BEACONS_FILE: &str = "beacons";
pub const DATA_FILE: &str = "data";
pub const FORMAT_FILE: &str = "format";
pub const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
pub const DIRECTORY_MODE: Mode = Mode::RWXU;
const TMPFS_MAGIC: u32 = 0x0102_1994;
/// File systems of this kernel: their files change only through it, all mappings of a file show the
/// same, and its locks reach every process. Of any other one that is unknown: of NFS, SMB, 9P and
/// FUSE it is false.
const LOCAL: [u32; 10] = [
    TMPFS_MAGIC,
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0x2fc1_2fc1, // ZFS
    0xf2f5_2010, // F2FS
    0xca45_1a4e, // bcachefs
    0x3153_464a, // JFS
    0x5265_4973, // ReiserFS
    0x794c_7630, // overlayfs, the root of most containers
];
/// To create a control plane in memory, and to rebuild one from a disk.
pub const CREATION_MAX: Duration = Duration::from_secs(3);
const REBUILD_MAX: Duration = Duration::from_secs(600);
const ATTACH_PAUSE: Duration = Duration::from_millis(2);
pub const STORE_BYTES_MIN: u64 = 4 << 20;
/// At this size a file system is probably a container's default /dev/shm.
const SMALL_FILE_SYSTEM: u64 = 64 << 20;

pub struct StoreDirectory {
    pub fd: OwnedFd,
    /// Absolute.
    path: PathBuf,
    /// Device and inode of the file `format` that this process was attached to first.
    format: OnceLock<(u64, u64)>,
    pub medium: DataMedium,
    pub file_system_bytes: u64,
    pub control_parent: PathBuf,
    /// The directory of the control plane, once it is found.
    pub control: OnceLock<OwnedFd>,
}

impl StoreDirectory {
    /// Creates the last component.
    pub fn open(path: &Path, control_parent: PathBuf) -> Result<StoreDirectory> {
        match mkdir(path, DIRECTORY_MODE) {
            // The name of a new store survives a power cut, too.
            Ok(()) => sync_directory(path.parent())?,
            Err(Errno::EXIST) => {}
            Err(Errno::NOENT) => {
                return Err(Error::new(ErrorKind::Io, "the directory and its parent are missing")
                    .advice("create the parent; only the last component is created here"));
            }
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) if path.exists() => {}
            Err(errno) => return Err(refused("the directory cannot be created", errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open(path, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOTDIR => Error::new(ErrorKind::Io, "the path is not a directory"),
            errno => refused("the directory cannot be opened", errno),
        })?;
        let stat = fstat(&fd).explained("the directory cannot be examined")?;
        let own = rustix::process::geteuid().as_raw();
        if stat.st_uid != own {
            let why = format!(
                "the directory belongs to user id {}, this process runs as user id {own}",
                stat.st_uid
            );
            return Err(Error::new(ErrorKind::Denied, why)
                .advice("run as the directory's owner or give it to this user"));
        }
        if stat.st_mode & 0o022 != 0 {
            return Err(Error::new(ErrorKind::Denied, "others may write to the directory")
                .advice("take that right away (chmod 700), or use a directory inside it"));
        }
        let (medium, file_system_bytes) = check_file_system(&fd, path)?;
        let path = std::path::absolute(path)
            .map_err(|error| Error::new(ErrorKind::Io, "the path has no root").source(error))?;
        Ok(StoreDirectory {
            fd,
            path,
            format: OnceLock::new(),
            medium,
            file_system_bytes,
            control_parent,
            control: OnceLock::new(),
        })
    }

    pub fn open_file(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        openat(&self.fd, name, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, FILE_MODE)
    }

    pub fn control_fd(&self) -> &OwnedFd {
        self.control.get().unwrap_or(&self.fd)
    }

    pub fn open_control(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        openat(self.control_fd(), name, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, FILE_MODE)
    }

    /// The file of beacons, opened anew: its locks belong to this process. In another file than
    /// theirs, all other processes would look dead.
    pub fn beacons(&self, plane: &Plane) -> Result<File> {
        let file = self.open_control(BEACONS_FILE, OFlags::RDWR).map_err(|errno| match errno {
            Errno::NOENT => beacons_lost(),
            errno => refused("the file of beacons cannot be opened", errno),
        })?;
        let inode = file_identity(&file)?.1;
        if inode != plane.header(header::BEACONS).load(Relaxed) {
            return Err(beacons_lost());
        }
        Ok(File::from(file))
    }

    /// The shared lock of an attached process, on a description of its own.
    /// Error: `Io` for another file than that of the first time.
    pub fn attach(&self) -> Result<StoreFile> {
        let opened = self.open_file(FORMAT_FILE, OFlags::RDONLY);
        let file = opened.explained("the file `format` cannot be opened")?;
        // How long another process may have the exclusive lock.
        let wait_max = if self.medium == DataMedium::Disk { REBUILD_MAX } else { CREATION_MAX };
        let start = Instant::now();
        while !try_lock_format(&file, FlockOperation::NonBlockingLockShared)? {
            if start.elapsed() >= wait_max {
                let why = format!(
                    "another process {}does not finish creating the control plane",
                    lock_holders(&file)
                );
                return Err(Error::new(ErrorKind::Io, why).advice("look at that process"));
            }
        }
        let identity = file_identity(&file)?;
        // Removed while this process waited for the lock.
        if fstat(&file).is_ok_and(|found| found.st_nlink == 0) {
            return Err(store_removed());
        }
        if *self.format.get_or_init(|| identity) != identity {
            return Err(store_removed());
        }
        Ok(StoreFile::new(file, self.path.join(FORMAT_FILE), identity))
    }
}

/// Tries to lock the file `format`. False, after a moment, when another process has it.
pub fn try_lock_format(file: &OwnedFd, operation: FlockOperation) -> Result<bool> {
    match flock(file, operation) {
        Err(Errno::WOULDBLOCK) => {
            std::thread::sleep(ATTACH_PAUSE);
            Ok(false)
        }
        locked => locked.explained("the file `format` cannot be locked").map(|()| true),
    }
}

fn sync_directory(path: Option<&Path>) -> Result<()> {
    let path = path.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match open(path, flags, Mode::empty()).and_then(fsync) {
        // A user may have the right to create in a directory and none to read it.
        Ok(()) | Err(Errno::ACCESS | Errno::INVAL) => Ok(()),
        Err(errno) => Err(refused("the parent directory cannot be synced", errno)),
    }
}

fn check_file_system(fd: &OwnedFd, path: &Path) -> Result<(DataMedium, u64)> {
    let (magic, bytes) = file_system(fd)?;
    check_local(magic)?;
    if bytes < STORE_BYTES_MIN * 2 {
        let why = format!("the file system has only {bytes} bytes");
        return Err(Error::new(ErrorKind::Full, why).advice("use a larger one"));
    }
    if magic != TMPFS_MAGIC || is_disk_simulated() {
        return Ok((DataMedium::Disk, bytes));
    }
    if bytes <= SMALL_FILE_SYSTEM {
        let path = path.display();
        log::warn!(
            "{path} is on a file system of {bytes} bytes; containers get more by --shm-size"
        );
    }
    Ok((DataMedium::Memory, bytes))
}

fn check_local(magic: u32) -> Result<()> {
    if LOCAL.contains(&magic) {
        return Ok(());
    }
    let why = format!(
        "the directory is on a file system ({magic:#x}; `stat -f` has its name) that may belong to \
         another machine or program"
    );
    Err(Error::new(ErrorKind::Unsupported, why).advice(
        "use /dev/shm or a local disk with ext4, XFS, Btrfs, ZFS, F2FS or overlayfs; stores for \
         several hosts are the servers, such as redis:",
    ))
}

/// Its kind and its bytes.
pub fn file_system(of: &impl AsFd) -> Result<(u32, u64)> {
    let statfs = fstatfs(of).explained("the file system cannot be examined")?;
    let block = u64::try_from(statfs.f_bsize).unwrap_or(4_096);
    let bytes = (statfs.f_blocks as u64).saturating_mul(block);
    // A tmpfs without a limit of its own says 0.
    Ok(((statfs.f_type as u64 & 0xffff_ffff) as u32, if bytes == 0 { 1 << 40 } else { bytes }))
}

pub fn is_in_memory(of: &impl AsFd) -> Result<bool> {
    Ok(file_system(of)?.0 == TMPFS_MAGIC)
}

pub fn file_identity(file: &impl AsFd) -> Result<(u64, u64)> {
    let stat = fstat(file).explained("a file cannot be examined")?;
    Ok((stat.st_dev, stat.st_ino))
}

/// 0 for one that cannot be examined.
pub fn file_bytes(file: &impl AsFd) -> u64 {
    fstat(file).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0))
}

/// The pids that hold a lock on a file: `(1, 2) ` or nothing.
pub fn lock_holders(file: &impl AsFd) -> String {
    let Ok((_, inode)) = file_identity(file) else { return String::new() };
    let inode = format!(":{inode}");
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let own = std::process::id().to_string();
    let holder = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        match fields[..] {
            [_, "FLOCK", _, _, pid, place, ..] if place.ends_with(&inode) && pid != own => {
                Some(pid.to_owned())
            }
            _ => None,
        }
    };
    let mut pids: Vec<String> = locks.lines().filter_map(holder).collect();
    pids.sort_unstable();
    pids.dedup();
    if pids.is_empty() { String::new() } else { format!("({}) ", pids.join(", ")) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_is_not_known_to_be_local_is_refused() {
        // NFS, SMB, 9P, FUSE, and one that nobody knows.
        for magic in [0x6969, 0xff53_4d42, 0x0102_1997, 0x6573_5546, 0x1234_5678] {
            assert_eq!(*check_local(magic).unwrap_err().kind(), ErrorKind::Unsupported);
        }
        LOCAL.iter().for_each(|magic| check_local(*magic).unwrap());
    }
}
