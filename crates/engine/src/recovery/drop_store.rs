//! Dropping a store: its control plane, its data, its directory.
//!
//! Invariant: no process is attached, and none attaches meanwhile. `format` goes last, so a drop
//! that was cut short can be repeated.

use std::path::Path;

use rustix::fs::{AtFlags, FlockOperation, unlinkat};
use rustix::io::Errno;
use sessile_core::{Error, ErrorKind, Result};

use super::home::{BINS_FILE, CONTROL_FILES, PLANE_FILE, PLANE_NEW, SEALS_FILE};
use super::orphans::remove_plane;
use crate::{memory::*, storage::*};

/// Removes the store in a directory, and the directory if nothing else is in it.
///
/// # Errors
///
/// `Io` while a process is attached, `Incompatible` for a directory of something else, `Denied` for
/// that of another user.
pub fn drop_store(path: &Path) -> Result<()> {
    let directory = StoreDirectory::open(path, path.to_owned())?;
    Format::read_or_create(&directory.fd, directory.medium)?;
    let format = directory.attach()?;
    let in_use = || {
        let why = format!("processes {}use the store", lock_holders(&format.file));
        Error::new(ErrorKind::Io, why).advice("end them first")
    };
    if !try_lock_format(&format.file, FlockOperation::NonBlockingLockExclusive)? {
        return Err(in_use());
    }
    if directory.medium == DataMedium::Disk && directory.find_control()? {
        let plane = directory.control_path()?;
        if !remove_plane(directory.control_fd(), &plane) {
            let why = format!("the control plane {} cannot be removed", plane.display());
            return Err(Error::new(ErrorKind::Io, why).advice("look what else is in it"));
        }
    }
    let files = [DATA_FILE, BINS_FILE, SEALS_FILE, PLANE_FILE, PLANE_NEW, FORMAT_FILE];
    for name in CONTROL_FILES.into_iter().chain(files) {
        match unlinkat(&directory.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(refused("a file of the store cannot be removed", errno)),
        }
    }
    // A mount point, or a directory with files of others in it, stays.
    let _ = std::fs::remove_dir(path);
    Ok(())
}
