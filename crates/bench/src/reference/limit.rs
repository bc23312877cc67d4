//! `limit`: what physics allows. One process; no lock, checksum, expiry or allocation. A cycle is
//! one look-up in a pre-sized open-addressing table, a copy of the payload out, a copy of the new
//! payload into another slot, taken from a ring of n/4 free ones, and a swap of the location.
use crate::{contender::Contender, worker::protocol::OpenRequest};
use sessile_core::{Error, ErrorKind, Result};
use std::{path::Path, time::Duration};

struct Limit {
    ids: Vec<u128>,
    table: Vec<(u64, u32)>, // the hash (0: empty) and the slot of the payload
    slots: Vec<u8>,         // payloads of one size
    ring: Vec<u32>,         // free slots
    next: usize,            // the slot that has been free longest
    out: Vec<u8>,           // the last payload read
    begun: usize,           // position in the table
}

pub(super) fn open(_: &Path, opening: &OpenRequest) -> Result<Box<dyn Contender>> {
    let (mut random, count) = (fastrand::Rng::with_seed(opening.seed), opening.ids as u32);
    let ids = std::iter::repeat_with(|| random.u128(..)).take(opening.ids).collect();
    let table = vec![(0, 0); (opening.ids * 2).next_power_of_two()];
    let (ring, out) = ((count..count + count / 4 + 1).collect(), vec![0; opening.payload_bytes]);
    Ok(Box::new(Limit { ids, table, slots: Vec::new(), ring, next: 0, out, begun: 0 }))
}

impl Limit {
    fn find(&self, session: usize) -> Option<(u64, usize)> {
        let (id, mask) = (*self.ids.get(session)?, self.table.len() - 1);
        let product = (id as u64 ^ 0x9e37_79b9_7f4a_7c15) as u128 * ((id >> 64) as u64 | 1) as u128;
        let hash = (product as u64 ^ (product >> 64) as u64) | 1;
        let mut at = (hash >> 20) as usize & mask;
        while self.table.get(at).is_some_and(|(taken, _)| *taken != hash && *taken != 0) {
            at = (at + 1) & mask;
        }
        Some((hash, at))
    }
    fn load(&mut self, session: usize) -> Option<&[u8]> {
        let ((hash, at), size) = (self.find(session)?, self.out.len());
        let start = self.table.get(at).filter(|(taken, _)| *taken == hash)?.1 as usize * size;
        self.out.copy_from_slice(self.slots.get(start..start + size)?);
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
    fn prefetch_ids(&mut self, sessions: &[usize]) {
        let ids = sessions.iter().filter_map(|session| self.ids.get(*session));
        std::hint::black_box(ids.fold(0, |all, id| all ^ id));
    }
    fn create(&mut self, session: usize, payload: &[u8], _ttl: Duration) -> Result<()> {
        self.slots.resize((self.ids.len() + self.ring.len()) * self.out.len(), 1); // once, untimed
        let full = || Error::new(ErrorKind::Full, "the table has a fixed size");
        let ((hash, at), slot) = (self.find(session).ok_or_else(full)?, session as u32);
        self.store(slot, payload).ok_or_else(full)?; // the ring begins after these slots
        *self.table.get_mut(at).ok_or_else(full)? = (hash, slot);
        Ok(())
    }
    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        Ok(self.load(session))
    }
    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let (entry, free) = (self.table.get_mut(self.begun), self.ring.get_mut(self.next));
        if let (Some((_, location)), Some(free)) = (entry, free) {
            std::mem::swap(location, free);
            let slot = *location;
            self.store(slot, payload);
        }
        self.next = if self.next + 1 == self.ring.len() { 0 } else { self.next + 1 };
        Ok(())
    }
}
