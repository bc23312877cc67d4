//! A new payload for a leased record, in the store's own mode.
//!
//! Two ways. A record that fits into the page its file has is overwritten in place, by one write: no inode and
//! no block is allocated or freed, so a commit neither waits for the file system's allocator nor for a sweep
//! that keeps it busy. Everything else is written beside and renamed over the name: longer payloads, the first
//! commit of a session, every commit of a durable store. docs/decisions/0007 has the reasons and the figures.
//!
//! # Why a commit in place is whole or not there at all
//!
//! * *A kill.* The kernel copies a write that lies within one page of a file in one step; a signal is looked at
//!   before and after it. The length of the file does not change: a file of up to a page is filled up with
//!   zeros when it is made. Only the modification time may be left at the present, and it is not asked: the
//!   header says the expiry.
//! * *Readers without the lock.* They may see a half-copied page, which its sums tell, and read again
//!   (content.rs).
//! * *Log-outs.* The write is done under the gate, after looking that the name still stands for the leased
//!   inode, as a rename is. See own.rs.
//! * *A power cut* is why a durable store never does it: disks promise sectors, not pages.

use rustix::fs::{FlockOperation, flock, futimens};
use sessile_core::{Record, Result, Timestamp, Ttl};

use super::content::read_header;
use super::frame::{HEADER_BYTES, Header, Kind, PAGE_BYTES};
use super::gate;
use super::own::{Held, Own};
use super::system::{failed, modified_at};

/// What a new payload inherits from the old record.
#[derive(Clone, Copy)]
pub(super) struct Base {
    version: u64,
    created: Timestamp,
    ends: Option<Timestamp>,
    /// The size of the leased file.
    file_bytes: usize,
}

impl Base {
    pub fn of(record: &Record, file_bytes: u64) -> Base {
        let file_bytes = usize::try_from(file_bytes).unwrap_or(usize::MAX);
        Base { version: record.version, created: record.created, ends: record.ends, file_bytes }
    }
}

impl Own {
    pub(super) fn replace(&self, held: &Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        if let Some(base) = held.record
            && !self.durable
            && base.file_bytes <= PAGE_BYTES
            && HEADER_BYTES + payload.len() <= base.file_bytes
            && self.overwrite(held, &base, payload, ttl)?
        {
            return Ok(());
        }
        self.rename_over(held, payload, ttl)
    }

    /// False, with nothing changed, when the file's expiry is its modification time alone: that changes before
    /// the bytes do, and a reader in between would take the record for expired.
    fn overwrite(&self, held: &Held, base: &Base, payload: &[u8], ttl: Ttl) -> Result<bool> {
        let now = self.clock.now();
        gate::enter(&held.file)?;
        self.check_lease(held)?;
        let Some(stored) = read_header(&held.file)?.filter(|header| header.expires.is_some()) else {
            gate::leave(&held.file);
            return Ok(false);
        };
        // The stored end: someone without a lease may have set another one meanwhile.
        let (expires, ends) = ttl.deadline(now, base.created, stored.ends);
        let header = Header {
            version: base.version + 1,
            created: base.created,
            written: now,
            ends,
            expires: Some(expires),
            ..Header::new(Kind::Live, payload)
        };
        let mut bytes = Vec::with_capacity(PAGE_BYTES);
        bytes.extend_from_slice(&header.encode());
        bytes.extend_from_slice(payload);
        // What is left of a longer payload is wiped by the same write.
        bytes.resize(bytes.len().max(stored.end().min(base.file_bytes)), 0);
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            written += rustix::io::pwrite(&held.file, rest, written as u64)
                .map_err(|errno| failed("a session file cannot be written", errno))?;
        }
        // Unlocked explicitly: a child forked meanwhile has the description too. And before the time is set,
        // which wakes those who wait: they find the lock free. The gate still keeps the next commit out.
        flock(&held.file, FlockOperation::Unlock).map_err(|errno| failed("the lock cannot be given back", errno))?;
        futimens(&held.file, &modified_at(expires)).map_err(|errno| failed("a file's time cannot be set", errno))?;
        gate::leave(&held.file);
        Ok(true)
    }

    fn rename_over(&self, held: &Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        let name = Own::name(&held.key);
        let (version, created, ends) =
            held.record.map_or((0, now, None), |base| (base.version, base.created, base.ends));
        let (expires, ends) = ttl.deadline(now, created, ends);
        let header = Header {
            version: version + 1,
            created,
            written: now,
            ends,
            expires: Some(expires),
            ..Header::new(Kind::Live, payload)
        };
        let mut new = self.write(&held.key, &header, payload, expires)?;
        gate::enter(&held.file)?;
        self.check_lease(held)?;
        if held.record.is_some() {
            // Someone without a lease may have set another absolute end meanwhile.
            let stored = read_header(&held.file)?.and_then(|header| header.ends);
            let (expires, ends) = ttl.deadline(now, created, stored);
            if ends != header.ends {
                new.rewrite_header(&Header { ends, expires: Some(expires), ..header }, expires)?;
            }
        }
        new.publish(&name)?;
        // The gate goes with the lease's file: its inode has no name any more.
        self.renamed(&held.key)
    }
}
