//! The process table: who is attached, and who of them is dead.
//!
//! Invariants: a slot has one owner at a time, who holds the beacon, an open-file-description lock on the byte of
//! that number, opened after the last fork; its generation grows with each owner, so a lock word names one process
//! for ever. A process is declared dead only when it cannot run any more.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use sessile_core::{Error, ErrorKind, Result};

use crate::append::Appender;
use crate::flush::UnderWay;
use crate::layout::{LANES, PROCESSES_MAX};
use crate::maintenance::Maintenance;
use crate::plane::Plane;
use crate::recovery;
use crate::segment::Rotations;
use crate::sync::Ordering;
use crate::words::Lock;

/// Words of a process slot.
pub mod slot {
    pub const LIFE: u64 = 0; // generation << 1 | 1 while its owner lives or is not yet recovered from
    pub const PID: u64 = 1;
    pub const STARTED: u64 = 2; // in clock ticks since boot, from /proc
    pub const PID_NAMESPACE: u64 = 3;
    // Statistics, kept from one owner to the next.
    pub const EXAMINED: u64 = 8; // records that maintenance looked at
    pub const EXAMINED_MOST: u64 = 9; // in one call
    pub const REMOVED: u64 = 10;
    pub const MOVED: u64 = 11;
    pub const MAINTENANCE_NS: u64 = 12;
    pub const MAINTENANCE_NS_MOST: u64 = 13; // CPU time of one call
    pub const STEALS: u64 = 14; // locks taken over from dead owners
    pub const GROWTH_NS_MOST: u64 = 15; // CPU time of one growth of a file
}

/// This process, attached to one store.
pub struct Process {
    pub slot: u64,
    pub generation: u64,
    /// Holds the beacon. Never used by a forked child: its own slot has its own.
    beacon: File,
    /// Holds the shared lock that says that the control plane is in use.
    _attached: OwnedFd,
    pub(crate) busy: [AtomicBool; LANES as usize],
    nonce: AtomicU64,
    pid_namespace: u64,
    /// Where this process claims slots and entries, and what it does besides: hints, not shared.
    pub(crate) rotations: Rotations,
    pub(crate) appender: Appender,
    pub(crate) under_way: UnderWay,
    pub(crate) entries_from: AtomicU64,
    pub(crate) maintenance: Maintenance,
}

impl Process {
    /// Takes a slot. `beacon` is the file of beacons, opened for this process alone.
    ///
    /// # Errors
    ///
    /// `Full` when all slots are taken.
    pub fn register(plane: &Plane, beacon: File, attached: OwnedFd) -> Result<Process> {
        for slot in 0..PROCESSES_MAX {
            match fcntl(&beacon, FcntlArg::F_OFD_SETLK(&byte(slot, libc::F_WRLCK))) {
                Ok(_) => return Process::take(plane, beacon, attached, slot),
                Err(Errno::EAGAIN | Errno::EACCES) => {}
                Err(errno) => {
                    let error = Error::new(ErrorKind::Io, "the beacon of a process cannot be locked");
                    return Err(error.source(std::io::Error::from(errno)));
                }
            }
        }
        let why = format!("{PROCESSES_MAX} processes are attached, which is the most that fit");
        Err(Error::new(ErrorKind::Full, why).advice("lower the number of workers, or split the store"))
    }

    fn take(plane: &Plane, beacon: File, attached: OwnedFd, slot: u64) -> Result<Process> {
        let life = plane.process_word(slot, slot::LIFE).load(Ordering::SeqCst);
        if life & 1 == 1 {
            // Its owner is dead, for we have its beacon: finish what it left before its lanes are used again.
            recovery::recover(plane, slot, life);
        }
        let generation = ((life >> 1) + 1) & ((1 << Lock::GENERATION_BITS) - 1);
        let ((pid, started), pid_namespace) = (this_run(), pid_namespace());
        for (word, value) in
            [(slot::PID, u64::from(pid)), (slot::STARTED, started), (slot::PID_NAMESPACE, pid_namespace)]
        {
            plane.process_word(slot, word).store(value, Ordering::Relaxed);
        }
        (0..LANES).for_each(|lane| plane.lane(slot, lane)[1].store(0, Ordering::Relaxed));
        // Release by SeqCst: whoever sees the generation sees pid and start time, and empty lanes.
        plane.process_word(slot, slot::LIFE).store(generation << 1 | 1, Ordering::SeqCst);
        Ok(Process {
            slot,
            generation,
            beacon,
            _attached: attached,
            busy: Default::default(),
            nonce: AtomicU64::new(0),
            pid_namespace,
            rotations: Rotations::default(),
            appender: Appender::default(),
            under_way: UnderWay::default(),
            entries_from: AtomicU64::new(0),
            maintenance: Maintenance::default(),
        })
    }

