//! A new payload for a leased record, in the store's own mode. Three ways:
//!
//! * *In place*, by one write, if the record fits into the file's page. Nothing is allocated or
//!   freed, so the commit waits neither for the allocator nor for a sweep that keeps it busy.
//! * *Into the lease's empty file*, for the first record of a session: what follows the first page,
//!   then the first page by one write.
//! * *By rename* of a new file over the name: longer payloads, and every commit of a durable store.
//!
//! # Why a commit is whole or not there at all
//!
//! Full arguments and figures: docs/decisions/0007 and 0018.
//!
//! * *A kill.* The kernel copies a write within one page in one step, if its source is in memory
//!   ([`Page`], filled just before), and looks for signals before and after. The file keeps its
//!   length, that of a page. The header has the expiry, so the modification time may be wrong.
//! * *A kill in a first record.* A file longer than a page with zeros in place of the header has no
//!   record (content.rs).
//! * *Readers without the lock* may see a half-copied page. Its sums tell, and they read again.
//! * *Log-outs.* The write is done under the gate, after a check of the name (mod.rs).
//! * *A power cut* may tear a page: disks promise sectors. So durable stores never write in place.

use std::os::fd::OwnedFd;

use rustix::fs::{FlockOperation, Stat, flock};
use sessile_core::{Head, OwnerChange, Result, Stored, Ttl};

use super::OwnMode;
use crate::files::content::read_header;
use crate::files::frame::{HEADER_BYTES, Header, PAGE_BYTES};
use crate::files::gate;
use crate::files::mode::{Held, Mode};
use crate::files::system::{set_time, write_at};

const PAGE_FILE: u64 = PAGE_BYTES as u64;

type Saved<'a> = (&'a [u8], Ttl, OwnerChange);

/// The first page of a file: whole, so that nothing is left of a longer payload, and aligned,
/// because the second of two pages might not be in memory when the first is copied.
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

/// After an error the gate may still be held.
pub(super) fn commit(store: &OwnMode, held: &Held, saved: Saved<'_>) -> Result<()> {
    let fits = HEADER_BYTES + saved.0.len() <= PAGE_BYTES;
    match (held.read, held.file_bytes) {
        (None, 0) if !store.durable => fill(store, held, saved),
        (Some(_), PAGE_FILE) if fits && !store.durable => overwrite(store, held, saved),
        _ => rename_over(store, held, saved),
    }
}

fn enter_lease(store: &OwnMode, held: &Held) -> Result<Stat> {
    gate::enter(&held.file)?;
    store.name(&held.key).check_lease(held.identity)
}

/// If it fails, the release removes the file.
fn fill(store: &OwnMode, held: &Held, (payload, ttl, set): Saved<'_>) -> Result<()> {
    let head = Head::next(None, ttl, store.now()).with_owner(set);
    let rest = payload.get(PAGE_BYTES - HEADER_BYTES..).unwrap_or_default();
    write_at(&held.file, rest, PAGE_BYTES)?;
    enter_lease(store, held)?;
    write_first_page(&held.file, head, payload)
}

/// Not if the modification time alone is the file's expiry (format 1): it changes before the bytes
/// do, and a reader in between would find the record expired.
fn overwrite(store: &OwnMode, held: &Held, saved: Saved<'_>) -> Result<()> {
    let (payload, ttl, set) = saved;
    let header = read_header(&held.file, &enter_lease(store, held)?)?;
    if !header.has_expiry {
        gate::release(&held.file);
        return rename_over(store, held, saved);
    }
    // The stored head: a touch without the lease may have set another absolute end meanwhile.
    let head = Head::next(header.stored.head(), ttl, store.now()).with_owner(set);
    write_first_page(&held.file, head, payload)
}

/// The commit itself, under the gate, which it leaves.
fn write_first_page(file: &OwnedFd, head: Head, payload: &[u8]) -> Result<()> {
    let header = Header::new(&Stored::<()>::Live(head), payload, head.written);
    write_at(file, &Page::new(&header, payload).0, 0)?;
    // The commit is done: no failure may be returned from here on. The unlock is explicit, because
    // a child forked meanwhile shares the description. It precedes the new time, which wakes
    // waiters. The gate still keeps the next commit out.
    let _ = flock(file, FlockOperation::Unlock); // if it fails, closing does the same
    if let Err(error) = set_time(file, head.expires) {
        // The header has the expiry.
        log::warn!("a session is written, but the time of its file cannot be set: {error:#}");
    }
    gate::release(file);
    Ok(())
}

fn rename_over(store: &OwnMode, held: &Held, (payload, ttl, set): Saved<'_>) -> Result<()> {
    let now = store.now();
    let head = Head::next(held.read, ttl, now).with_owner(set);
    let mut new = store.write(&held.key, &Stored::Live(head), payload)?;
    let stat = enter_lease(store, held)?;
    if held.read.is_some() {
        // As in `overwrite`.
        let stored = read_header(&held.file, &stat)?.stored;
        let touched = Head::next(stored.head(), ttl, now).with_owner(set);
        if touched.ends != head.ends {
            let header = Header::new(&Stored::<()>::Live(touched), payload, now);
            write_at(&new.file, &header.encode(), 0)?;
            new.finish(touched.expires, store.durable)?;
        }
    }
    let name = store.name(&held.key);
    new.publish(&name)?;
    // Closing the lease's file releases the gate: its inode has no name any more.
    name.sync_if(store.durable)
}
