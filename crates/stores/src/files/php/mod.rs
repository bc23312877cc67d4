//! `files:/dir?php=1`: PHP's session files, shared with a running PHP, lock for lock.
//!
//! PHP (ext/session/mod_files.c) opens or creates `sess_<id>`, refuses another user's file, takes
//! flock exclusively, blocking, and reads; at the end it writes in place, truncates and closes. A
//! log-out unlinks the file. Garbage collection unlinks files that were not modified for
//! `maxlifetime` seconds. So here the lock is that flock, the inode stays (redo.rs replaces
//! payloads), and the modification time is the expiry minus `maxlifetime`: a file that PHP collects
//! has expired here.
//!
//! # Why a destroyed session never comes back
//!
//! A commit writes into the inode that it leased and never gives a name. Destroy, PHP's or ours,
//! removes the name: a late commit writes into a file without one. Between the store's own
//! processes it is told: commit, destroy, touch, regenerate and sweep check the name and act on it
//! under the inode's gate (gate.rs).
//!
//! # What PHP does not see
//!
//! PHP knows neither tombstones nor aliases: an id within its grace is a new, empty session to it.
//!
//! The empty file that PHP makes for a new session reads as a missing record, unless its note says
//! that an empty payload was committed. A release leaves it: a PHP that waits in flock for it would
//! write into nothing. It goes when it has expired.

pub(super) mod directory;
mod fairness;
mod note;
mod redo;

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use rustix::fs::{OFlags, RenameFlags, Stat};
use sessile_core::{
    Bin, Clock, Error, ErrorKind, Head, Key, OwnerChange, Result, Stored, Timestamp, Ttl,
};

use self::directory::{PREFIX, PREFIX_BESIDE, SharedDirectory};
use self::fairness::PhpFairness;
use self::note::{Note, capped, head};
use self::redo::{commit, finish_redo, read_redo};
use super::content::zeros;
use super::directory::{Directory, FileName, Opened};
use super::gate;
use super::lock::{lock_free, try_flock, unlock};
use super::mode::{FileRole, Held, Mode, bin_role, session_role};
use super::sweep::{is_leftover, remove_if_due};
use super::system::{Identity, failed, is_at_rest, mtime, set_time, size};
use super::temporary::{TEMPORARY, Temporary};

const SNAPSHOT_TRIES_MAX: usize = 100;
/// Longer than PHP needs to write a page.
const SNAPSHOT_PAUSE: Duration = Duration::from_micros(50);

pub struct PhpMode {
    shared: SharedDirectory,
    clock: Clock,
    maxlifetime: Duration,
    /// A larger file is not read into memory: others may write into PHP's directory.
    payload_bytes_max: u64,
    fairness: PhpFairness,
    durable: bool,
    told_of_early_removal: AtomicBool,
}

impl PhpMode {
    pub fn open(
        path: &Path,
        depth: usize,
        maxlifetime: Duration,
        payload_bytes_max: u64,
        clock: Clock,
        durable: bool,
    ) -> Result<PhpMode> {
        let shared = SharedDirectory::open(path, depth, &clock)?;
        let (fairness, told_of_early_removal) = Default::default();
        Ok(PhpMode {
            shared,
            clock,
            maxlifetime,
            payload_bytes_max,
            fairness,
            durable,
            told_of_early_removal,
        })
    }

    fn payload(&self, file: &OwnedFd, stat: &Stat) -> Result<Vec<u8>> {
        let (size, limit) = (size(stat), self.payload_bytes_max);
        if size > limit {
            return Err(ErrorKind::TooLarge { size, limit }.into());
        }
        read_payload(file, size)
    }

