//! The file of the log, by system calls.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{FallocateFlags, Mode, OFlags, fdatasync, open};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};
use sessile_core::{Error, ErrorKind, Result};

use super::kernel_aio::{self, AioSync};
use crate::memory::*;

/// The kernel tells each open file description once of an error of the disk. So syncs in the
/// background have one of their own, and forked children do not use their parent's.
pub struct KernelFile {
    file: OwnedFd,
    in_background: OwnedFd,
    background: AioSync,
    process: u32,
}

impl KernelFile {
    /// The same file, opened twice.
    pub fn new(file: OwnedFd, in_background: OwnedFd) -> KernelFile {
        let process = std::process::id();
        KernelFile { file, in_background, background: AioSync::default(), process }
    }

    fn opened_anew(&self) -> rustix::io::Result<OwnedFd> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
    }
}

fn failed(why: &'static str, errno: Errno) -> Error {
    let error = refused(why, errno);
    let full = *error.kind() == ErrorKind::Full;
    error.advice(if full {
        "make room on the disk, raise the quota, or lower time to live or payloads"
    } else {
        "look at the kernel's log for errors of the disk"
    })
}

/// Always `Io`, also where the kernel says `ENOSPC`: a sync finds no room for data that had it, and
/// room that the caller makes does not bring them back.
fn not_synced(errno: Errno) -> Error {
    Error::new(ErrorKind::Io, "the log cannot be synced")
        .advice("look at the kernel's log for errors of the disk")
        .source(std::io::Error::from(errno))
}

impl DataFile for KernelFile {
    fn write(&self, mut bytes: &[u8], mut offset: u64) -> Result<()> {
        crash::point();
        while !bytes.is_empty() {
            let written = match retry_on_intr(|| pwrite(&self.file, bytes, offset)) {
                Ok(0) => Err(Errno::NOSPC),
                written => written,
            };
            let written = written.map_err(|errno| failed("the log cannot be written", errno))?;
            bytes = bytes.get(written..).unwrap_or_default();
            offset += written as u64;
        }
        Ok(())
    }

    fn read(&self, into: &mut [u8], offset: u64) -> Result<()> {
        read_whole(&self.file, into, offset)
            .map_err(|errno| failed("the log cannot be read", errno))
    }

    fn sync(&self) -> Result<()> {
        crash::point();
        let synced = if std::process::id() == self.process {
            fdatasync(&self.file)
        } else {
            self.opened_anew().and_then(fdatasync)
        };
        synced.map_err(not_synced)
    }

    fn begin_write_back(&self, offset: u64, bytes: u64) {
        kernel_aio::begin_write_back(self.file.as_fd(), offset, bytes);
    }

    fn begin_sync(&self) -> SyncStart {
        crash::point();
        if std::process::id() != self.process {
            return SyncStart::Refused;
        }
        self.background.begin(self.in_background.as_fd())
    }

    fn end_of_sync(&self) -> Option<Result<()>> {
        let ended = self.background.end()?;
        Some(ended.map_err(|errno| not_synced(Errno::from_raw_os_error(errno as i32))))
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<()> {
        let all = |flags| {
            allocate(&self.file, flags, offset, bytes)
                .map_err(|errno| failed("the file system has no room for the log to grow", errno))
        };
        // Room first and length then: a failure half way leaves a length of whole segments.
        all(FallocateFlags::KEEP_SIZE)?;
        if self.length()? < offset + bytes { all(FallocateFlags::empty()) } else { Ok(()) }
    }

    fn punch(&self, offset: u64, bytes: u64) {
        crash::point();
        punch(&self.file, "the log", offset, bytes);
    }

    fn length(&self) -> Result<u64> {
        let stat = rustix::fs::fstat(&self.file).explained("the log cannot be examined")?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }
}

pub fn read_whole(file: &OwnedFd, mut into: &mut [u8], mut offset: u64) -> rustix::io::Result<()> {
    while !into.is_empty() {
        let read = retry_on_intr(|| pread(file, &mut *into, offset))?;
        if read == 0 {
            into.fill(0);
            break;
        }
        offset += read as u64;
        into = into.get_mut(read..).unwrap_or_default();
    }
    Ok(())
}
