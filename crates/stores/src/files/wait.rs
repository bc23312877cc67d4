//! Taking a session lock: without waiting if it is free, in turn if it is not.
//!
//! The lock is flock on the session's file. Waiting is: a try without blocking, then sleep until inotify tells
//! that the file was closed, replaced or moved, with the deadline as a time-out. The watch is armed before the
//! try, so no wake-up is lost. A holder that is killed closes its file, which wakes the waiters at once.
//!
//! Fairness: flock goes to whoever asks first once it is free, so a worker that begins again right after its
//! commit would always win against sleepers that still have to wake up. Therefore a waiter marks that it waits
//! (a read lock on the session's byte of the side file `waiting`, which dies with the waiter), and a begin that
//! finds a mark steps back and waits itself before it tries. [`STEP_BACK`] bounds that, so that a waiter that is
//! stopped cannot keep others out.
//!
//! Invariant: what is returned as locked was, under the lock, the file that the name stands for.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::libc::F_RDLCK;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FlockOperation, Mode, OFlags, Stat, flock, fstat, openat};
use rustix::io::Errno;
use sessile_core::{Error, ErrorKind, Result};

use super::directory::Directory;
use super::gate;
use super::holder;
use super::system::{Identity, check_session_file, failed};

/// The longest a newcomer leaves the lock to those who were there before.
const STEP_BACK: Duration = Duration::from_millis(3);
/// A second line behind inotify: a forked child that inherited the holder's file delays the close event, and
/// a file system may not report at all.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const RETRY_MIN: Duration = Duration::from_micros(200);
const RETRY_MAX: Duration = Duration::from_millis(5);

/// The name of a session, as the lock sees it.
pub trait Door {
    /// Opens the file that the name stands for now, creating an empty one if there is none.
    fn open(&self) -> Result<OwnedFd>;
    /// What the name stands for now.
    fn named(&self) -> Result<Option<Stat>>;
    /// Whether this file says that the session is elsewhere, so that waiting here is pointless.
    fn leads_on(&self, file: &OwnedFd) -> bool;
    /// The path, for inotify.
    fn watch_path(&self) -> std::path::PathBuf;
    /// The session's byte in the side file.
    fn byte(&self) -> i64;
}

/// What became of a begin.
pub enum Outcome {
    Locked(OwnedFd, Stat),
    LeadsOn,
}

/// The waiting room of one opened store.
pub struct Waiting {
    directory: OwnedFd,
    side_file: OwnedFd,
    /// Idle inotify descriptors and the process they belong to. They are kept because closing one makes the
    /// kernel wait for a grace period of milliseconds; a forked child must not read its parent's events.
    idle: Mutex<(u32, Vec<OwnedFd>)>,
}

impl Waiting {
    /// `directory` is where the side file is.
    pub fn open(directory: &Directory) -> Result<Waiting> {
        let adopt = |file: &OwnedFd| {
            directory.adopt(file).map_err(|errno| failed("a file cannot be given to the directory's owner", errno))
        };
        let fd = &directory.fd;
        let directory = fd
            .try_clone()
            .map_err(|error| Error::new(ErrorKind::Io, "the directory cannot be kept open").source(error))?;
        let side_file = open_side_file(&directory)?;
        adopt(&side_file)?;
        Ok(Waiting { directory, side_file, idle: Mutex::default() })
    }

    /// Takes the lock. `start` is when the caller began to wait, perhaps at another name.
    ///
    /// # Errors
    ///
    /// `LockTimeout`, and whatever the door says.
    pub fn lock(&self, door: &impl Door, start: Instant, wait_max: Duration) -> Result<Outcome> {
        let mut turn = None;
        // Before flock, not after: whoever takes and returns the lock without closing the file wakes nobody.
        if !wait_max.is_zero() && gate::is_locked(&self.side_file, door.byte())? {
            let mut queued = Turn::new(self);
            queued.arm(door);
            queued.sleep(STEP_BACK.min(wait_max));
            turn = Some(queued);
        }
        let (mut file, mut identity) = open_identified(door)?;
        loop {
            let locked = try_flock(&file)?;
            match door.named()?.filter(|named| Identity::of(named) == identity) {
                Some(named) if locked => return Ok(Outcome::Locked(file, named)),
                Some(_) => {}
                // Replaced, moved or removed since it was opened: the session is elsewhere.
                None => {
                    (file, identity) = open_identified(door)?;
                    continue;
                }
            }
            if door.leads_on(&file) {
                return Ok(Outcome::LeadsOn);
            }
            let waited = start.elapsed();
            let Some(left) = wait_max.checked_sub(waited).filter(|left| !left.is_zero()) else {
                let kind = ErrorKind::LockTimeout { holder: holder::of(identity), waited };
                return Err(Error::new(kind, "another request holds the session"));
            };
            let queued = match &mut turn {
                Some(queued) => queued,
                none => none.insert(Turn::new(self)),
            };
            // Not while stepping back: two newcomers would step back from each other.
            queued.mark(door)?;
            // A watch that was not there before the try may have missed the release: try once more.
            if queued.arm(door) {
                queued.sleep(left);
            }
        }
    }