    /// Debian's `sessionclean` goes by the time since the last change of a file, not by its time.
    fn tell_of_early_removal(&self, key: &Key, ttl: Ttl) {
        let (given, max) = (ttl.idle_ms() / 1_000, self.maxlifetime.as_secs());
        let is_early = given > max && *key.bin() == Bin::SESSION;
        // Relaxed: nothing else depends on it.
        if is_early && !self.told_of_early_removal.swap(true, Relaxed) {
            let path = self.shared.root.path.display();
            log::warn!(
                "files:{path}: sessions are to live for {given} s without a request, and \
                 maxlifetime is {max} s: jobs that remove PHP's files by their age (Debian's \
                 sessionclean) end them before; raise session.gc_maxlifetime, and ?maxlifetime \
                 with it"
            );
        }
    }

    /// Reads without the lock. A payload that fits its note is whole. Any other was written by PHP,
    /// or is being written. It is whole, too, if nobody has changed the file for a while; otherwise
    /// two reads that agree decide, but an unfinished commit decides before both.
    fn snapshot(&self, key: &Key) -> Result<Option<(Head, Vec<u8>)>> {
        let (name, mut before) = (self.shared.file(key)?, None);
        for _ in 0..SNAPSHOT_TRIES_MAX {
            let asked = SystemTime::now();
            let Some((file, stat)) = name.open_checked(OFlags::RDONLY)? else { return Ok(None) };
            let payload = self.payload(&file, &stat)?;
            let note = Note::read(&file);
            let seen = (Identity::of(&stat), mtime(&stat), payload);
            let record = |payload: Vec<u8>| {
                let head = head(&payload, mtime(&stat), self.expiry(&stat), note);
                head.map(|head| (head, payload))
            };
            if note.is_some_and(|note| note.fits(&seen.2)) || before.as_ref() == Some(&seen) {
                return Ok(record(seen.2));
            }
            if let Some(Some(redo)) = read_redo(self, key)?
                && redo.belongs_to(&file, &seen.2)
            {
                return Ok(redo.record(self.maxlifetime));
            }
            if is_at_rest(&file, &stat, asked)? {
                return Ok(record(seen.2));
            }
            before = Some(seen);
            std::thread::sleep(SNAPSHOT_PAUSE);
        }
        Err(Error::new(ErrorKind::Io, "the session is being written without a break")
            .advice("try again"))
    }

    fn record_or_past(
        &self,
        key: &Key,
        record: Option<(Head, Vec<u8>)>,
    ) -> Result<(Stored, Vec<u8>)> {
        match record {
            Some((head, payload)) => Ok((Stored::Live(head), payload)),
            None => Ok((self.shared.remembered(key)?, Vec::new())),
        }
    }

    /// `Exists` for an alias within its grace.
    fn check_alias_free(&self, key: &Key) -> Result<()> {
        match self.leads_to(key, None)? {
            None => Ok(()),
            Some(_) => Err(ErrorKind::Exists.into()),
        }
    }
}

impl Mode for PhpMode {
    fn root(&self) -> &Directory {
        &self.shared.root
    }

    fn side(&self) -> &Arc<Directory> {
        &self.shared.beside
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn expiry(&self, stat: &Stat) -> Timestamp {
        mtime(stat).plus(self.maxlifetime)
    }

    fn file(&self, key: &Key) -> Result<FileName<'_>> {
        self.shared.file(key)
    }

    /// In Debian's directory only root may see who has a session.
    fn swept_folder(&self) -> &str {
        static TOLD: AtomicBool = AtomicBool::new(false);
        if self.shared.root.is_listable {
            return "";
        }
        // Relaxed: nothing else depends on it.
        if !TOLD.swap(true, Relaxed) {
            let path = self.shared.root.path.display();
            log::warn!(
                "files:{path}: only what lies beside PHP's sessions is swept, because this user \
                 may not list the directory; expired sessions are left to a job of root's"
            );
        }
        &self.shared.beside_name
    }

