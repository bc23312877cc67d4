//! Where the control plane of a store on a disk is: a directory in memory, which the file `plane` names.
//!
//! ```text
//! control /dev/shm/sessile-UUID-DEVICE-INODE
//! file 26 4711          device and inode of the file `control` in it
//! data 2049 1234        device and inode of the file `data` beside this one
//! boot 8f1c...          the boot id of the kernel
//! ```
//!
//! Invariant: what it names is used only if all four are true now; a copied directory or a rebooted machine names
//! nothing.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, fstat, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use sessile_core::{Error, ErrorKind, Result};

use crate::control::{CONTROL_FILE, DATA_FILE, boot_id, identity};
use crate::directory::{DIRECTORY_MODE, Directory, failed, is_in_memory};
use crate::format::Kept;

const PLANE_FILE: &str = "plane";
const PLANE_NEW: &str = "plane.new";
const BYTES_MAX: u64 = 8_192;

impl Directory {
    /// The directory of the control plane that is in force, if there is one.
    pub(crate) fn find_control(&self) -> Result<Option<OwnedFd>> {
        if self.kept == Kept::InMemory {
            return match statat(&self.fd, CONTROL_FILE, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => self.fd.try_clone().map(Some).map_err(|error| {
                    Error::new(ErrorKind::Io, "the directory cannot be opened once more").source(error)
                }),
                Err(Errno::NOENT) => Ok(None),
                Err(errno) => Err(failed("the control plane cannot be examined", errno)),
            };
        }
        let Some(text) = self.read_plane_file()? else { return Ok(None) };
        let Some(directory) = named(&text, "control").map(PathBuf::from) else { return Ok(None) };
        let pair = |name| {
            let (first, second) = named(&text, name)?.split_once(' ')?;
            Some((first.parse::<u64>().ok()?, second.parse::<u64>().ok()?))
        };
        let ours = match self.open_file(DATA_FILE, OFlags::RDONLY) {
            Ok(data) => Some(identity(&data)?),
            Err(_) => None,
        };
        if ours.is_none() || pair("data") != ours || named(&text, "boot") != Some(&boot_text()) {
            return Ok(None);
        }
        let Ok(found) = openat(rustix::fs::CWD, &directory, DIRECTORY_FLAGS, Mode::empty()) else { return Ok(None) };
        check_owner(&found, &directory)?;
        let control = statat(&found, CONTROL_FILE, AtFlags::SYMLINK_NOFOLLOW);
        let same = control.is_ok_and(|stat| Some((stat.st_dev, stat.st_ino)) == pair("file"));
        Ok(same.then_some(found))
    }

    /// Whether the last control plane was made since the kernel was started.
    pub(crate) fn was_of_this_boot(&self) -> Result<bool> {
        Ok(self.read_plane_file()?.is_some_and(|text| named(&text, "boot") == Some(&boot_text())))
    }

    fn read_plane_file(&self) -> Result<Option<String>> {
        let file = match self.open_file(PLANE_FILE, OFlags::RDONLY) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed("the file `plane` cannot be opened", errno)),
        };
        let mut text = String::new();
        // What cannot be read names nothing: the control plane is made anew, or refused if someone uses it.
        let read = std::fs::File::from(file).take(BYTES_MAX).read_to_string(&mut text);
        Ok(read.is_ok().then_some(text))
    }

    /// Makes the directory in memory, or empties the one that is left of an earlier plane. Under the exclusive lock.
    pub(crate) fn make_control_directory(&self, uuid: (u64, u64)) -> Result<OwnedFd> {
        let data =
            self.open_file(DATA_FILE, OFlags::RDONLY).map_err(|errno| failed("`data` cannot be opened", errno))?;
        let (device, inode) = identity(&data)?;
        let path = self.control_parent.join(format!("sessile-{:016x}{:016x}-{device:x}-{inode:x}", uuid.0, uuid.1));
        match mkdirat(rustix::fs::CWD, &path, DIRECTORY_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => {
                let why = format!("{} for the control plane cannot be created", path.display());
                return Err(Error::new(ErrorKind::Io, why)
                    .advice("name a directory in memory that exists: `?control=/run/shop`")
                    .source(std::io::Error::from(errno)));
            }
        }
        let made = openat(rustix::fs::CWD, &path, DIRECTORY_FLAGS, Mode::empty())
            .map_err(|errno| failed("the directory of the control plane cannot be opened", errno))?;
        check_owner(&made, &path)?;
        if !is_in_memory(&made)? {
            let why = format!("{} is not on a file system in memory (tmpfs)", self.control_parent.display());
            return Err(Error::new(ErrorKind::Unsupported, why).advice("name one that is: `?control=/dev/shm`"));
        }
        Ok(made)
    }

    /// Writes down which control plane is in force. The last step of making one.
    pub(crate) fn name_control(&self, data: (u64, u64)) -> Result<()> {
        let control = self.open_control(CONTROL_FILE, OFlags::RDONLY);
        let control = identity(&control.map_err(|errno| failed("the control plane cannot be opened", errno))?)?;
        // The path as the kernel has it, so that it means the same to every process.
        let directory = self.control.get().map(|fd| format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(fd)));
        let directory = directory.and_then(|link| std::fs::read_link(link).ok()).unwrap_or_default();
        let path = directory
            .to_str()
            .filter(|path| !path.contains('\n'))
            .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "the path of the control plane is not plain text"))?;
        let text = format!(
            "control {path}\nfile {} {}\ndata {} {}\nboot {}\n",
            control.0,
            control.1,
            data.0,
            data.1,
            boot_text()
        );
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let file = self.open_file(PLANE_NEW, flags).map_err(|errno| failed("`plane` cannot be created", errno))?;
        let written = std::fs::File::from(file).write_all(text.as_bytes());
        if let Err(error) = written {
            // The one that is there has its room. Half of it, after a power cut, names nothing.
            return self
                .overwrite_plane_file(&text)
                .map_err(|_| Error::new(ErrorKind::Full, "the file `plane` cannot be written").source(error));
        }
        renameat(&self.fd, PLANE_NEW, &self.fd, PLANE_FILE)
            .map_err(|errno| failed("the file `plane` cannot be put in place", errno))
    }
}

impl Directory {
    /// On a full disk.
    fn overwrite_plane_file(&self, text: &str) -> std::io::Result<()> {
        let _ = unlinkat(&self.fd, PLANE_NEW, AtFlags::empty());
        let mut file = std::fs::File::from(self.open_file(PLANE_FILE, OFlags::WRONLY)?);
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)
    }
}

const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

fn named<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}

fn boot_text() -> String {
    let (first, second) = boot_id();
    format!("{first:016x}{second:016x}")
}

/// Directories in memory are often writable for everyone: what another user has put there is refused.
fn check_owner(directory: &OwnedFd, path: &Path) -> Result<()> {
    let stat =
        fstat(directory).map_err(|errno| failed("the directory of the control plane cannot be examined", errno))?;
    if stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0 {
        return Ok(());
    }
    let why = format!("{} belongs to another user or is open to others", path.display());
    Err(Error::new(ErrorKind::Denied, why).advice("run as the owner of the store, or remove that directory"))
}