    fn take_inotify(&self) -> Option<OwnedFd> {
        let pid = std::process::id();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.0 != pid {
            *idle = (pid, Vec::new());
        }
        let reused = idle.1.pop();
        drop(idle);
        // None when the user's inotify instances are used up: the turn then retries instead.
        reused.or_else(|| inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok())
    }

    fn return_inotify(&self, events: OwnedFd) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.0 == std::process::id() && idle.1.len() < 16 {
            idle.1.push(events);
        }
    }
}

/// Tries the lock without waiting.
pub fn try_flock(file: &OwnedFd) -> Result<bool> {
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(failed("the session file cannot be locked", errno)),
        }
    }
}

fn open_identified(door: &impl Door) -> Result<(OwnedFd, Identity)> {
    let file = door.open()?;
    let stat = fstat(&file).map_err(|errno| failed("the session file cannot be examined", errno))?;
    check_session_file(&stat)?;
    Ok((file, Identity::of(&stat)))
}

fn open_side_file(directory: &OwnedFd) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(directory, "waiting", flags, Mode::RUSR | Mode::WUSR)
        .map_err(|errno| failed("the file of waiting processes cannot be opened", errno))
}

/// A place among the waiters. Once marked, others see it until it is dropped or its process dies.
struct Turn<'a> {
    room: &'a Waiting,
    /// Holds the mark; a description of its own, so that threads see each other.
    mark: Option<OwnedFd>,
    events: Option<OwnedFd>,
    watch: Option<i32>,
    retry: Duration,
}

impl<'a> Turn<'a> {
    fn new(room: &'a Waiting) -> Turn<'a> {
        Turn { room, mark: None, events: room.take_inotify(), watch: None, retry: RETRY_MIN }
    }

    /// Lets newcomers see that someone waits.
    fn mark(&mut self, door: &impl Door) -> Result<()> {
        if self.mark.is_none() {
            let mark = open_side_file(&self.room.directory)?;
            // Read locks do not exclude each other: any number may wait.
            gate::try_lock(&mark, F_RDLCK, door.byte())?;
            self.mark = Some(mark);
        }
        Ok(())
    }

    /// Watches what the name stands for; true if that was watched already.
    fn arm(&mut self, door: &impl Door) -> bool {
        let Some(events) = &self.events else { return true };
        // Not CLOSE_NOWRITE: readers take no lock. ATTRIB tells that the last name is gone (replaced, removed).
        let flags = WatchFlags::CLOSE_WRITE | WatchFlags::ATTRIB | WatchFlags::MOVE_SELF | WatchFlags::DONT_FOLLOW;
        let Ok(watch) = inotify::add_watch(events, door.watch_path(), flags) else {
            // Missing just now, or too many watches: the retry finds out.
            return self.watch.is_none();
        };
        if self.watch == Some(watch) {
            return true;
        }
        if let Some(old) = self.watch.replace(watch) {
            // It may be gone by itself, with its file.
            let _ = inotify::remove_watch(events, old);
        }
        drain(events);
        false
    }

    /// Sleeps until something happened to the watched file, at most `left`.
    fn sleep(&mut self, left: Duration) {
        let Some((events, _)) = self.events.as_ref().zip(self.watch) else {
            std::thread::sleep(jittered(self.retry).min(left));
            self.retry = (self.retry * 2).min(RETRY_MAX);
            return;
        };
        let time = left.min(LOOK_AGAIN);
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
        // An error (a signal) is a wake-up like any other: the caller tries and comes back.
        let _ = poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&timeout));
        drain(events);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(events) = self.events.take() {
            if let Some(watch) = self.watch {
                let _ = inotify::remove_watch(&events, watch);
            }
            self.room.return_inotify(events);
        }
    }
}

fn drain(events: impl AsFd) {
    let mut buffer = [0; 1024];
    while rustix::io::read(&events, &mut buffer).is_ok_and(|bytes| bytes == buffer.len()) {}
}

/// Half to three halves, so that waiters that started together do not stay together.
fn jittered(pause: Duration) -> Duration {
    use std::hash::{BuildHasher, Hasher};
    let random = std::hash::RandomState::new().build_hasher().finish() % 1_000;
    pause / 2 + pause.mul_f64(random as f64 / 1_000.0)
}