    fn role(&self, folder: &str, name: &str) -> FileRole {
        let beside_name = self.shared.beside_name.as_str();
        let below = folder.strip_prefix(beside_name).and_then(|rest| rest.strip_prefix('/'));
        let Some(below) = below else {
            let level = folder.matches('/').count();
            let deeper = level < self.shared.depth && name.len() == 1;
            return match name.strip_prefix(PREFIX).filter(|_| level == self.shared.depth) {
                Some(id) => session_role("session", id),
                None if deeper => FileRole::Folder(None),
                None if folder.is_empty() && name == beside_name => FileRole::Folder(None),
                None => FileRole::Foreign,
            };
        };
        let session = |bin| match name.strip_prefix(PREFIX_BESIDE) {
            Some(id) => session_role(bin, id),
            None => FileRole::Foreign,
        };
        let mut parts = below.split_terminator('/');
        match (parts.next(), parts.next()) {
            _ if name.starts_with(TEMPORARY) => FileRole::Temporary,
            (Some(_), Some("past")) => FileRole::Past,
            (Some(bin), Some("redo")) => match session(bin) {
                FileRole::Session(key) => FileRole::Redo(key),
                role => role,
            },
            (Some(bin), Some("data")) => session(bin),
            (Some(_), None) if matches!(name, "past" | "redo" | "data") => FileRole::Folder(None),
            (None, _) => bin_role(name),
            _ => FileRole::Foreign,
        }
    }

    fn peek(&self, key: &Key) -> Result<(Stored, Vec<u8>)> {
        self.record_or_past(key, self.snapshot(key)?)
    }

    fn read(&self, key: &Key, file: &OwnedFd, stat: &Stat) -> Result<(Stored, Vec<u8>)> {
        let payload = self.payload(file, stat)?;
        let head = head(&payload, mtime(stat), self.expiry(stat), Note::read(file));
        self.record_or_past(key, head.map(|head| (head, payload)))
    }

    fn read_head(&self, key: &Key) -> Result<Option<(Head, u64)>> {
        Ok(self.snapshot(key)?.map(|(head, payload)| (head, payload.len() as u64)))
    }

    /// What is known of a key without a session is beside PHP's files.
    fn leads_to(&self, key: &Key, opened: Option<&Opened>) -> Result<Option<Key>> {
        if opened.is_some_and(|(_, stat)| size(stat) > 0) {
            return Ok(None);
        }
        Ok(self.shared.remembered(key)?.leads_to(self.now()).cloned())
    }

    fn begin_leaves_placeholder(&self, key: &Key) -> Result<bool> {
        Ok(self.shared.file(key)?.stat()?.is_none())
    }

    fn yield_lock(&self, key: &Key) -> u32 {
        self.fairness.yield_to_php(key)
    }

    fn repair(&self, key: &Key, file: &OwnedFd) -> Result<Option<Stat>> {
        finish_redo(self, key, file)
    }

    fn before_release(&self, held: &Held) -> Result<()> {
        self.fairness.before_release(held);
        Ok(())
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        self.tell_of_early_removal(key, ttl);
        let head = Head::next(None, ttl, self.now());
        self.check_alias_free(key)?;
        let (name, mut new) = (self.shared.file(key)?, Temporary::create(&self.shared.redo(key))?);
        new.write(&mut [IoSlice::new(payload)])?;
        Note::new(payload, head).write(&new.file)?;
        new.finish(head.expires.minus(self.maxlifetime), self.durable)?;
        if new.link(&name)? {
            return name.sync_if(self.durable);
        }
        // The name has a file: an expired record or PHP's empty file is free, and keeps its inode.
        let (file, stat) = lock_free(self, key)?;
        commit(self, key, (&file, &stat), payload, head)
    }

    /// The files of PHP have no room for an owner.
    fn commit(&self, held: &Held, (payload, ttl, _): (&[u8], Ttl, OwnerChange)) -> Result<()> {
        self.tell_of_early_removal(&held.key, ttl);
        gate::enter(&held.file)?;
        let stat = self.shared.file(&held.key)?.check_lease(held.identity)?;
        // Read now, not at begin: a touch without a lease may have moved the absolute end.
        let ends = Note::read(&held.file).and_then(|note| note.ends);
        let read = held.read.map(|read| Head { ends, ..read });
        let head = Head::next(read, ttl, self.now());
        commit(self, &held.key, (&held.file, &stat), payload, head)?;
        gate::release(&held.file);
        self.before_release(held)?;
        unlock(&held.file)
    }

