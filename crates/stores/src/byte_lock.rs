//! A fair lock between processes: one range of bytes of a side file for each name.
//!
//! For stores that have no lock to wait on. The side file stays empty; only the kernel's table of locks is
//! used. Each lock is an open-file-description lock (fcntl(2), "Open file description locks") on a descriptor
//! of its own, so that threads exclude each other too and that the kernel frees it at once when the holder dies.
//!
//! ```text
//! offset  0                                     2^62                                  2^63
//!         | holders: 2^39 windows of 2^23 bytes | waiters: 2^32 windows of 2^30 bytes |
//!
//! holder  window | ........[ since |base| pid ]........ |   starts `since` bytes before the base byte and
//!                                                           ends `pid` bytes after it
//! waiters window | ...t.....t.t.................... |       one byte each, at the time of arrival
//! ```
//!
//! * **Exclusion**: every holder's range covers the base byte of its window, so two of one name conflict.
//! * **Who holds it** is told without writing anything: start and length of the range carry the seconds
//!   since boot (modulo 2^22, 48 days) and the process id.
//! * **Fairness**: a waiter locks the byte of its arrival and takes the lock only when no byte before it is
//!   locked; a newcomer that sees a waiter queues up too, so that one who releases and begins again cannot
//!   starve the others. A dead waiter's byte is freed like any lock. A stopped one must not stop the rest: who
//!   sees the lock free for [`PATIENCE`] takes it. The queue is advice; the lock itself is what excludes.
//!
//! Two names share a window with a chance of 2^-39 for each pair held at once; one then waits for the other.
//! The kernel keeps the locks of a file in one list: tens of thousands held at once would make it slow.
//!
//! It is not a lock between hosts: network file systems may keep such locks on one host only.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::time::{ClockId, clock_gettime};
use sha2::{Digest, Sha256};

const PID_BITS: u32 = 22; // Linux: PID_MAX_LIMIT is 2^22
const WINDOW_BITS: u32 = PID_BITS + 1;
const HOLDER_HASH_BITS: u32 = 62 - WINDOW_BITS;
const TICKET_BITS: u32 = 30;
const TICKET_HASH_BITS: u32 = 62 - TICKET_BITS;
const WAITERS: i64 = 1 << 62;
/// Ticks of 8 us: half a window is 71 minutes, more than the longest wait, so that "before" is never ambiguous.
const TICKET_NS: u64 = 8_000;
/// Waiters that may arrive in the same tick.
const TICKET_TRIES: i64 = 4_096;

const PAUSE_MIN: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(5);
/// How long the lock must be seen free before a waiter overtakes those before it, which are then stopped.
const PATIENCE: Duration = Duration::from_millis(25);

/// The locks of one side file.
#[derive(Debug)]
pub(crate) struct ByteLocks {
    path: PathBuf,
    guarded: PathBuf,
}

/// What is locked: a digest of the name of a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockName(u64);

/// A held lock. Dropping it frees it, except in a process forked from the holder.
#[derive(Debug)]
pub(crate) struct ByteLock {
    // Opened for this lock alone and never kept for another: a child that was forked in between would share
    // the description, and a lock taken on it would outlive the death of its holder.
    file: File,
    pid: u32,
}

