//! The process table: which processes are attached.
//!
//! Invariants: the owner of a slot holds its beacon, an open-file-description lock on the byte of
//! that number, on a description of its own, which its children do not keep; the generation grows
//! with each owner, so a lock word names one process for ever.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use sessile_core::{Error, ErrorKind, Result, Timestamp};

use super::store_file::StoreFile;
use crate::memory::process_word as word;
use crate::memory::*;

/// Finishes what the owner of a slot left, in this life of it: locks know no records.
pub type FinishDead = fn(&Plane, slot: u64, life: u64);

pub struct AttachedProcess {
    pub slot: u64,
    generation: u64,
    beacon: UninheritedFile,
    /// Holds the shared lock that says that the control plane is in use.
    store_file: StoreFile,
    pub lanes_in_use: [AtomicBool; LANES as usize],
    nonce: AtomicU64,
    finish_dead: FinishDead,
    /// Held over a sync and the note of its result: of two threads, one is told of an error.
    pub syncing: Mutex<()>,
    /// A hint: where a free entry was found last.
    pub entries_from: AtomicU64,
}

impl AttachedProcess {
    /// Takes a slot. `beacon` is the file of beacons, opened for this process alone.
    pub fn register(
        plane: &Plane,
        beacon: File,
        store_file: StoreFile,
        finish_dead: FinishDead,
    ) -> Result<AttachedProcess> {
        let beacon = UninheritedFile::new(beacon)?;
        for slot in 0..PROCESSES_MAX {
            match fcntl(&*beacon, FcntlArg::F_OFD_SETLK(&byte_lock(slot))) {
                Ok(_) => {
                    // Removed as an orphan, before its lock could tell of this process.
                    if rustix::fs::fstat(&*beacon).is_ok_and(|file| file.st_nlink == 0) {
                        return Err(beacons_lost());
                    }
                    let generation = plane.take_slot(slot, finish_dead);
                    return Ok(AttachedProcess {
                        slot,
                        generation,
                        beacon,
                        store_file,
                        lanes_in_use: Default::default(),
                        nonce: AtomicU64::new(0),
                        finish_dead,
                        syncing: Mutex::default(),
                        entries_from: AtomicU64::new(0),
                    });
                }
                Err(Errno::EAGAIN | Errno::EACCES) => {}
                Err(errno) => {
                    let why = "the beacon of a process cannot be locked";
                    return Err(Error::new(ErrorKind::Io, why).source(std::io::Error::from(errno)));
                }
            }
        }
        let why = format!("{PROCESSES_MAX} processes are attached, which is the most that fit");
        Err(Error::new(ErrorKind::Full, why)
            .advice("lower the number of workers, or split the store"))
    }

    /// Leaves the table. Locks that are still held are taken over like those of the dead.
    pub fn leave_table(&self, plane: &Plane) {
        (self.finish_dead)(plane, self.slot, life_of(self.generation));
    }

    /// A lock word that this process has not used for its last four million locks.
    pub fn new_lock_word(&self) -> LockWord {
        let nonce = self.nonce.fetch_add(1, Relaxed);
        LockWord::owned((self.slot, self.generation), nonce)
    }

    pub fn owns(&self, lock: LockWord) -> bool {
        lock.owner() == Some((self.slot, self.generation))
    }

    /// Whether the owner is dead; false while there is doubt. DESIGN.md, "Processes".
    pub fn is_dead(&self, plane: &Plane, owner: Owner) -> bool {
        owner != (self.slot, self.generation)
            && (plane.was_recovered(owner) || self.is_beacon_free(owner.0))
    }

    fn is_beacon_free(&self, slot: u64) -> bool {
        let mut probe = byte_lock(slot);
        fcntl(&*self.beacon, FcntlArg::F_OFD_GETLK(&mut probe)).is_ok()
            && i32::from(probe.l_type) == libc::F_UNLCK
    }

    /// Whether this process still owns its slot, and the store is in its place. It is asked after a
    /// lock was taken and before a change: a process that another one takes for dead has lost all
    /// its locks.
    /// Error: `Stale`; `Io` for a store that was removed.
    #[inline]
    pub fn check_attached(&self, plane: &Plane, now: Timestamp) -> Result<()> {
        if plane.was_recovered((self.slot, self.generation)) {
            return Err(taken_for_dead());
        }
        self.store_file.check_in_place(now)
    }

