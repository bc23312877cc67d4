//! `files:/dir?php=1`: PHP's own session files, shared with a running PHP, lock for lock.
//!
//! What PHP does (ext/session/mod_files.c): open `sess_<id>` for reading and writing, creating it; refuse it if
//! it belongs to another user; flock it exclusively, blocking; read it; at the end write it in place, cut it,
//! close it. A log-out unlinks it; the garbage collection unlinks what was not modified for `maxlifetime`
//! seconds. So here the lock is that flock, the inode stays (php_redo.rs says how a payload is replaced all the
//! same), and the modification time is the expiry minus `maxlifetime`: what PHP collects has expired here.
//!
//! # Why a destroyed session never comes back
//!
//! A commit writes into the inode that it leased and never gives a name to anything. Destroy removes the name,
//! whether PHP's or ours. So a commit that comes late writes into a file without a name, or notices it.
//! Between the store's own processes the gate (gate.rs) makes it notice: commit, destroy, touch, regenerate
//! and sweep look at the name and act on it under the gate of the inode.
//!
//! # What PHP does not see
//!
//! Tombstones and aliases: PHP knows neither. An id within its grace is a new, empty session to PHP. An empty
//! file, which PHP makes when a session starts, reads as a missing record here, unless its note says that an
//! empty payload was committed. It is left in place on release: a PHP may be waiting in flock for it and would
//! write into nothing. The sweep, or PHP's collection, removes it when its time has come.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, Stat, flock, fstat, futimens};
use rustix::io::Errno;
use sessile_core::{
    Capabilities, Clock, Durability, Error, ErrorKind, Found, Key, Limits, Locked, Record, Result, Timestamp, Ttl,
};
use xxhash_rust::xxh3::xxh3_64;

use super::alias::Step;
use super::content::Content;
use super::frame::{Header, Kind, corrupt};
use super::gate;
use super::php_directory::{Shared, redo_name, unlink};
use super::php_note::{Note, record};
use super::php_redo::{self, Redo, page_sums};
use super::php_turns::Turns;
use super::php_walk::SweepCursor;
use super::system::{Identity, failed, fence, modified_at, mtime, size};
use super::wait::{Door, Outcome, Waiting, try_flock};

/// The options of this mode.
pub struct PhpOptions {
    pub depth: usize,
    pub maxlifetime: Duration,
    pub durability: Durability,
}

/// The store.
pub struct Php {
    pub(super) shared: Shared,
    pub(super) clock: Clock,
    pub(super) maxlifetime: Duration,
    pub(super) swept_to: std::sync::Mutex<SweepCursor>,
    waiting: Waiting,
    turns: Turns,
    pub(super) durable: bool,
    pub(super) capabilities: Capabilities,
}

/// A lease: an open file with flock.
pub struct Held {
    pub(super) file: OwnedFd,
    pub(super) identity: Identity,
    pub(super) key: Key,
    pub(super) fence: u64,
    pub(super) pid: u32,
    pub(super) record: Option<Base>,
    pub(super) old_bytes: u64,
    pub(super) old_pages: Vec<u32>,
    pub(super) looping: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Base {
    version: u64,
    created: Timestamp,
}

impl Php {
    pub fn open(path: &Path, options: &PhpOptions, clock: Clock, capabilities: Capabilities) -> Result<Php> {
        let shared = Shared::open(path, options.depth, &clock)?;
        Ok(Php {
            waiting: Waiting::open(&shared.beside)?,
            shared,
            clock,
            maxlifetime: options.maxlifetime,
            swept_to: Default::default(),
            turns: Turns::default(),
            durable: options.durability == Durability::Commit,
            capabilities,
        })
    }

    pub(super) fn expiry(&self, stat: &Stat) -> Timestamp {
        mtime(stat).plus(self.maxlifetime)
    }

