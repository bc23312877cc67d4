//! The directory of a store: opened, checked, locked.
//!
//! Invariant: every attached process holds a shared lock of the file `format`; a control plane is created only under
//! the exclusive one (control.rs). docs/engine.md, "Opening".

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, fstatfs, mkdirat, openat};
use rustix::io::Errno;
use sessile_core::{Clock, Error, ErrorKind, Result};

use crate::control::BEACONS_FILE;
use crate::engine::Engine;
use crate::format::{Format, Kept};
use crate::layout::header;
use crate::plane::Plane;
use crate::sync::Ordering;

pub(crate) const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
pub(crate) const DIRECTORY_MODE: Mode = Mode::RWXU;
const FORMAT_FILE: &str = "format";
/// statfs(2)
const TMPFS_MAGIC: u32 = 0x0102_1994;
/// File systems of other machines, or of programs: their files can change without this kernel, mappings may be stale,
/// locks may not be those of everyone.
const FOREIGN: [(u32, &str); 10] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
];
/// How long another process may take to create a control plane in memory, and to rebuild one from a disk.
const CREATION_MAX: Duration = Duration::from_secs(3);
const REBUILD_MAX: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(2);
/// Below this a store is not worth opening: its own tables take a good part of it.
const BYTES_MIN: u64 = 4 << 20;
/// At this size a file system is probably a container's default /dev/shm.
const SMALL_FILE_SYSTEM: u64 = 64 << 20;
/// How often what is on a disk is synced unless the options say otherwise.
const INTERVAL: Duration = Duration::from_secs(1);

/// What a URL can ask for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Bytes that the store may occupy; 0 keeps what is in force.
    pub size_bytes_max: u64,
    /// On a disk: how old the oldest unsynced byte may become while there is traffic; zero: nothing is synced.
    /// `None` is one second.
    pub sync_interval: Option<Duration>,
    /// On a disk: the directory in memory in which the control plane is made; `None` is /dev/shm.
    pub control: Option<PathBuf>,
}

/// An opened directory.
pub struct Directory {
    pub(crate) fd: OwnedFd,
    pub(crate) path: PathBuf,
    pub(crate) kept: Kept,
    /// On a disk: where control planes are.
    pub(crate) control_parent: PathBuf,
    /// The directory of the control plane, once it is found.
    pub(crate) control: OnceLock<OwnedFd>,
}

/// Opens the store in a directory, creating what is missing.
///
/// # Errors
///
/// `Denied` for a foreign directory, `Unsupported` for a network file system, `Incompatible` for another format,
/// `Full` when there is no room to begin with, `Io` when the control plane was removed under living processes.
pub fn open(path: &Path, clock: Clock, options: &Options) -> Result<Engine> {
    if options.size_bytes_max > 0 && options.size_bytes_max < BYTES_MIN {
        let why = format!("the size limit of {} bytes is below the least of {BYTES_MIN}", options.size_bytes_max);
        return Err(Error::new(ErrorKind::InvalidArgument, why));
    }
    let mut directory = Directory::open(path)?;
    let (kept, file_system_bytes) = directory.check_file_system()?;
    directory.kept = kept;
    if kept == Kept::InMemory && options.sync_interval.is_some_and(|interval| !interval.is_zero()) {
        log::warn!(
            "{} is in memory: `durability` means nothing there, and no session survives a restart",
            path.display()
        );
    }
    if let Some(parent) = &options.control {
        directory.control_parent.clone_from(parent);
    }
    let format = Format::read_or_create(&directory.fd, kept)?;
    let interval = options.sync_interval.unwrap_or(INTERVAL);
    let opening = Opening { format, clock, file_system_bytes, interval };
    // Held until this process has a slot of its own, so that nobody creates another plane in between.
    let attached = directory.lock_plane(&opening)?;
    let plane = directory.map(&opening)?;
    if options.size_bytes_max > 0 {
        plane.header(header::BYTES_MAX).store(options.size_bytes_max, Ordering::Relaxed);
    }
    if plane.log.as_ref().is_some_and(|log| log.interval_ms > 0) {
        plane.header(header::SYNCED).store(1, Ordering::Relaxed);
    }
    let engine = Engine::new(plane, directory)?;
    drop(attached);
    Ok(engine)
}

/// What is known while a store is being opened.
pub(crate) struct Opening {
    pub format: Format,
    pub clock: Clock,
    pub file_system_bytes: u64,
    pub interval: Duration,
}

