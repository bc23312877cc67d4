//! Opening a store: the directory, the control plane, this process in its table.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sessile_core::{Clock, Error, ErrorKind, Result};

use super::control::{OpeningContext, attach_plane, map_plane};
use super::dead::finish_dead;
use super::orphans::remove_orphans;
use crate::operations::Engine;
use crate::{memory::*, storage::*};

const CONTROL_PARENT: &str = "/dev/shm";
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// What a URL can ask for.
#[derive(Clone, Debug, Default)]
pub struct EngineOptions {
    /// Bytes that the store may occupy; 0 keeps the limit in force.
    pub size_bytes_max: u64,
    /// On a disk; `None` is an interval of one second.
    pub sync: Option<SyncMode>,
    /// On a disk: the directory in memory in which the control plane is made; `None` is /dev/shm.
    pub control: Option<PathBuf>,
}

/// Opens the store in a directory, creating what is missing.
///
/// # Errors
///
/// `Denied` for a foreign directory, `Unsupported` for a file system that is not known to be local,
/// `Incompatible` for another format, `Full` when there is no room to begin with, `Io` when the
/// control plane was removed under living processes.
pub fn open(path: &Path, clock: Clock, options: &EngineOptions) -> Result<Engine> {
    let limit = options.size_bytes_max;
    if limit > 0 && limit < STORE_BYTES_MIN {
        let why =
            format!("the size limit of {limit} bytes is below the least of {STORE_BYTES_MIN}");
        return Err(Error::new(ErrorKind::InvalidArgument, why));
    }
    let control_parent: PathBuf = options.control.clone().unwrap_or_else(|| CONTROL_PARENT.into());
    let directory = StoreDirectory::open(path, control_parent.clone())?;
    if directory.medium == DataMedium::Memory
        && options.sync.is_some_and(|sync| sync != SyncMode::Never)
    {
        let path = path.display();
        log::warn!(
            "{path} is in memory: `durability` means nothing there, and no session survives a \
             restart"
        );
    }
    let format = Format::read_or_create(&directory.fd, directory.medium)?;
    let sync = options.sync.unwrap_or(SyncMode::Interval(SYNC_INTERVAL));
    let opening = OpeningContext { directory, format, clock, sync };
    // Held until this process has a slot: no process creates another plane in between.
    let attached = attach_plane(&opening)?;
    let plane = map_plane(&opening)?;
    if limit > 0 {
        plane.header(header::BYTES_MAX).store(limit, Relaxed);
    }
    if plane.log.as_ref().is_some_and(|log| log.sync != SyncMode::Never) {
        plane.header(header::SYNCED).store(1, Relaxed);
    }
    let engine = Engine::new(plane, opening.directory, finish_dead)?;
    drop(attached);
    remove_orphans(&control_parent);
    Ok(engine)
}