    /// Reads a file whose lock the caller has.
    pub(super) fn read(&self, file: &OwnedFd, stat: &Stat) -> Result<Option<Record>> {
        let payload = read_payload(file, size(stat))?;
        Ok(record(payload, mtime(stat), self.expiry(stat), Note::read(file)))
    }

    /// Finishes what a killed process began. Returns the file's state after it, if there was something to do.
    pub(super) fn finish_redo(&self, key: &Key, file: &OwnedFd) -> Result<Option<Stat>> {
        let Some(redo) = self.read_redo(key)? else { return Ok(None) };
        gate::enter(file)?;
        let examined = |file| fstat(file).map_err(|errno| failed("a session file cannot be examined", errno));
        let content = read_payload(file, size(&examined(file)?))?;
        if let Some(redo) = redo.filter(|redo| redo.belongs_to(file, &content)) {
            redo.apply(file)?;
        }
        unlink(&self.shared.beside, &redo_name(key))?;
        gate::leave(file);
        examined(file).map(Some)
    }

    /// Some(None) for a redo that cannot be read: it was never published by this store.
    pub(super) fn read_redo(&self, key: &Key) -> Result<Option<Option<Redo>>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let name = redo_name(key);
        match rustix::fs::openat(&self.shared.beside.fd, &name, flags, rustix::fs::Mode::empty()) {
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed("an unfinished commit cannot be read", errno)),
            Ok(file) => {
                let stat = fstat(&file).map_err(|errno| failed("an unfinished commit cannot be examined", errno))?;
                Ok(Some(Redo::decode(&read_payload(&file, size(&stat))?)))
            }
        }
    }

    pub(super) fn begin_at(&self, key: &Key, start: Instant, wait_max: Duration) -> Result<Step<Locked<Held>>> {
        let now = self.clock.now();
        if self.shared.stat(key)?.is_none()
            && let Some(next) = self.shared.past(key)?.leads_to(key, now)
        {
            return Ok(Step::LeadsTo(next.clone()));
        }
        let door = Name { shared: &self.shared, key, number: number_of(key) };
        let looping = !wait_max.is_zero() && self.turns.step_back(door.number);
        let Outcome::Locked(file, mut stat) = self.waiting.lock(&door, start, wait_max)? else {
            return Ok(Step::LeadsTo(key.clone()));
        };
        if let Some(after) = self.finish_redo(key, &file)? {
            stat = after;
        }
        let payload = read_payload(&file, size(&stat))?;
        let old_pages = page_sums(&payload);
        let record = record(payload, mtime(&stat), self.expiry(&stat), Note::read(&file));
        let now = self.clock.now();
        let found = match record.filter(|record| !record.expired(now)) {
            Some(record) => Found::live(record),
            None if size(&stat) > 0 => Found::nothing(),
            None => match self.shared.past(key)?.look_up(key, now) {
                Step::Here(found) => found,
                Step::LeadsTo(next) => return Ok(Step::LeadsTo(next)),
            },
        };
        let held = Held {
            identity: Identity::of(&stat),
            key: key.clone(),
            fence: fence(),
            pid: std::process::id(),
            record: found.record.as_ref().map(|record| Base { version: record.version, created: record.created }),
            old_bytes: size(&stat),
            old_pages,
            looping,
            file,
        };
        Ok(Step::Here(Locked { held, found }))
    }

    /// Under the gate: the payload is replaced, or nothing is.
    pub(super) fn replace(&self, held: &Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        self.check_lease(held)?;
        // Read now, not at begin: a touch without a lease may have moved the absolute end.
        let stored_ends = held.record.and_then(|_| Note::read(&held.file)).and_then(|note| note.ends);
        let base = held.record.unwrap_or(Base { version: 0, created: now });
        let (expires, ends) = ttl.deadline(now, base.created, stored_ends);
        let note = Note::of(payload, base.version + 1, base.created, now, ends);
        self.overwrite(&held.key, &held.file, (held.old_bytes, &held.old_pages), (payload, &note, expires))
    }

    pub(super) fn overwrite(
        &self,
        key: &Key,
        file: &OwnedFd,
        (old_bytes, old_pages): (u64, &[u32]),
        (payload, note, expires): (&[u8], &Note, Timestamp),
    ) -> Result<()> {
        let mtime = expires.minus(self.maxlifetime);
        if !self.durable && !php_redo::is_needed(old_bytes, payload) {
            return php_redo::overwrite(file, payload, note, mtime);
        }
        let now = self.clock.now();
        let stat = fstat(file).map_err(|errno| failed("a session file cannot be examined", errno))?;
        let old_ends = Note::read(file).and_then(|note| note.ends);
        let expired = old_ends.map_or(self.expiry(&stat), |ends| ends.min(self.expiry(&stat))) <= now;
        if expired {
            php_redo::take_out(file, now)?;
        }
        let old_pages = if expired { Vec::new() } else { old_pages.to_vec() };
        php_redo::reserve(file, payload, super::system::mtime(&stat))?;
        let redo = Redo::new(file, old_pages, *note, payload, mtime)?;
        let (redo_file, from) = self.shared.write_beside(key.bin(), &redo.encode(), None)?;
        if self.durable {
            php_redo::sync(&redo_file)?;
        }
        self.shared.publish_beside(&from, &redo_name(key))?;
        // From here on the commit is done: whoever takes the lock would finish it.
        let finished = self.sync_beside(key).and_then(|()| redo.apply(file)).and_then(|()| {
            if self.durable {
                php_redo::sync(file)?;
            }
            unlink(&self.shared.beside, &redo_name(key))
        });
        if let Err(error) = finished {
            log::warn!("a commit is written beside the session file, but not yet into it: {error:#}");
        }
        Ok(())
    }

    fn sync_beside(&self, key: &Key) -> Result<()> {
        if self.durable { self.shared.beside.sync(&format!("{}/redo", key.bin().name())) } else { Ok(()) }
    }

    pub(super) fn check_lease(&self, held: &Held) -> Result<()> {
        if self.shared.still_names(&held.key, held.identity)? {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Destroyed, "the session was destroyed after it was read"))
    }

    pub(super) fn unlock(&self, held: &Held) -> Result<()> {
        if held.pid != std::process::id() {
            return Ok(());
        }
        self.turns.leaving(number_of(&held.key), held.identity, held.looping);
        flock(&held.file, FlockOperation::Unlock).map_err(|errno| failed("the lock cannot be given back", errno))
    }

    /// Removes a session, or says where its id leads instead.
    pub(super) fn bury(&self, key: &Key, buried: &[Key]) -> Result<Option<Key>> {
        let now = self.clock.now();
        let tombstone = Header { written: now, ..Header::new(Kind::Destroyed, b"") };
        let forget = now.plus(Limits::TOMBSTONE_TTL);
        loop {
            let opened = self.shared.open_checked(key, OFlags::RDWR)?;
            let empty = opened.as_ref().is_none_or(|(_, stat)| size(stat) == 0);
            let past = self.shared.past(key).unwrap_or(Content::Empty);
            if empty && let Some(next) = past.leads_to(key, now).filter(|next| !buried.contains(next)) {
                return Ok(Some(next.clone()));
            }
            let Some((file, stat)) = opened else {
                if !matches!(past, Content::Empty) {
                    self.shared.remember(key, &tombstone, b"", forget)?;
                }
                return Ok(None);
            };
            gate::enter(&file)?;
            if !self.shared.still_names(key, Identity::of(&stat))? {
                continue;
            }
            self.shared.remember(key, &tombstone, b"", forget)?;
            self.shared.remove(key)?;
            unlink(&self.shared.beside, &redo_name(key))?;
            return Ok(None);
        }
    }

    pub(super) fn touch_file(&self, file: &OwnedFd, ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        let gone = || Error::new(ErrorKind::Gone, "there is no record to touch");
        let stat = fstat(file).map_err(|errno| failed("a session file cannot be examined", errno))?;
        let note = Note::read(file);
        let ends = note.and_then(|note| note.ends);
        let expires = ends.map_or(self.expiry(&stat), |ends| ends.min(self.expiry(&stat)));
        let record = size(&stat) > 0 || note.is_some_and(|note| note.payload_bytes == 0);
        if !record || expires <= now {
            return Err(gone());
        }
        let created = note.map_or(mtime(&stat), |note| note.created);
        let (expires, new_ends) = ttl.deadline(now, created, ends);
        if new_ends != ends {
            let note = note.map_or(Note::of_unknown(created, new_ends), |note| Note { ends: new_ends, ..note });
            note.write(file)?;
        }
        futimens(file, &modified_at(expires.minus(self.maxlifetime)))
            .map_err(|errno| failed("a file's time cannot be set", errno))
    }

    /// Takes the lock of an id that must be free, for a lease that moves there without a record.
    pub(super) fn lock_free(&self, key: &Key) -> Result<(OwnedFd, Stat)> {
        let taken = || Error::new(ErrorKind::Exists, "the new id is taken");
        self.check_alias_free(key)?;
        let (file, stat) = self
            .shared
            .open_checked(key, OFlags::RDWR | OFlags::CREATE)?
            .ok_or_else(|| self.shared.missing_directory())?;
        if !try_flock(&file)? || !self.shared.still_names(key, Identity::of(&stat))? {
            return Err(taken());
        }
        let stat = self.finish_redo(key, &file)?.unwrap_or(stat);
        match self.read(&file, &stat)? {
            Some(record) if !record.expired(self.clock.now()) => Err(taken()),
            _ => Ok((file, stat)),
        }
    }

    pub(super) fn check_alias_free(&self, key: &Key) -> Result<()> {
        match self.shared.past(key)?.leads_to(key, self.clock.now()) {
            Some(_) => Err(Error::new(ErrorKind::Exists, "the id is taken: it leads to a regenerated session")),
            None => Ok(()),
        }
    }
}

