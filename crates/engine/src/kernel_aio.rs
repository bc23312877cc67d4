//! A sync that the kernel carries out while this process goes on: Linux AIO, which needs no thread of ours.
//!
//! Invariants: one request at a time; a forked child never uses its parent's context, which belongs to the parent's
//! address space. Where the kernel or a sandbox refuses it, the caller syncs by itself. One of the few files with
//! unsafe code: no maintained crate has these four system calls.

#![allow(unsafe_code, reason = "docs/decisions/0010-syncs-in-the-background.md")]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;
use nix::libc::{self, c_long};

/// `struct iocb` of linux/aio_abi.h, little-endian.
#[repr(C)]
#[derive(Default)]
struct Request {
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

/// `struct io_event`.
#[repr(C)]
#[derive(Default)]
struct Event {
    data: u64,
    request: u64,
    result: i64,
    result2: i64,
}

const FDSYNC: u16 = 3;

struct Context {
    id: c_long,
    process: u32,
    busy: bool,
}

/// At most one sync under way.
#[derive(Default)]
pub struct Background(Mutex<Option<Context>>);

/// How a try to begin ended.
#[derive(PartialEq, Eq, Debug)]
pub enum Begun {
    UnderWay,
    /// One is under way already.
    Busy,
    /// Not here.
    Refused,
}

impl Background {
    /// Begins an fdatasync.
    pub fn begin(&self, file: BorrowedFd<'_>) -> Begun {
        // Another thread is at it, or was in our parent when it forked.
        let Ok(mut context) = self.0.try_lock() else { return Begun::Refused };
        let process = std::process::id();
        if context.as_ref().is_none_or(|context| context.process != process) {
            *context = setup().map(|id| Context { id, process, busy: false });
        }
        match &mut *context {
            None => Begun::Refused,
            Some(Context { busy: true, .. }) => Begun::Busy,
            Some(context) => {
                context.busy = submit(context.id, file);
                if context.busy { Begun::UnderWay } else { Begun::Refused }
            }
        }
    }

    /// How the sync under way has ended, if it has.
    pub fn end(&self) -> Option<Result<(), Errno>> {
        let mut context = self.0.try_lock().ok()?;
        let context = context.as_mut().filter(|context| context.busy && context.process == std::process::id())?;
        let event = completed(context.id)?;
        context.busy = false;
        let error = i32::try_from(-event.result).map_or(Errno::EIO, Errno::from_raw);
        Some(if event.result == 0 { Ok(()) } else { Err(error) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let context = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = context.take().filter(|context| context.process == std::process::id()) {
            // SAFETY: our own context; waits for what is under way.
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
    let mut request = Request { opcode: FDSYNC, file, ..Request::default() };
    let mut list: [*mut Request; 1] = [&raw mut request];
    // SAFETY: a list of one pointer to one request, both valid during the call; the kernel copies the request and
    // holds the file itself.
    unsafe { libc::syscall(libc::SYS_io_submit, context, 1, list.as_mut_ptr()) == 1 }
}

/// Begins to write pages of a file to the disk. It waits for none of them; a failure is seen by the next sync.
pub fn begin_write_back(file: BorrowedFd<'_>, offset: u64, bytes: u64) {
    let (Ok(offset), Ok(bytes)) = (offset.try_into(), bytes.try_into()) else { return };
    // SAFETY: a descriptor and numbers; the kernel reads and writes no memory of ours.
    unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE) };
}

fn completed(context: c_long) -> Option<Event> {
    let mut event = Event::default();
    let mut at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for one event, and a time-out of zero; both are valid during the call.
    let count = unsafe { libc::syscall(libc::SYS_io_getevents, context, 0, 1, &raw mut event, &raw mut at_once) };
    (count == 1).then_some(event)
}

const _: () = assert!(size_of::<Request>() == 64 && size_of::<Event>() == 32, "as linux/aio_abi.h has them");