    pub fn recover_if_dead(&self, plane: &Plane, slot: u64) {
        if slot >= PROCESSES_MAX {
            return;
        }
        let life = plane.process_word(slot, word::LIFE).load(SeqCst);
        if life & 1 == 1 && self.is_dead(plane, (slot, life >> 1)) {
            (self.finish_dead)(plane, slot, life);
        }
    }

    pub fn count(&self, plane: &Plane, word: u64, by: u64) {
        add_own(plane.process_word(self.slot, word), by);
    }

    /// Not in models: a counter decides nothing, and each write would be one more step to try.
    #[inline(always)]
    pub fn count_begin(&self, plane: &Plane, hit: bool) {
        if !cfg!(sessile_model) {
            let [requests, hits, ..] = plane.counters(self.slot);
            add_own(requests, 1);
            add_own(hits, u64::from(hit));
        }
    }

    #[inline(always)]
    pub fn count_commit(&self, plane: &Plane) {
        if !cfg!(sessile_model) {
            let [_, _, commits, ..] = plane.counters(self.slot);
            add_own(commits, 1);
        }
    }

    pub fn count_wait(&self, plane: &Plane, waited: Duration) {
        let us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        let [_, _, _, waits, wait_us, wait_us_max, ..] = plane.counters(self.slot);
        add_own(waits, 1);
        add_own(wait_us, us);
        raise_own(wait_us_max, us);
    }

    pub fn count_cpu(&self, plane: &Plane, word: u64, since: Duration) {
        let used = thread_cpu().saturating_sub(since);
        self.count_most(plane, word, u64::try_from(used.as_nanos()).unwrap_or(u64::MAX));
    }

    pub fn count_most(&self, plane: &Plane, word: u64, value: u64) {
        raise_own(plane.process_word(self.slot, word), value);
    }
}

#[cold]
fn taken_for_dead() -> Error {
    let why = "another process has taken this one for dead, and may have taken its locks";
    Error::new(ErrorKind::Stale, why)
        .advice("restart this process, and report this: its lock of the file of beacons was lost")
}

/// Adds to a word that only this process writes. Threads may lose a count to each other: the price
/// of no locked instruction.
#[inline(always)]
fn add_own(word: &Word, by: u64) {
    word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
}

fn raise_own(word: &Word, value: u64) {
    if word.load(Relaxed) < value {
        word.store(value, Relaxed);
    }
}

fn life_of(generation: u64) -> u64 {
    generation << 1 | 1
}

impl Plane {
    fn take_slot(&self, slot: u64, finish_dead: FinishDead) -> u64 {
        let life = self.process_word(slot, word::LIFE).load(SeqCst);
        if life & 1 == 1 {
            // Its owner is dead, for we have its beacon: recover before its lanes are used again.
            finish_dead(self, slot, life);
        }
        let generation = ((life >> 1) + 1) & ((1 << LockWord::GENERATION_BITS) - 1);
        self.process_word(slot, word::PID).store(std::process::id().into(), Relaxed);
        (0..LANES).for_each(|lane| self.lane(slot, lane)[1].store(0, Relaxed));
        // Release by SeqCst: a process that sees the generation sees the pid and empty lanes.
        self.process_word(slot, word::LIFE).store(life_of(generation), SeqCst);
        generation
    }

    /// Whether an owner was recovered from, or its slot has another owner by now.
    pub fn was_recovered(&self, (slot, generation): Owner) -> bool {
        slot >= PROCESSES_MAX
            || self.process_word(slot, word::LIFE).load(SeqCst) != life_of(generation)
    }
}

/// A system call: not for each call.
pub fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// False when a process is attached. While the file is open none attaches.
pub fn lock_all_beacons(beacons: &impl AsFd) -> bool {
    let all = libc::flock { l_len: PROCESSES_MAX.cast_signed(), ..byte_lock(0) };
    fcntl(beacons, FcntlArg::F_OFD_SETLK(&all)).is_ok()
}

pub fn beacons_lost() -> Error {
    let why = "the file of beacons was removed or replaced";
    Error::new(ErrorKind::Io, why).advice(
        "end the processes that use the store and remove the directory; keep tmp cleaners away \
         from it",
    )
}

fn byte_lock(slot: u64) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: slot.cast_signed(),
        l_len: 1,
        l_pid: 0,
    }
}
