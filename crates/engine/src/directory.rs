//! The directory of a store: found, checked, locked, and its control plane created or attached.
//!
//! Invariants: a control plane is created only under the exclusive lock of the file `format`, and every attached
//! process holds that lock shared; so a control plane that was unlinked is never replaced by a second one while
//! processes still use the first. A file that is named `control` is complete. docs/engine.md, "Opening".

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags, fchmod, flock, fstat, fstatfs, mkdirat, openat};
use rustix::io::Errno;
use sessile_core::{Clock, Error, ErrorKind, Result};

use crate::engine::Engine;
use crate::format::Format;
use crate::index;
use crate::layout::{
    BLOCK_BYTES, BLOCKS_MAX, CONTROL_BACKED, CONTROL_BYTES, ENTRIES_OF_BLOCK, FORMAT, INDEX_BYTES, MAGIC,
    SEGMENT_BYTES, SEGMENTS_MAX, STAMPS_BYTES, header,
};
use crate::map::Region;
use crate::plane::Plane;
use crate::segment::{self, Use};
use crate::sync::Ordering;

const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIRECTORY_MODE: Mode = Mode::RWXU;
const FORMAT_FILE: &str = "format";
const BEACONS_FILE: &str = "beacons";
const CONTROL_FILE: &str = "control";
const CONTROL_NEW: &str = "control.new";
const ENTRIES_FILE: &str = "entries";
const INDEX_FILE: &str = "index";
const STAMPS_FILE: &str = "stamps";
const DATA_FILE: &str = "data";
/// statfs(2)
const TMPFS_MAGIC: u32 = 0x0102_1994;
/// How long another process may take to create the control plane.
const CREATION_MAX: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(2);
/// Below this a store is not worth opening: its own tables take a good part of it.
const BYTES_MIN: u64 = 4 << 20;
/// At this size a file system is probably a container's default /dev/shm.
const SMALL_FILE_SYSTEM: u64 = 64 << 20;

/// What a URL can ask for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Bytes that the store may occupy; 0 keeps what is in force.
    pub size_bytes_max: u64,
}

/// An opened directory.
pub struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

