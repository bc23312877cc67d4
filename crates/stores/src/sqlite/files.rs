//! The database and the files beside it, before SQLite opens them.
//!
//! Invariant: SQLite opens only files of a trusted user, who alone may write them (owner.rs). A
//! foreign log, index or journal beside a database would change what is read from it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc::O_PATH;
use sessile_core::{Error, ErrorKind, Result};

use crate::owner::Trusted;

/// Of the log, its index, a journal and the session locks.
const BESIDE: [&str; 4] = ["-wal", "-shm", "-journal", ".locks"];

pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// The path by which all processes agree on the file, whatever symbolic links lead to it.
pub fn real_path(path: &Path) -> Result<PathBuf> {
    match std::fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        real => return real.map_err(file_error),
    }
    let Some((folder, name)) = path.parent().zip(path.file_name()) else {
        return Err(Error::new(ErrorKind::InvalidUrl, "the path names no file")
            .advice("write sqlite:/directory/file.db"));
    };
    std::fs::canonicalize(folder).map(|folder| folder.join(name)).map_err(file_error)
}

/// The directory of a file, for questions about its file system. It need not be readable.
pub fn directory(path: &Path) -> Result<File> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    OpenOptions::new().read(true).custom_flags(O_PATH).open(directory).map_err(file_error)
}

/// Creates the empty file, readable by its owner only: its ids are secrets. Never opens an existing
/// one, because closing it would drop SQLite's locks on it in this process.
pub fn create(path: &Path) -> Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.map(drop).map_err(file_error),
    }
}

/// Refuses what another user could have put there or could rewrite. Opens nothing.
pub fn check(path: &Path) -> Result<()> {
    let owner_of_directory = directory(path)?.metadata().map_err(file_error)?.uid();
    let check_owner = |what: &str, file: &Path| {
        let found = match std::fs::symlink_metadata(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found.map_err(file_error)?,
        };
        if !found.is_file() {
            let why = format!("{what} is not a regular file");
            return Err(Error::new(ErrorKind::Incompatible, why));
        }
        Trusted { owner_of_directory }.check(what, found.uid(), found.mode())?;
        Ok(Some(found))
    };
    if check_owner("the database", path)?.is_some_and(|found| found.nlink() > 1) {
        return Err(Error::new(ErrorKind::Incompatible, "the file has a second name (hard link)")
            .advice("its log would be found under one of the names only; remove the other"));
    }
    BESIDE.iter().try_for_each(|suffix| {
        check_owner(&format!("the file {suffix} of the database"), &beside(path, suffix)).map(drop)
    })
}

pub fn file_error(error: io::Error) -> Error {
    let (kind, why) = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (ErrorKind::Denied, "the operating system refuses access to the file or its directory")
        }
        io::ErrorKind::NotFound => {
            (ErrorKind::Unreachable, "the directory of the file does not exist")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (ErrorKind::Full, "no space is left on the disk")
        }
        _ => (ErrorKind::Io, "the file or its lock file cannot be used"),
    };
    Error::new(kind, why).advice("check the path and its permissions").source(error)
}
