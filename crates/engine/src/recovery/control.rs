//! The control plane of a directory: found, created, mapped.
//!
//! Invariants: it is created only under the exclusive lock of the file `format`, so one that was
//! unlinked, or that another version made, is never replaced while processes use it. A file named
//! `control` is complete; `plane` names it only after that.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::fs::{AtFlags, FlockOperation, OFlags, RenameFlags, fchmod};
use rustix::io::Errno;
use sessile_core::{Clock, Error, ErrorKind, Result};

use super::home::{
    BINS_FILE, CONTROL_FILE, CONTROL_FILES, CONTROL_NEW, ENTRIES_FILE, FoundPlane, INDEX_FILE,
    SEALS_FILE, STAMPS_FILE, boot_id,
};
use super::orphans::{PLACE_FILE, describe_place};
use crate::{memory::*, storage::*, table::*};

/// The list of bins is short; a longer file is not one.
const BINS_BYTES_MAX: u64 = 64 << 10;
const REMOVE_CONTROL: &str = "end the processes that use it, then remove the directory that its \
                              file `plane` names: locks and index are made anew from the log";
const REMOVE: &str =
    "end the processes that use it, then remove the directory: its sessions are lost";

pub struct OpeningContext {
    pub directory: StoreDirectory,
    pub format: Format,
    pub clock: Clock,
    pub sync: SyncMode,
}

pub fn attach_plane(opening: &OpeningContext) -> Result<StoreFile> {
    let directory = &opening.directory;
    let start = Instant::now();
    loop {
        let attached = directory.attach()?;
        let found = directory.find_plane()?;
        if matches!(found, FoundPlane::Present) {
            return Ok(attached);
        }
        if try_lock_format(&attached.file, FlockOperation::NonBlockingLockExclusive)? {
            // Once more: another process may have been faster.
            match directory.find_plane()? {
                FoundPlane::Present => continue,
                FoundPlane::Missing => {}
                // No process uses it now, and the log has all that was in it.
                FoundPlane::OfOtherVersion(format) => log::info!(
                    "the control plane of another version (format {format}, here {FORMAT}) is \
                     made anew"
                ),
            }
            create_plane(opening)?;
        } else if start.elapsed() >= CREATION_MAX {
            let users = lock_holders(&attached.file);
            return Err(match found {
                FoundPlane::OfOtherVersion(format) => other_version_in_use(format, &users),
                _ => plane_lost(&users),
            });
        }
    }
}

fn plane_lost(users: &str) -> Error {
    let why = format!(
        "the control plane is not here, while processes {users}still use one with these data"
    );
    Error::new(ErrorKind::Io, why).advice(
        "if it was removed, end or restart them, and keep tmp cleaners and RemoveIPC= away from \
         it; if they run in another container, give both the same /dev/shm",
    )
}

/// Under the exclusive lock: existing files are left of an earlier plane.
fn create_plane(opening: &OpeningContext) -> Result<()> {
    let OpeningContext { directory, format, .. } = opening;
    if directory.medium == DataMedium::Disk {
        directory.create_data_files()?;
        directory.make_control_directory(format.uuid)?;
    }
    directory.create_control_files()?;
    if directory.medium == DataMedium::Disk {
        directory.note_place();
    }
    let plane = map_files(CONTROL_NEW, opening)?;
    plane.control.back(0, CONTROL_BACKED)?;
    // Existing data are not refused; the opening process sets the limit.
    plane.header(header::BYTES_MAX).store(u64::MAX, Relaxed);
    plane.entries.back(0, BLOCK_BYTES)?;
    plane.create_index()?;
    let beacons = directory.open_control(BEACONS_FILE, OFlags::RDONLY);
    let beacons = beacons.explained("the file of beacons cannot be opened")?;
    let data = file_identity(plane.data.file())?;
    plane.set_pair(header::UUID, format.uuid);
    plane.set_pair(header::BOOT, boot_id()?);
    plane.set_pair(header::DATA, data);
    plane.header(header::BEACONS).store(file_identity(&beacons)?.1, Relaxed);
    plane.header(header::FORMAT).store(FORMAT, Relaxed);
    plane.header(header::ENTRY_BLOCKS).store(1, Relaxed);
    if let Some(log) = &plane.log {
        plane.restore_bins(&directory.read_bins()?);
        let of_this_boot = directory.was_of_this_boot()?;
        plane.rebuild(log, of_this_boot)?;
        if of_this_boot {
            // The plane was lost without a reboot, and with it whether a sync had failed: the page
            // cache may have what the disk has not, so all is written once more.
            plane.header(header::SYNCS_BEGUN).store(1, Relaxed);
            plane.header(header::SYNC_FAILED).store(1, Relaxed);
        }
    }
    plane.header(header::BYTES_MAX).store(0, Relaxed);
    plane.header(header::MAGIC).store(MAGIC, SeqCst);
    let (fd, flags) = (directory.control_fd(), RenameFlags::NOREPLACE);
    rustix::fs::renameat_with(fd, CONTROL_NEW, fd, CONTROL_FILE, flags)
        .explained("the control plane cannot be put in place")?;
    match directory.medium {
        DataMedium::Memory => Ok(()),
        DataMedium::Disk => directory.name_control(data),
    }
}

