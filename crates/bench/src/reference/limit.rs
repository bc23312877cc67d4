//! `limit`: what physics allows. One process; no lock, checksum, expiry or allocation. A cycle is one look-up in
//! a pre-sized open-addressing table, a copy of the payload out, a copy of the new payload into another slot,
//! taken from a ring of n/4 free ones, and a swap of the location.

use std::{path::Path, time::Duration};

use sessile_core::{Durability, Error, ErrorKind, Result};

use crate::{contender::Contender, reference::Reference, worker::protocol::Opening};

pub(super) const REFERENCE: Reference = Reference {
    name: "limit",
    sentence: "What physics allows: one process, a table of fixed size, no lock, no expiry",
    shared_by_processes: false,
    server: None,
    durability: &[Durability::None],
    creates: false,
    any_size: false,
    keeps_payloads: true,
    open,
};

struct Limit {
    ids: Vec<u128>,
    table: Vec<(u64, u32)>, // the hash (0: empty) and the slot of the payload
    slots: Vec<u8>,         // payloads of one size, one after the other
    ring: Vec<u32>,         // free slots
    next: usize,            // the one that has been free longest
    filled: u32,
    size: usize,
    out: Vec<u8>,
    begun: usize, // position in the table
}

fn open(_: &Path, opening: &Opening) -> Result<Box<dyn Contender>> {
    let (sessions, size) = (opening.ids, opening.payload_bytes);
    let (mut random, count) = (fastrand::Rng::with_seed(opening.seed), u32::try_from(sessions).unwrap_or(u32::MAX));
    let ids = std::iter::repeat_with(|| random.u128(..)).take(sessions).collect();
    let (table, ring) = (vec![(0, 0); (sessions * 2).next_power_of_two()], (count..count + count / 4 + 1).collect());
    Ok(Box::new(Limit { ids, table, slots: Vec::new(), ring, next: 0, filled: 0, size, out: vec![0; size], begun: 0 }))
}

impl Limit {
    /// The position of a session in the table: its own or the empty one where it belongs.
    fn find(&self, session: usize) -> Option<(u64, usize)> {
        let (id, mask) = (*self.ids.get(session)?, self.table.len() - 1);
        let product = u128::from(id as u64 ^ 0x9e37_79b9_7f4a_7c15) * u128::from((id >> 64) as u64 | 1);
        let hash = (product as u64 ^ (product >> 64) as u64) | 1;
        let mut at = (hash >> 20) as usize & mask;
        while self.table.get(at).is_some_and(|(taken, _)| *taken != hash && *taken != 0) {
            at = (at + 1) & mask;
        }
        Some((hash, at))
    }
    fn store(&mut self, slot: u32, payload: &[u8]) -> Option<()> {
        let start = slot as usize * self.size;
        self.slots.get_mut(start..start + self.size)?.copy_from_slice(payload.get(..self.size)?);
        Some(())
    }
}

impl Contender for Limit {
    fn create(&mut self, session: usize, payload: &[u8], _ttl: Duration) -> Result<()> {
        let full = || Error::new(ErrorKind::Full, "the table has a fixed size");
        if self.slots.is_empty() {
            // Not zero: pages are faulted in here, not later; not at open, so that the growth of the process shows it.
            self.slots = vec![1; (self.ids.len() + self.ids.len() / 4 + 1) * self.size];
        }
        let ((hash, at), slot) = (self.find(session).ok_or_else(full)?, self.filled);
        self.filled += 1;
        self.store(slot, payload).ok_or_else(full)?;
        *self.table.get_mut(at).ok_or_else(full)? = (hash, slot);
        Ok(())
    }
    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let Some((hash, at)) = self.find(session) else { return Ok(None) };
        let Some((_, slot)) = self.table.get(at).filter(|(taken, _)| *taken == hash) else { return Ok(None) };
        let start = *slot as usize * self.size;
        let Some(stored) = self.slots.get(start..start + self.size) else { return Ok(None) };
        self.out.copy_from_slice(stored);
        self.begun = at;
        Ok(Some(&self.out))
    }
    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        self.read(session)
    }
    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let free = self.ring.get(self.next).copied().unwrap_or_default();
        self.store(free, payload);
        if let (Some((_, slot)), Some(oldest)) = (self.table.get_mut(self.begun), self.ring.get_mut(self.next)) {
            *oldest = std::mem::replace(slot, free);
        }
        self.next = if self.next + 1 == self.ring.len() { 0 } else { self.next + 1 };
        Ok(())
    }
    fn release(&mut self) -> Result<()> {
        Ok(())
    }
}
