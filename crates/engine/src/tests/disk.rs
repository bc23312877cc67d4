//! A disk with a write cache: what it has for sure, and what was written to a file since.
//!
//! Invariants: a sector (512 bytes) is written whole or not at all, with all that the page cache
//! had in it at some moment since the last sync; nothing else holds between two sectors. What a
//! sync covers when it fails is written or dropped for good, as by the kernel, which calls the
//! dropped pages clean.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sessile_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::memory::{DataFile, SyncStart};

pub const SECTOR: usize = 512;

/// What a sector held after a write, and the moment of that write.
pub struct SectorWrite {
    pub moment: u64,
    pub bytes: Box<[u8; SECTOR]>,
    /// A punch is in the journal of the file system, which no error drops and the store survives.
    is_punch: bool,
}

/// A call that fails once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskCall {
    /// Nothing is written.
    Write,
    /// Only the first half is written.
    ShortWrite,
    Sync,
    /// There is no room.
    Allocation,
    /// There is no shared memory.
    Memory,
}

/// The call that fails, after so many calls of its kind; none once it has failed.
pub type PlannedFault = Option<(DiskCall, u64)>;

#[derive(Default)]
pub struct Disk {
    /// What it has for sure, and what identifies these bytes.
    pub synced: Vec<u8>,
    pub hash: u64,
    /// Of each sector, what was written since, the oldest first.
    pub pending: BTreeMap<u64, Vec<SectorWrite>>,
    /// The length for sure, and later ones with their moments.
    pub synced_length: u64,
    pub lengths: Vec<(u64, u64)>,
    /// Changes of the file so far.
    pub moment: u64,
    /// When the last sync began that has ended well, while none has failed.
    pub checkpoint: u64,
    pub failed: bool,
    pub failures: u64,
    /// A failure is told to one process, not to each open file description.
    pub tells_once: bool,
    /// Its changes are printed.
    pub is_told: bool,
    /// The file cannot grow beyond.
    pub room: Option<u64>,
    /// The next sync fails after it has written about so many of 100 sectors.
    pub fails: Option<u8>,
    /// Syncs in the background take so many calls; none: the kernel offers none.
    pub background_calls: Option<u8>,
    /// Of all files of a store together.
    pub fault: Arc<Mutex<PlannedFault>>,
    pub random: fastrand::Rng,
    pub syncs: usize,
    pub punches: usize,
    /// How long each of the next syncs takes, the last one first.
    pub delays: Vec<Duration>,
    /// Offsets and lengths that it was asked to begin with.
    pub begun: Vec<(u64, u64)>,
    /// Bytes ever written, and the end of the last of them.
    pub written: u64,
    pub end: u64,
}

/// What identifies a sector with these bytes; one of zeros counts like none.
pub fn sector_hash(sector: u64, bytes: &[u8]) -> u64 {
    if is_zero(bytes) { 0 } else { xxh3_64_with_seed(bytes, sector + 1) }
}

pub fn is_zero(bytes: &[u8]) -> bool {
    const ZEROS: [u8; 16 << 10] = [0; 16 << 10];
    bytes.chunks(ZEROS.len()).all(|bytes| *bytes == ZEROS[..bytes.len()])
}

pub fn apply(image: &mut Vec<u8>, sector: u64, bytes: &[u8; SECTOR]) {
    let offset = sector as usize * SECTOR;
    image.resize(image.len().max(offset + SECTOR), 0);
    image[offset..offset + SECTOR].copy_from_slice(bytes);
}

impl Disk {
    /// One that has these bytes for sure.
    pub fn holding(bytes: Vec<u8>, length: u64) -> Disk {
        let mut hash = 0_u64;
        for (at, block) in bytes.chunks(8 * SECTOR).enumerate().filter(|(_, b)| !is_zero(b)) {
            for (sector, bytes) in (at as u64 * 8..).zip(block.chunks(SECTOR)) {
                hash = hash.wrapping_add(sector_hash(sector, bytes));
            }
        }
        Disk { synced: bytes, hash, synced_length: length, ..Disk::default() }
    }

    pub fn length(&self) -> u64 {
        self.lengths.last().map_or(self.synced_length, |(_, length)| *length)
    }

