//! Where the control plane of a store on a disk is: a directory in memory, which the file `plane`
//! names.
//!
//! ```text
//! control /dev/shm/sessile-UUID-DEVICE-INODE
//! file 26 4711          device and inode of the file `control` in it
//! data 2049 1234        device and inode of the file `data` beside this one
//! boot 8f1c...          the boot id of the kernel
//! ```
//!
//! Invariant: the directory is used only if all four are true now; a copied directory or a rebooted
//! machine names none.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, fstat, mkdir, open, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use sessile_core::{Error, ErrorKind, Result};

use crate::{memory::*, storage::*};

pub const CONTROL_FILE: &str = "control";
pub const CONTROL_NEW: &str = "control.new";
pub const ENTRIES_FILE: &str = "entries";
pub const INDEX_FILE: &str = "index";
pub const STAMPS_FILE: &str = "stamps";
/// The files of a control plane; the first is made last, under the name of the second.
pub const CONTROL_FILES: [&str; 6] =
    [CONTROL_FILE, CONTROL_NEW, BEACONS_FILE, ENTRIES_FILE, INDEX_FILE, STAMPS_FILE];
pub const BINS_FILE: &str = "bins";
/// Which parts of the log are known to be on the disk.
pub const SEALS_FILE: &str = "sealed";
pub const PLANE_FILE: &str = "plane";
pub const PLANE_NEW: &str = "plane.new";
const BYTES_MAX: u64 = 8_192;
pub const PLANE_PREFIX: &str = "sessile-";
pub const DIRECTORY_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// What a store has for a control plane.
pub enum FoundPlane {
    Missing,
    Present,
    /// On a disk: one that this version cannot use, with the number of its format.
    OfOtherVersion(u64),
}

impl StoreDirectory {
    /// Whether there is a control plane; on a disk its directory is known then.
    pub fn find_control(&self) -> Result<bool> {
        if self.medium == DataMedium::Memory {
            return match statat(&self.fd, CONTROL_FILE, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => Ok(false),
                found => found.explained("the control plane cannot be examined").map(|_| true),
            };
        }
        let located = self.locate_control()?;
        Ok(located.is_some_and(|found| {
            let _ = self.control.set(found);
            true
        }))
    }

    /// Looks for the control plane as `find_control` does. On a disk one of another version is told
    /// as such, and its directory stays unknown. In memory it is present: the sessions are in it.
    pub fn find_plane(&self) -> Result<FoundPlane> {
        if self.medium == DataMedium::Disk
            && let Some(found) = self.locate_control()?
            && let Some(format) = other_format(&found)
        {
            return Ok(FoundPlane::OfOtherVersion(format));
        }
        Ok(if self.find_control()? { FoundPlane::Present } else { FoundPlane::Missing })
    }

    /// On a disk: the directory of the control plane that `plane` names, if it is that of the data
    /// and of this boot.
    fn locate_control(&self) -> Result<Option<OwnedFd>> {
        let Some(text) = self.read_plane_file()? else { return Ok(None) };
        let Some(path) = value(&text, "control").map(PathBuf::from) else { return Ok(None) };
        let pair = |name| {
            let (first, second) = value(&text, name)?.split_once(' ')?;
            Some((first.parse::<u64>().ok()?, second.parse::<u64>().ok()?))
        };
        let ours = match self.open_file(DATA_FILE, OFlags::RDONLY) {
            Ok(data) => Some(file_identity(&data)?),
            Err(_) => None,
        };
        if ours.is_none() || pair("data") != ours || !is_of_this_boot(&text)? {
            return Ok(None);
        }
        let Ok(found) = open(&path, DIRECTORY_FLAGS, Mode::empty()) else { return Ok(None) };
        check_owner(&found, &path)?;
        let control = statat(&found, CONTROL_FILE, AtFlags::SYMLINK_NOFOLLOW);
        let same = control.is_ok_and(|stat| Some((stat.st_dev, stat.st_ino)) == pair("file"));
        Ok(same.then_some(found))
    }

    pub fn was_of_this_boot(&self) -> Result<bool> {
        self.read_plane_file()?.map_or(Ok(false), |text| is_of_this_boot(&text))
    }

