//! `files:/dir`, the store's own mode: one file a session, changed as a whole (see own_commit.rs).
//!
//! ```text
//!   dir/format                     "sessile files 1"
//!   dir/waiting, dir/.turns/       who waits for which lock, in which order (see queue.rs)
//!   dir/session/3f/<id>            bin / two hex digits of the id's hash / id
//!   dir/session/3f/~<pid>-<n>-<t>  a temporary file, before its rename
//! ```
//!
//! A name stands for an inode that is live (a record), past (destroyed, regenerated) or empty (a placeholder,
//! made to have something to lock). A lease is a flock on the inode that the name stood for at `begin`.
//!
//! # Why a destroyed session never comes back
//!
//! The gate's invariant (gate.rs): a name leaves an inode I only by someone who holds I's gate and has seen
//! under it that the name still stands for I; and I gets no name again. `commit` enters the gate of the inode
//! that it leased, looks, and overwrites that inode or renames its new file over the name; `destroy` enters the
//! gate of the inode that it finds, looks, and renames a tombstone over the name (of an empty inode, which has no
//! record that could come back, it removes the name). So of a commit and a destroy
//! that meet, one is first. Commit first: destroy finds the new record, under this inode or (it starts over)
//! under another, and removes it. Destroy first: the leased inode has lost its name for ever, whatever `create`
//! or another `begin` put under the name since, so the commit sees a foreign inode and answers `Destroyed`.
//! SIGKILL between any two steps drops gate and flock with the descriptors, and the single step that others can
//! see is the write or the rename: before it nothing has changed but a temporary file that the sweep removes,
//! after it everything is done.
//!
//! Only `regenerate` gives an inode another name, by an atomic exchange (own_regenerate.rs); a lease follows
//! the inode to it, under both gates.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, OFlags, Stat, flock, fstat, fsync, futimens, openat, unlinkat};
use rustix::io::Errno;
use sessile_core::{
    Capabilities, Clock, Cursor, Durability, Error, ErrorKind, Filter, Found, Key, Limits, Locked, Page, Result, Store,
    Swept, Ttl, Verified,
};
use xxhash_rust::xxh3::xxh3_64;

use super::alias::{ALIAS_STEPS_MAX, Step, bury_all, circle, follow};
use super::content::{Content, read, read_header, read_header_once, read_once};
use super::directory::{Directory, FILE_MODE};
use super::frame::{Header, Kind};
use super::gate;
use super::own_commit::Base;
use super::own_sweep::SweepCursor;
use super::system::{Identity, check_process, check_session_file, failed, fence, modified_at, mtime, size};
use super::wait::{Door, Outcome, Waiting};
use crate::file_system;

/// The store.
pub struct Own {
    pub(super) directory: Directory,
    pub(super) clock: Clock,
    waiting: Waiting,
    pub(super) durable: bool,
    capabilities: Capabilities,
    pub(super) swept_to: std::sync::Mutex<SweepCursor>,
}

/// A lease: an open file with flock.
pub struct Held {
    pub(super) file: OwnedFd,
    pub(super) identity: Identity,
    pub(super) key: Key,
    pub(super) fence: u64,
    /// A forked child inherits the description and with it the lock; it must not give it back.
    pub(super) pid: u32,
    /// What a commit carries on; `None` when no live record was found.
    pub(super) record: Option<Base>,
    pub(super) placeholder: bool,
}

impl Own {
    pub fn open(
        path: &std::path::Path,
        clock: Clock,
        durability: Durability,
        capabilities: Capabilities,
    ) -> Result<Own> {
        let directory = Directory::open(path, false)?;
        directory.claim(&clock)?;
        let waiting = Waiting::open(&directory)?;
        let durable = durability == Durability::Commit;
        Ok(Own { directory, clock, waiting, durable, capabilities, swept_to: Default::default() })
    }

    /// The directory of a key, with a slash at its end.
    pub(super) fn folder(key: &Key) -> String {
        format!("{}/{:02x}/", key.bin().name(), xxh3_64(key.id().as_bytes()) & 0xff)
    }

