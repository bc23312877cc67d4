//! What the operating system says, in the words of the contract.
//!
//! Every system call of the files store fails through [`failed`], so that a full disk is `Full` and a missing
//! permission `Denied` wherever they are met. It also owns the conversion between the contract's time and the
//! times of files. It keeps no state.

use std::borrow::Cow;

use rustix::fs::{FileType, Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use sessile_core::{Error, ErrorKind, Result, Timestamp};

/// The error of a system call. `why` says what could not be done, without naming the file (its name is the id).
pub fn failed(why: impl Into<Cow<'static, str>>, errno: Errno) -> Error {
    let error = match errno {
        Errno::NOSPC | Errno::DQUOT => {
            Error::new(ErrorKind::Full, why).advice("free space or inodes on the file system, then try again")
        }
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            Error::new(ErrorKind::Denied, why).advice("give the process's user the directory and all in it")
        }
        Errno::LOOP => Error::new(ErrorKind::Denied, "a symbolic link stands in place of a session file")
            .advice("find out who put it there; the target was not touched"),
        Errno::MFILE | Errno::NFILE => Error::new(ErrorKind::Io, why).advice("raise the limit of open files"),
        _ => Error::new(ErrorKind::Io, why),
    };
    error.source(std::io::Error::from(errno))
}

/// Which file it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub fn of(stat: &Stat) -> Identity {
        Identity { device: stat.st_dev, inode: stat.st_ino }
    }

    pub fn device(self) -> u64 {
        self.device
    }

    pub fn inode(self) -> u64 {
        self.inode
    }
}

/// Refuses a lease that another process took: this one was forked from it, and inherited the lease.
pub fn check_process(owner: u32) -> Result<()> {
    if owner == std::process::id() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Stale, "the lease belongs to the process that this one was forked from"))
}

/// Refuses what is not a plain file of ours: someone else may rewrite it under our hands.
pub fn check_session_file(stat: &Stat) -> Result<()> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Error::new(ErrorKind::Corrupt, "what stands in place of a session file is not a file")
            .advice("find out who put it there; it was left as it is"));
    }
    let own = rustix::process::geteuid().as_raw();
    if own != 0 && stat.st_uid != own && stat.st_uid != 0 {
        return Err(Error::new(ErrorKind::Denied, "the session file belongs to another user")
            .advice("let one user run all processes that share the directory"));
    }
    Ok(())
}

/// The size of a file.
pub fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// The modification time in milliseconds; before 1970 it is 1970.
pub fn mtime(stat: &Stat) -> Timestamp {
    let (seconds, nanoseconds) = (stat.st_mtime, stat.st_mtime_nsec);
    let seconds = u64::try_from(seconds).unwrap_or(0);
    Timestamp::from_ms(seconds.saturating_mul(1_000).saturating_add(nanoseconds / 1_000_000))
}

/// The argument of futimens that sets the modification time and leaves the access time alone.
pub fn modified_at(moment: Timestamp) -> Timestamps {
    let ms = moment.as_ms();
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: i64::try_from(ms / 1_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(ms % 1_000 * 1_000_000).unwrap_or(0),
        },
    }
}

/// The monotonic clock of the host: holders of a session follow each other in time, since each takes its lock
/// after the one before has given it up.
pub fn fence() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}
