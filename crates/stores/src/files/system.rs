//! System calls, with errors in the words of the contract: all fail through [`failed`], so that a
//! full disk is always `Full` and a missing permission `Denied`.

use std::borrow::Cow;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Stat, Timespec, Timestamps, UTIME_OMIT, fstat, fsync, futimens};
use rustix::io::{Errno, pwrite};
use sessile_core::{Error, ErrorKind, Result, Timestamp};

use crate::locks::byte_lock::monotonic_ns;

/// Longer than a write takes, and than the steps of the clock that file systems go by.
const REST: Duration = Duration::from_secs(10);

/// `why` never names the file: its name is the id.
pub fn failed(why: impl Into<Cow<'static, str>>, errno: Errno) -> Error {
    let error = match errno {
        Errno::NOSPC | Errno::DQUOT => Error::new(ErrorKind::Full, why)
            .advice("free space or inodes on the file system, then try again"),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => Error::new(ErrorKind::Denied, why)
            .advice("give the process's user the directory and all in it"),
        Errno::LOOP => {
            Error::new(ErrorKind::Denied, "a symbolic link stands in place of a session file")
                .advice("find out who put it there; the target was not touched")
        }
        Errno::NOENT => Error::new(ErrorKind::Io, why).advice(
            "a directory of the store is missing: open the store again; with php=1 create the \
             directories for all characters that ids can begin with",
        ),
        Errno::MFILE | Errno::NFILE => {
            Error::new(ErrorKind::Io, why).advice("raise the limit of open files")
        }
        _ => Error::new(ErrorKind::Io, why),
    };
    error.source(std::io::Error::from(errno))
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
}

impl Identity {
    pub fn of(stat: &Stat) -> Identity {
        Identity { device: stat.st_dev, inode: stat.st_ino }
    }
}

pub fn examine(file: impl AsFd) -> Result<Stat> {
    fstat(file).map_err(|errno| failed("a session file cannot be examined", errno))
}

/// Loops, as an almost full disk takes a part before the next write fails.
pub fn write_at(file: &OwnedFd, bytes: &[u8], at: usize) -> Result<()> {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        written += pwrite(file, rest, (at + written) as u64)
            .map_err(|errno| failed("a session file cannot be written", errno))?;
    }
    Ok(())
}

pub fn sync_if(file: &OwnedFd, durable: bool) -> Result<()> {
    let done = if durable { fsync(file) } else { Ok(()) };
    done.map_err(|errno| failed("a session file cannot be written to disk", errno))
}

/// Leaves the access time alone.
pub fn set_time(file: &OwnedFd, moment: Timestamp) -> Result<()> {
    let ms = moment.as_ms();
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: (ms / 1_000).cast_signed(),
            tv_nsec: (ms % 1_000 * 1_000_000).cast_signed(),
        },
    };
    futimens(file, &times).map_err(|errno| failed("a file's time cannot be set", errno))
}

pub fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

pub fn size(stat: &Stat) -> u64 {
    stat.st_size.unsigned_abs()
}

/// In milliseconds; 0 before 1970.
pub fn mtime(stat: &Stat) -> Timestamp {
    let ms = u64::try_from(stat.st_mtime).unwrap_or(0).saturating_mul(1_000);
    Timestamp::from_ms(ms.saturating_add(stat.st_mtime_nsec / 1_000_000))
}

/// Whether nobody has changed a file or its attributes since `stat`, nor for a while before
/// `asked`, a moment before it. Each change begins by setting the change time to the present, and
/// no program can set it to another moment.
pub fn is_at_rest(file: &OwnedFd, stat: &Stat, asked: SystemTime) -> Result<bool> {
    let changed = |stat: &Stat| (stat.st_ctime, stat.st_ctime_nsec);
    let now = asked.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (seconds, nanoseconds) = changed(stat);
    let seconds = u64::try_from(seconds).unwrap_or(0);
    let since = Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds);
    let was_at_rest = now.checked_sub(since).is_some_and(|rest| rest > REST);
    Ok(was_at_rest && changed(&examine(file)?) == changed(stat))
}

/// The host's monotonic clock, in ns. Fences grow because each holder takes its lock after the
/// previous one released it.
pub fn fence() -> u64 {
    monotonic_ns().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_at_rest_when_nobody_has_changed_it_for_a_while() {
        let file = OwnedFd::from(tempfile::tempfile().unwrap());
        write_at(&file, b"a", 0).unwrap();
        // Its time may be set, to any moment.
        set_time(&file, Timestamp::from_ms(1_000)).unwrap();
        let (stat, now) = (examine(&file).unwrap(), SystemTime::now());
        assert!(!is_at_rest(&file, &stat, now).unwrap());
        let later = now + REST + Duration::from_millis(1);
        assert!(is_at_rest(&file, &stat, later).unwrap());
        let earlier = examine(&file).unwrap();
        // A step of the clock of file systems.
        std::thread::sleep(Duration::from_millis(20));
        write_at(&file, b"b", 0).unwrap();
        set_time(&file, Timestamp::from_ms(1_000)).unwrap();
        assert!(!is_at_rest(&file, &earlier, later).unwrap(), "it was written between the looks");
    }
}
