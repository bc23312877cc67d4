//! A fair lock between processes: one range of bytes of a side file for each name.
//!
//! For stores that have no lock to wait on. The side file stays empty; only the kernel's table of
//! locks is used. Each lock is an open-file-description lock (fcntl(2), "Open file description
//! locks") on a descriptor of its own, so that threads exclude each other too, and the kernel frees
//! it at once when the holder dies.
//!
//! ```text
//! offset  0                                     2^62                                  2^63
//!         | holders: 2^39 windows of 2^23 bytes | waiters: 2^32 windows of 2^30 bytes |
//!
//! holder  window | ........[ since |base| pid ]........ |  from `since` bytes before the base byte
//!                                                          to `pid` bytes after it
//! waiters window | ...t.....t.t.................... |       one byte each, at the time of arrival
//! ```
//!
//! * **Exclusion**: every holder's range covers the base byte of its window, so two holders of one
//!   name conflict.
//! * **Holder**: start and length of the range carry the seconds since boot (modulo 2^22, 48 days)
//!   and the process id. Nothing is written.
//! * **Fairness**: a waiter locks the byte of its arrival and takes the lock only when no byte
//!   before it is locked. A newcomer queues up if there is a waiter, so that a process that
//!   releases and begins again cannot starve the others. A dead waiter's byte is freed like any
//!   lock. A waiter that sees the lock free for [`PATIENCE`] overtakes stopped ones. The queue is
//!   advice; the lock excludes.
//!
//! Two names share a window with a chance of 2^-39 for each pair held at once; then one waits for
//! the other. The kernel keeps the locks of a file in one list: tens of thousands held at once
//! would be slow.
//!
//! Not a lock between hosts: network file systems may keep such locks on one host.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::libc::{F_UNLCK, F_WRLCK, O_NOFOLLOW};
use nix::time::{ClockId, clock_gettime};
use sha2::{Digest, Sha256};

use super::check_process;
use super::range_lock::{find_lock, try_lock};

const PID_BITS: u32 = 22; // Linux: PID_MAX_LIMIT is 2^22
const WINDOW_BITS: u32 = PID_BITS + 1;
const HOLDER_HASH_BITS: u32 = 62 - WINDOW_BITS;
const TICKET_BITS: u32 = 30;
const TICKET_HASH_BITS: u32 = 62 - TICKET_BITS;
const WAITERS: i64 = 1 << 62;
/// Ticks of 8 us: half a window is 71 minutes, longer than any wait, so that "before" is never
/// ambiguous.
const TICKET_NS: u64 = 8_000;
/// Waiters in the same tick.
const TICKET_TRIES: i64 = 4_096;

const PAUSE_MIN: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_millis(25);

pub struct ByteLocks {
    path: PathBuf,
    guarded: PathBuf,
}

#[derive(Clone, Copy)]
pub struct LockName(u64);