    pub fn sector(&self, sector: u64) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        let known = self.synced.get(sector as usize * SECTOR..).unwrap_or_default();
        let length = known.len().min(SECTOR);
        bytes[..length].copy_from_slice(&known[..length]);
        bytes
    }

    fn note(&mut self, sector: u64, bytes: &[u8], is_punch: bool) {
        let known = self.pending.get(&sector).and_then(|writes| writes.last());
        if known.map_or_else(|| self.sector(sector), |write| *write.bytes) == bytes {
            return;
        }
        let write = SectorWrite {
            moment: self.moment,
            bytes: Box::new(bytes.try_into().unwrap()),
            is_punch,
        };
        self.pending.entry(sector).or_default().push(write);
    }

    /// The sectors of what was written before a moment are on the disk, or dropped for good.
    fn settle(&mut self, before: u64, mut is_kept: impl FnMut(&mut fastrand::Rng) -> bool) {
        let mut random = self.random.clone();
        for (sector, mut writes) in std::mem::take(&mut self.pending) {
            let covered = writes.partition_point(|write| write.moment <= before);
            let later = writes.split_off(covered);
            if !is_kept(&mut random) {
                let punched = writes.iter().rposition(|write| write.is_punch);
                writes.truncate(punched.map_or(0, |at| at + 1));
            }
            if let Some(last) = writes.pop() {
                let old = sector_hash(sector, &self.sector(sector));
                let new = sector_hash(sector, &*last.bytes);
                self.hash = self.hash.wrapping_sub(old).wrapping_add(new);
                apply(&mut self.synced, sector, &last.bytes);
            }
            if !later.is_empty() {
                self.pending.insert(sector, later);
            }
        }
        self.random = random;
        let covered = self.lengths.partition_point(|(moment, _)| *moment <= before);
        if let Some((_, length)) = self.lengths.drain(..covered).next_back() {
            self.synced_length = length;
        }
    }

    /// The result of a sync that began at a moment, for an open file description that was told of
    /// so many failures.
    fn end_sync(&mut self, began: u64, told: &AtomicU64) -> Result<()> {
        self.syncs += 1;
        self.tell(|| format!("sync of what was written before {began}, fails {:?}", self.fails));
        let failed = || Err(Error::new(ErrorKind::Io, "the log cannot be synced"));
        if let Some(kept) = self.fails.take() {
            self.settle(began, |random| random.u8(0..100) < kept);
            self.failed = true;
            self.failures += 1;
            told.store(self.failures, SeqCst);
            return failed();
        }
        self.settle(began, |_| true);
        if !self.failed {
            self.checkpoint = self.checkpoint.max(began);
        }
        let missed = told.swap(self.failures, SeqCst) < self.failures;
        if missed && !self.tells_once { failed() } else { Ok(()) }
    }

    /// Whether the planned fault is at this call.
    fn meets(&self, call: DiskCall) -> bool {
        let mut fault = self.fault.lock().unwrap();
        match &mut *fault {
            Some((planned, calls)) if *planned == call && *calls > 0 => *calls -= 1,
            Some((planned, _)) if *planned == call => {
                *fault = None;
                self.tell(|| format!("{call:?} fails"));
                return true;
            }
            _ => {}
        }
        false
    }

    fn fail_if_planned(&mut self) {
        if self.meets(DiskCall::Sync) {
            self.fails = Some(50);
        }
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.is_told {
            println!("{}: {}", self.moment, what());
        }
    }

    /// What a cut leaves: of each sector written since the last sync any of its contents since
    /// then.
    pub fn cut(&self, random: &mut fastrand::Rng) -> Vec<u8> {
        let kept = random.u8(0..=100);
        let mut image = self.synced.clone();
        for (sector, writes) in &self.pending {
            let last = writes.iter().rfind(|_| random.u8(0..100) < kept);
            last.into_iter().for_each(|write| apply(&mut image, *sector, &write.bytes));
        }
        image
    }
}

/// What has just happened to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskEvent {
    Changed,
    SyncBegun,
    Synced,
}

type Observer = Box<dyn Fn(DiskEvent) + Send + Sync>;

/// The file of the log as one process has it open.
pub struct Recorder {
    file: Box<dyn DataFile>,
    disk: Arc<Mutex<Disk>>,
    told: AtomicU64,
    told_in_background: AtomicU64,
    /// When the sync in the background began, and how many calls later it ends.
    background: Mutex<Option<(u64, u8)>>,
    observer: Observer,
}

impl Recorder {
    pub fn new(file: Box<dyn DataFile>, disk: Arc<Mutex<Disk>>, observer: Observer) -> Recorder {
        let failures = disk.lock().unwrap().failures;
        let told = || AtomicU64::new(failures);
        let (told, told_in_background) = (told(), told());
        Recorder { file, disk, told, told_in_background, background: Mutex::default(), observer }
    }