impl StoreDirectory {
    fn create_control_files(&self) -> Result<()> {
        let [_, made @ ..] = CONTROL_FILES;
        let data = (self.medium == DataMedium::Memory).then_some(DATA_FILE);
        for name in CONTROL_FILES.into_iter().chain(data) {
            match rustix::fs::unlinkat(self.control_fd(), name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => {
                    return Err(refused("a file of an earlier store cannot be removed", errno));
                }
            }
        }
        made.into_iter().chain(data).try_for_each(|name| {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
            make_private(self.open_control(name, flags))
        })
    }

    /// Without the note the control plane stays when its store is removed: only room is lost.
    fn note_place(&self) {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let place = describe_place(&self.fd).zip(self.open_control(PLACE_FILE, flags).ok());
        let noted = place.map(|(text, file)| std::fs::File::from(file).write_all(text.as_bytes()));
        if !matches!(noted, Some(Ok(()))) {
            log::debug!("the place of the store cannot be noted beside its control plane");
        }
    }

    fn create_data_files(&self) -> Result<()> {
        for name in [DATA_FILE, BINS_FILE, SEALS_FILE] {
            make_private(self.open_file(name, OFlags::RDWR | OFlags::CREATE))?;
        }
        // Their names have to survive a power cut, too.
        if !mutated(Mutation::NamesUnsynced) {
            rustix::fs::fsync(&self.fd).explained("the directory cannot be synced")?;
            simulate_sync_of_names();
        }
        Ok(())
    }

