//! A new payload for a leased record, in the store's own mode.
//!
//! Three ways. A record that fits into the page its file has is overwritten in place, by one write: no inode and
//! no block is allocated or freed, so a commit neither waits for the file system's allocator nor for a sweep
//! that keeps it busy. The first record of a session goes into the empty file that its lease made. Everything else
//! is written beside and renamed over the name: payloads that are longer than a page, every commit of a durable
//! store. docs/decisions/0007 and 0018 have the reasons and the figures.
//!
//! # Why a commit in place is whole or not there at all
//!
//! * *A kill.* The kernel copies a write that lies within one page of a file in one step, if what it copies is in
//!   memory, and looks for signals before and after it. What it copies is one page too ([`Page`]), which was filled
//!   the instant before. The length of the file does not change: a file of up to a page is filled up with zeros
//!   when it is made. Only the modification time may be left at the present, and it is not asked: the header says
//!   the expiry.
//! * *Readers without the lock.* They may see a half-copied page, which its sums tell, and read again
//!   (content.rs).
//! * *Log-outs.* The write is done under the gate, after looking that the name still stands for the leased
//!   inode, as a rename is. See own.rs.
//! * *A power cut* is why a durable store never does it: disks promise sectors, not pages.
//!
//! # Why a first record is whole or not there at all
//!
//! What is longer than a page is written from the second page on, then the first page, which has the header, by one
//! write as above. A file that has only zeros where the header belongs, and more than a page, is a session without a
//! record (content.rs), to readers beside the writer as to those who come after its death; so nobody sees the part
//! before that write, and it needs no gate. That write is done under the gate, like the other one.

use std::os::fd::OwnedFd;

use rustix::fs::{FlockOperation, flock, futimens};
use sessile_core::{Record, Result, Timestamp, Ttl};

use super::content::read_header_once;
use super::frame::{HEADER_BYTES, Header, PAGE_BYTES};
use super::gate;
use super::own::{Held, Own};
use super::system::{failed, modified_at};

/// What a new payload inherits from the old record.
#[derive(Clone, Copy)]
pub(super) struct Base {
    version: u64,
    created: Timestamp,
    ends: Option<Timestamp>,
    /// The leased file has the size of a page.
    one_page: bool,
}

impl Base {
    pub fn of(record: &Record, file_bytes: u64) -> Base {
        let one_page = file_bytes == PAGE_BYTES as u64;
        Base { version: record.version, created: record.created, ends: record.ends, one_page }
    }
}

/// The first page of a file, which is written in place: all of it, so that nothing is left of a longer payload.
/// Aligned, because of two pages the second may not be in memory when the first is copied.
#[repr(align(4096))]
struct Page([u8; PAGE_BYTES]);

impl Page {
    fn new(header: &Header, payload: &[u8]) -> Page {
        let mut page = Page([0; PAGE_BYTES]);
        if let Some((head, body)) = page.0.split_first_chunk_mut() {
            *head = header.encode();
            body.iter_mut().zip(payload).for_each(|(to, from)| *to = *from);
        }
        page
    }
}

fn write_at(file: &OwnedFd, bytes: &[u8], at: usize) -> Result<()> {
    let mut written = 0;
    // A disk that is almost full takes a part, and says why only the next time.
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        written += rustix::io::pwrite(file, rest, (at + written) as u64)
            .map_err(|errno| failed("a session file cannot be written", errno))?;
    }
    Ok(())
}

impl Own {
    pub(super) fn replace(&self, held: &Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        let fits = HEADER_BYTES + payload.len() <= PAGE_BYTES;
        match held.record {
            _ if self.durable => {}
            None if held.placeholder => return self.fill(held, payload, ttl),
            Some(base) if base.one_page && fits && self.overwrite(held, &base, payload, ttl)? => return Ok(()),
            _ => {}
        }
        self.rename_over(held, payload, ttl)
    }

    /// The first record, into the empty file of the lease. When it fails, the release removes the file.
    fn fill(&self, held: &Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        let (expires, ends) = ttl.deadline(now, now, None);
        let header = Header::live(payload, 1, now, now, expires, ends);
        write_at(&held.file, payload.get(PAGE_BYTES - HEADER_BYTES..).unwrap_or_default(), PAGE_BYTES)?;
        gate::enter(&held.file)?;
        self.check_lease(held)?;
        self.write_first_page(held, &Page::new(&header, payload), expires)
    }

    /// False, with nothing changed, when the file's expiry is its modification time alone (format 1): that changes
    /// before the bytes do, and a reader in between would take the record for expired.
    fn overwrite(&self, held: &Held, base: &Base, payload: &[u8], ttl: Ttl) -> Result<bool> {
        let now = self.clock.now();
        gate::enter(&held.file)?;
        self.check_lease(held)?;
        let Some(stored) = read_header_once(&held.file)?.filter(|header| header.expires.is_some()) else {
            gate::leave(&held.file);
            return Ok(false);
        };
        // The stored end: someone without a lease may have set another one meanwhile.
        let (expires, ends) = ttl.deadline(now, base.created, stored.ends);
        let header = Header::live(payload, base.version + 1, base.created, now, expires, ends);
        self.write_first_page(held, &Page::new(&header, payload), expires)?;
        Ok(true)
    }

    /// The commit itself, under the gate, which is left.
    fn write_first_page(&self, held: &Held, page: &Page, expires: Timestamp) -> Result<()> {
        write_at(&held.file, &page.0, 0)?;
        // The commit is done: from here on nothing may be called a failure.
        // Unlocked explicitly: a child forked meanwhile has the description too. And before the time is set,
        // which wakes those who wait: they find the lock free. The gate still keeps the next commit out.
        let _ = flock(&held.file, FlockOperation::Unlock); // if it fails, closing does the same
        if let Err(errno) = futimens(&held.file, &modified_at(expires)) {
            // The header says the expiry. The sweep only looks into this file more often than it had to.
            log::warn!("a session is written, but the time of its file cannot be set: {errno}");
        }
        gate::leave(&held.file);
        Ok(())
    }

    fn rename_over(&self, held: &Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        let name = Own::name(&held.key);
        let (version, created, ends) =
            held.record.map_or((0, now, None), |base| (base.version, base.created, base.ends));
        let (expires, ends) = ttl.deadline(now, created, ends);
        let header = Header::live(payload, version + 1, created, now, expires, ends);
        let mut new = self.write(&held.key, &header, payload, expires)?;
        gate::enter(&held.file)?;
        self.check_lease(held)?;
        if held.record.is_some() {
            // Someone without a lease may have set another absolute end meanwhile.
            let stored = read_header_once(&held.file)?.and_then(|header| header.ends);
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
