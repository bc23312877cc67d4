//! `files:/dir`, the store's own mode: one file for each session.
//!
//! ```text
//!   dir/format                     "sessile files 1"
//!   dir/waiting, dir/.turns/       the queues of waiters (see queue.rs)
//!   dir/session/3f/<id>            bin / two hex digits of the id's hash / id
//!   dir/session/3f/~<pid>-<n>-<t>  a temporary file, before its rename
//! ```
//!
//! A name stands for an inode that is live (a record), past (destroyed, regenerated) or empty (a
//! placeholder to lock). A lease is a flock on the inode that had the name at `begin`.
//!
//! # Why a destroyed session never comes back
//!
//! A name leaves an inode only under that inode's gate, and the inode gets no name again (gate.rs).
//! `commit` enters the gate of its leased inode, checks the name, and overwrites the inode or
//! renames a new file over the name. `destroy` enters the gate of the inode that it finds, checks
//! the name, and renames a tombstone over it. (It removes the name of an empty inode: no record
//! could come back.) So one of the two is first:
//!
//! * Commit first: destroy finds the new record, under this inode or (it starts over) another.
//! * Destroy first: the leased inode has lost its name for ever, whatever gets the name later. The
//!   commit sees a foreign inode and returns `Destroyed`.
//!
//! SIGKILL drops gate and flock with the descriptors. Others see only one step, the write or the
//! rename. Before it nothing has changed but a temporary file, which the sweep removes.
//!
//! Only `move_record` gives an inode another name, by an atomic exchange. A lease follows the inode
//! to it, under both gates.

mod commit;
mod verify;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{OFlags, RenameFlags, Stat};
use sessile_core::{
    Clock, ErrorKind, Head, Key, Owner, OwnerChange, Result, Stored, Timestamp, Ttl, Verified,
};
use xxhash_rust::xxh3::xxh3_64;

use super::claim::claim;
use super::content::{self, alias_target, read_header};
use super::directory::{Directory, FileName, Opened};
use super::frame::{Header, outgrown};
use super::gate;
use super::lock::{lock_free, try_flock};
use super::mode::{FileRole, Held, Mode, bin_role, session_role};
use super::sweep::remove_if_due;
use super::system::{examine, mtime, set_time, size, sync_if, write_at};
use super::temporary::{TEMPORARY, Temporary};

pub struct OwnMode {
    directory: Arc<Directory>,
    clock: Clock,
    durable: bool,
}

fn folder(key: &Key) -> String {
    format!("{}/{:02x}/", key.bin().name(), xxh3_64(key.id().as_bytes()) & 0xff)
}

impl OwnMode {
    pub fn open(path: &Path, clock: Clock, durable: bool) -> Result<OwnMode> {
        let directory = Arc::new(Directory::open(path, false)?);
        claim(&directory, &clock)?;
        Ok(OwnMode { directory, clock, durable })
    }

    fn name(&self, key: &Key) -> FileName<'_> {
        self.directory.name(folder(key) + key.id())
    }

    fn write(&self, key: &Key, stored: &Stored, payload: &[u8]) -> Result<Temporary<'_>> {
        let new = Temporary::create(&self.name(key))?;
        content::write(&new, stored, payload, self.now(), self.durable)?;
        Ok(new)
    }

    /// `Exists` unless the id is free.
    fn publish_if_free(&self, key: &Key, new: &mut Temporary<'_>) -> Result<()> {
        let name = self.name(key);
        if new.link(&name)? {
            return Ok(());
        }
        let _old = lock_free(self, key)?;
        new.publish(&name)
    }
}

impl Mode for OwnMode {
    fn root(&self) -> &Directory {
        &self.directory
    }

    fn side(&self) -> &Arc<Directory> {
        &self.directory
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn expiry(&self, stat: &Stat) -> Timestamp {
        mtime(stat)
    }

    fn file(&self, key: &Key) -> Result<FileName<'_>> {
        Ok(self.name(key))
    }

    fn role(&self, folder: &str, name: &str) -> FileRole {
        let mut parts = folder.split_terminator('/');
        let is_digit = |digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        match (parts.next(), parts.next()) {
            _ if name.starts_with(TEMPORARY) => FileRole::Temporary,
            (Some(bin), Some(_)) => session_role(bin, name),
            (Some(_), None) if name.len() == 2 && name.bytes().all(is_digit) => {
                FileRole::Folder(None)
            }
            (None, _) => bin_role(name),
            _ => FileRole::Foreign,
        }
    }

    fn peek(&self, key: &Key) -> Result<(Stored, Vec<u8>)> {
        match self.name(key).open_checked(OFlags::RDONLY)? {
            Some((file, stat)) => content::read(key, &file, &stat),
            None => Ok((Stored::Nothing, Vec::new())),
        }
    }

    fn read(&self, key: &Key, file: &OwnedFd, stat: &Stat) -> Result<(Stored, Vec<u8>)> {
        content::read(key, file, stat)
    }

    fn read_head(&self, key: &Key) -> Result<Option<(Head, u64)>> {
        let Some(file) = self.name(key).open(OFlags::RDONLY)? else { return Ok(None) };
        let stat = examine(&file)?;
        let header = read_header(&file, &stat)?;
        match header.stored.head() {
            Some(_) if !header.fits(size(&stat)) => Err(outgrown()),
            head => Ok(head.map(|head| (head, header.payload_bytes))),
        }
    }

