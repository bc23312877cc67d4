//! Open file description locks on ranges of bytes (fcntl(2)). The kernel frees them when the last
//! copy of their descriptor is closed: at the latest when its processes have ended.

use std::ops::Range;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc::{F_UNLCK, F_WRLCK, SEEK_SET, c_int, c_short, flock};

fn range(kind: c_int, start: i64, length: i64) -> flock {
    flock {
        l_type: kind as c_short,
        l_whence: SEEK_SET as c_short,
        l_start: start,
        l_len: length,
        l_pid: 0, // must be zero for these locks
    }
}

/// Tries a lock of this kind; false if another description has one. A length of zero is "up to the
/// end".
pub fn try_lock(file: impl AsFd, kind: c_int, start: i64, length: i64) -> nix::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&range(kind, start, length))) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Start and length of some foreign lock in this range, not always of the first.
pub fn find_lock(
    file: impl AsFd,
    Range { start, end }: Range<i64>,
) -> nix::Result<Option<(i64, i64)>> {
    if start >= end {
        return Ok(None);
    }
    let mut found = range(F_WRLCK, start, end - start);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut found))?;
    Ok((c_int::from(found.l_type) != F_UNLCK).then_some((found.l_start, found.l_len)))
}
