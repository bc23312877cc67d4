//! What a forked child must not have from its parent.
//!
//! Invariants: the word of a [`ForkMark`] is zero in each process that has not written it; the lock
//! of an [`UninheritedFile`] ends with its process, whatever the children of that process do.

#![allow(unsafe_code, reason = "docs/decisions/0028-only-the-beacon-tells-death.md")]

use std::fs::File;
use std::ops::Deref;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicI32;

use nix::libc;
use rustix::event::{EventfdFlags, eventfd};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use sessile_core::{Error, ErrorKind, Result};

use super::errors::Explained;
use super::layout::PAGE_BYTES;
use super::map::non_null;
use super::sync::{Acquire, Relaxed, SeqCst};

/// As many as processes fit into one store.
const UNINHERITED_MAX: usize = 1_024;
const NONE: i32 = -1;
/// The descriptors of all uninherited files: no lock, because a forked child could find it taken by
/// a thread that it does not have.
static UNINHERITED: [AtomicI32; UNINHERITED_MAX] = [const { AtomicI32::new(NONE) }; _];
/// What these descriptors are in a child. Opened once and never closed.
static SPARE: AtomicI32 = AtomicI32::new(NONE);

/// A file that forked children do not keep open: the kernel gives its locks back when this process
/// ends. A child that was made without the `fork` of the C library keeps it until it ends or
/// executes a program.
pub struct UninheritedFile(File);

impl UninheritedFile {
    pub fn new(file: File) -> Result<UninheritedFile> {
        watch_forks()?;
        let here = |slot: &AtomicI32| {
            slot.compare_exchange(NONE, file.as_raw_fd(), SeqCst, Relaxed).is_ok()
        };
        if UNINHERITED.iter().any(here) {
            return Ok(UninheritedFile(file));
        }
        let why = format!("this process has opened stores {UNINHERITED_MAX} times");
        Err(Error::new(ErrorKind::Full, why).advice("close some of them"))
    }
}

impl Deref for UninheritedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for UninheritedFile {
    fn drop(&mut self) {
        let fd = self.0.as_raw_fd();
        // In a child there is none of this number, or one of its own.
        let _ =
            UNINHERITED.iter().any(|slot| slot.compare_exchange(fd, NONE, SeqCst, Relaxed).is_ok());
    }
}

/// Two threads may both do this: the second call of the handler finds nothing to do.
fn watch_forks() -> Result<()> {
    if SPARE.load(Acquire) != NONE {
        return Ok(());
    }
    let spare = eventfd(0, EventfdFlags::CLOEXEC).explained("no descriptor can be opened")?;
    // SAFETY: the handler only calls dup3 and uses atomic words, which a child may do whatever the
    // other threads of its parent were at.
    let refused = unsafe { libc::pthread_atfork(None, None, Some(leave_files_to_parent)) };
    if refused != 0 {
        let errno = rustix::io::Errno::from_raw_os_error(refused);
        return Err(super::errors::refused("forks cannot be watched", errno));
    }
    if SPARE.compare_exchange(NONE, spare.as_raw_fd(), SeqCst, Relaxed).is_ok() {
        let _ = spare.into_raw_fd();
    }
    Ok(())
}

/// Puts the spare in the place of each descriptor, so that the numbers stay in use and no value
/// that owns one closes a file of another owner.
unsafe extern "C" fn leave_files_to_parent() {
    for slot in &UNINHERITED {
        let fd = slot.swap(NONE, Relaxed);
        if fd != NONE {
            // SAFETY: both descriptors are open: the files unregister before they close.
            unsafe { libc::dup3(SPARE.load(Relaxed), fd, libc::O_CLOEXEC) };
        }
    }
}

/// A word that is zero in a forked child: a page that the kernel wipes on fork.
pub struct ForkMark {
    page: NonNull<u8>,
}

// SAFETY: only an atomic word of the page is handed out.
unsafe impl Send for ForkMark {}
// SAFETY: as above.
unsafe impl Sync for ForkMark {}

impl ForkMark {
    pub fn new() -> Result<ForkMark> {
        // SAFETY: a new private mapping at an address of the kernel's choice; advice on our own
        // page.
        let page = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let (anywhere, bytes) = (std::ptr::null_mut(), PAGE_BYTES as usize);
            let page = rustix::mm::mmap_anonymous(anywhere, bytes, protection, MapFlags::PRIVATE);
            page.and_then(|page| {
                rustix::mm::madvise(page, bytes, Advice::LinuxWipeOnFork).map(|()| page)
            })
        };
        let page = page.map_err(|errno| {
            let why = "the kernel cannot mark a page as wiped on fork";
            Error::new(ErrorKind::Unsupported, why)
                .advice("Linux 4.14 or newer is needed")
                .source(std::io::Error::from(errno))
        })?;
        Ok(ForkMark { page: non_null(page)? })
    }

    #[inline]
    pub fn word(&self) -> &std::sync::atomic::AtomicU64 {
        // SAFETY: the page lives as long as the mark, is aligned and zeroed.
        unsafe { &*self.page.as_ptr().cast() }
    }
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        // SAFETY: our own page, and no reference outlives the mark.
        let _ = unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), PAGE_BYTES as usize) };
    }
}
