//! The directory of a store, and the names in it.
//!
//! Another process may replace or remove the file of a name at any time. So a change looks again
//! under the gate (gate.rs) of the file that it has opened: [`FileName::enter_gate`].

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, Gid, Mode, OFlags, RenameFlags, Stat, Uid, fchown, fsync, mkdirat, openat,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use sessile_core::{Error, ErrorKind, Result};

use super::gate;
use super::system::{Identity, examine, failed, is_regular};
use crate::file_system::refuse_network;
use crate::owner::{NOBODY_ELSE, Trusted};

const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIRECTORY_MODE: Mode = Mode::RWXU;
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

pub struct Directory {
    pub fd: OwnedFd,
    pub path: PathBuf,
    /// In PHP mode root gives new files to the directory's owner, whose PHP refuses others.
    give_to: Option<(Uid, Gid)>,
    trusted: Trusted,
    /// Root sees the files of all users in PHP's directory, as PHP does.
    any_owner: bool,
    pub is_listable: bool,
    open_flags: OFlags,
    /// Not in PHP's own directory: a setting of PHP decides its folders.
    makes_folders: bool,
}

impl Directory {
    /// Creates the last component of the path if it is missing. Refuses a foreign owner and a
    /// network file system.
    pub fn open(path: &Path, shared_with_php: bool) -> Result<Directory> {
        match mkdirat(CWD, path, DIRECTORY_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(Errno::NOENT) => {
                return Err(Error::new(ErrorKind::Io, "the directory and its parent are missing")
                    .advice("create the parent; only the last component is created here"));
            }
            // It may exist below an unwritable directory.
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) if path.exists() => {}
            Err(errno) => return Err(failed("the directory cannot be created", errno)),
        }
        // A directory like /var/lib/php/sessions may be searched and written, but not listed.
        let listable = openat(CWD, path, FOLDER, Mode::empty());
        let is_listable = listable.is_ok();
        let fd = listable
            .or_else(|errno| match errno {
                Errno::ACCESS => openat(CWD, path, FOLDER | OFlags::PATH, Mode::empty()),
                errno => Err(errno),
            })
            .map_err(|errno| match errno {
                Errno::NOTDIR => Error::new(ErrorKind::Io, "the path is not a directory"),
                errno => failed("the directory cannot be opened", errno),
            })?;
        refuse_network(&fd)?;
        let (own, stat) = (rustix::process::geteuid().as_raw(), examine(&fd)?);
        let (owner, root_beside_php) = (stat.st_uid, own == 0 && shared_with_php);
        let trusted =
            if root_beside_php { Trusted { owner_of_directory: owner } } else { NOBODY_ELSE };
        // PHP's directory may be one in which everybody makes his own files.
        let mode = if shared_with_php { 0 } else { stat.st_mode };
        trusted.check("the directory", owner, mode)?;
        let give_to = (Uid::from_raw(owner), Gid::from_raw(stat.st_gid));
        // NOATIME: reading would write, because relatime renews an access time before the
        // modification time, and ours lies in the future. Only the owner of a file may ask for it.
        let noatime = if shared_with_php { OFlags::empty() } else { OFlags::NOATIME };
        Ok(Directory {
            fd,
            path: path.to_owned(),
            give_to: (root_beside_php && owner != 0).then_some(give_to),
            trusted,
            any_owner: root_beside_php,
            is_listable,
            open_flags: OFlags::CLOEXEC | OFlags::NOFOLLOW | noatime,
            makes_folders: !shared_with_php,
        })
    }

    /// A directory inside this one, created if missing, into which only this process's user may
    /// write. New files in it get the same owner as here.
    pub fn private_folder(&self, name: &str) -> Result<Directory> {
        self.make(name)?;
        let fd = self
            .open_folder(name)
            .map_err(|errno| failed(format!("the directory {name} cannot be opened"), errno))?;
        let stat = examine(&fd)?;
        NOBODY_ELSE.check(&format!("the directory {name}"), stat.st_uid, stat.st_mode)?;
        let path = self.path.join(name);
        let (any_owner, is_listable, makes_folders) = (false, true, true);
        Ok(Directory { fd, path, any_owner, is_listable, makes_folders, ..*self })
    }

    pub fn name(&self, path: impl Into<String>) -> FileName<'_> {
        FileName { directory: self, path: path.into() }
    }

    /// An existing directory is success.
    fn make(&self, name: &str) -> Result<()> {
        match mkdirat(&self.fd, name, DIRECTORY_MODE) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(failed("a directory for session files cannot be created", errno)),
        }
    }

    fn open_folder(&self, name: &str) -> std::result::Result<OwnedFd, Errno> {
        openat(&self.fd, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())
    }

    /// Refuses links, devices and files of other users, which their owners could rewrite.
    fn checked(&self, file: OwnedFd) -> Result<Opened> {
        let stat = examine(&file)?;
        if !is_regular(&stat) {
            return Err(Error::new(ErrorKind::Corrupt, "the session file is not a regular file")
                .advice("find out who put it there; it was left as it is"));
        }
        if !self.any_owner && !self.trusted.is_owner(stat.st_uid) {
            return Err(Error::new(ErrorKind::Denied, "the session file belongs to another user")
                .advice("let one user run all processes that share the directory"));
        }
        Ok((file, stat))
    }

    /// `None` if it is missing.
    pub fn open_listing(&self, folder: &str) -> Result<Option<Dir>> {
        match self.open_folder(folder).and_then(Dir::new) {
            Ok(listing) => Ok(Some(listing)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(cannot_list(errno)),
        }
    }
}