    /// Leaves the table. Locks that are still held are taken over like those of the dead.
    pub fn leave(&self, plane: &Plane) {
        self.appender.leave(plane, self);
        recovery::recover(plane, self.slot, self.generation << 1 | 1);
    }

    /// A lock word that this process has not used for the last four million locks.
    pub fn lock(&self) -> Lock {
        Lock::owned(self.slot, self.generation, self.nonce.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether a lock word names this very process.
    pub fn owns(&self, lock: Lock) -> bool {
        lock.owner() == Some((self.slot, self.generation))
    }

    /// Whether the owner of a lock is dead. False while there is doubt.
    pub fn is_dead(&self, plane: &Plane, (slot, generation): (u64, u64)) -> bool {
        if (slot, generation) == (self.slot, self.generation) || slot >= PROCESSES_MAX {
            return slot >= PROCESSES_MAX;
        }
        if was_recovered(plane, (slot, generation)) {
            return true;
        }
        let mut probe = byte(slot, libc::F_WRLCK);
        let free =
            fcntl(&self.beacon, FcntlArg::F_OFD_GETLK(&mut probe)).is_ok() && i32::from(probe.l_type) == libc::F_UNLCK;
        free || self.cannot_run(plane, slot)
    }

    /// In our pid namespace we also see that a process is gone although something still holds its beacon: a child
    /// that it forked and that never used this library, or the kernel, because nobody reaped it.
    fn cannot_run(&self, plane: &Plane, slot: u64) -> bool {
        let word = |word| plane.process_word(slot, word).load(Ordering::Relaxed);
        if word(slot::PID_NAMESPACE) != self.pid_namespace {
            return false;
        }
        let pid = u32::try_from(word(slot::PID)).unwrap_or(0);
        let pid_of = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
        // The kernel itself: /proc may hide processes (hidepid=, ProtectProc=), and opening it may fail.
        if pid_of.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH)) {
            return true;
        }
        let recorded = word(slot::STARTED);
        started(pid).is_some_and(|process| process.ended || recorded != 0 && process.started != recorded)
    }

    /// Adds to a statistic of this process.
    pub fn count(&self, plane: &Plane, word: u64, by: u64) {
        let word = plane.process_word(self.slot, word);
        // Threads may lose a count to each other; that is what it costs not to use a locked instruction.
        word.store(word.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }

    /// Raises a statistic of this process to the CPU time in nanoseconds that this thread has used since then.
    pub fn count_cpu(&self, plane: &Plane, word: u64, since: Duration) {
        let used = thread_cpu().saturating_sub(since);
        self.count_most(plane, word, u64::try_from(used.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Raises a statistic of this process.
    pub fn count_most(&self, plane: &Plane, word: u64, value: u64) {
        let word = plane.process_word(self.slot, word);
        if word.load(Ordering::Relaxed) < value {
            word.store(value, Ordering::Relaxed);
        }
    }
}

/// CPU time that this thread has used. A system call, so not for what is done in each call.
pub fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Looks at one other process, in turn, and finishes what a dead one left.
pub fn recover_one(plane: &Plane, me: &Process, slot: u64) -> bool {
    if slot >= PROCESSES_MAX {
        return false;
    }
    let life = plane.process_word(slot, slot::LIFE).load(Ordering::SeqCst);
    let dead = life & 1 == 1 && me.is_dead(plane, (slot, life >> 1));
    if dead {
        recovery::recover(plane, slot, life);
    }
    dead
}

fn byte(slot: u64, kind: i32) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: slot.cast_signed(),
        l_len: 1,
        l_pid: 0,
    }
}

/// Which run of a process this is: its id and its start.
pub fn this_run() -> (u32, u64) {
    let pid = std::process::id();
    (pid, started(pid).map_or(0, |process| process.started))
}

struct Started {
    started: u64,
    ended: bool,
}

/// Start time and end of a process, from /proc/PID/stat: after the name in parentheses, which may contain anything,
/// field 3 is the state and field 22 the start.
fn started(pid: u32) -> Option<Started> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    // A process whose first thread has left shows Z too, while its other threads run on.
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(usize::MAX, Iterator::count);
    let ended = matches!(state, "X" | "x") || state == "Z" && threads() <= 1;
    Some(Started { started, ended })
}

fn pid_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// Whether the owner of a lock is known to be dead: what it left was tidied up, or its slot has another owner by now.
pub fn was_recovered(plane: &Plane, (slot, generation): (u64, u64)) -> bool {
    slot >= PROCESSES_MAX || plane.process_word(slot, slot::LIFE).load(Ordering::SeqCst) != generation << 1 | 1
}
