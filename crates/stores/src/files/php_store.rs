//! The operations of the contract on a directory that is shared with PHP. See php.rs for the rules.

use std::time::{Duration, Instant};

use rustix::fs::{OFlags, RenameFlags, fstat, futimens, renameat, renameat_with};
use rustix::io::Errno;
use sessile_core::{
    Budget, Capabilities, Cursor, Error, ErrorKind, Filter, Found, Key, Limits, Locked, Page, Record, Result, Stat,
    Store, Swept, Ttl,
};

use super::alias::{ALIAS_STEPS_MAX, Step, bury_all, follow};
use super::content::target;
use super::frame::{Header, Kind};
use super::gate;
use super::php::{Held, Php, read_payload};
use super::php_directory::unlink;
use super::php_note::{Note, record};
use super::php_redo::{self, page_sums};
use super::system::{Identity, check_process, failed, modified_at, mtime, size};
use crate::file_system;

/// A reader without a lock tries this often for two reads that agree.
const SNAPSHOT_TRIES_MAX: usize = 100;
/// Longer than a write of PHP's takes for a page.
const SNAPSHOT_PAUSE: Duration = Duration::from_micros(50);

impl Store for Php {
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
        let (found, moved_to) = follow(asked, |key| {
            Ok(match self.snapshot(key)? {
                Some(record) if !record.expired(now) => Step::Here(Found::live(record)),
                Some(_) => Step::Here(Found::nothing()),
                None => self.shared.past(key)?.look_up(key, now),
            })
        })?;
        Ok(Found { moved_to, ..found })
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        let (expires, ends) = ttl.deadline(now, now, None);
        let note = Note::of(payload, 1, now, now, ends);
        self.check_alias_free(key)?;
        let (file, from) = self.shared.write_beside(key.bin(), payload, None)?;
        let ready = note.write(&file).and_then(|()| {
            futimens(&file, &modified_at(expires.minus(self.maxlifetime)))
                .map_err(|errno| failed("a file's time cannot be set", errno))?;
            if self.durable { php_redo::sync(&file) } else { Ok(()) }
        });
        let (directory, to) = self.shared.file(key)?;
        let linked = ready.and_then(|()| {
            let beside = &self.shared.beside.fd;
            match renameat_with(beside, &from, &directory.fd, &to, RenameFlags::NOREPLACE) {
                Ok(()) => Ok(true),
                Err(Errno::EXIST) => Ok(false),
                Err(Errno::NOENT) => Err(self.shared.missing_directory()),
                Err(errno) => Err(failed("a session file cannot be put in place", errno)),
            }
        });
        if !matches!(linked, Ok(true)) {
            unlink(&self.shared.beside, &from)?;
        }
        if linked? {
            return self.sync_name(key);
        }
        // Something is there: an expired record or PHP's empty file is free, and keeps its inode.
        let taken = || Error::new(ErrorKind::Exists, "the id is taken");
        let (file, stat) = match self.lock_free(key) {
            Err(error) if *error.kind() == ErrorKind::Exists => return Err(taken()),
            locked => locked?,
        };
        let old_pages = page_sums(&read_payload(&file, size(&stat))?);
        gate::enter(&file)?;
        if !self.shared.still_names(key, Identity::of(&stat))? {
            return Err(taken());
        }
        self.overwrite(key, &file, (size(&stat), &old_pages), (payload, &note, expires))
    }

    fn commit(&self, held: Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        check_process(held.pid)?;
        gate::enter(&held.file)?;
        let replaced = self.replace(&held, payload, ttl);
        gate::leave(&held.file);
        replaced.and(self.unlock(&held))
    }

    fn touch(&self, asked: &Key, ttl: Ttl) -> Result<()> {
        let mut key = asked.clone();
        let gone = || Error::new(ErrorKind::Gone, "there is no record to touch");
        for _ in 0..ALIAS_STEPS_MAX {
            let opened = self.shared.open_checked(&key, OFlags::RDWR)?;
            if opened.as_ref().is_none_or(|(_, stat)| size(stat) == 0)
                && let Some(next) = self.shared.past(&key)?.leads_to(&key, self.clock.now())
            {
                key = next.clone();
                continue;
            }
            let (file, stat) = opened.ok_or_else(gone)?;
            gate::enter(&file)?;
            if self.shared.still_names(&key, Identity::of(&stat))? {
                return self.touch_file(&file, ttl);
            }
        }
        Err(gone())
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        check_process(held.pid)?;
        gate::within(&held.file, || self.check_lease(held).and_then(|()| self.touch_file(&held.file, ttl)))
    }

    fn release(&self, held: Held) -> Result<()> {
        self.unlock(&held)
    }

    fn destroy(&self, asked: &Key) -> Result<()> {
        bury_all(asked, |key, buried| self.bury(key, buried))
    }

    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        check_process(held.pid)?;
        if held.record.is_some() {
            return self.move_record(held, new, grace);
        }
        gate::within(&held.file, || self.check_lease(held))?;
        let (file, stat) = self.lock_free(new)?;
        let old_pages = page_sums(&read_payload(&file, size(&stat))?);
        let moved = Held {
            identity: Identity::of(&stat),
            key: new.clone(),
            old_bytes: size(&stat),
            old_pages,
            record: None,
            file,
            ..*held
        };
        self.unlock(&std::mem::replace(held, moved))
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        self.sweep_some(budget)
    }

    fn stat(&self) -> Result<Stat> {
        self.count()
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        self.page(cursor, filter)
    }

    fn sync(&self) -> Result<()> {
        file_system::sync(&self.shared.root.fd)
    }
}