    pub(super) fn name(key: &Key) -> String {
        Own::folder(key) + key.id()
    }

    /// Opens what a name stands for; `None` when it stands for nothing.
    pub(super) fn open_file(&self, name: &str, flags: OFlags) -> Result<Option<OwnedFd>> {
        // NOATIME: reading would otherwise write, because relatime renews an access time that lies before the
        // modification time, and ours lies in the future. NONBLOCK: a fifo in place of a file must not hang.
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOATIME;
        match openat(&self.directory.fd, name, flags, FILE_MODE) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed("a session file cannot be opened", errno)),
        }
    }

    /// Opens a file that is to be changed, and says which it is.
    pub(super) fn open_checked(&self, name: &str) -> Result<Option<(OwnedFd, Stat)>> {
        let Some(file) = self.open_file(name, OFlags::RDWR)? else { return Ok(None) };
        let stat = fstat(&file).map_err(|errno| failed("a session file cannot be examined", errno))?;
        check_session_file(&stat)?;
        Ok(Some((file, stat)))
    }

    /// The state of this file, if the name still stands for it. Only meaningful under the file's gate or lock.
    pub(super) fn named(&self, name: &str, identity: Identity) -> Result<Option<Stat>> {
        Ok(self.directory.stat(name)?.filter(|stat| Identity::of(stat) == identity))
    }

    /// Whether the name still stands for this file. As for [`Own::named`].
    pub(super) fn still_names(&self, name: &str, identity: Identity) -> Result<bool> {
        Ok(self.named(name, identity)?.is_some())
    }

    /// Removes the name of a file. The caller has its gate, and has seen that the name stands for it.
    pub(super) fn unname(&self, name: &str) -> Result<()> {
        match unlinkat(&self.directory.fd, name, AtFlags::empty()) {
            // Somebody has removed it by hand.
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed("an empty session file cannot be removed", errno)),
        }
    }

    pub(super) fn make_folder(&self, key: &Key) -> Result<()> {
        self.directory.make(key.bin().name())?;
        self.directory.make(Own::folder(key).trim_end_matches('/'))
    }

    /// After a rename: makes it durable if the store was opened so.
    pub(super) fn renamed(&self, key: &Key) -> Result<()> {
        if self.durable { self.directory.sync(&Own::folder(key)) } else { Ok(()) }
    }

    /// Checks, under the gate, that a lease is still good.
    pub(super) fn check_lease(&self, held: &Held) -> Result<()> {
        if self.still_names(&Own::name(&held.key), held.identity)? {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Destroyed, "the session was destroyed after it was read"))
    }

    /// Replaces what the key stands for by a tombstone. Returns where the key leads instead, if it does.
    fn bury(&self, key: &Key, buried: &[Key]) -> Result<Option<Key>> {
        let now = self.clock.now();
        let name = Own::name(key);
        loop {
            let Some((file, stat)) = self.open_checked(&name)? else { return Ok(None) };
            if size(&stat) == 0 {
                gate::enter(&file)?;
                match self.named(&name, Identity::of(&stat))? {
                    // There was no record. A lease on it cannot be committed any more: its file has no name.
                    Some(empty) if size(&empty) == 0 => return self.unname(&name).map(|()| None),
                    _ => continue,
                }
            }
            let header = Header { written: now, ..Header::new(Kind::Destroyed, b"") };
            let mut tombstone = self.write(key, &header, b"", now.plus(Limits::TOMBSTONE_TTL))?;
            gate::enter(&file)?;
            if !self.still_names(&name, Identity::of(&stat))? {
                continue;
            }
            // Bytes that cannot be read lead nowhere, and can be destroyed like any others.
            let content = read_once(&file, &stat).unwrap_or(Content::Empty);
            if let Some(next) = content.leads_to(key, now).filter(|next| !buried.contains(next)) {
                return Ok(Some(next.clone()));
            }
            tombstone.publish(&name)?;
            self.renamed(key)?;
            return Ok(None);
        }
    }
}

