//! Taking a session lock: without waiting if it is free, in turn if it is not.
//!
//! The lock is flock on the session's file. Waiting is: a try without blocking, then sleep until inotify tells
//! that the file was closed, replaced or moved, with the deadline as a time-out. The watch is armed before the
//! try, so no wake-up is lost. A holder that is killed closes its file, which wakes the waiters at once.
//!
//! Fairness: flock goes to whoever asks first once it is free, so a worker that begins again right after its
//! commit would always win against sleepers that still have to wake up. Therefore those who wait form a queue
//! (queue.rs). Only its first watches the session's file and tries; everybody else, a newcomer too, sleeps until
//! the one before has his turn. Nobody sleeps for ever behind one who is stopped: whoever has had the same one before
//! him for [`PATIENCE`], finds the lock free, and finds it free once more after that time, takes it. (Once would
//! not do: on a busy machine the first has often been woken and waits for a processor.)
//!
//! Invariant: what is returned as locked was, under the lock, the file that the name stands for.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FlockOperation, Stat, flock, fstat};
use rustix::io::Errno;
use sessile_core::{Error, ErrorKind, Result};

use super::directory::Directory;
use super::holder;
use super::queue::{Queue, Ticket};
use super::system::{Identity, check_session_file, failed};

/// A second line behind inotify: a forked child that inherited the holder's file delays the close event, and
/// a file system may not report at all.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// When a holder dies, the kernel tells that its file is closed just before it drops the lock. So whoever was woken in
/// vain looks once more, soon.
const LOOK_SOON: Duration = Duration::from_millis(2);
/// How long the one before is waited for before it is asked whether the lock is free all the same. It doubles up to
/// [`LOOK_AGAIN`] when the lock is not.
const PATIENCE: Duration = Duration::from_millis(25);
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
    fn watch_path(&self) -> PathBuf;
    /// The session's number, of 63 bits.
    fn number(&self) -> i64;
}

/// What became of a begin.
pub enum Outcome {
    Locked(OwnedFd, Stat),
    LeadsOn,
}

/// The waiting room of one opened store.
pub struct Waiting {
    queue: Queue,
    /// Idle inotify descriptors and the process they belong to. They are kept because closing one makes the
    /// kernel wait for a grace period of milliseconds; a forked child must not read its parent's events.
    idle: Mutex<(u32, Vec<OwnedFd>)>,
}

impl Waiting {
    /// `directory` is where the side file is.
    pub fn open(directory: &Directory) -> Result<Waiting> {
        Ok(Waiting { queue: Queue::open(directory)?, idle: Mutex::default() })
    }