/// Opens the store in a directory of a file system in memory, creating what is missing.
///
/// # Errors
///
/// `Denied` for a foreign directory, `Unsupported` for a file system that is not in memory, `Incompatible` for
/// another format, `Full` when there is no room to begin with, `Io` when the control plane was removed under living
/// processes.
pub fn open(path: &Path, clock: Clock, options: Options) -> Result<Engine> {
    let directory = Directory::open(path)?;
    let file_system_bytes = directory.check_file_system()?;
    let format = Format::read_or_create(&directory.fd)?;
    // Held until this process has a slot of its own, so that nobody creates another plane in between.
    let attached = directory.lock_plane(&format, file_system_bytes)?;
    let plane = directory.map(&format, clock, file_system_bytes)?;
    if options.size_bytes_max > 0 {
        if options.size_bytes_max < BYTES_MIN {
            let why = format!("the size limit of {} bytes is below the least of {BYTES_MIN}", options.size_bytes_max);
            return Err(Error::new(ErrorKind::InvalidArgument, why));
        }
        plane.header(header::BYTES_MAX).store(options.size_bytes_max, Ordering::Relaxed);
    }
    let engine = Engine::new(plane, directory)?;
    drop(attached);
    Ok(engine)
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
        Ok(Directory { fd, path: path.to_owned() })
    }

    /// Bytes of the file system, which must be in memory.
    fn check_file_system(&self) -> Result<u64> {
        let statfs = fstatfs(&self.fd).map_err(|errno| failed("the file system cannot be examined", errno))?;
        if (statfs.f_type as u64 & 0xffff_ffff) as u32 != TMPFS_MAGIC {
            return Err(Error::new(ErrorKind::Unsupported, "the directory is not on a file system in memory (tmpfs)")
                .advice("put it below /dev/shm; stores on a disk are files: and sqlite:"));
        }
        let block = u64::try_from(statfs.f_bsize).unwrap_or(4_096);
        let bytes = (statfs.f_blocks as u64).saturating_mul(block);
        // A tmpfs without a limit of its own says 0.
        let bytes = if bytes == 0 { 1 << 40 } else { bytes };
        let path = self.path.display();
        if bytes < BYTES_MIN * 2 {
            let why = format!("the file system has only {bytes} bytes");
            return Err(Error::new(ErrorKind::Full, why).advice("mount a larger tmpfs"));
        }
        if bytes <= SMALL_FILE_SYSTEM {
            log::warn!("{path} is on a file system of {bytes} bytes; containers get more by --shm-size");
        }
        Ok(bytes)
    }

    fn open_file(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        openat(&self.fd, name, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, FILE_MODE)
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
        let file = self.open_file(BEACONS_FILE, OFlags::RDWR).map_err(|errno| match errno {
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
                Err(Errno::WOULDBLOCK) if start.elapsed() < CREATION_MAX => std::thread::sleep(PAUSE),
                Err(Errno::WOULDBLOCK) => {
                    let why =
                        format!("another process {}is creating the control plane and does not go on", pids(&file));
                    return Err(Error::new(ErrorKind::Io, why).advice("look at that process"));
                }
                Err(errno) => return Err(failed("the file `format` cannot be locked", errno)),
            }
        }
    }

    /// Attaches to the control plane, which is created if there is none.
    fn lock_plane(&self, format: &Format, file_system_bytes: u64) -> Result<OwnedFd> {
        let start = Instant::now();
        loop {
            let attached = self.attach()?;
            match rustix::fs::statat(&self.fd, CONTROL_FILE, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => return Ok(attached),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed("the control plane cannot be examined", errno)),
            }
            match flock(&attached, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => self.create_plane(format, file_system_bytes)?,
                Err(Errno::WOULDBLOCK) if start.elapsed() < CREATION_MAX => std::thread::sleep(PAUSE),
                Err(Errno::WOULDBLOCK) => {
                    let why = format!("the control plane was removed while processes {}still use it", pids(&attached));
                    return Err(Error::new(ErrorKind::Io, why)
                        .advice("end or restart them; keep tmp cleaners and RemoveIPC= away from the directory"));
                }
                Err(errno) => return Err(failed("the file `format` cannot be locked", errno)),
            }
        }
    }

    /// Creates the files of an empty store. Under the exclusive lock: what is there is left of an earlier one.
    fn create_plane(&self, format: &Format, file_system_bytes: u64) -> Result<()> {
        if rustix::fs::statat(&self.fd, CONTROL_FILE, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Ok(()); // someone was faster
        }
        for name in [CONTROL_NEW, BEACONS_FILE, ENTRIES_FILE, INDEX_FILE, STAMPS_FILE, DATA_FILE] {
            match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed("a file of an earlier store cannot be removed", errno)),
            }
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        for name in [CONTROL_NEW, BEACONS_FILE, ENTRIES_FILE, INDEX_FILE, STAMPS_FILE, DATA_FILE] {
            let file = self.open_file(name, flags).map_err(|errno| failed("a file cannot be created", errno))?;
            // umask may take rights away that we need.
            fchmod(&file, FILE_MODE).map_err(|errno| failed("the rights of a file cannot be set", errno))?;
        }
        let plane = self.map_files(CONTROL_NEW, format, Clock::system(), file_system_bytes)?;
        plane.control.back(0, CONTROL_BACKED)?;
        plane.entries.back(0, BLOCK_BYTES)?;
        index::create(&plane)?;
        let beacons = rustix::fs::statat(&self.fd, BEACONS_FILE, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| failed("the file of beacons cannot be examined", errno))?;
        plane.header(header::BEACONS).store(beacons.st_ino, Ordering::Relaxed);
        let words = [(header::UUID, format.uuid.0), (header::UUID + 8, format.uuid.1), (header::FORMAT, FORMAT)];
        let boot = boot_id();
        for (word, value) in words.into_iter().chain([(header::BOOT, boot.0), (header::BOOT + 8, boot.1)]) {
            plane.header(word).store(value, Ordering::Relaxed);
        }
        plane.header(header::ENTRY_BLOCKS).store(1, Ordering::Relaxed);
        plane.header(header::MAGIC).store(MAGIC, Ordering::SeqCst);
        rustix::fs::renameat_with(&self.fd, CONTROL_NEW, &self.fd, CONTROL_FILE, RenameFlags::NOREPLACE)
            .map_err(|errno| failed("the control plane cannot be put in place", errno))
    }

    fn map(&self, format: &Format, clock: Clock, file_system_bytes: u64) -> Result<Plane> {
        let plane = self.map_files(CONTROL_FILE, format, clock, file_system_bytes)?;
        let control =
            fstat(plane.control.file()).map_err(|errno| failed("the control plane cannot be examined", errno))?;
        if u64::try_from(control.st_size).unwrap_or(0) < CONTROL_BACKED {
            return Err(Error::new(ErrorKind::Corrupt, "the control plane is cut short").advice(REMOVE));
        }
        let word = |word| plane.header(word).load(Ordering::Relaxed);
        if word(header::MAGIC) != MAGIC || word(header::FORMAT) != FORMAT {
            return Err(Error::new(ErrorKind::Incompatible, "the control plane has another format than this program")
                .advice("end the processes of the other version, then remove the directory"));
        }
        // A segment has its memory before it is open; the newest may be counted and not have it yet.
        let open = |segment: &u64| segment::state(&plane, *segment).usage() != Use::Unbacked;
        let segments = (0..plane.segment_count()).rev().find(open).map_or(0, |last| last + 1);
        let sizes = [
            (&plane.entries, plane.entry_count() / ENTRIES_OF_BLOCK * BLOCK_BYTES),
            (&plane.data, segments * SEGMENT_BYTES),
        ];
        let short = |(region, least): &(&Region, u64)| {
            fstat(region.file()).map_or(true, |stat| u64::try_from(stat.st_size).unwrap_or(0) < *least)
        };
        if sizes.iter().any(short) {
            return Err(Error::new(ErrorKind::Corrupt, "a file of the store is cut short").advice(REMOVE));
        }
        if (word(header::UUID), word(header::UUID + 8)) != format.uuid {
            return Err(Error::new(ErrorKind::Corrupt, "the control plane belongs to another store").advice(REMOVE));
        }
        if (word(header::BOOT), word(header::BOOT + 8)) != boot_id() {
            return Err(
                Error::new(ErrorKind::Corrupt, "the control plane is a copy from before the last boot").advice(REMOVE)
            );
        }
        Ok(plane)
    }

    fn map_files(&self, control: &str, format: &Format, clock: Clock, file_system_bytes: u64) -> Result<Plane> {
        // Room for the file system to be enlarged while we run; only address space.
        let data_bytes = file_system_bytes.saturating_mul(4);
        // At least 64 GiB.
        let data_bytes = data_bytes.clamp(SEGMENTS_MAX / 32 * SEGMENT_BYTES, SEGMENTS_MAX * SEGMENT_BYTES);
        let data_bytes = data_bytes.next_multiple_of(SEGMENT_BYTES);
        let map = |file: &str, name, bytes| {
            let lost = |errno| match errno {
                Errno::NOENT => {
                    Error::new(ErrorKind::Corrupt, format!("the file of {name} was removed")).advice(REMOVE)
                }
                errno => failed("a file of the store cannot be opened", errno),
            };
            Region::map(self.open_file(file, OFlags::RDWR).map_err(lost)?, name, bytes)
        };
        Ok(Plane {
            control: map(control, "the control plane", CONTROL_BYTES)?,
            entries: map(ENTRIES_FILE, "entries", BLOCKS_MAX * BLOCK_BYTES)?,
            index: map(INDEX_FILE, "the index", INDEX_BYTES)?,
            stamps: map(STAMPS_FILE, "stamps", data_bytes / SEGMENT_BYTES * STAMPS_BYTES)?,
            data: map(DATA_FILE, "data", data_bytes)?,
            clock,
            secret: format.secret,
            file_system_bytes,
        })
    }
}

const REMOVE: &str = "end the processes that use it, then remove the directory: its sessions are lost";

/// The processes that hold a lock on a file, as the kernel lists them.
fn pids(file: &impl AsFd) -> String {
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

fn boot_id() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let half = |range| digits.get(range).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0);
    (half(0..16), half(16..32))
}

pub(crate) fn failed(why: &'static str, errno: Errno) -> Error {
    let kind = match errno {
        Errno::NOSPC | Errno::DQUOT => ErrorKind::Full,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => ErrorKind::Denied,
        _ => ErrorKind::Io,
    };
    Error::new(kind, why).source(std::io::Error::from(errno))
}