impl Own {
    fn begin_at(&self, key: &Key, start: Instant, wait_max: Duration) -> Result<Step<Locked<Held>>> {
        let door = Name { store: self, key, name: Own::name(key) };
        let (file, stat) = match self.waiting.lock(&door, start, wait_max)? {
            Outcome::Locked(file, stat) => (file, stat),
            Outcome::LeadsOn => match self.content(key)?.1.leads_to(key, self.clock.now()) {
                Some(next) => return Ok(Step::LeadsTo(next.clone())),
                // Its grace ended in this instant: the next try waits for the lock as usual.
                None => return Ok(Step::LeadsTo(key.clone())),
            },
        };
        let now = self.clock.now();
        let found = match read(&file, &stat)?.look_up(key, now) {
            Step::Here(found) => found,
            Step::LeadsTo(next) => return Ok(Step::LeadsTo(next)),
        };
        let held = Held {
            identity: Identity::of(&stat),
            key: key.clone(),
            fence: fence(),
            pid: std::process::id(),
            record: found.record.as_ref().map(|record| Base::of(record, size(&stat))),
            placeholder: size(&stat) == 0,
            file,
        };
        Ok(Step::Here(Locked { held, found }))
    }

    pub(super) fn release_lock(&self, held: &Held) -> Result<()> {
        if held.pid != std::process::id() {
            return Ok(());
        }
        let name = Own::name(&held.key);
        if held.placeholder {
            gate::enter(&held.file)?;
            if self.still_names(&name, held.identity)? {
                self.unname(&name)?;
            }
            gate::leave(&held.file);
        }
        // Explicitly: a child forked meanwhile has the description too, and closing ours would not unlock.
        flock(&held.file, FlockOperation::Unlock).map_err(|errno| failed("the lock cannot be given back", errno))
    }

    fn content(&self, key: &Key) -> Result<(Option<OwnedFd>, Content)> {
        let Some(file) = self.open_file(&Own::name(key), OFlags::RDONLY)? else { return Ok((None, Content::Empty)) };
        let stat = fstat(&file).map_err(|errno| failed("a session file cannot be examined", errno))?;
        check_session_file(&stat)?;
        let content = read(&file, &stat)?;
        Ok((Some(file), content))
    }

    /// The caller has the gate.
    fn touch_file(&self, file: &OwnedFd, ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        let gone = || Error::new(ErrorKind::Gone, "there is no record to touch");
        let stat = fstat(file).map_err(|errno| failed("a session file cannot be examined", errno))?;
        let header = read_header_once(file)?.filter(|header| header.kind == Kind::Live).ok_or_else(gone)?;
        if header.expires.unwrap_or(mtime(&stat)) <= now {
            return Err(gone());
        }
        let (expires, ends) = ttl.deadline(now, header.created, header.ends);
        if ends != header.ends || header.expires.is_some() {
            // Writing sets the modification time to the present, and a process killed before the next call
            // would leave a session that looks expired. So the header now says the expiry itself.
            rustix::io::pwrite(file, &Header { ends, expires: Some(expires), ..header }.encode(), 0)
                .map_err(|errno| failed("a session file cannot be written", errno))?;
        }
        futimens(file, &modified_at(expires)).map_err(|errno| failed("a file's time cannot be set", errno))?;
        if self.durable {
            fsync(file).map_err(|errno| failed("a session file cannot be written to disk", errno))?;
        }
        Ok(())
    }
}

impl Store for Own {
    type Held = Held;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn begin(&self, asked: &Key, wait_max: Duration) -> Result<Locked<Held>> {
        let start = Instant::now();
        let (mut locked, moved_to) = follow(asked, |key| self.begin_at(key, start, wait_max))?;
        locked.found.moved_to = moved_to;
        Ok(locked)
    }

    fn fence(&self, held: &Held) -> u64 {
        held.fence
    }

    fn peek(&self, asked: &Key) -> Result<Found> {
        let now = self.clock.now();
        let (found, moved_to) = follow(asked, |key| Ok(self.content(key)?.1.look_up(key, now)))?;
        Ok(Found { moved_to, ..found })
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        let (expires, ends) = ttl.deadline(now, now, None);
        let header = Header::live(payload, 1, now, now, expires, ends);
        let mut new = self.write(key, &header, payload, expires)?;
        self.publish_if_free(key, &mut new)?;
        self.renamed(key)
    }