    fn read_plane_file(&self) -> Result<Option<String>> {
        let file = match self.open_file(PLANE_FILE, OFlags::RDONLY) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(refused("the file `plane` cannot be opened", errno)),
        };
        let mut text = String::new();
        // An unreadable file names nothing: the control plane is made anew, or refused if it is in
        // use.
        let read = File::from(file).take(BYTES_MAX).read_to_string(&mut text);
        Ok(read.is_ok().then_some(text))
    }

    /// Under the exclusive lock: an existing one is left of an earlier plane. That of another
    /// version is used where it is.
    pub fn make_control_directory(&self, uuid: (u64, u64)) -> Result<()> {
        if self.find_control()? {
            return Ok(());
        }
        let data = self.open_file(DATA_FILE, OFlags::RDONLY);
        let (device, inode) = file_identity(&data.explained("`data` cannot be opened")?)?;
        let parent = &self.control_parent;
        let name = format!("{PLANE_PREFIX}{:016x}{:016x}-{device:x}-{inode:x}", uuid.0, uuid.1);
        let path = parent.join(name);
        match mkdir(&path, DIRECTORY_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => {
                let why = format!("{} for the control plane cannot be created", path.display());
                return Err(Error::new(ErrorKind::Io, why)
                    .advice("name a directory in memory that exists: `?control=/run/shop`")
                    .source(std::io::Error::from(errno)));
            }
        }
        let made = open(&path, DIRECTORY_FLAGS, Mode::empty())
            .explained("the directory of the control plane cannot be opened")?;
        check_owner(&made, &path)?;
        if !is_in_memory(&made)? {
            let why = format!("{} is not on a file system in memory (tmpfs)", parent.display());
            return Err(Error::new(ErrorKind::Unsupported, why)
                .advice("name one that is: `?control=/dev/shm`"));
        }
        let _ = self.control.set(made);
        Ok(())
    }

    /// As the kernel has it, so that it means the same to every process.
    pub fn control_path(&self) -> Result<PathBuf> {
        let link = format!("/proc/self/fd/{}", self.control_fd().as_raw_fd());
        std::fs::read_link(link).map_err(without_proc)
    }

    pub fn name_control(&self, data: (u64, u64)) -> Result<()> {
        let control = self.open_control(CONTROL_FILE, OFlags::RDONLY);
        let control = file_identity(&control.explained("the control plane cannot be opened")?)?;
        let path = self.control_path()?;
        let path = path.to_str().filter(|path| !path.contains('\n')).ok_or_else(|| {
            let why = "the path of the control plane is not plain text";
            Error::new(ErrorKind::InvalidArgument, why)
        })?;
        let text = format!(
            "control {path}\nfile {} {}\ndata {} {}\nboot {}\n",
            control.0,
            control.1,
            data.0,
            data.1,
            boot_text(boot_id()?)
        );
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let file = self.open_file(PLANE_NEW, flags).explained("`plane` cannot be created")?;
        if let Err(error) = File::from(file).write_all(text.as_bytes()) {
            // The present file has its room. Half of it, after a power cut, names nothing.
            return self.overwrite_plane_file(&text).map_err(|_| {
                Error::new(ErrorKind::Full, "the file `plane` cannot be written").source(error)
            });
        }
        renameat(&self.fd, PLANE_NEW, &self.fd, PLANE_FILE)
            .explained("the file `plane` cannot be put in place")
    }

    fn overwrite_plane_file(&self, text: &str) -> std::io::Result<()> {
        let _ = unlinkat(&self.fd, PLANE_NEW, AtFlags::empty());
        let mut file = File::from(self.open_file(PLANE_FILE, OFlags::WRONLY)?);
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)
    }
}

fn is_of_this_boot(text: &str) -> Result<bool> {
    Ok(value(text, "boot") == Some(&boot_text(boot_id()?)))
}

/// The format of the control plane in a directory, if it is a whole number of another version. Of a
/// damaged one nothing is said here.
fn other_format(control: &OwnedFd) -> Option<u64> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = File::from(openat(control, CONTROL_FILE, flags, Mode::empty()).ok()?);
    let word = |offset| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, offset).ok().map(|()| u64::from_le_bytes(bytes))
    };
    let format = word(header::FORMAT)?;
    (word(header::MAGIC)? == MAGIC && format != FORMAT).then_some(format)
}

fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}

/// A store whose boot is unknown could be that of an earlier boot, so nothing is guessed.
pub fn boot_id() -> Result<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(without_proc)?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let id = u128::from_str_radix(&digits, 16)
        .map_err(|error| without_proc(std::io::Error::other(error)))?;
    Ok(((id >> 64) as u64, id as u64))
}

fn without_proc(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unsupported, "/proc cannot be read, which the engine needs")
        .advice("mount /proc in the container or chroot")
        .source(error)
}

fn boot_text((first, second): (u64, u64)) -> String {
    format!("{first:016x}{second:016x}")
}

/// Refuses the directory of another user: directories in memory are often writable for everyone.
pub fn check_owner(directory: &OwnedFd, path: &Path) -> Result<()> {
    let stat =
        fstat(directory).explained("the directory of the control plane cannot be examined")?;
    if stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0 {
        return Ok(());
    }
    let why = format!("{} belongs to another user or is open to others", path.display());
    Err(Error::new(ErrorKind::Denied, why)
        .advice("run as the owner of the store, or remove that directory"))
}
