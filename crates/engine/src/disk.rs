//! The file of the log on a disk: everything that the engine writes to it goes through [`DataFile`].
//!
//! Invariant: nothing else of this crate writes, syncs or resizes that file, so a test that puts another
//! implementation in its place sees, delays or fails each of these operations.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use sessile_core::{Error, ErrorKind, Result};

use crate::kernel_aio::{self, Background, Begun};
use crate::sync::crash;

/// What the engine does with the file of its log.
pub trait DataFile: Send + Sync {
    /// Writes all bytes at an offset.
    ///
    /// # Errors
    ///
    /// `Io`, or `Full`.
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// Reads until the buffer is full or the file ends; what lies beyond its end reads as zero.
    ///
    /// # Errors
    ///
    /// `Io`.
    fn read(&self, into: &mut [u8], offset: u64) -> Result<()>;

    /// Returns when everything that was written before is on the disk.
    ///
    /// # Errors
    ///
    /// `Io`; then nothing that was written since the last success may be believed to be there.
    fn sync(&self) -> Result<()>;

    /// Lets the disk begin with these bytes, so that the next sync has less to do. Promises nothing.
    fn begin_write_back(&self, offset: u64, bytes: u64);

    /// Begins a sync that goes on while the caller does something else.
    fn begin_sync(&self) -> Begun;

    /// How the sync that was begun has ended, if it has.
    ///
    /// # Errors
    ///
    /// As of `sync`.
    fn end_of_sync(&self) -> Option<Result<()>>;

    /// Makes sure that these bytes have room on the disk.
    ///
    /// # Errors
    ///
    /// `Full`.
    fn allocate(&self, offset: u64, bytes: u64) -> Result<()>;

    /// Gives these bytes back to the file system; they read as zero.
    fn punch(&self, offset: u64, bytes: u64);

    /// Bytes up to the end of the file.
    ///
    /// # Errors
    ///
    /// `Io`.
    fn length(&self) -> Result<u64>;
}

/// The real one.
pub struct KernelFile {
    file: OwnedFd,
    background: Background,
}

impl KernelFile {
    pub fn new(file: OwnedFd) -> KernelFile {
        KernelFile { file, background: Background::default() }
    }
}

fn failed(why: &'static str, errno: Errno) -> Error {
    match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Error::new(ErrorKind::Full, why)
            .advice("make room on the disk, raise the quota, or lower time to live or payloads"),
        _ => Error::new(ErrorKind::Io, why)
            .advice("look at the kernel's log for errors of the disk")
            .source(std::io::Error::from(errno)),
    }
}

impl DataFile for KernelFile {
    fn write(&self, mut bytes: &[u8], mut offset: u64) -> Result<()> {
        crash::point();
        while !bytes.is_empty() {
            match rustix::io::pwrite(&self.file, bytes, offset) {
                Ok(0) => return Err(failed("the log takes no more bytes", Errno::NOSPC)),
                Ok(written) => {
                    bytes = bytes.get(written..).unwrap_or_default();
                    offset += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("the log cannot be written", errno)),
            }
        }
        Ok(())
    }

    fn read(&self, into: &mut [u8], offset: u64) -> Result<()> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(&self.file, &mut *rest, offset + done as u64) {
                Ok(0) => {
                    rest.fill(0);
                    return Ok(());
                }
                Ok(read) => done += read,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("the log cannot be read", errno)),
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        crash::point();
        rustix::fs::fdatasync(&self.file).map_err(|errno| failed("the log cannot be synced", errno))
    }

    fn begin_write_back(&self, offset: u64, bytes: u64) {
        kernel_aio::begin_write_back(self.file.as_fd(), offset, bytes);
    }

    fn begin_sync(&self) -> Begun {
        crash::point();
        self.background.begin(self.file.as_fd())
    }

    fn end_of_sync(&self) -> Option<Result<()>> {
        let ended = self.background.end()?;
        Some(ended.map_err(|errno| failed("the log cannot be synced", Errno::from_raw_os_error(errno as i32))))
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<()> {
        let all = |flags| loop {
            match rustix::fs::fallocate(&self.file, flags, offset, bytes) {
                Err(Errno::INTR) => {}
                done => break done.map_err(|errno| failed("the file system has no room for the log to grow", errno)),
            }
        };
        // The room first and the length then: one that fails half way leaves a length of whole segments.
        all(FallocateFlags::KEEP_SIZE)?;
        if self.length()? < offset + bytes { all(FallocateFlags::empty()) } else { Ok(()) }
    }

    fn punch(&self, offset: u64, bytes: u64) {
        crash::point();
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Err(errno) = rustix::fs::fallocate(&self.file, flags, offset, bytes) {
            log::warn!("the log cannot give {bytes} bytes back: {errno}");
        }
    }

    fn length(&self) -> Result<u64> {
        let stat = rustix::fs::fstat(&self.file).map_err(|errno| failed("the log cannot be examined", errno))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }
}