/// The process that holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteHolder {
    /// Its id, in its own pid namespace.
    pub pid: u32,
    /// For how long, in whole seconds.
    pub held: Duration,
}

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum Wait {
    /// The lock is ours.
    Granted(ByteLock),
    /// The wait was over first. The holder is unknown when it has just left.
    TimedOut(Option<ByteHolder>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ahead {
    Nobody,
    One,
    Several,
}

impl LockName {
    /// The name made of two parts. Stable across builds and versions: all processes must agree on it.
    pub fn new(class: &str, name: &str) -> LockName {
        let mut digest = Sha256::new();
        digest.update((class.len() as u64).to_le_bytes());
        digest.update(class);
        digest.update(name);
        let start = digest.finalize().iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        LockName(start)
    }

    fn base(self) -> i64 {
        let window = (self.0 >> (64 - HOLDER_HASH_BITS)).cast_signed();
        (window << WINDOW_BITS) + (1 << PID_BITS)
    }

    fn queue(self) -> i64 {
        let window = (self.0 >> (64 - TICKET_HASH_BITS)).cast_signed();
        WAITERS + (window << TICKET_BITS)
    }
}

/// Nanoseconds of the host's monotonic clock: one clock for all processes until the next boot.
pub(crate) fn monotonic_ns() -> io::Result<u64> {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
    Ok(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

impl ByteLocks {
    /// Locks on this side file. It is created when it is first needed, with the owner and permissions of what it
    /// guards.
    pub fn new(path: PathBuf, guarded: PathBuf) -> ByteLocks {
        ByteLocks { path, guarded }
    }

    /// Takes a lock, waiting at most `wait_max`; zero is one try, which takes a free lock even if others wait.
    pub fn acquire(&self, name: LockName, wait_max: Duration) -> io::Result<Wait> {
        let start = Instant::now();
        let file = self.open()?;
        if (wait_max.is_zero() || probe(&file, name.queue(), 1 << TICKET_BITS)?.is_none()) && try_hold(&file, name)? {
            return Ok(Wait::Granted(ByteLock { file, pid: std::process::id() }));
        }
        if wait_max.is_zero() {
            return Ok(Wait::TimedOut(holder(&file, name)?));
        }
        let ticket = take_ticket(&file, name)?;
        let (mut last, mut turn, mut free_since) = (Ahead::Several, Instant::now(), None);
        loop {
            let waited = start.elapsed();
            let ahead = ahead_of(&file, name, ticket)?;
            if ahead != Ahead::Nobody {
                let free = holder(&file, name)?.is_none();
                free_since = if free { free_since.or(Some(Instant::now())) } else { None };
            }
            let stuck = free_since.is_some_and(|since: Instant| since.elapsed() >= PATIENCE);
            if (ahead == Ahead::Nobody || stuck || waited >= wait_max) && try_hold(&file, name)? {
                unlock(&file, name.queue() + ticket, 1)?;
                return Ok(Wait::Granted(ByteLock { file, pid: std::process::id() }));
            }
            if waited >= wait_max {
                return Ok(Wait::TimedOut(holder(&file, name)?));
            }
            if ahead != last {
                (last, turn) = (ahead, Instant::now()); // our turn comes nearer: look more often again
            }
            // A holder that has kept us for long will hardly leave within the next moment.
            let pause = jittered((turn.elapsed() / 8).clamp(PAUSE_MIN, PAUSE_MAX));
            std::thread::sleep(pause.min(wait_max.saturating_sub(start.elapsed())));
        }
    }

    /// Who holds a lock now.
    pub fn holder(&self, name: LockName) -> io::Result<Option<ByteHolder>> {
        holder(&self.open()?, name)
    }

    fn open(&self) -> io::Result<File> {
        // The standard library opens with O_CLOEXEC.
        let existing = || OpenOptions::new().read(true).write(true).open(&self.path);
        match existing() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&self.path) {
            Ok(file) => {
                self.share(&file)?;
                Ok(file)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => existing(),
            Err(error) => Err(error),
        }
    }

    /// Lets everyone lock who may write what is guarded, also when the umask is narrower or root came first. The
    /// file is new and no link was followed, so that nothing else can change hands here.
    fn share(&self, file: &File) -> io::Result<()> {
        let guarded = std::fs::metadata(&self.guarded)?;
        file.set_permissions(Permissions::from_mode(guarded.mode() & 0o666))?;
        // Only root may give files away. Whoever is neither root nor the owner has at least the permissions right.
        let _ = fchown(file, Some(guarded.uid()), Some(guarded.gid()));
        Ok(())
    }
}

impl ByteLock {
    /// Whether this process took it (and did not inherit it from its parent).
    pub fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }
}

impl Drop for ByteLock {
    fn drop(&mut self) {
        // In a forked child the descriptor leads to the parent's lock: closing it there is harmless, unlocking
        // is not. In the owner unlocking is explicit, because a child may keep the description open.
        if self.is_ours()
            && let Err(error) = unlock(&self.file, 0, 0)
        {
            log::warn!("a session lock could not be freed before its file is closed: {error}");
        }
    }
}

fn range(kind: libc::c_int, start: i64, len: i64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        l_pid: 0, // must be zero for these locks
    }
}

fn try_write_lock(file: &File, start: i64, len: i64) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_WRLCK, start, len))) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn unlock(file: &File, start: i64, len: i64) -> io::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_UNLCK, start, len)))?;
    Ok(())
}