impl Directory {
    fn open(path: &Path) -> Result<Directory> {
        match mkdirat(rustix::fs::CWD, path, DIRECTORY_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(Errno::NOENT) => {
                return Err(Error::new(ErrorKind::Io, "the directory and its parent are missing")
                    .advice("create the parent; only the last component is created here"));
            }
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) if path.exists() => {}
            Err(errno) => return Err(failed("the directory cannot be created", errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(rustix::fs::CWD, path, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOTDIR => Error::new(ErrorKind::Io, "the path is not a directory"),
            errno => failed("the directory cannot be opened", errno),
        })?;
        let stat = fstat(&fd).map_err(|errno| failed("the directory cannot be examined", errno))?;
        let own = rustix::process::geteuid().as_raw();
        if stat.st_uid != own {
            let why = format!("the directory belongs to user id {}, this process runs as user id {own}", stat.st_uid);
            return Err(
                Error::new(ErrorKind::Denied, why).advice("run as the directory's owner or give it to this user")
            );
        }
        if stat.st_mode & 0o022 != 0 {
            return Err(Error::new(ErrorKind::Denied, "others may write to the directory")
                .advice("take that right away (chmod 700), or use a directory inside it"));
        }
        let (path, control_parent) = (path.to_owned(), PathBuf::from("/dev/shm"));
        Ok(Directory { fd, path, kept: Kept::InMemory, control_parent, control: OnceLock::new() })
    }

    /// What kind of file system it is, and its bytes.
    fn check_file_system(&self) -> Result<(Kept, u64)> {
        let (magic, bytes) = file_system(&self.fd)?;
        if let Some((_, name)) = FOREIGN.iter().find(|(foreign, _)| *foreign == magic) {
            let why = format!("the directory is on a file system of another machine or program ({name})");
            return Err(Error::new(ErrorKind::Unsupported, why)
                .advice("use a local disk or /dev/shm; stores for several hosts are the servers, such as redis:"));
        }
        let path = self.path.display();
        if bytes < BYTES_MIN * 2 {
            let why = format!("the file system has only {bytes} bytes");
            return Err(Error::new(ErrorKind::Full, why).advice("use a larger one"));
        }
        if magic != TMPFS_MAGIC {
            return Ok((Kept::OnDisk, bytes));
        }
        if bytes <= SMALL_FILE_SYSTEM {
            log::warn!("{path} is on a file system of {bytes} bytes; containers get more by --shm-size");
        }
        Ok((Kept::InMemory, bytes))
    }

    pub(crate) fn open_file(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        openat(&self.fd, name, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, FILE_MODE)
    }

    /// A file of the control plane.
    pub(crate) fn open_control(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let directory = self.control.get().unwrap_or(&self.fd);
        openat(directory, name, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, FILE_MODE)
    }

    /// The file of beacons, opened anew: its locks belong to this process.
    ///
    /// # Errors
    ///
    /// `Io` when it is not the one that others hold their beacons in: in another, all of them would look dead.
    pub fn beacons(&self, plane: &Plane) -> Result<File> {
        let lost = || {
            Error::new(ErrorKind::Io, "the file of beacons was removed or replaced")
                .advice("end the processes that use the store and remove the directory; keep tmp cleaners away from it")
        };
        let file = self.open_control(BEACONS_FILE, OFlags::RDWR).map_err(|errno| match errno {
            Errno::NOENT => lost(),
            errno => failed("the file of beacons cannot be opened", errno),
        })?;
        let stat = fstat(&file).map_err(|errno| failed("the file of beacons cannot be examined", errno))?;
        if stat.st_ino != plane.header(header::BEACONS).load(Ordering::Relaxed) {
            return Err(lost());
        }
        Ok(File::from(file))
    }

    /// The shared lock of an attached process, on a description of its own.
    pub fn attach(&self) -> Result<OwnedFd> {
        let file = self
            .open_file(FORMAT_FILE, OFlags::RDONLY)
            .map_err(|errno| failed("the file `format` cannot be opened", errno))?;
        let start = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockShared) {
                Ok(()) => return Ok(file),
                Err(Errno::WOULDBLOCK) if start.elapsed() < self.creation_max() => std::thread::sleep(PAUSE),
                Err(Errno::WOULDBLOCK) => {
                    let why =
                        format!("another process {}is creating the control plane and does not go on", pids(&file));
                    return Err(Error::new(ErrorKind::Io, why).advice("look at that process"));
                }
                Err(errno) => return Err(failed("the file `format` cannot be locked", errno)),
            }
        }
    }

    /// How long another process may have the exclusive lock.
    pub(crate) fn creation_max(&self) -> Duration {
        if self.kept == Kept::OnDisk { REBUILD_MAX } else { CREATION_MAX }
    }
}

/// How long a process that has removed nothing waits for others to leave a control plane that was removed.
pub(crate) const LEAVE_MAX: Duration = CREATION_MAX;
pub(crate) const LEAVE_PAUSE: Duration = PAUSE;

/// The kind of a file system, as statfs tells it, and its bytes.
pub(crate) fn file_system(of: &impl AsFd) -> Result<(u32, u64)> {
    let statfs = fstatfs(of).map_err(|errno| failed("the file system cannot be examined", errno))?;
    let block = u64::try_from(statfs.f_bsize).unwrap_or(4_096);
    let bytes = (statfs.f_blocks as u64).saturating_mul(block);
    // A tmpfs without a limit of its own says 0.
    Ok(((statfs.f_type as u64 & 0xffff_ffff) as u32, if bytes == 0 { 1 << 40 } else { bytes }))
}

/// Whether a file system is in memory.
pub(crate) fn is_in_memory(of: &impl AsFd) -> Result<bool> {
    Ok(file_system(of)?.0 == TMPFS_MAGIC)
}

/// The processes that hold a lock on a file, as the kernel lists them.
pub(crate) fn pids(file: &impl AsFd) -> String {
    let Ok(stat) = fstat(file) else { return String::new() };
    let inode = format!(":{}", stat.st_ino);
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let own = std::process::id().to_string();
    let holder = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        match fields[..] {
            [_, "FLOCK", _, _, pid, place, ..] if place.ends_with(&inode) && pid != own => Some(pid.to_owned()),
            _ => None,
        }
    };
    let mut pids: Vec<String> = locks.lines().filter_map(holder).collect();
    pids.sort_unstable();
    pids.dedup();
    if pids.is_empty() { String::new() } else { format!("({}) ", pids.join(", ")) }
}

pub(crate) fn failed(why: &'static str, errno: Errno) -> Error {
    let kind = match errno {
        Errno::NOSPC | Errno::DQUOT => ErrorKind::Full,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => ErrorKind::Denied,
        _ => ErrorKind::Io,
    };
    Error::new(kind, why).source(std::io::Error::from(errno))
}