    fn read_bins(&self) -> Result<String> {
        let file = self.open_file(BINS_FILE, OFlags::RDONLY);
        let file = file.explained("`bins` cannot be opened")?;
        let mut bytes = Vec::new();
        std::fs::File::from(file)
            .take(BINS_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(|error| Error::new(ErrorKind::Io, "`bins` cannot be read").source(error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn repair(&self) -> &'static str {
        match self.medium {
            DataMedium::Memory => REMOVE,
            DataMedium::Disk => REMOVE_CONTROL,
        }
    }
}

/// Sets the rights of a file that was just created: umask may take rights away that we need.
fn make_private(created: rustix::io::Result<OwnedFd>) -> Result<()> {
    let file = created.explained("a file cannot be created")?;
    fchmod(&file, FILE_MODE).explained("the rights of a file cannot be set")
}

impl Plane {
    fn set_pair(&self, word: u64, (first, second): (u64, u64)) {
        self.header(word).store(first, Relaxed);
        self.header(word + 8).store(second, Relaxed);
    }

    fn pair(&self, word: u64) -> (u64, u64) {
        let load = |word| self.header(word).load(Relaxed);
        (load(word), load(word + 8))
    }
}

pub fn map_plane(opening: &OpeningContext) -> Result<Plane> {
    let OpeningContext { directory, format, .. } = opening;
    let unsound = |why| Err(Error::new(ErrorKind::Corrupt, why).advice(directory.repair()));
    let plane = map_files(CONTROL_FILE, opening)?;
    let control_bytes = file_bytes(plane.control.file());
    let word = |word| plane.header(word).load(Relaxed);
    // The first page is enough to know the version; those of other formats may be shorter.
    if control_bytes >= PAGE_BYTES && word(header::MAGIC) == MAGIC {
        check_version(word(header::FORMAT))?;
    }
    if control_bytes < CONTROL_BACKED {
        return unsound("the control plane is cut short");
    }
    if word(header::MAGIC) != MAGIC {
        return unsound("the control plane is not one of Sessile");
    }
    // A segment has its memory before it is open; the newest may be counted and not have it yet.
    let backed = |segment: &u64| plane.segment_state(*segment).usage() != SegmentUse::Unbacked;
    let segments = (0..plane.segment_count()).rev().find(backed).map_or(0, |last| last + 1);
    let entries = plane.entry_count() / ENTRIES_OF_BLOCK * BLOCK_BYTES;
    if file_bytes(plane.entries.file()) < entries
        || file_bytes(plane.data.file()) < segments * SEGMENT_BYTES
    {
        return unsound("a file of the store is cut short");
    }
    let data = file_identity(plane.data.file())?;
    for (word, here, why) in [
        (header::UUID, format.uuid, "the control plane belongs to another store"),
        (header::DATA, data, "the control plane belongs to another file of data"),
        (header::BOOT, boot_id()?, "the control plane is a copy from before the last boot"),
    ] {
        if plane.pair(word) != here {
            return unsound(why);
        }
    }
    Ok(plane)
}

/// Two versions of Sessile must not use one control plane at a time: `Incompatible`. On a disk
/// [`attach_plane`] has made one of another version anew.
fn check_version(format: u64) -> Result<()> {
    if format == FORMAT {
        return Ok(());
    }
    Err(of_other_version(format, "").advice(
        "use one version in all programs; to keep the new one, end the processes of the old one, \
         then remove the directory: its sessions are lost",
    ))
}

fn other_version_in_use(format: u64, users: &str) -> Error {
    let why = format!(", and processes {users}have it open");
    of_other_version(format, &why).advice(
        "end or restart those processes, or use their version here, too: the next program that \
         opens the store makes the control plane anew, and no session is lost",
    )
}

fn of_other_version(format: u64, more: &str) -> Error {
    let why = format!(
        "another version of Sessile uses this store: its control plane has format {format}, this \
         version needs {FORMAT}{more}"
    );
    Error::new(ErrorKind::Incompatible, why)
}

fn map_files(control: &str, opening: &OpeningContext) -> Result<Plane> {
    let OpeningContext { directory, format, clock, sync } = opening;
    let file_system_bytes = directory.file_system_bytes;
    // Room for a file system that grows, at least 64 GiB: only address space.
    let data_bytes = file_system_bytes
        .saturating_mul(4)
        .clamp(SEGMENTS_MAX / 32 * SEGMENT_BYTES, SEGMENTS_MAX * SEGMENT_BYTES)
        .next_multiple_of(SEGMENT_BYTES);
    let opened = |file: rustix::io::Result<OwnedFd>, name| {
        file.map_err(|errno| match errno {
            Errno::NOENT => {
                Error::new(ErrorKind::Corrupt, format!("the file of {name} was removed"))
                    .advice(directory.repair())
            }
            errno => refused("a file of the store cannot be opened", errno),
        })
    };
    let map = |file: &str, name, bytes| {
        let file = opened(directory.open_control(file, OFlags::RDWR), name)?;
        Region::map(file, name, bytes, true)
    };
    let data = || opened(directory.open_file(DATA_FILE, OFlags::RDWR), "data");
    let on_disk = directory.medium == DataMedium::Disk;
    let open_log = || -> Result<DiskLog> {
        let open = |name: &str, what| -> Result<_> {
            let file = || opened(directory.open_file(name, OFlags::RDWR), what);
            Ok(behind_simulated_disk(name, Box::new(KernelFile::new(file()?, file()?))))
        };
        let beside = (open(BINS_FILE, "bins")?, open(SEALS_FILE, "seals")?);
        Ok(DiskLog::new(open(DATA_FILE, "data")?, beside, &format.secret, *sync))
    };
    let log = on_disk.then(open_log).transpose()?;
    Ok(Plane {
        control: map(control, "the control plane", CONTROL_BYTES)?,
        entries: map(ENTRIES_FILE, "entries", BLOCKS_MAX * BLOCK_BYTES)?,
        index: map(INDEX_FILE, "the index", INDEX_BYTES)?,
        stamps: map(STAMPS_FILE, "stamps", data_bytes / SEGMENT_BYTES * STAMPS_BYTES)?,
        data: Region::map(data()?, "data", data_bytes, !on_disk)?,
        log,
        clock: clock.clone(),
        secret: format.secret,
        file_system_bytes,
    })
}