    /// Takes the lock. `start` is when the caller began to wait, perhaps at another name.
    ///
    /// # Errors
    ///
    /// `LockTimeout`, and whatever the door says.
    pub fn lock(&self, door: &impl Door, start: Instant, wait_max: Duration) -> Result<Outcome> {
        let mut turn = None;
        if !wait_max.is_zero() && !self.queue.is_empty(door.number())? {
            turn = Some(Turn::new(self, door)?);
        }
        let mut opened = None;
        loop {
            let place = turn.as_mut().map_or(Ok(Place::First), Turn::place)?;
            let waited = start.elapsed();
            // The last look is at the lock, wherever one stands: those ahead may be stopped.
            if !matches!(place, Place::Behind(_)) || waited >= wait_max {
                let (file, identity) = opened.take().map_or_else(|| open_identified(door), Ok)?;
                let locked = try_flock(&file)?;
                match door.named()?.filter(|named| Identity::of(named) == identity) {
                    Some(named) if locked => {
                        if turn.as_mut().is_none_or(|turn| turn.may_take(&place) || waited >= wait_max) {
                            return Ok(Outcome::Locked(file, named));
                        }
                        give_back(&file)?;
                    }
                    Some(_) => turn.iter_mut().for_each(|turn| turn.found_free = false),
                    // Replaced, moved or removed since it was opened: the session is elsewhere.
                    None => continue,
                }
                if door.leads_on(&file) {
                    return Ok(Outcome::LeadsOn);
                }
                if waited >= wait_max {
                    let kind = ErrorKind::LockTimeout { holder: holder::of(identity), waited };
                    return Err(Error::new(kind, "another request holds the session"));
                }
                opened = Some((file, identity));
            }
            match &mut turn {
                // Perhaps others queued up in this instant: look before sleeping.
                None => turn = Some(Turn::new(self, door)?),
                Some(turn) => turn.wait(door, &place, wait_max.saturating_sub(waited)),
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

fn give_back(file: &OwnedFd) -> Result<()> {
    flock(file, FlockOperation::Unlock).map_err(|errno| failed("the lock cannot be given back", errno))
}

fn open_identified(door: &impl Door) -> Result<(OwnedFd, Identity)> {
    let file = door.open()?;
    let stat = fstat(&file).map_err(|errno| failed("the session file cannot be examined", errno))?;
    check_session_file(&stat)?;
    Ok((file, Identity::of(&stat)))
}

/// Where a waiter stands.
enum Place {
    /// Nobody is ahead.
    First,
    /// The owner of this ticket is ahead.
    Behind(i64),
    /// He is, and has been for so long that the lock is tried all the same.
    Passing(i64),
}

/// One who waits: a ticket, and a way to sleep.
struct Turn<'a> {
    room: &'a Waiting,
    ticket: Ticket<'a>,
    events: Option<OwnedFd>,
    watch: Option<i32>,
    /// The last sleep ended with an event.
    woken: bool,
    /// Who is ahead, since when, and until when he is waited for.
    behind: Option<(i64, Instant, Duration)>,
    /// The last try was out of turn, and the lock was free.
    found_free: bool,
    retry: Duration,
}

impl<'a> Turn<'a> {
    fn new(room: &'a Waiting, door: &impl Door) -> Result<Turn<'a>> {
        let ticket = room.queue.enter(door.number())?;
        let events = room.take_inotify();
        Ok(Turn { room, ticket, events, watch: None, woken: false, behind: None, found_free: false, retry: RETRY_MIN })
    }

    fn place(&mut self) -> Result<Place> {
        let Some(ahead) = self.ticket.ahead()? else {
            self.behind = None;
            return Ok(Place::First);
        };
        match &mut self.behind {
            Some((same, since, patience)) if *same == ahead => {
                if since.elapsed() < *patience {
                    return Ok(Place::Behind(ahead));
                }
                (*since, *patience) = (Instant::now(), (*patience * 2).min(LOOK_AGAIN));
                Ok(Place::Passing(ahead))
            }
            behind => {
                *behind = Some((ahead, Instant::now(), PATIENCE));
                self.found_free = false;
                Ok(Place::Behind(ahead))
            }
        }
    }

    /// Whether the lock, which was just got, may be kept.
    fn may_take(&mut self, place: &Place) -> bool {
        let &Place::Passing(ahead) = place else { return true };
        if std::mem::replace(&mut self.found_free, true) {
            self.room.queue.pass(ahead);
            return true;
        }
        self.behind = Some((ahead, Instant::now(), PATIENCE));
        false
    }

    /// Sleeps until it is worth to look again, at most `left`.
    fn wait(&mut self, door: &impl Door, place: &Place, left: Duration) {
        let (path, time) = match (place, &self.behind) {
            (Place::Behind(ahead) | Place::Passing(ahead), Some((_, since, patience))) => {
                (self.room.queue.lane_path(*ahead), patience.saturating_sub(since.elapsed()))
            }
            _ => (door.watch_path(), if self.woken { LOOK_SOON } else { LOOK_AGAIN }),
        };
        // A watch that was not there before the look may have missed the end of a turn: look once more.
        if self.arm(path) {
            self.sleep(time.min(left));
        }
    }

    /// Watches a file; true if that was watched already.
    fn arm(&mut self, path: PathBuf) -> bool {
        let Some(events) = &self.events else { return true };
        // Not CLOSE_NOWRITE: readers take no lock. ATTRIB tells that the last name is gone (replaced, removed).
        let flags = WatchFlags::CLOSE_WRITE | WatchFlags::ATTRIB | WatchFlags::MOVE_SELF | WatchFlags::DONT_FOLLOW;
        // None: missing just now, or too many watches. The retry finds out.
        let watch = inotify::add_watch(events, path, flags).ok();
        if self.watch == watch {
            return true;
        }
        if let Some(old) = std::mem::replace(&mut self.watch, watch) {
            // It may be gone by itself, with its file.
            let _ = inotify::remove_watch(events, old);
        }
        drain(events);
        self.woken = false;
        false
    }

    /// Sleeps until something happened to the watched file, at most `left`.
    fn sleep(&mut self, left: Duration) {
        let Some((events, _)) = self.events.as_ref().zip(self.watch) else {
            std::thread::sleep(jittered(self.retry).min(left));
            self.retry = (self.retry * 2).min(RETRY_MAX);
            return;
        };
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.min(LOOK_AGAIN).subsec_nanos()) };
        // An error (a signal) is a wake-up like any other: the caller tries and comes back.
        self.woken = poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0);
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