/// Reads the whole of a small file.
pub(super) fn read_payload(file: &OwnedFd, bytes: u64) -> Result<Vec<u8>> {
    let length = usize::try_from(bytes).map_err(|_| corrupt("the session file is too large"))?;
    let mut payload = Vec::new();
    payload.try_reserve_exact(length).map_err(|_| corrupt("the session file is too large"))?;
    payload.resize(length, 0);
    let mut read = 0;
    while let Some(rest) = payload.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(file, rest, read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(errno) => return Err(failed("a session file cannot be read", errno)),
        }
    }
    payload.truncate(read);
    Ok(payload)
}

fn number_of(key: &Key) -> i64 {
    let name = format!("{}/{}", key.bin().name(), key.id());
    i64::try_from(xxh3_64(name.as_bytes()) >> 1).unwrap_or(0)
}

/// The name of a session, for the waiting room.
struct Name<'a> {
    shared: &'a Shared,
    key: &'a Key,
    number: i64,
}

impl Door for Name<'_> {
    fn open(&self) -> Result<OwnedFd> {
        let opened = self.shared.open_file(self.key, OFlags::RDWR | OFlags::CREATE)?;
        opened.ok_or_else(|| self.shared.missing_directory())
    }

    fn named(&self) -> Result<Option<Stat>> {
        self.shared.stat(self.key)
    }

    fn leads_on(&self, _: &OwnedFd) -> bool {
        false // aliases are not in the session's place in this mode
    }

    fn watch_path(&self) -> PathBuf {
        self.shared.file(self.key).map(|(directory, name)| directory.path.join(name)).unwrap_or_default()
    }

    fn number(&self) -> i64 {
        self.number
    }
}
