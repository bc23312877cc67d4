//! The control plane of a directory: found, created, mapped.
//!
//! Invariants: it is created only under the exclusive lock of the file `format`; so a control plane that was unlinked
//! is never replaced by a second one while processes still use the first. A file that is named `control` is complete;
//! one on behalf of a disk is named in that directory only after it is.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::fs::{AtFlags, FlockOperation, OFlags, RenameFlags, fchmod, flock, fstat};
use rustix::io::Errno;
use sessile_core::{Clock, Error, ErrorKind, Result};

use crate::bins;
use crate::directory::{Directory, FILE_MODE, LEAVE_MAX, LEAVE_PAUSE, Opening, failed, file_system, pids};
use crate::disk::KernelFile;
use crate::disklog::Log;
use crate::format::Kept;
use crate::index;
use crate::layout::{
    BLOCK_BYTES, BLOCKS_MAX, CONTROL_BACKED, CONTROL_BYTES, ENTRIES_OF_BLOCK, FORMAT, INDEX_BYTES, MAGIC,
    SEGMENT_BYTES, SEGMENTS_MAX, STAGES, STAGES_AT, STAMPS_BYTES, header,
};
use crate::map::Region;
use crate::plane::Plane;
use crate::rebuild::rebuild;
use crate::salvage::salvage;
use crate::segment::{self, Use};
use crate::staging;
use crate::sync::Ordering;

pub(crate) const BEACONS_FILE: &str = "beacons";
pub(crate) const CONTROL_FILE: &str = "control";
const CONTROL_NEW: &str = "control.new";
const ENTRIES_FILE: &str = "entries";
const INDEX_FILE: &str = "index";
const STAMPS_FILE: &str = "stamps";
const STAGES_FILE: &str = "stages";
pub(crate) const DATA_FILE: &str = "data";
const BINS_FILE: &str = "bins";
/// statfs(2): ext2 to ext4. A page that has its room is written where it is. File systems that may write it elsewhere (for
/// XFS a copy of the file that shares its extents is enough) may find no room for that, which a process that has the page
/// mapped would not survive.
const IN_PLACE: u32 = 0xef53;
/// The list of bins is short; more than this is not one.
const BINS_BYTES_MAX: u64 = 64 << 10;