    fn leads_to(&self, key: &Key, opened: Option<&Opened>) -> Result<Option<Key>> {
        opened.map_or(Ok(None), |opened| alias_target(key, opened, self.now()))
    }

    fn before_release(&self, held: &Held) -> Result<()> {
        if held.read.is_some() || held.file_bytes > 0 {
            return Ok(());
        }
        gate::within(&held.file, || {
            let name = self.name(&held.key);
            if name.stat_of(held.identity)?.is_some() { name.unlink() } else { Ok(()) }
        })
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let head = Head::next(None, ttl, self.now());
        let mut new = self.write(key, &Stored::Live(head), payload)?;
        self.publish_if_free(key, &mut new)?;
        self.name(key).sync_if(self.durable)
    }

    fn commit(&self, held: &Held, saved: (&[u8], Ttl, OwnerChange)) -> Result<()> {
        commit::commit(self, held, saved)
    }

    fn touch(&self, file: &OwnedFd, stat: &Stat, ttl: Ttl) -> Result<()> {
        let header = read_header(file, stat)?;
        let head = header.stored.touched(ttl, self.now())?;
        if header.has_expiry || header.stored.head().is_some_and(|old| old.ends != head.ends) {
            // Writing sets the modification time to the present: after a kill before the next call
            // only the header has the expiry.
            let header = Header { stored: Stored::Live(head), has_expiry: true, ..header };
            write_at(file, &header.encode(), 0)?;
        }
        set_time(file, head.expires)?;
        sync_if(file, self.durable)
    }

    fn destroy(&self, key: &Key, opened: Option<&Opened>) -> Result<bool> {
        let Some(opened) = opened else { return Ok(true) };
        let (name, tombstone) = (self.name(key), Stored::tombstone(0, self.now()));
        let mut new = match size(&opened.1) {
            0 => None,
            _ => Some(self.write(key, &tombstone, b"")?),
        };
        match (name.enter_gate(opened)?, &mut new) {
            // There was no record. A lease of it cannot commit: its file has no name.
            (Some(stat), None) if size(&stat) == 0 => name.unlink()?,
            (Some(_), Some(tombstone)) => {
                tombstone.publish(&name)?;
                name.sync_if(self.durable)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn destroy_owned(&self, key: &Key, owner: Owner) -> Result<bool> {
        let name = self.name(key);
        // Starts over when the name has got another file, as `Files::touch` does.
        loop {
            let Some(opened) = name.open_checked(OFlags::RDWR)? else { return Ok(false) };
            let mut tombstone = self.write(key, &Stored::tombstone(0, self.now()), b"")?;
            let Some(stat) = name.enter_gate(&opened)? else { continue };
            // Under the gate: a commit in place may have changed the owner meanwhile. Damaged bytes
            // belong to nobody.
            let stored = match read_header(&opened.0, &stat) {
                Err(error) if *error.kind() == ErrorKind::Corrupt => Stored::Nothing,
                header => header?.stored,
            };
            let head = stored.live(self.now());
            if head.and_then(|head| head.owner) != Some(owner) {
                return Ok(false);
            }
            tombstone.publish(&name)?;
            name.sync_if(self.durable)?;
            return Ok(true);
        }
    }

    fn regenerated_to(&self, key: &Key) -> Result<Option<Key>> {
        Ok(self.peek(key)?.0.regenerated_to().cloned())
    }

    /// First the alias is published under the new id. Then one system call exchanges the two names:
    /// the leased inode, and with it the lock, moves to the new id, the alias to the old one. A
    /// crash in between leaves the record under the old id, and under the new one an alias of
    /// itself, which reads as missing and is swept. At no moment has the record no id, or does the
    /// old cookie lead nowhere.
    fn move_record(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        let alias = Stored::alias(new.clone(), grace, self.now());
        let mut alias = self.write(new, &alias, b"")?;
        // Before it is visible: to others the new id is taken from its first moment on. The locks
        // of a file without a name are free.
        try_flock(&alias.file)?;
        gate::enter(&alias.file)?;
        self.publish_if_free(new, &mut alias)?;
        // No deadlock: only here two gates are waited for, and no other process exchanges the
        // inode that we have leased.
        gate::enter(&held.file)?;
        let (old_name, new_name) = (self.name(&held.key), self.name(new));
        let moved = old_name
            .check_lease(held.identity)
            .and_then(|_| old_name.rename(&new_name, RenameFlags::EXCHANGE));
        gate::release(&held.file);
        if moved.is_err() {
            // The alias still has the new name. A leftover would be harmless.
            let _ = new_name.unlink();
        }
        gate::release(&alias.file);
        moved?;
        held.key = new.clone();
        old_name.sync_if(self.durable)?;
        new_name.sync_if(self.durable)
    }

    fn sweep_file(&self, _: &FileRole, name: &FileName<'_>) -> Result<bool> {
        let now = self.now();
        remove_if_due(
            name,
            |stat| mtime(stat) <= now || size(stat) == 0,
            |file, stat| {
                // A file that cannot be read is left for its operator.
                let stored = read_header(file, stat).ok()?.stored;
                let is_due = stored.due().is_none_or(|due| due <= now);
                is_due.then(|| stored.head().is_some())
            },
        )
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        verify::verify(self, progress)
    }
}
