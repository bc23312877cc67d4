//! The directory of a store: found, checked, and opened once.
//!
//! Everything that could go wrong later for the whole store goes wrong here, at open, with advice: a missing
//! parent, a foreign owner, a directory of the other mode, a file system that lacks what the locks need.
//! Session files are not looked at.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, Dir, Gid, Mode, OFlags, RenameFlags, Stat, Uid, chownat, fchown, fstat, fstatfs, fsync, futimens, mkdirat,
    openat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use sessile_core::{Clock, Error, ErrorKind, Limits, Result};

use super::system::{failed, modified_at, mtime};

/// Session files are readable by their owner only.
pub const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIRECTORY_MODE: Mode = Mode::RWXU;
/// Temporary files start with a character that no id can contain.
pub const TEMPORARY: char = '~';
const FORMAT_FILE: &str = "format";
const FORMAT_TEXT: &str = "sessile files ";
const FORMAT_NEWEST: u32 = 1;

/// File systems on which flock or inotify does not reach other hosts, or rename is not atomic.
const NETWORK_FILE_SYSTEMS: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
];

/// An opened directory.
pub struct Directory {
    pub fd: OwnedFd,
    pub path: PathBuf,
    owner: u32,
    /// In PHP mode root gives what it creates to the directory's owner, who could not open it otherwise.
    give_to: Option<(Uid, Gid)>,
}

