//! A sync in the background, by Linux AIO. No maintained crate has these four system calls.
//!
//! Invariants: one request at a time; a forked child never uses its parent's context, which belongs
//! to the parent's address space.

#![allow(unsafe_code, reason = "docs/decisions/0010-syncs-in-the-background.md")]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;
use nix::libc::{self, c_long};

use crate::memory::*;

/// `struct iocb` of linux/aio_abi.h, little-endian.
#[repr(C)]
#[derive(Default)]
struct IoRequest {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

#[repr(C)]
#[derive(Default)]
struct IoEvent {
    data: u64,
    request: u64,
    result: i64,
    result2: i64,
}

const FDSYNC: u16 = 3;

struct AioContext {
    id: c_long,
    process: u32,
    busy: bool,
}

#[derive(Default)]
pub struct AioSync(Mutex<Option<AioContext>>);

impl AioSync {
    pub fn begin(&self, file: BorrowedFd<'_>) -> SyncStart {
        // Another thread holds the lock, or did in our parent when it forked.
        let Ok(mut context) = self.0.try_lock() else { return SyncStart::Refused };
        let process = std::process::id();
        if context.as_ref().is_none_or(|context| context.process != process) {
            *context = setup().map(|id| AioContext { id, process, busy: false });
        }
        match &mut *context {
            None => SyncStart::Refused,
            Some(AioContext { busy: true, .. }) => SyncStart::Busy,
            Some(context) => {
                context.busy = submit(context.id, file);
                if context.busy { SyncStart::UnderWay } else { SyncStart::Refused }
            }
        }
    }

    pub fn end(&self) -> Option<Result<(), Errno>> {
        let mut context = self.0.try_lock().ok()?;
        let context = context
            .as_mut()
            .filter(|context| context.busy && context.process == std::process::id())?;
        let event = completed(context.id)?;
        context.busy = false;
        let error = i32::try_from(-event.result).map_or(Errno::EIO, Errno::from_raw);
        Some(if event.result == 0 { Ok(()) } else { Err(error) })
    }
}

impl Drop for AioSync {
    fn drop(&mut self) {
        let context = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) =
            context.take().filter(|context| context.process == std::process::id())
        {
            // SAFETY: our own context; waits for the sync under way.
            unsafe { libc::syscall(libc::SYS_io_destroy, context.id) };
        }
    }
}

fn setup() -> Option<c_long> {
    let mut id: c_long = 0;
    // SAFETY: the kernel writes one word to a pointer that is valid for it.
    let made = unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut id) };
    (made == 0).then_some(id)
}

fn submit(context: c_long, file: BorrowedFd<'_>) -> bool {
    let file = u32::try_from(file.as_raw_fd()).unwrap_or(u32::MAX);
    let mut request = IoRequest { opcode: FDSYNC, file, ..IoRequest::default() };
    let mut list: [*mut IoRequest; 1] = [&raw mut request];
    // SAFETY: a list of one pointer to one request, both valid during the call; the kernel copies
    // the request and holds the file itself.
    unsafe { libc::syscall(libc::SYS_io_submit, context, 1, list.as_mut_ptr()) == 1 }
}

/// Begins to write pages to the disk; the next sync sees a failure.
pub fn begin_write_back(file: BorrowedFd<'_>, offset: u64, bytes: u64) {
    let (Ok(offset), Ok(bytes)) = (offset.try_into(), bytes.try_into()) else { return };
    // SAFETY: a descriptor and numbers; the kernel reads and writes no memory of ours.
    unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE) };
}

fn completed(context: c_long) -> Option<IoEvent> {
    let mut event = IoEvent::default();
    let mut at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for one event, and a time-out of zero; both are valid during the call.
    let count = unsafe {
        libc::syscall(libc::SYS_io_getevents, context, 0, 1, &raw mut event, &raw mut at_once)
    };
    (count == 1).then_some(event)
}

const _: () = assert!(
    size_of::<IoRequest>() == 64 && size_of::<IoEvent>() == 32,
    "as linux/aio_abi.h has them"
);
