//! Who comes next: the queue of those who wait for a session's lock, of whatever process.
//!
//! ```text
//!   dir/waiting      empty. A session has 2^40 bytes of it; whoever waits has a lock on the one of his arrival
//!   dir/.turns/0..3f empty. Whoever waits has one of them open, and closes it when his turn comes
//! ```
//!
//! The byte says who was first: its place is the time of arrival, in ticks of 8 us of the host's monotonic clock
//! (modulo 104 days; those who wait while that starts anew are served in another order). The open file is how the
//! one behind hears that it is gone: inotify tells him alone, not all that wait, and he comes nearer to the
//! session's file, which only the first one watches. Both end with the process, so a killed waiter holds up nobody.
//!
//! The queue is advice; what excludes is the session lock (wait.rs). So two sessions may share a window (one in
//! eight million does with a given other), and whoever waits behind one that is stopped may pass him: see
//! [`Queue::pass`]. Invariant: nobody who has a ticket waits for one who came later.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::libc::{F_UNLCK, F_WRLCK};
use rustix::fs::{OFlags, openat};
use rustix::io::Errno;
use sessile_core::{Error, ErrorKind, Result};

use super::directory::{Directory, FILE_MODE};
use super::gate;
use super::system::{failed, fence};

const SIDE_FILE: &str = "waiting";
/// No bin has a name like this.
const LANES: &str = ".turns";
/// Enough that neighbours in a queue seldom share one; to share one only wakes for nothing.
const LANE_COUNT: i64 = 64;
/// 2^13 ns are a tick.
const TICK_BITS: u32 = 13;
const WINDOW_BITS: u32 = 40;
/// Waiters of one session that arrive in the same tick.
const SAME_TICK_MAX: i64 = 1_024;
/// For how long one who was passed is left out of account. He may be stopped for hours, or have been kept from a
/// processor for a moment.
const PASSED_MAX: Duration = Duration::from_millis(500);

/// The queues of one opened store.
pub struct Queue {
    directory: Directory,
    /// Only to look: it never has a lock, or it would not see it.
    side_file: OwnedFd,
    passed: Mutex<Option<Passed>>,
}

struct Passed {
    ticket: i64,
    at: Instant,
}

/// A place in a queue, until it is dropped or its process dies.
pub struct Ticket<'a> {
    queue: &'a Queue,
    /// A description of its own, so that threads see each other.
    file: OwnedFd,
    /// Opened before the ticket is locked: whoever sees the ticket will hear of its end.
    _lane: Option<OwnedFd>,
    byte: i64,
}

impl Queue {
    /// `directory` is where the files are.
    pub fn open(directory: &Directory) -> Result<Queue> {
        let directory = directory.share()?;
        let side_file = open_side_file(&directory)?;
        directory
            .adopt(&side_file)
            .map_err(|errno| failed("a file cannot be given to the directory's owner", errno))?;
        Ok(Queue { directory, side_file, passed: Mutex::default() })
    }

    /// Whether nobody waits for this session.
    pub fn is_empty(&self, session: i64) -> Result<bool> {
        Ok(gate::find_lock(&self.side_file, self.window(session))?.is_none())
    }

    /// Takes the last place. The session is a number of 63 bits.
    pub fn enter(&self, session: i64) -> Result<Ticket<'_>> {
        let file = open_side_file(&self.directory)?;
        let start = start_of(session);
        let tick = i64::try_from(fence() >> TICK_BITS).unwrap_or(0);
        for later in 0..SAME_TICK_MAX {
            let byte = start + (tick + later) % (1 << WINDOW_BITS);
            let lane = self.open_lane(byte);
            if gate::try_lock(&file, F_WRLCK, byte)? {
                return Ok(Ticket { queue: self, file, _lane: lane, byte });
            }
        }
        Err(Error::new(ErrorKind::Io, "a thousand requests began to wait for one session at once"))
    }

    /// What is watched to hear of the end of a ticket.
    pub fn lane_path(&self, ticket: i64) -> PathBuf {
        self.directory.path.join(lane_name(ticket))
    }

    /// Remembers that the lock was free while the owner of this ticket was to take it: he is stopped. For a
    /// while he and those before him are not waited for in this process. What he loses is the protection of the
    /// queue; when he goes on, he takes the lock as soon as he finds it free.
    pub fn pass(&self, ticket: i64) {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        *passed = Some(Passed { ticket, at: Instant::now() });
    }

    /// The bytes in which tickets of this session count.
    fn window(&self, session: i64) -> Range<i64> {
        let start = start_of(session);
        let end = start.saturating_add(1 << WINDOW_BITS);
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        if passed.as_ref().is_some_and(|passed| passed.at.elapsed() >= PASSED_MAX) {
            *passed = None;
        }
        match &*passed {
            Some(Passed { ticket, .. }) if (start..end).contains(ticket) => ticket + 1..end,
            _ => start..end,
        }
    }

    /// None costs only time: whoever is behind looks again by himself after a while.
    fn open_lane(&self, ticket: i64) -> Option<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let open = || openat(&self.directory.fd, lane_name(ticket), flags, FILE_MODE);
        let lane = match open() {
            Err(Errno::NOENT) => self.directory.make(LANES).ok().and_then(|()| open().ok()),
            opened => opened.ok(),
        }?;
        self.directory.adopt(&lane).ok()?;
        Some(lane)
    }
}

impl Ticket<'_> {
    /// The one before this in the queue.
    pub fn ahead(&self) -> Result<Option<i64>> {
        let mut before = self.queue.window(self.byte).start..self.byte;
        let mut nearest = None;
        // The kernel tells of any lock in a range; of those behind that one the last is the nearest.
        while let Some(found) = gate::find_lock(&self.file, before.clone())? {
            nearest = Some(found);
            before.start = found + 1;
        }
        Ok(nearest)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        // Explicitly: a child forked meanwhile has the description too. If it fails, closing does the same.
        let _ = gate::try_lock(&self.file, F_UNLCK, self.byte);
    }
}

/// The first byte of a session's window.
fn start_of(session: i64) -> i64 {
    session >> WINDOW_BITS << WINDOW_BITS
}

fn lane_name(ticket: i64) -> String {
    format!("{LANES}/{:02x}", ticket % LANE_COUNT)
}

fn open_side_file(directory: &Directory) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(&directory.fd, SIDE_FILE, flags, FILE_MODE)
        .map_err(|errno| failed("the file of waiting processes cannot be opened", errno))
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