impl Directory {
    /// Opens a directory and creates its last component if it is missing.
    pub fn open(path: &Path, shared_with_php: bool) -> Result<Directory> {
        match mkdirat(rustix::fs::CWD, path, DIRECTORY_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(Errno::NOENT) => {
                return Err(Error::new(ErrorKind::Io, "the directory and its parent are missing")
                    .advice("create the parent; only the last component is created here"));
            }
            // Perhaps it exists below a directory that we may not write.
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) if path.exists() => {}
            Err(errno) => return Err(failed("the directory cannot be created", errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // A directory like /var/lib/php/sessions may be searched and written, but not listed.
        let fd = openat(rustix::fs::CWD, path, flags, Mode::empty())
            .or_else(|errno| match errno {
                Errno::ACCESS => openat(rustix::fs::CWD, path, flags | OFlags::PATH, Mode::empty()),
                errno => Err(errno),
            })
            .map_err(|errno| match errno {
                Errno::NOTDIR => Error::new(ErrorKind::Io, "the path is not a directory"),
                errno => failed("the directory cannot be opened", errno),
            })?;
        let stat = fstat(&fd).map_err(|errno| failed("the directory cannot be examined", errno))?;
        let give = shared_with_php && rustix::process::geteuid().is_root() && stat.st_uid != 0;
        let give_to = give.then(|| (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid)));
        let directory = Directory { fd, path: path.to_owned(), owner: stat.st_uid, give_to };
        directory.check_owner(shared_with_php)?;
        directory.check_file_system()?;
        Ok(directory)
    }

    fn check_owner(&self, shared_with_php: bool) -> Result<()> {
        let (own, owner) = (rustix::process::geteuid().as_raw(), self.owner);
        // Root may write anywhere, but the owner could not open what root creates. PHP mode gives its files to
        // the owner of the directory, as PHP itself would have created them.
        if owner == own || owner == 0 || (own == 0 && shared_with_php) {
            return Ok(());
        }
        let why = format!("the directory belongs to user id {owner}, this process runs as user id {own}");
        Err(Error::new(ErrorKind::Denied, why).advice("run as the directory's owner or give it to this user"))
    }

    fn check_file_system(&self) -> Result<()> {
        let Ok(statfs) = fstatfs(&self.fd) else { return Ok(()) };
        let magic = (statfs.f_type as u64 & 0xffff_ffff) as u32;
        match NETWORK_FILE_SYSTEMS.iter().find(|(network, _)| *network == magic) {
            None => Ok(()),
            Some((_, name)) => {
                let why = format!("the directory is on {name}, where locks and events do not reach other hosts");
                Err(Error::new(ErrorKind::Unsupported, why).advice("use a local file system, or a store with a server"))
            }
        }
    }

    /// What a name in this directory stands for; never follows a link.
    pub fn stat(&self, name: &str) -> Result<Option<Stat>> {
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed("a session file cannot be examined", errno)),
        }
    }

    /// Creates a directory that others may create at the same time.
    pub fn make(&self, name: &str) -> Result<()> {
        match mkdirat(&self.fd, name, DIRECTORY_MODE) {
            Err(Errno::EXIST) => Ok(()),
            Ok(()) => self.give(name),
            Err(errno) => Err(failed("a directory for session files cannot be created", errno)),
        }
    }

    fn give(&self, name: &str) -> Result<()> {
        let Some((owner, group)) = self.give_to else { return Ok(()) };
        chownat(&self.fd, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| failed("a file cannot be given to the directory's owner", errno))
    }

    /// A directory inside this one, made if it is missing. It keeps the owner to give files to.
    pub fn subdirectory(&self, name: &str) -> Result<Directory> {
        self.make(name)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = openat(&self.fd, name, flags, Mode::empty())
            .map_err(|errno| failed(format!("the directory {name} cannot be opened"), errno))?;
        Ok(Directory { fd, path: self.path.join(name), owner: self.owner, give_to: self.give_to })
    }

    /// The same directory for another owner.
    pub fn share(&self) -> Result<Directory> {
        let fd = self.fd.try_clone();
        let fd = fd.map_err(|error| Error::new(ErrorKind::Io, "the directory cannot be kept open").source(error))?;
        Ok(Directory { fd, path: self.path.clone(), owner: self.owner, give_to: self.give_to })
    }

    /// Makes the names of a directory durable.
    pub fn sync(&self, name: &str) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(&self.fd, name, flags, Mode::empty())
            .and_then(fsync)
            .map_err(|errno| failed("a directory cannot be written to disk", errno))
    }

    /// Checks that the directory is one of this kind of store, or empty, and marks it.
    pub fn claim(&self, clock: &Clock) -> Result<()> {
        self.check_contents()?;
        self.probe(clock)?;
        let Some(text) = self.read_format()? else { return self.write_format() };
        let format = text.strip_prefix(FORMAT_TEXT).and_then(|number| number.trim_end().parse::<u32>().ok());
        match format {
            Some(1..=FORMAT_NEWEST) => Ok(()),
            Some(newer) => {
                let why = format!("the directory has format {newer}, this program knows {FORMAT_NEWEST}");
                Err(Error::new(ErrorKind::Incompatible, why).advice("use the newer program or another directory"))
            }
            None => Err(Error::new(ErrorKind::Incompatible, "the directory's format file is not one of this store")
                .advice("use an empty directory")),
        }
    }

    fn check_contents(&self) -> Result<()> {
        let listing = Dir::read_from(&self.fd).map_err(|errno| failed("the directory cannot be listed", errno))?;
        let mut foreign = false;
        let mut marked = false;
        for entry in listing {
            let entry = entry.map_err(|errno| failed("the directory cannot be listed", errno))?;
            match entry.file_name().to_bytes() {
                name if name.starts_with(b"sess_") => {
                    return Err(Error::new(ErrorKind::Incompatible, "the directory holds session files of PHP")
                        .advice("add ?php=1 to share it with PHP, or use another directory"));
                }
                b".sessile" => {
                    return Err(Error::new(ErrorKind::Incompatible, "the directory is shared with PHP")
                        .advice("add ?php=1, or use another directory"));
                }
                name if name == FORMAT_FILE.as_bytes() => marked = true,
                b"." | b".." | b"waiting" | b"lost+found" => {}
                name if name.starts_with(&[TEMPORARY as u8]) => {}
                _ => foreign = true,
            }
        }
        // Read again: another process may have marked it and made the first directories during the listing.
        if foreign && !marked && self.stat(FORMAT_FILE)?.is_none() {
            return Err(Error::new(ErrorKind::Incompatible, "the directory holds files that are not of this store")
                .advice("use an empty directory; one that does not exist is created"));
        }
        Ok(())
    }

    /// Tries on a file of its own what commits, regenerations and touches need.
    pub fn probe(&self, clock: &Clock) -> Result<()> {
        let [one, two] = [temporary_name(""), temporary_name("")];
        let probed = self.probe_with(&one, &two, clock);
        for name in [&one, &two] {
            // One of them may not exist.
            let _ = unlinkat(&self.fd, name.as_str(), AtFlags::empty());
        }
        probed
    }

    fn probe_with(&self, one: &str, two: &str, clock: &Clock) -> Result<()> {
        let far = clock.now().plus(Limits::TTL_MAX).minus(std::time::Duration::from_millis(1));
        let cannot_write = |errno| failed("the directory cannot be written", errno);
        let file = self.create(one).map_err(cannot_write)?;
        self.create(two).map_err(cannot_write)?;
        let lacks = |what: &str| {
            Error::new(ErrorKind::Unsupported, format!("the file system {what}"))
                .advice("use ext4, xfs, btrfs or tmpfs; docs/stores/files.md says what is needed")
        };
        renameat_with(&self.fd, one, &self.fd, two, RenameFlags::EXCHANGE)
            .map_err(|errno| lacks("cannot exchange two files").source(std::io::Error::from(errno)))?;
        futimens(&file, &modified_at(far)).map_err(|errno| failed("a file's time cannot be set", errno))?;
        let stat = fstat(&file).map_err(cannot_write)?;
        if mtime(&stat) != far {
            return Err(lacks("does not keep file times in milliseconds for ten years"));
        }
        Ok(())
    }

    /// A new, empty file.
    pub fn create(&self, name: &str) -> std::result::Result<OwnedFd, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(&self.fd, name, flags, FILE_MODE)?;
        self.adopt(&file)?;
        Ok(file)
    }

    /// Gives a file to the owner of a directory that is shared with PHP.
    pub fn adopt(&self, file: &OwnedFd) -> std::result::Result<(), Errno> {
        match self.give_to {
            Some((owner, group)) => fchown(file, Some(owner), Some(group)),
            None => Ok(()),
        }
    }

    fn read_format(&self) -> Result<Option<String>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let cannot_read = |errno| failed("the format file cannot be read", errno);
        let file = match openat(&self.fd, FORMAT_FILE, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(cannot_read(errno)),
        };
        let mut text = [0; 64];
        let length = rustix::io::read(&file, &mut text).map_err(cannot_read)?;
        Ok(Some(String::from_utf8_lossy(text.get(..length).unwrap_or_default()).into_owned()))
    }

    fn write_format(&self) -> Result<()> {
        let name = temporary_name("");
        let cannot_write = |errno| failed("the format file cannot be written", errno);
        let file = self.create(&name).map_err(cannot_write)?;
        rustix::io::write(&file, format!("{FORMAT_TEXT}{FORMAT_NEWEST}\n").as_bytes()).map_err(cannot_write)?;
        // Complete or not there at all: another process may open the store in this instant.
        match renameat_with(&self.fd, &name, &self.fd, FORMAT_FILE, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => unlinkat(&self.fd, &name, AtFlags::empty()).map_err(cannot_write),
            Err(errno) => Err(cannot_write(errno)),
        }
    }
}

/// A name for a temporary file in the directory `prefix`, which is empty or ends in a slash.
pub fn temporary_name(prefix: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the count only has to differ. The clock makes names differ between pid namespaces.
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let nanoseconds = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).tv_nsec;
    format!("{prefix}{TEMPORARY}{}-{count}-{nanoseconds}", std::process::id())
}