    fn commit(&self, held: Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        check_process(held.pid)?;
        let replaced = self.replace(&held, payload, ttl);
        if replaced.is_err() {
            gate::leave(&held.file);
            // The lock is no longer ours, whatever failed; what release could fail with says less.
            let _ = self.release(held);
        }
        replaced
    }

    fn touch(&self, asked: &Key, ttl: Ttl) -> Result<()> {
        let (mut key, mut steps) = (asked.clone(), 0);
        let gone = || Error::new(ErrorKind::Gone, "there is no record to touch");
        while steps < ALIAS_STEPS_MAX {
            let name = Own::name(&key);
            let (file, stat) = self.open_checked(&name)?.ok_or_else(gone)?;
            let content = read_header(&file)?.ok_or_else(gone)?;
            if content.kind == Kind::Regenerated
                && let Some(next) = read(&file, &stat)?.leads_to(&key, self.clock.now())
            {
                (key, steps) = (next.clone(), steps + 1);
                continue;
            }
            // Under the gate, so that a sweep does not remove what is being touched.
            gate::enter(&file)?;
            if self.still_names(&name, Identity::of(&stat))? {
                return self.touch_file(&file, ttl);
            }
            // A commit replaced the file meanwhile. That is no step: a busy session is not gone. Whoever goes
            // round here does so because another got on, so it ends when the commits do.
        }
        Err(circle())
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        check_process(held.pid)?;
        gate::within(&held.file, || self.check_lease(held).and_then(|()| self.touch_file(&held.file, ttl)))
    }

    fn release(&self, held: Held) -> Result<()> {
        self.release_lock(&held)
    }

    fn destroy(&self, asked: &Key) -> Result<()> {
        bury_all(asked, |key, buried| self.bury(key, buried))
    }

    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        check_process(held.pid)?;
        self.move_to(held, new, grace)
    }

    fn sweep(&self, budget: sessile_core::Budget) -> Result<Swept> {
        self.sweep_some(budget)
    }

    fn stat(&self) -> Result<sessile_core::Stat> {
        self.count()
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        self.page(cursor, filter)
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        self.check_all(progress)
    }

    fn sync(&self) -> Result<()> {
        file_system::sync(&self.directory.fd)
    }
}

/// The name of a session, for the waiting room.
struct Name<'a> {
    store: &'a Own,
    key: &'a Key,
    name: String,
}

impl Door for Name<'_> {
    fn open(&self) -> Result<OwnedFd> {
        // Most sessions exist. O_CREAT would take the directory's lock from the start, which a sweep or a commit
        // beside it holds while the file system removes or allocates an inode.
        if let Some(file) = self.store.open_file(&self.name, OFlags::RDWR)? {
            return Ok(file);
        }
        let flags = OFlags::RDWR | OFlags::CREATE;
        if let Some(file) = self.store.open_file(&self.name, flags)? {
            return Ok(file);
        }
        self.store.make_folder(self.key)?;
        let gone = || Error::new(ErrorKind::Io, "the store's directory was removed").advice("open it again");
        self.store.open_file(&self.name, flags)?.ok_or_else(gone)
    }

    fn named(&self) -> Result<Option<Stat>> {
        self.store.directory.stat(&self.name)
    }

    fn leads_on(&self, file: &OwnedFd) -> bool {
        let is_alias = || read_header(file).ok().flatten().is_some_and(|header| header.kind == Kind::Regenerated);
        let leads = || {
            let stat = fstat(file).ok()?;
            let content = read(file, &stat).ok()?;
            content.leads_to(self.key, self.store.clock.now()).map(|_| ())
        };
        is_alias() && leads().is_some()
    }

    fn watch_path(&self) -> PathBuf {
        self.store.directory.path.join(&self.name)
    }

    fn number(&self) -> i64 {
        let name = xxh3_64(self.name.as_bytes());
        i64::try_from(name >> 1).unwrap_or(0)
    }
}
