//! `null`: the harness itself.
//!
//! It keeps one counter a session. Its cycle costs the clock reads, the choice of a session, and
//! composing and verifying a payload, which every other row has too.

use std::time::Duration;

use std::path::Path;

use sessile_core::{Error, ErrorKind, Result};

use crate::contender::Contender;
use crate::payload::Payloads;
use crate::worker::protocol::OpenRequest;
struct Null {
    payloads: Payloads,
    counters: Vec<Option<u64>>,
    /// Composed anew for each read, as a copy out of a store would be.
    last: Vec<u8>,
    begun: usize,
}

pub(super) fn open(_: &Path, opening: &OpenRequest) -> Result<Box<dyn Contender>> {
    let payloads = Payloads::new(opening);
    Ok(Box::new(Null { payloads, counters: vec![None; opening.ids], last: Vec::new(), begun: 0 }))
}

impl Null {
    fn store(&mut self, session: usize, payload: &[u8]) -> Result<()> {
        let counter =
            payload.get(8..16).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        match self.counters.get_mut(session) {
            Some(slot) => *slot = counter,
            None => return Err(Error::new(ErrorKind::Full, "more sessions than were announced")),
        }
        Ok(())
    }
}

impl Contender for Null {
    fn create(&mut self, session: usize, payload: &[u8], _ttl: Duration) -> Result<()> {
        self.store(session, payload)
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let Some(counter) = self.counters.get(session).copied().flatten() else { return Ok(None) };
        self.payloads.compose(session as u64, counter, &mut self.last);
        Ok(Some(&self.last))
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        self.begun = session;
        self.read(session)
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        self.store(self.begun, payload)
    }
}