/// Some lock of others within a range: its start and length.
fn probe(file: &File, start: i64, len: i64) -> io::Result<Option<(i64, i64)>> {
    let mut found = range(libc::F_WRLCK, start, len);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut found))?;
    Ok((i32::from(found.l_type) != libc::F_UNLCK).then_some((found.l_start, found.l_len)))
}

fn seconds_since_boot() -> io::Result<i64> {
    Ok((monotonic_ns()? / 1_000_000_000).cast_signed() & ((1 << PID_BITS) - 1))
}

fn try_hold(file: &File, name: LockName) -> io::Result<bool> {
    let since = seconds_since_boot()?;
    let pid = i64::from(std::process::id()) & ((1 << PID_BITS) - 1);
    try_write_lock(file, name.base() - since, since + 1 + pid)
}

fn holder(file: &File, name: LockName) -> io::Result<Option<ByteHolder>> {
    let Some((start, len)) = probe(file, name.base(), 1)? else { return Ok(None) };
    let since = name.base() - start;
    let held = (seconds_since_boot()? - since) & ((1 << PID_BITS) - 1);
    let pid = u32::try_from(len - since - 1).unwrap_or(0);
    Ok(Some(ByteHolder { pid, held: Duration::from_secs(held.unsigned_abs()) }))
}

/// Queues up: locks the first free byte from the present tick on.
fn take_ticket(file: &File, name: LockName) -> io::Result<i64> {
    let now = (monotonic_ns()? / TICKET_NS).cast_signed();
    for step in 0..TICKET_TRIES {
        let ticket = (now + step) & ((1 << TICKET_BITS) - 1);
        if try_write_lock(file, name.queue() + ticket, 1)? {
            return Ok(ticket);
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "thousands wait for the same session lock"))
}

/// How many waiters came before this ticket, as far as it matters.
fn ahead_of(file: &File, name: LockName, ticket: i64) -> io::Result<Ahead> {
    let half = 1 << (TICKET_BITS - 1);
    // The half of the ring before the ticket, which may wrap around the start of the window.
    let mut ranges = if ticket >= half {
        vec![(ticket - half, ticket)]
    } else {
        vec![(ticket + half, 1 << TICKET_BITS), (0, ticket)]
    };
    let mut ahead = Ahead::Nobody;
    while let Some((from, to)) = ranges.pop() {
        if from >= to {
            continue; // a length of zero would mean "to the end of the file"
        }
        let Some((start, len)) = probe(file, name.queue() + from, to - from)? else { continue };
        if ahead == Ahead::One {
            return Ok(Ahead::Several);
        }
        ahead = Ahead::One;
        ranges.push((from, start - name.queue()));
        ranges.push((start - name.queue() + len, to));
    }
    Ok(ahead)
}

/// Between three quarters and five quarters of a pause, so that waiters do not march in step.
fn jittered(pause: Duration) -> Duration {
    let noise = monotonic_ns().unwrap_or(0) / 128 % 512;
    pause.mul_f64(0.75 + noise as f64 / 1_024.0)
}

#[cfg(test)]
#[path = "byte_lock_tests.rs"]
mod tests;