    /// The sectors of these bytes, with what the page cache has beside them.
    fn changed(&self, disk: &mut Disk, (offset, bytes): (u64, u64), is_punch: bool) -> Result<()> {
        let (first, end) = (offset / SECTOR as u64, (offset + bytes).div_ceil(SECTOR as u64));
        let mut sectors = vec![0; (end - first) as usize * SECTOR];
        self.file.read(&mut sectors, first * SECTOR as u64)?;
        disk.moment += 1;
        disk.tell(|| format!("{bytes} bytes at {offset:#x}"));
        for (bytes, sector) in sectors.chunks(SECTOR).zip(first..) {
            disk.note(sector, bytes, is_punch);
        }
        disk.written += bytes;
        disk.end = disk.end.max(offset + bytes);
        Ok(())
    }
}

impl DataFile for Recorder {
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let failed = {
            let mut disk = self.disk.lock().unwrap();
            let failed = || Error::new(ErrorKind::Io, "the log cannot be written");
            if disk.meets(DiskCall::Write) {
                return Err(failed());
            }
            let is_short = disk.meets(DiskCall::ShortWrite);
            let bytes = if is_short { &bytes[..bytes.len() / 2] } else { bytes };
            self.file.write(bytes, offset)?;
            self.changed(&mut disk, (offset, bytes.len() as u64), false)?;
            if self.file.length()? > disk.length() {
                let grown = (disk.moment, self.file.length()?);
                disk.lengths.push(grown);
            }
            is_short.then(failed)
        };
        (self.observer)(DiskEvent::Changed);
        failed.map_or(Ok(()), Err)
    }

    fn read(&self, into: &mut [u8], offset: u64) -> Result<()> {
        self.file.read(into, offset)
    }

    fn sync(&self) -> Result<()> {
        // The sync does not cover writes from now on.
        let (began, delay) = {
            let mut disk = self.disk.lock().unwrap();
            disk.moment += 1;
            disk.fail_if_planned();
            (disk.moment, disk.delays.pop())
        };
        (self.observer)(DiskEvent::SyncBegun);
        delay.into_iter().for_each(std::thread::sleep);
        let result = self.disk.lock().unwrap().end_sync(began, &self.told);
        if result.is_ok() {
            (self.observer)(DiskEvent::Synced);
        }
        result
    }

    fn begin_write_back(&self, offset: u64, bytes: u64) {
        self.disk.lock().unwrap().begun.push((offset, bytes));
    }

    fn begin_sync(&self) -> SyncStart {
        {
            let mut disk = self.disk.lock().unwrap();
            let mut background = self.background.lock().unwrap();
            let Some(calls) = disk.background_calls else { return SyncStart::Refused };
            if background.is_some() {
                return SyncStart::Busy;
            }
            disk.moment += 1;
            disk.fail_if_planned();
            *background = Some((disk.moment, calls));
        }
        (self.observer)(DiskEvent::SyncBegun);
        SyncStart::UnderWay
    }

    fn end_of_sync(&self) -> Option<Result<()>> {
        let mut background = self.background.lock().unwrap();
        let (began, calls) = (*background)?;
        if calls > 0 {
            *background = Some((began, calls - 1));
            return None;
        }
        *background = None;
        Some(self.disk.lock().unwrap().end_sync(began, &self.told_in_background))
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<()> {
        {
            let mut disk = self.disk.lock().unwrap();
            let end = offset + bytes;
            if disk.room.is_some_and(|room| end > room) || disk.meets(DiskCall::Allocation) {
                return Err(Error::new(ErrorKind::Full, "the file system has no room"));
            }
            self.file.allocate(offset, bytes)?;
            if end > disk.length() {
                disk.moment += 1;
                let grown = (disk.moment, end);
                disk.lengths.push(grown);
            }
        }
        (self.observer)(DiskEvent::Changed);
        Ok(())
    }

    fn punch(&self, offset: u64, bytes: u64) {
        {
            let mut disk = self.disk.lock().unwrap();
            self.file.punch(offset, bytes);
            disk.punches += 1;
            self.changed(&mut disk, (offset, bytes), true).unwrap();
        }
        (self.observer)(DiskEvent::Changed);
    }

    fn length(&self) -> Result<u64> {
        self.file.length()
    }
}
