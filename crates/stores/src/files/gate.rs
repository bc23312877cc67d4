//! The gate of a session file: the short lock that publishing and removing take.
//!
//! The session lock (flock) is held as long as a request runs, and `destroy` must not wait for it.
//! The gate is a second lock on the same inode, on its first byte, which Linux keeps apart from
//! flock. It is held for a few system calls.
//!
//! Invariant: **a name leaves an inode only while a process holds that inode's gate and has
//! checked, under the gate, that the name still stands for it.** Inodes are never linked back: an
//! inode without a name has none for ever. own/mod.rs draws the conclusions.

use std::ops::Range;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::libc::{F_UNLCK, F_WRLCK, c_int};
use rustix::io::Errno;
use sessile_core::{Error, ErrorKind, Holder, Result};

use super::system::failed;
use crate::locks::range_lock;

/// A process that holds a gate for this long is stopped.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Takes the gate. [`release`] or closing the last descriptor releases it. `LockTimeout` after ten
/// seconds: a process was stopped (SIGSTOP, a debugger) while it published.
pub fn enter(file: impl AsFd) -> Result<()> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(20);
    while !try_lock(&file, F_WRLCK, 0)? {
        // Not F_OFD_SETLKW: it has no deadline, and a child that inherited the descriptor now would
        // keep the gate of a dead inode for as long as it lives.
        if start.elapsed() >= WAIT_MAX {
            let (holder, waited) = (Holder::default(), start.elapsed());
            let why = "a process was stopped in the instant of publishing this session";
            return Err(Error::new(ErrorKind::LockTimeout { holder, waited }, why)
                .advice("continue or kill it"));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(2));
    }
    Ok(())
}

pub fn release(file: impl AsFd) {
    // If it fails, closing does the same.
    let _ = try_lock(&file, F_UNLCK, 0);
}

pub fn within<T>(file: impl AsFd, act: impl FnOnce() -> Result<T>) -> Result<T> {
    enter(&file)?;
    let done = act();
    release(&file);
    done
}

/// Tries a byte lock; false if another owner has it.
pub fn try_lock(file: impl AsFd, kind: c_int, byte: i64) -> Result<bool> {
    range_lock::try_lock(file, kind, byte, 1).map_err(cannot_lock)
}

/// The first byte of some foreign lock in this range, not always of the first lock.
pub fn find_lock(file: impl AsFd, range: Range<i64>) -> Result<Option<i64>> {
    let found = range_lock::find_lock(file, range).map_err(cannot_lock)?;
    Ok(found.map(|(start, _)| start))
}

fn cannot_lock(errno: nix::Error) -> Error {
    failed("an open file description lock cannot be taken", Errno::from_raw_os_error(errno as i32))
}
