//! The queue of a session's waiters, over all processes.
//!
//! ```text
//!   dir/waiting      empty. A session has 2^40 bytes of it; a waiter locks the byte of its arrival
//!   dir/.turns/0..3f empty wake files. A waiter has one open, and closes it when it is done
//! ```
//!
//! A byte is a time of arrival, in ticks of 8 us of the host's monotonic clock (modulo 104 days).
//! Closing a wake file wakes only the waiter behind, through inotify. Both end with the process, so
//! a killed waiter holds up nobody.
//!
//! The queue is advice; the session lock (lock.rs) excludes. So two sessions may share a window
//! (one in eight million does with a given other), and a stopped waiter may be overtaken.
//! Invariant: no ticket waits for a later one.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::libc::{F_UNLCK, F_WRLCK};
use rustix::fs::OFlags;
use sessile_core::{Error, ErrorKind, Result};

use super::directory::Directory;
use super::gate;
use super::system::fence;

const SIDE_FILE: &str = "waiting";
/// Not a possible name of a bin.
const WAKE_DIRECTORY: &str = ".turns";
/// Neighbours seldom share one. Sharing costs a needless wake-up.
const WAKE_FILES: i64 = 64;
/// A tick is 2^13 ns.
const TICK_BITS: u32 = 13;
const WINDOW_BITS: u32 = 40;
/// Waiters of one session in the same tick.
const SAME_TICK_MAX: i64 = 1_024;
/// An overtaken waiter may be stopped for hours, or only for a moment.
const OVERTAKEN_MAX: Duration = Duration::from_millis(500);

pub struct Queue {
    directory: Arc<Directory>,
    /// Only for queries: it has no lock itself, which F_OFD_GETLK would not report.
    side_file: OwnedFd,
    /// An overtaken ticket, and since when. Advice, so no thread waits for it: in a forked child it
    /// may stay locked.
    overtaken: Mutex<Option<(i64, Instant)>>,
}

/// Ends when it is dropped or its process dies.
pub struct Ticket<'a> {
    queue: &'a Queue,
    /// A description of its own: threads see each other's locks.
    file: OwnedFd,
    /// Opened before the ticket is locked: a waiter that sees the ticket is told of its end.
    _wake_file: Option<OwnedFd>,
    byte: i64,
}

impl Queue {
    pub fn open(directory: Arc<Directory>) -> Result<Queue> {
        let side_file = open_side_file(&directory)?;
        Ok(Queue { directory, side_file, overtaken: Mutex::default() })
    }

    pub fn is_empty(&self, session: i64) -> Result<bool> {
        Ok(gate::find_lock(&self.side_file, self.window(session))?.is_none())
    }

    /// Takes the last position.
    pub fn enter(&self, session: i64) -> Result<Ticket<'_>> {
        let file = open_side_file(&self.directory)?;
        let start = start_of(session);
        let tick = (fence() >> TICK_BITS).cast_signed();
        for later in 0..SAME_TICK_MAX {
            let byte = start + (tick + later) % (1 << WINDOW_BITS);
            // Without it the waiter behind looks again on a timer.
            let wake_file = self.directory.name(wake_name(byte)).create(OFlags::empty());
            if gate::try_lock(&file, F_WRLCK, byte)? {
                return Ok(Ticket { queue: self, file, _wake_file: wake_file.ok(), byte });
            }
        }
        Err(Error::new(ErrorKind::Io, "a thousand requests began to wait for one session at once"))
    }

    /// The file whose closing ends a ticket.
    pub fn wake_path(&self, ticket: i64) -> PathBuf {
        self.directory.path.join(wake_name(ticket))
    }

    /// For a while this process does not wait for this ticket and earlier ones: the lock was free,
    /// so their processes are stopped. They lose only the queue's protection.
    pub fn overtake(&self, ticket: i64) {
        if let Ok(mut overtaken) = self.overtaken.try_lock() {
            *overtaken = Some((ticket, Instant::now()));
        }
    }

    fn window(&self, session: i64) -> Range<i64> {
        let start = start_of(session);
        let all = start..start.saturating_add(1 << WINDOW_BITS);
        let overtaken = self.overtaken.try_lock().ok().and_then(|overtaken| *overtaken);
        match overtaken.filter(|(_, since)| since.elapsed() < OVERTAKEN_MAX) {
            Some((ticket, _)) if all.contains(&ticket) => ticket + 1..all.end,
            _ => all,
        }
    }
}

impl Ticket<'_> {
    pub fn ahead(&self) -> Result<Option<i64>> {
        let mut before = self.queue.window(self.byte).start..self.byte;
        let mut nearest = None;
        // The kernel reports any lock in a range: the last one behind it is the nearest.
        while let Some(found) = gate::find_lock(&self.file, before.clone())? {
            nearest = Some(found);
            before.start = found + 1;
        }
        Ok(nearest)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        // Explicitly, as a child forked meanwhile shares the description. Closing does the same.
        let _ = gate::try_lock(&self.file, F_UNLCK, self.byte);
    }
}

fn start_of(session: i64) -> i64 {
    session >> WINDOW_BITS << WINDOW_BITS
}

fn wake_name(ticket: i64) -> String {
    format!("{WAKE_DIRECTORY}/{:02x}", ticket % WAKE_FILES)
}

fn open_side_file(directory: &Directory) -> Result<OwnedFd> {
    directory.name(SIDE_FILE).create(OFlags::empty())
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