    fn touch(&self, file: &OwnedFd, stat: &Stat, ttl: Ttl) -> Result<()> {
        let note = Note::read(file);
        if size(stat) == 0 && note.is_none_or(|note| note.payload_bytes > 0) {
            return Err(ErrorKind::Gone.into());
        }
        let ends = note.and_then(|note| note.ends);
        let expires = capped(self.expiry(stat), note);
        let created = note.map_or(mtime(stat), |note| note.created);
        let old = Head { version: 0, created, written: created, expires, ends, owner: None };
        let head = Stored::<Key>::Live(old).touched(ttl, self.now())?;
        if head.ends != ends {
            let note = note.unwrap_or(Note::unknown(created));
            Note { ends: head.ends, ..note }.write(file)?;
        }
        set_time(file, head.expires.minus(self.maxlifetime))
    }

    fn destroy(&self, key: &Key, opened: Option<&Opened>) -> Result<bool> {
        let (name, now) = (self.shared.file(key)?, self.now());
        match opened {
            Some(opened) if name.enter_gate(opened)?.is_none() => return Ok(false),
            None if self.shared.past(key).stat()?.is_none() => return Ok(true),
            _ => self.shared.remember(key, &Stored::tombstone(0, now), now)?,
        }
        if opened.is_some() {
            name.unlink()?;
            self.shared.redo(key).unlink()?;
        }
        Ok(true)
    }

    /// A rename, which inode and lock follow. The alias is written first: nobody looks at it while
    /// the old id has a session.
    fn move_record(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        let now = self.now();
        self.check_alias_free(new)?;
        let (old_name, new_name) = (self.shared.file(&held.key)?, self.shared.file(new)?);
        // Held until the rename, so that no other process takes a free id meanwhile.
        let free = new_name.stat()?.map(|_| lock_free(self, new)).transpose()?;
        let flags = if free.is_some() { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        gate::within(&held.file, || {
            old_name.check_lease(held.identity)?;
            self.shared.remember(&held.key, &Stored::alias(new.clone(), grace, now), now)?;
            let renamed = old_name.rename(&new_name, flags);
            if !matches!(renamed, Ok(true)) {
                // Once the session ends, the alias would lead to an id that is not ours.
                let _ = self.shared.forget(&held.key);
            }
            if renamed? { Ok(()) } else { Err(ErrorKind::Exists.into()) }
        })?;
        held.key = new.clone();
        old_name.sync_if(self.durable)?;
        new_name.sync_if(self.durable)
    }

    /// Removes no more than PHP's collection would, at most two seconds earlier: PHP counts whole
    /// seconds.
    fn sweep_file(&self, role: &FileRole, name: &FileName<'_>) -> Result<bool> {
        let now = self.now();
        match role {
            FileRole::Session(_) => remove_if_due(
                name,
                |stat| self.expiry(stat) <= now,
                |file, stat| {
                    let is_empty_record = |note: Note| note.payload_bytes == 0;
                    Some(size(stat) > 0 || Note::read(file).is_some_and(is_empty_record))
                },
            ),
            FileRole::Past => remove_if_due(name, |stat| mtime(stat) <= now, |_, _| Some(false)),
            FileRole::Redo(key) if is_leftover(name)? => {
                match self.shared.file(key)?.open_checked(OFlags::RDWR)? {
                    None => name.unlink()?,
                    Some((file, _)) if try_flock(&file)? => {
                        finish_redo(self, key, &file)?;
                    }
                    Some(_) => {}
                }
                Ok(false)
            }
            _ => Ok(false),
        }
    }
}

fn read_payload(file: &OwnedFd, bytes: u64) -> Result<Vec<u8>> {
    let mut payload = zeros(bytes)?;
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