pub fn cannot_list(errno: Errno) -> Error {
    let error = failed("the directory cannot be listed", errno);
    if errno != Errno::ACCESS {
        return error;
    }
    error.advice("sweep and list as a user who may read it; on Debian PHP's own is for root only")
}

pub struct FileName<'a> {
    pub directory: &'a Directory,
    /// Relative to the directory.
    pub path: String,
}

/// An open file, and its state when it was opened.
pub type Opened = (OwnedFd, Stat);

impl FileName<'_> {
    pub fn open(&self, flags: OFlags) -> Result<Option<OwnedFd>> {
        match self.open_at(flags) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed("a file of the store cannot be opened", errno)),
        }
    }

    fn open_at(&self, flags: OFlags) -> std::result::Result<OwnedFd, Errno> {
        // NONBLOCK: a fifo in place of a file must not hang.
        let flags = flags | self.directory.open_flags | OFlags::NONBLOCK;
        openat(&self.directory.fd, &self.path, flags, FILE_MODE)
    }

    /// Opens the file, and refuses what cannot be a session's file.
    pub fn open_checked(&self, flags: OFlags) -> Result<Option<Opened>> {
        self.open(flags)?.map(|file| self.directory.checked(file)).transpose()
    }

    /// Creates the file, or opens it without `EXCL`. It belongs to the owner of a directory that is
    /// shared with PHP.
    pub fn create(&self, flags: OFlags) -> Result<OwnedFd> {
        let create = || self.open_at(flags | OFlags::RDWR | OFlags::CREATE);
        let file = self.in_folder(create, "a file of the store cannot be created")?;
        if let Some((owner, group)) = self.directory.give_to {
            fchown(&file, Some(owner), Some(group)).map_err(|errno| {
                failed("a file cannot be given to the directory's owner", errno)
            })?;
        }
        Ok(file)
    }

    /// As `open_checked`; creates a missing file.
    pub fn create_checked(&self) -> Result<Opened> {
        self.directory.checked(self.create(OFlags::empty())?)
    }

    /// Runs a call that gives a file this name. If folders are missing, makes them and runs again.
    fn in_folder<T>(
        &self,
        call: impl Fn() -> std::result::Result<T, Errno>,
        why: &'static str,
    ) -> Result<T> {
        let mut done = call();
        if self.directory.makes_folders && matches!(done, Err(Errno::NOENT)) {
            let mut ends = self.path.match_indices('/');
            ends.try_for_each(|(end, _)| self.directory.make(self.path.split_at(end).0))?;
            done = call();
        }
        done.map_err(|errno| failed(why, errno))
    }

    /// Never follows a link.
    pub fn stat(&self) -> Result<Option<Stat>> {
        match statat(&self.directory.fd, &self.path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed("a session file cannot be examined", errno)),
        }
    }

    /// The state of this file, if the name still stands for it. Means nothing without the file's
    /// gate or lock.
    pub fn stat_of(&self, file: Identity) -> Result<Option<Stat>> {
        Ok(self.stat()?.filter(|stat| Identity::of(stat) == file))
    }

    /// Takes the gate of an open file. Returns its new state, if the name still stands for it.
    /// Closing the file releases the gate.
    pub fn enter_gate(&self, (file, stat): &Opened) -> Result<Option<Stat>> {
        gate::enter(file)?;
        self.stat_of(Identity::of(stat))
    }

    /// Checks, under the gate, that a lease of this file is still good.
    pub fn check_lease(&self, leased: Identity) -> Result<Stat> {
        self.stat_of(leased)?.ok_or_else(|| ErrorKind::Destroyed.into())
    }

    /// False if `flags` forbid to replace a file that has the new name.
    pub fn rename(&self, to: &FileName<'_>, flags: RenameFlags) -> Result<bool> {
        let rename = || {
            let (from, into) = (&self.directory.fd, &to.directory.fd);
            match renameat_with(from, &self.path, into, &to.path, flags) {
                Ok(()) => Ok(true),
                Err(Errno::EXIST) => Ok(false),
                Err(errno) => Err(errno),
            }
        };
        to.in_folder(rename, "a file of the store cannot be put in place")
    }

    /// A missing name is success.
    pub fn unlink(&self) -> Result<()> {
        match unlinkat(&self.directory.fd, &self.path, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed("a session file cannot be removed", errno)),
        }
    }

    pub fn sync_if(&self, durable: bool) -> Result<()> {
        if !durable {
            return Ok(());
        }
        let folder = self.path.rsplit_once('/').map_or(".", |(folder, _)| folder);
        self.directory
            .open_folder(folder)
            .and_then(fsync)
            .map_err(|errno| failed("a directory cannot be written to disk", errno))
    }
}