/// A held lock. Dropping it frees it, except in a process forked from the holder.
pub struct ByteLock {
    // Opened for this lock alone and never used again: a child forked in between would share the
    // description, and a later lock on it would outlive its holder.
    file: File,
    pid: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct ByteHolder {
    /// In its own pid namespace.
    pub pid: u32,
    /// In whole seconds.
    pub held: Duration,
}

pub enum Acquired {
    Granted(ByteLock),
    /// The holder is `None` if it has just released.
    TimedOut(Option<ByteHolder>),
}

#[derive(PartialEq, Eq)]
enum Ahead {
    Nobody,
    One,
    Several,
}

impl LockName {
    /// A name of two parts. Stable across builds and versions: all processes must agree on it.
    pub fn new(class: &str, name: &str) -> LockName {
        let mut digest = Sha256::new();
        digest.update((class.len() as u64).to_le_bytes());
        digest.update(class);
        digest.update(name);
        let start =
            digest.finalize().iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte));
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

/// The host's monotonic clock in ns: the same for all processes until the next boot.
pub fn monotonic_ns() -> io::Result<u64> {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
    Ok(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

impl ByteLocks {
    /// Locks on this side file, which is created on first use, for the owner of the `guarded` file.
    pub fn new(path: PathBuf, guarded: PathBuf) -> ByteLocks {
        ByteLocks { path, guarded }
    }

    /// Takes a lock, waiting at most `wait_max`. Zero is one try, which takes a free lock even if
    /// others wait.
    pub fn acquire(&self, name: LockName, wait_max: Duration) -> io::Result<Acquired> {
        let start = Instant::now();
        let file = self.open()?;
        if (wait_max.is_zero()
            || find_lock(&file, name.queue()..name.queue() + (1 << TICKET_BITS))?.is_none())
            && try_hold(&file, name)?
        {
            return Ok(granted(file));
        }
        if wait_max.is_zero() {
            return Ok(Acquired::TimedOut(holder(&file, name)?));
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
                try_lock(&file, F_UNLCK, name.queue() + ticket, 1)?;
                return Ok(granted(file));
            }
            if waited >= wait_max {
                return Ok(Acquired::TimedOut(holder(&file, name)?));
            }
            if ahead != last {
                // Fewer waiters ahead: look more often again.
                (last, turn) = (ahead, Instant::now());
            }
            std::thread::sleep(
                pause_after(turn.elapsed()).min(wait_max.saturating_sub(start.elapsed())),
            );
        }
    }

    /// The locks of the side file that are held; `None` if there are none.
    pub fn held(&self) -> io::Result<Option<HeldBytes>> {
        let file = self.open()?;
        Ok(find_lock(&file, 0..WAITERS)?.map(|_| HeldBytes(file)))
    }

    pub fn holder(&self, name: LockName) -> io::Result<Option<ByteHolder>> {
        holder(&self.open()?, name)
    }

    /// Creates the side file, if it is missing.
    pub fn create(&self) -> io::Result<()> {
        self.open().map(drop)
    }

    fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600).custom_flags(O_NOFOLLOW); // and O_CLOEXEC
        match options.open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match options.clone().create_new(true).open(&self.path) {
            Ok(file) => {
                // Root may be the first to need it, and only root may give files away.
                let guarded = std::fs::metadata(&self.guarded)?;
                let _ = fchown(&file, Some(guarded.uid()), Some(guarded.gid()));
                Ok(file)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(&self.path),
            Err(error) => Err(error),
        }
    }
}

/// The side file, opened to look up many locks.
pub struct HeldBytes(File);

impl HeldBytes {
    pub fn holder(&self, name: LockName) -> io::Result<Option<ByteHolder>> {
        holder(&self.0, name)
    }
}

fn granted(file: File) -> Acquired {
    Acquired::Granted(ByteLock { file, pid: std::process::id() })
}

impl ByteLock {
    pub fn check_owner(&self) -> sessile_core::Result<()> {
        check_process(self.pid)
    }
}

impl Drop for ByteLock {
    fn drop(&mut self) {
        // In a forked child closing the parent's descriptor is harmless, but unlocking is not. In
        // the owner unlocking is explicit, because a child may keep the description open.
        if self.check_owner().is_ok()
            && let Err(error) = try_lock(&self.file, F_UNLCK, 0, 0)
        {
            log::warn!("a session lock could not be freed before its file is closed: {error}");
        }
    }
}

fn seconds_since_boot() -> io::Result<i64> {
    Ok((monotonic_ns()? / 1_000_000_000).cast_signed() & ((1 << PID_BITS) - 1))
}

fn try_hold(file: &File, name: LockName) -> io::Result<bool> {
    let since = seconds_since_boot()?;
    let pid = i64::from(std::process::id()) & ((1 << PID_BITS) - 1);
    Ok(try_lock(file, F_WRLCK, name.base() - since, since + 1 + pid)?)
}

fn holder(file: &File, name: LockName) -> io::Result<Option<ByteHolder>> {
    let base = name.base()..name.base() + 1;
    let Some((start, len)) = find_lock(file, base)? else { return Ok(None) };
    let since = name.base() - start;
    let held = (seconds_since_boot()? - since) & ((1 << PID_BITS) - 1);
    let pid = u32::try_from(len - since - 1).unwrap_or(0);
    Ok(Some(ByteHolder { pid, held: Duration::from_secs(held.unsigned_abs()) }))
}

fn take_ticket(file: &File, name: LockName) -> io::Result<i64> {
    let now = (monotonic_ns()? / TICKET_NS).cast_signed();
    for step in 0..TICKET_TRIES {
        let ticket = (now + step) & ((1 << TICKET_BITS) - 1);
        if try_lock(file, F_WRLCK, name.queue() + ticket, 1)? {
            return Ok(ticket);
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "thousands wait for the same session lock"))
}

fn ahead_of(file: &File, name: LockName, ticket: i64) -> io::Result<Ahead> {
    let half = 1 << (TICKET_BITS - 1);
    // The half of the ring before the ticket. It may wrap around the start of the window.
    let mut ranges = if ticket >= half {
        vec![(ticket - half, ticket)]
    } else {
        vec![(ticket + half, 1 << TICKET_BITS), (0, ticket)]
    };
    let (queue, mut ahead) = (name.queue(), Ahead::Nobody);
    while let Some((from, to)) = ranges.pop() {
        let Some((start, len)) = find_lock(file, queue + from..queue + to)? else { continue };
        if ahead == Ahead::One {
            return Ok(Ahead::Several);
        }
        ahead = Ahead::One;
        ranges.extend([(from, start - queue), (start - queue + len, to)]);
    }
    Ok(ahead)
}

/// The pause before another try. A holder that was long waited for will hardly release within the
/// next moment.
pub fn pause_after(waited: Duration) -> Duration {
    jittered((waited / 8).clamp(PAUSE_MIN, PAUSE_MAX))
}

/// Three to five quarters of a pause, so that waiters drift apart.
pub fn jittered(pause: Duration) -> Duration {
    let noise = monotonic_ns().unwrap_or(0) / 128 % 512;
    pause.mul_f64(0.75 + noise as f64 / 1_024.0)
}

#[cfg(test)]
#[path = "byte_lock_tests.rs"]
mod tests;