impl Directory {
    /// Attaches to the control plane, which is created if there is none.
    pub(crate) fn lock_plane(&self, opening: &Opening) -> Result<OwnedFd> {
        let start = Instant::now();
        loop {
            let attached = self.attach()?;
            if let Some(control) = self.find_control()? {
                let _ = self.control.set(control);
                return Ok(attached);
            }
            match flock(&attached, FlockOperation::NonBlockingLockExclusive) {
                // Once more: someone may have been faster.
                Ok(()) if self.find_control()?.is_none() => self.create_plane(opening)?,
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) if start.elapsed() < LEAVE_MAX => std::thread::sleep(LEAVE_PAUSE),
                Err(Errno::WOULDBLOCK) => {
                    let why = format!(
                        "the control plane is not here, while processes {}still use one with these data",
                        pids(&attached)
                    );
                    return Err(Error::new(ErrorKind::Io, why).advice(
                        "if it was removed, end or restart them, and keep tmp cleaners and RemoveIPC= away from it; if they run \
                         in another container, give both the same /dev/shm",
                    ));
                }
                Err(errno) => return Err(failed("the file `format` cannot be locked", errno)),
            }
        }
    }

    /// Creates the files of a control plane. Under the exclusive lock: what is there is left of an earlier one.
    fn create_plane(&self, opening: &Opening) -> Result<()> {
        if self.kept == Kept::OnDisk {
            self.create_data_files()?;
            let made = self.make_control_directory(opening.format.uuid)?;
            let _ = self.control.set(made);
        }
        let directory = self.control.get().unwrap_or(&self.fd);
        let in_memory = self.kept == Kept::InMemory;
        let files = [CONTROL_FILE, CONTROL_NEW, BEACONS_FILE, ENTRIES_FILE, INDEX_FILE, STAMPS_FILE];
        let last = in_memory.then_some(DATA_FILE);
        for name in files.into_iter().chain(last) {
            match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed("a file of an earlier store cannot be removed", errno)),
            }
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        for name in files.into_iter().skip(1).chain(last) {
            let file = self.open_control(name, flags).map_err(|errno| failed("a file cannot be created", errno))?;
            // umask may take rights away that we need.
            fchmod(&file, FILE_MODE).map_err(|errno| failed("the rights of a file cannot be set", errno))?;
        }
        let plane = self.map_files(CONTROL_NEW, opening, opening.clock.clone())?;
        plane.control.back(0, CONTROL_BACKED)?;
        // What is there is not refused; who opens the store sets the limit.
        plane.header(header::BYTES_MAX).store(u64::MAX, Ordering::Relaxed);
        plane.entries.back(0, BLOCK_BYTES)?;
        index::create(&plane)?;
        let beacons = rustix::fs::statat(directory, BEACONS_FILE, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| failed("the file of beacons cannot be examined", errno))?;
        plane.header(header::BEACONS).store(beacons.st_ino, Ordering::Relaxed);
        let (uuid, boot) = (opening.format.uuid, boot_id());
        let data = identity(plane.data.file())?;
        let words = [(header::UUID, uuid), (header::BOOT, boot), (header::DATA, data)];
        for (word, value) in words {
            plane.header(word).store(value.0, Ordering::Relaxed);
            plane.header(word + 8).store(value.1, Ordering::Relaxed);
        }
        plane.header(header::FORMAT).store(FORMAT, Ordering::Relaxed);
        plane.header(header::ENTRY_BLOCKS).store(1, Ordering::Relaxed);
        if let Some(log) = &plane.log {
            let stages = self.open_file(STAGES_FILE, OFlags::RDWR);
            salvage(log, &stages.map_err(|errno| failed("the file `stages` cannot be opened", errno))?)?;
            // Without room for them there are none.
            if let Some(stages) = log.stages.as_ref().filter(|stages| stages.back(0, STAGES_AT).is_ok()) {
                let (device, inode) = identity(stages.file())?;
                plane.header(header::STAGES).store(device, Ordering::Relaxed);
                plane.header(header::STAGES + 8).store(inode, Ordering::Relaxed);
            }
            bins::restore(&plane, &self.read_bins()?);
            rebuild(&plane, log)?;
            if self.was_of_this_boot()? {
                // The plane was lost without a reboot, and with it whether a sync had failed: the page cache may have what the
                // disk has not. All is written once more before the next sync counts.
                plane.header(header::SYNCS_BEGUN).store(1, Ordering::Relaxed);
                plane.header(header::SYNC_FAILED).store(1, Ordering::Relaxed);
            }
        }
        plane.header(header::BYTES_MAX).store(0, Ordering::Relaxed);
        plane.header(header::MAGIC).store(MAGIC, Ordering::SeqCst);
        rustix::fs::renameat_with(directory, CONTROL_NEW, directory, CONTROL_FILE, RenameFlags::NOREPLACE)
            .map_err(|errno| failed("the control plane cannot be put in place", errno))?;
        if in_memory { Ok(()) } else { self.name_control(data) }
    }

    /// The files that live on the disk, if they are not there yet.
    fn create_data_files(&self) -> Result<()> {
        for name in [DATA_FILE, BINS_FILE, STAGES_FILE] {
            let flags = OFlags::RDWR | OFlags::CREATE;
            let file = self.open_file(name, flags).map_err(|errno| failed("a file cannot be created", errno))?;
            fchmod(&file, FILE_MODE).map_err(|errno| failed("the rights of a file cannot be set", errno))?;
        }
        // Their names have to survive a power cut, too.
        rustix::fs::fsync(&self.fd).map_err(|errno| failed("the directory cannot be synced", errno))
    }

    fn read_bins(&self) -> Result<String> {
        let file =
            self.open_file(BINS_FILE, OFlags::RDONLY).map_err(|errno| failed("`bins` cannot be opened", errno))?;
        let mut bytes = Vec::new();
        std::fs::File::from(file)
            .take(BINS_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(|error| Error::new(ErrorKind::Io, "`bins` cannot be read").source(error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn map(&self, opening: &Opening) -> Result<Plane> {
        let mut plane = self.map_files(CONTROL_FILE, opening, opening.clock.clone())?;
        let control =
            fstat(plane.control.file()).map_err(|errno| failed("the control plane cannot be examined", errno))?;
        if u64::try_from(control.st_size).unwrap_or(0) < CONTROL_BACKED {
            return Err(Error::new(ErrorKind::Corrupt, "the control plane is cut short").advice(self.remove()));
        }
        let word = |word| plane.header(word).load(Ordering::Relaxed);
        if word(header::MAGIC) != MAGIC || word(header::FORMAT) != FORMAT {
            let advice = match self.kept {
                Kept::InMemory => "end the processes of the other version, then remove the directory",
                Kept::OnDisk => {
                    "end the processes of the other version, then remove the directory that the file `plane` names: no \
                     session is lost"
                }
            };
            let why = "the control plane has another format than this program";
            return Err(Error::new(ErrorKind::Incompatible, why).advice(advice));
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
            return Err(Error::new(ErrorKind::Corrupt, "a file of the store is cut short").advice(self.remove()));
        }
        if word(header::STAGES + 8) == 0
            && let Some(log) = &mut plane.log
        {
            log.stages = None;
        }
        self.check_stages(&plane)?;
        let word = |word| plane.header(word).load(Ordering::Relaxed);
        if (word(header::UUID), word(header::UUID + 8)) != opening.format.uuid {
            return Err(
                Error::new(ErrorKind::Corrupt, "the control plane belongs to another store").advice(self.remove())
            );
        }
        if (word(header::DATA), word(header::DATA + 8)) != identity(plane.data.file())? {
            return Err(Error::new(ErrorKind::Corrupt, "the control plane belongs to another file of data")
                .advice(self.remove()));
        }
        if (word(header::BOOT), word(header::BOOT + 8)) != boot_id() {
            return Err(Error::new(ErrorKind::Corrupt, "the control plane is a copy from before the last boot")
                .advice(self.remove()));
        }
        Ok(plane)
    }

    fn map_files(&self, control: &str, opening: &Opening, clock: Clock) -> Result<Plane> {
        // Room for the file system to be enlarged while we run; only address space.
        let data_bytes = opening.file_system_bytes.saturating_mul(4);
        // At least 64 GiB.
        let data_bytes = data_bytes.clamp(SEGMENTS_MAX / 32 * SEGMENT_BYTES, SEGMENTS_MAX * SEGMENT_BYTES);
        let data_bytes = data_bytes.next_multiple_of(SEGMENT_BYTES);
        let lost = |name: &'static str| {
            move |errno| match errno {
                Errno::NOENT => {
                    Error::new(ErrorKind::Corrupt, format!("the file of {name} was removed")).advice(self.remove())
                }
                errno => failed("a file of the store cannot be opened", errno),
            }
        };
        let map = |file: &str, name, bytes| {
            Region::map(self.open_control(file, OFlags::RDWR).map_err(lost(name))?, name, bytes, true)
        };
        let on_disk = self.kept == Kept::OnDisk;
        let data = || self.open_file(DATA_FILE, OFlags::RDWR).map_err(lost("data"));
        let log = if on_disk {
            let bins = OFlags::WRONLY | OFlags::APPEND;
            let bins = self.open_file(BINS_FILE, bins).map_err(lost("bins"))?;
            let interval_ms = u64::try_from(opening.interval.as_millis()).unwrap_or(u64::MAX);
            let stages = self.map_stages()?;
            Some(Log::new(Box::new(KernelFile::new(data()?)), bins, stages, &opening.format.secret, interval_ms))
        } else {
            None
        };
        Ok(Plane {
            control: map(control, "the control plane", CONTROL_BYTES)?,
            entries: map(ENTRIES_FILE, "entries", BLOCKS_MAX * BLOCK_BYTES)?,
            index: map(INDEX_FILE, "the index", INDEX_BYTES)?,
            stamps: map(STAMPS_FILE, "stamps", data_bytes / SEGMENT_BYTES * STAMPS_BYTES)?,
            data: Region::map(data()?, "data", data_bytes, !on_disk)?,
            log,
            clock,
            secret: opening.format.secret,
            file_system_bytes: opening.file_system_bytes,
        })
    }
}

impl Directory {
    /// None where they are not used, or where a program that knew none has made the control plane.
    fn map_stages(&self) -> Result<Option<Region>> {
        let stages = match self.open_file(STAGES_FILE, OFlags::RDWR) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened.map_err(|errno| failed("the file `stages` cannot be opened", errno))?,
        };
        let in_place = file_system(&stages)?.0 == IN_PLACE;
        in_place.then(|| Region::map(stages, "stages", STAGES_AT + STAGES * SEGMENT_BYTES, true)).transpose()
    }

    /// Whether the stages are those of the control plane, and all there.
    fn check_stages(&self, plane: &Plane) -> Result<()> {
        let word = |word| plane.header(word).load(Ordering::Relaxed);
        let known = (word(header::STAGES), word(header::STAGES + 8));
        let stages = plane.log.as_ref().and_then(|log| log.stages.as_ref());
        let found = stages.map_or(Ok((0, 0)), |stages| identity(stages.file()))?;
        let other = || Error::new(ErrorKind::Corrupt, "the control plane belongs to another file of stages");
        if found != known {
            return Err(other().advice(self.remove()));
        }
        let Some(stages) = stages else { return Ok(()) };
        let length = || fstat(stages.file()).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        // Others take stages meanwhile: each has its room before it is taken, so the length is looked at last.
        if length() < STAGES_AT || staging::end(stages) > length() {
            return Err(Error::new(ErrorKind::Corrupt, "the file `stages` is cut short").advice(self.remove()));
        }
        Ok(())
    }

    /// What to do about a control plane that is not sound.
    fn remove(&self) -> &'static str {
        match self.kept {
            Kept::InMemory => REMOVE,
            Kept::OnDisk => REMOVE_CONTROL,
        }
    }
}

const REMOVE_CONTROL: &str = "end the processes that use it, then remove the directory that its file `plane` names: locks \
                              and index are made anew from the log";
const REMOVE: &str = "end the processes that use it, then remove the directory: its sessions are lost";

/// Device and inode of a file.
pub(crate) fn identity(file: &impl AsFd) -> Result<(u64, u64)> {
    let stat = fstat(file).map_err(|errno| failed("a file cannot be examined", errno))?;
    Ok((stat.st_dev, stat.st_ino))
}

pub(crate) fn boot_id() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let half = |range| digits.get(range).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0);
    (half(0..16), half(16..32))
}
