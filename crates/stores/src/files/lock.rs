//! The lock of a session: flock on its file, taken at once if it is free, otherwise in order of
//! arrival.
//!
//! A waiter tries without blocking, then sleeps until inotify reports that the file was closed,
//! replaced or moved. The watch is armed before the try, so no wake-up is lost. A killed holder
//! closes its file, which wakes the waiters at once.
//!
//! flock goes to the first that asks: a worker that begins again right after its commit would
//! always win against sleepers. So waiters queue (queue.rs). Only the first tries; the others, and
//! newcomers, sleep until the one ahead has left. To overtake a stopped one, a waiter must find the
//! lock free twice, [`PATIENCE`] apart, with the same ticket ahead. (Once would not do: on a busy
//! machine the first waiter is often awake and waits for a processor.)
//!
//! Invariant: a file that is returned as locked was, under the lock, the file of the name.

use std::ops::ControlFlow::{self, Break, Continue};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use sessile_core::{ErrorKind, Key, Result};
use xxhash_rust::xxh3::xxh3_64;

use super::directory::{Directory, FileName, Opened};
use super::holder;
use super::mode::Mode;
use super::queue::{Queue, Ticket};
use super::system::{Identity, failed};
use crate::locks::byte_lock::jittered;
use crate::locks::process_local::ProcessLocal;

/// If no event comes: a child that inherited the holder's file delays it, and a file system may not
/// report at all.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The kernel reports a dead holder's file as closed just before it drops the lock: look again
/// soon.
const LOOK_SOON: Duration = Duration::from_millis(2);
/// How long the ticket ahead is waited for before the lock is tried all the same. Doubles up to
/// [`LOOK_AGAIN`] while the lock is not free.
const PATIENCE: Duration = Duration::from_millis(25);
const RETRY_MIN: Duration = Duration::from_micros(200);
const RETRY_MAX: Duration = Duration::from_millis(5);

pub struct SessionLocks {
    queue: Queue,
    /// Idle inotify descriptors. Closing one takes the kernel milliseconds; a forked child must not
    /// read its parent's events.
    idle: ProcessLocal<Vec<OwnedFd>>,
}

impl SessionLocks {
    /// `directory` has the queue's files.
    pub fn open(directory: Arc<Directory>) -> Result<SessionLocks> {
        Ok(SessionLocks { queue: Queue::open(directory)?, idle: ProcessLocal::default() })
    }

    /// Takes the lock, or returns where the id leads: waiting for an alias is pointless. `start` is
    /// when the caller began to wait, perhaps for another name.
    pub fn lock(
        &self,
        mode: &impl Mode,
        key: &Key,
        start: Instant,
        wait_max: Duration,
    ) -> Result<ControlFlow<Opened, Key>> {
        let name = mode.file(key)?;
        let session = session_number(&name.path);
        let mut waiter = None;
        if !wait_max.is_zero() && !self.queue.is_empty(session)? {
            waiter = Some(Waiter::new(self, session)?);
        }
        let mut opened = None;
        loop {
            let may_try = waiter.as_mut().map_or(Ok(true), Waiter::may_try)?;
            let waited = start.elapsed();
            // The deadline ends with a try in any case: those ahead may be stopped.
            if may_try || waited >= wait_max {
                let open = || open_or_create(mode, key, &name);
                let (file, stat) = match opened.take().map_or_else(open, |file| Ok(Break(file)))? {
                    Break(file) => file,
                    alias => return Ok(alias),
                };
                let locked = try_flock(&file)?;
                let Some(named) = name.stat_of(Identity::of(&stat))? else {
                    // The session has another file by now.
                    continue;
                };
                if locked {
                    if waiter.as_mut().is_none_or(Waiter::may_take) || waited >= wait_max {
                        return Ok(Break((file, named)));
                    }
                    unlock(&file)?;
                } else if let Some(waiter) = &mut waiter {
                    waiter.found_free = false;
                }
                let file = opened.insert((file, named));
                if let Ok(Some(next)) = mode.leads_to(key, Some(file)) {
                    return Ok(Continue(next));
                }
                if waited >= wait_max {
                    let holder = holder::find_holder(Identity::of(&named));
                    return Err(ErrorKind::LockTimeout { holder, waited }.into());
                }
            }
            match &mut waiter {
                // Others may have queued up by now: look before sleeping.
                None => waiter = Some(Waiter::new(self, session)?),
                Some(waiter) => waiter.wait(&name, wait_max.saturating_sub(waited)),
            }
        }
    }

    fn take_inotify(&self) -> Option<OwnedFd> {
        let reused = self.idle.with(Vec::pop).flatten();
        // `None` when the user's inotify instances are used up: the waiter retries on a timer.
        reused.or_else(|| inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok())
    }

    fn return_inotify(&self, events: OwnedFd) {
        self.idle.with(|idle| {
            if idle.len() < 16 {
                idle.push(events);
            }
        });
    }
}

pub fn try_flock(file: &OwnedFd) -> Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(failed("the session file cannot be locked", errno)),
    }
}

/// Unlocks explicitly: a child forked meanwhile may share the description, which keeps the lock.
pub fn unlock(file: &OwnedFd) -> Result<()> {
    flock(file, FlockOperation::Unlock)
        .map_err(|errno| failed("the lock cannot be given back", errno))
}

/// The number of a session in the queue, of 63 bits.
fn session_number(path: &str) -> i64 {
    (xxh3_64(path.as_bytes()) >> 1).cast_signed()
}

