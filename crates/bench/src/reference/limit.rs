//! `limit`: what physics allows. One process; no lock, checksum, expiry or allocation. A cycle is one look-up in
//! a pre-sized open-addressing table, a copy of the payload out, a copy of the new payload into another slot,
//! taken from a ring of n/4 free ones, and a swap of the location.
use crate::{contender::Contender, reference::Reference, worker::protocol::Opening};
use sessile_core::{Error, ErrorKind, Result};
use std::{path::Path, time::Duration};

pub(super) const REFERENCE: Reference =
    Reference::in_process("limit", "What physics allows: one process, a table of fixed size, no lock, no expiry", open);

struct Limit {
    ids: Vec<u128>,
    table: Vec<(u64, u32)>, // the hash (0: empty) and the slot of the payload
    slots: Vec<u8>,         // payloads of one size, one after the other
    ring: Vec<u32>,         // free slots
    next: usize,            // the one that has been free longest
    out: Vec<u8>,           // the payload that was read last; as long as all are
    begun: usize,           // position in the table
}

fn open(_: &Path, opening: &Opening) -> Result<Box<dyn Contender>> {
    let (mut random, sessions) = (fastrand::Rng::with_seed(opening.seed), opening.ids);
    let (count, out) = (u32::try_from(sessions).unwrap_or(u32::MAX), vec![0; opening.payload_bytes]);
    let ids = std::iter::repeat_with(|| random.u128(..)).take(sessions).collect();
    let (table, ring) = (vec![(0, 0); (sessions * 2).next_power_of_two()], (count..count + count / 4 + 1).collect());
    Ok(Box::new(Limit { ids, table, slots: Vec::new(), ring, next: 0, out, begun: 0 }))
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
    fn load(&mut self, session: usize) -> Option<&[u8]> {
        let (hash, at) = self.find(session)?;
        let start = self.table.get(at).filter(|(taken, _)| *taken == hash)?.1 as usize * self.out.len();
        let end = start + self.out.len();
        self.out.copy_from_slice(self.slots.get(start..end)?);
        self.begun = at;
        Some(&self.out)
    }
    fn store(&mut self, slot: u32, payload: &[u8]) -> Option<()> {
        let (size, start) = (self.out.len(), slot as usize * self.out.len());
        self.slots.get_mut(start..start + size)?.copy_from_slice(payload.get(..size)?);
        Some(())
    }
}

impl Contender for Limit {
    fn announce(&mut self, sessions: &[usize]) {
        std::hint::black_box(sessions.iter().filter_map(|session| self.ids.get(*session)).fold(0, |all, id| all ^ id));
    }
    fn create(&mut self, session: usize, payload: &[u8], _ttl: Duration) -> Result<()> {
        self.slots.resize((self.ids.len() + self.ids.len() / 4 + 1) * self.out.len(), 1); // faulted in once, untimed
        let full = || Error::new(ErrorKind::Full, "the table has a fixed size");
        let ((hash, at), slot) = (self.find(session).ok_or_else(full)?, u32::try_from(session).unwrap_or(u32::MAX));
        self.store(slot, payload).ok_or_else(full)?; // the ring begins behind these slots
        *self.table.get_mut(at).ok_or_else(full)? = (hash, slot);
        Ok(())
    }
    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        Ok(self.load(session))
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
}
