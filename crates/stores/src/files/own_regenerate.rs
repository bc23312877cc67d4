//! A new id for a leased record, in the store's own mode.
//!
//! The switch is one system call: the alias file is first published under the new id, then the two names are
//! exchanged. The leased inode, and with it the lock, thereby moves to the new id while the alias appears under
//! the old one.
//!
//! A crash before the exchange leaves the record under the old id, and under the new one an alias that leads to
//! itself, which reads as missing and is swept. A crash after it leaves everything done. There is no moment in
//! which the record has no id, or in which the visitor's old cookie leads nowhere within the grace.

use std::time::Duration;

use rustix::fs::{AtFlags, RenameFlags, renameat_with, unlinkat};
use sessile_core::{Key, Limits, Result};

use super::content::target;
use super::frame::{Header, Kind};
use super::gate;
use super::own::{Held, Own};
use super::system::{Identity, failed};
use super::wait::try_flock;

impl Own {
    pub(super) fn move_to(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        if held.record.is_some() { self.move_record(held, new, grace) } else { self.move_lock(held, new) }
    }

    fn move_record(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        let now = self.clock.now();
        let payload = target(new);
        let header =
            Header { written: now, ends: Some(now.plus(grace)), ..Header::new(Kind::Regenerated, payload.as_bytes()) };
        let forget = now.plus(grace).plus(Limits::TOMBSTONE_TTL);
        let mut alias = self.write(new, &header, payload.as_bytes(), forget)?;
        // Locked before anyone can see it: to others the new id is taken from its first moment on. Nobody can
        // hold either lock of a file that has no name yet.
        try_flock(alias.file())?;
        gate::enter(alias.file())?;
        self.publish_if_free(new, &mut alias)?;
        // Two gates, but no circle: who has the gate of a published file waits for no other, except here, and
        // the second gate is that of an inode which we have leased, so nobody else exchanges it.
        gate::enter(&held.file)?;
        let (old_name, new_name) = (Own::name(&held.key), Own::name(new));
        let directory = &self.directory.fd;
        let moved = self.check_lease(held).and_then(|()| {
            renameat_with(directory, &old_name, directory, &new_name, RenameFlags::EXCHANGE)
                .map_err(|errno| failed("the session file cannot get its new name", errno))
        });
        gate::leave(&held.file);
        if let Err(error) = moved {
            // Under its gate the alias still has the new name. Left behind it would be harmless.
            let _ = unlinkat(directory, &new_name, AtFlags::empty());
            gate::leave(alias.file());
            return Err(error);
        }
        gate::leave(alias.file());
        let old = std::mem::replace(&mut held.key, new.clone());
        self.renamed(&old)?;
        self.renamed(new)
    }

    /// Without a record only the lock moves, to an empty file under the new id.
    fn move_lock(&self, held: &mut Held, new: &Key) -> Result<()> {
        let mut placeholder = self.create_temporary(new)?;
        try_flock(placeholder.file())?;
        let stat = rustix::fs::fstat(placeholder.file())
            .map_err(|errno| failed("a session file cannot be examined", errno))?;
        gate::within(&held.file, || self.check_lease(held))?;
        self.publish_if_free(new, &mut placeholder)?;
        let file = placeholder.share_file()?;
        let fence = held.fence;
        let moved = Held {
            file,
            identity: Identity::of(&stat),
            key: new.clone(),
            fence,
            pid: held.pid,
            record: None,
            placeholder: true,
        };
        self.release_lock(&std::mem::replace(held, moved))
    }
}