/// `Continue` with where a key without a file leads.
fn open_or_create(
    mode: &impl Mode,
    key: &Key,
    name: &FileName<'_>,
) -> Result<ControlFlow<Opened, Key>> {
    // Most sessions exist. O_CREAT would take the directory's lock from the start, which a sweep or
    // a commit holds while the file system removes or allocates an inode.
    Ok(match name.open_checked(OFlags::RDWR)? {
        Some(file) => Break(file),
        None => match mode.leads_to(key, None)? {
            Some(next) => Continue(next),
            None => Break(name.create_checked()?),
        },
    })
}

/// Locks the file of an id that must be free, and takes its gate. `Exists` for a live record, an
/// alias within its grace, or a locked file: its holder may be about to create the id.
pub fn lock_free(mode: &impl Mode, key: &Key) -> Result<Opened> {
    let name = mode.file(key)?;
    while let Break(opened) = open_or_create(mode, key, &name)?
        && try_flock(&opened.0)?
    {
        mode.repair(key, &opened.0)?;
        let Some(stat) = name.enter_gate(&opened)? else { continue };
        if mode.read(key, &opened.0, &stat)?.0.takes_id(mode.now()) {
            break;
        }
        return Ok((opened.0, stat));
    }
    Err(ErrorKind::Exists.into())
}

struct Waiter<'a> {
    locks: &'a SessionLocks,
    ticket: Ticket<'a>,
    events: Option<OwnedFd>,
    watch: Option<i32>,
    /// The last sleep ended with an event.
    woken: bool,
    /// The ticket ahead, since when, and for how long it is waited for.
    behind: Option<(i64, Instant, Duration)>,
    /// The last try out of order found the lock free.
    found_free: bool,
    retry: Duration,
}

impl<'a> Waiter<'a> {
    fn new(locks: &'a SessionLocks, session: i64) -> Result<Waiter<'a>> {
        let ticket = locks.queue.enter(session)?;
        let events = locks.take_inotify();
        Ok(Waiter {
            locks,
            ticket,
            events,
            watch: None,
            woken: false,
            behind: None,
            found_free: false,
            retry: RETRY_MIN,
        })
    }

    /// Whether to try the lock: nobody is ahead, or the same ticket for too long.
    fn may_try(&mut self) -> Result<bool> {
        let Some(ahead) = self.ticket.ahead()? else {
            self.behind = None;
            return Ok(true);
        };
        match &mut self.behind {
            Some((same, since, patience)) if *same == ahead => {
                let too_long = since.elapsed() >= *patience;
                if too_long {
                    (*since, *patience) = (Instant::now(), (*patience * 2).min(LOOK_AGAIN));
                }
                Ok(too_long)
            }
            behind => {
                *behind = Some((ahead, Instant::now(), PATIENCE));
                self.found_free = false;
                Ok(false)
            }
        }
    }

    fn may_take(&mut self) -> bool {
        let Some((ahead, ..)) = self.behind else { return true };
        if std::mem::replace(&mut self.found_free, true) {
            self.locks.queue.overtake(ahead);
            return true;
        }
        self.behind = Some((ahead, Instant::now(), PATIENCE));
        false
    }

    /// Sleeps until the next look, at most `left`.
    fn wait(&mut self, name: &FileName<'_>, left: Duration) {
        let (path, time) = match self.behind {
            Some((ahead, since, patience)) => {
                (self.locks.queue.wake_path(ahead), patience.saturating_sub(since.elapsed()))
            }
            None => (
                name.directory.path.join(&name.path),
                if self.woken { LOOK_SOON } else { LOOK_AGAIN },
            ),
        };
        // A new watch may have missed the event: look before sleeping.
        if self.arm(path) {
            self.sleep(time.min(left));
        }
    }

    /// True if the file was watched already.
    fn arm(&mut self, path: PathBuf) -> bool {
        let Some(events) = &self.events else { return true };
        // Not CLOSE_NOWRITE: readers take no lock. ATTRIB: the last name is gone.
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::MOVE_SELF
            | WatchFlags::DONT_FOLLOW;
        // `None`: a missing file, or too many watches. The retry finds out.
        let watch = inotify::add_watch(events, path, flags).ok();
        if self.watch == watch {
            return true;
        }
        if let Some(old) = std::mem::replace(&mut self.watch, watch) {
            // It may be gone with its file.
            let _ = inotify::remove_watch(events, old);
        }
        drain(events);
        self.woken = false;
        false
    }

    fn sleep(&mut self, left: Duration) {
        let Some((events, _)) = self.events.as_ref().zip(self.watch) else {
            std::thread::sleep(jittered(self.retry).min(left));
            self.retry = (self.retry * 2).min(RETRY_MAX);
            return;
        };
        let timeout =
            Timespec { tv_sec: 0, tv_nsec: i64::from(left.min(LOOK_AGAIN).subsec_nanos()) };
        // A signal is a wake-up too: the caller tries and comes back.
        self.woken = poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&timeout))
            .is_ok_and(|ready| ready > 0);
        drain(events);
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Some(events) = self.events.take() {
            if let Some(watch) = self.watch {
                let _ = inotify::remove_watch(&events, watch);
            }
            self.locks.return_inotify(events);
        }
    }
}

fn drain(events: impl AsFd) {
    let mut buffer = [0; 1024];
    while rustix::io::read(&events, &mut buffer).is_ok_and(|bytes| bytes == buffer.len()) {}
}
