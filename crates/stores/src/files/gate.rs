//! The gate of a session file: who may change what its name stands for, for an instant.
//!
//! A session lock (flock) is held as long as a request runs; `destroy` must not wait for it. So publishing and
//! removing are excluded from each other by a second lock on the same inode, an open file description lock on
//! its first byte, which Linux keeps apart from flock. It is held for a few system calls and never while
//! anything is waited for.
//!
//! The invariant that everything rests on: **a name stops standing for an inode only while somebody holds that
//! inode's gate and has checked, under the gate, that the name still stands for it.** Inodes are never linked
//! back: once replaced or removed, an inode has no name for ever. See `own.rs` for what follows from it.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::io::Errno;
use sessile_core::{Error, ErrorKind, Holder, Result};

use super::system::failed;

/// A gate is held for microseconds. Whoever holds it for this long was stopped in that instant.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Takes the gate through an open file. It is given back by [`leave`] or with the last descriptor.
///
/// # Errors
///
/// `LockTimeout` after ten seconds: a process was stopped (SIGSTOP, a debugger) in the instant of publishing.
pub fn enter(file: impl AsFd) -> Result<()> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(20);
    while !try_lock(&file, libc::F_WRLCK, 0)? {
        // Not F_OFD_SETLKW: it knows no deadline, and a descriptor that a forked child inherited in just
        // this instant would keep the gate of a dead inode for as long as the child lives.
        if start.elapsed() >= WAIT_MAX {
            let kind = ErrorKind::LockTimeout { holder: Holder::default(), waited: start.elapsed() };
            return Err(Error::new(kind, "a process was stopped in the instant of publishing this session")
                .advice("continue or kill it"));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(2));
    }
    Ok(())
}

/// Gives the gate back.
pub fn leave(file: impl AsFd) {
    // It cannot fail on a descriptor that took it; if it did, closing would do the same.
    let _ = try_lock(&file, libc::F_UNLCK, 0);
}

/// Does something while the gate is held.
///
/// # Errors
///
/// As [`enter`], and those of what is done.
pub fn within<T>(file: impl AsFd, act: impl FnOnce() -> Result<T>) -> Result<T> {
    enter(&file)?;
    let done = act();
    leave(&file);
    done
}

/// A byte lock without waiting; false when someone else's is in the way.
pub fn try_lock(file: impl AsFd, kind: libc::c_int, byte: i64) -> Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&byte_lock(kind, byte))) {
        Ok(_) => Ok(true),
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => Ok(false),
        Err(errno) => Err(cannot_lock(errno)),
    }
}

/// The first byte of a lock that another open file description has in this range; not always the first lock.
pub fn find_lock(file: impl AsFd, range: std::ops::Range<i64>) -> Result<Option<i64>> {
    let length = range.end.saturating_sub(range.start);
    if length <= 0 {
        // To the kernel a length of zero means up to the end.
        return Ok(None);
    }
    let mut lock = libc::flock { l_len: length, ..byte_lock(libc::F_WRLCK, range.start) };
    match fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock)) {
        Ok(_) => Ok((i32::from(lock.l_type) != libc::F_UNLCK).then_some(lock.l_start)),
        Err(errno) => Err(cannot_lock(errno)),
    }
}

fn cannot_lock(errno: nix::errno::Errno) -> Error {
    failed("an open file description lock cannot be taken", Errno::from_raw_os_error(errno as i32))
}

fn byte_lock(kind: libc::c_int, byte: i64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    }
}