impl Php {
    /// What a reader without a lock sees. A payload that fits its note is whole. One that does not was written
    /// by PHP, or is being written: then an unfinished commit says what is coming, or else two reads that agree.
    pub(super) fn snapshot(&self, key: &Key) -> Result<Option<Record>> {
        let mut before = None;
        for _ in 0..SNAPSHOT_TRIES_MAX {
            let Some((file, _)) = self.shared.open_checked(key, OFlags::RDONLY)? else { return Ok(None) };
            let stat = fstat(&file).map_err(|errno| failed("a session file cannot be examined", errno))?;
            let payload = read_payload(&file, size(&stat))?;
            let note = Note::read(&file);
            if note.is_some_and(|note| note.fits(&payload)) {
                return Ok(record(payload, mtime(&stat), self.expiry(&stat), note));
            }
            if let Some(Some(redo)) = self.read_redo(key)?
                && redo.belongs_to(&file, &payload)
            {
                return Ok(redo.record(self.maxlifetime));
            }
            let seen = (Identity::of(&stat), mtime(&stat), payload);
            if before.as_ref() == Some(&seen) {
                return Ok(record(seen.2, seen.1, self.expiry(&stat), note));
            }
            before = Some(seen);
            std::thread::sleep(SNAPSHOT_PAUSE);
        }
        Err(Error::new(ErrorKind::Io, "the session is being written without a break").advice("try again"))
    }

    /// A rename, so that the inode and the lock follow. The alias is written before it: until the rename it is
    /// not looked at, because the old id still has a session. A crash in between leaves the old id as it was.
    fn move_record(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        let now = self.clock.now();
        self.check_alias_free(new)?;
        // Held until the rename, so that nobody else takes a free id meanwhile.
        let free = match self.shared.stat(new)? {
            Some(_) => Some(self.lock_free(new)?),
            None => None,
        };
        gate::within(&held.file, || {
            self.check_lease(held)?;
            let payload = target(new);
            let ends = Some(now.plus(grace));
            let header = Header { written: now, ends, ..Header::new(Kind::Regenerated, payload.as_bytes()) };
            let forget = now.plus(grace).plus(Limits::TOMBSTONE_TTL);
            self.shared.remember(&held.key, &header, payload.as_bytes(), forget)?;
            self.rename(&held.key, new, free.is_some()).inspect_err(|_| {
                // Without its rename the alias would lead to an id that is not ours once the session ends.
                let _ = self.shared.forget(&held.key);
            })
        })?;
        let old = std::mem::replace(&mut held.key, new.clone());
        self.sync_name(&old)?;
        self.sync_name(new)
    }

    fn rename(&self, old: &Key, new: &Key, replace: bool) -> Result<()> {
        let ((from, from_name), (to, to_name)) = (self.shared.file(old)?, self.shared.file(new)?);
        let renamed = if replace {
            renameat(&from.fd, &from_name, &to.fd, &to_name)
        } else {
            renameat_with(&from.fd, &from_name, &to.fd, &to_name, RenameFlags::NOREPLACE)
        };
        renamed.map_err(|errno| match errno {
            Errno::EXIST => Error::new(ErrorKind::Exists, "the new id is taken"),
            Errno::NOENT => self.shared.missing_directory(),
            errno => failed("the session file cannot get its new name", errno),
        })
    }

    /// Makes the name of a session durable, if the store was opened so.
    fn sync_name(&self, key: &Key) -> Result<()> {
        if !self.durable {
            return Ok(());
        }
        let (directory, name) = self.shared.file(key)?;
        directory.sync(name.rsplit_once('/').map_or(".", |(parents, _)| parents))
    }
}
