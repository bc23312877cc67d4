//! `memcached-ignored`: memcached as a program uses it that does not look at the answer to `set`.
//!
//! So a page lost its cache entry of more than 1 MB at each save, and nobody was told: the server refuses the item and
//! removes the one that was there, the call returns false, the program goes on. It is in `oversize` alone, to show what
//! "lost" looks like.

use std::path::Path;
use std::time::Duration;

use sessile_core::Result;

use super::handlers::ids;
use super::memcached_four_trips::Line;
use crate::contender::Contender;
use crate::reference::{Reference, unprepared};
use crate::worker::protocol::Opening;

pub(super) const REFERENCE: Reference = Reference {
    name: "memcached-ignored",
    sentence: "Memcached as a program uses it that ignores the answer to set",
    server: Some("memcached"),
    loses_large: true,
    ..Reference::shared(open)
};

struct Ignored {
    line: Line,
    keys: Vec<String>,
    ttl: Duration,
    out: Vec<u8>,
    begun: Option<usize>,
}

fn open(place: &Path, opening: &Opening) -> Result<Box<dyn Contender>> {
    let keys = ids(opening).map(|id| format!("cache.{id}")).collect();
    Ok(Box::new(Ignored { line: Line::connect(place)?, keys, ttl: opening.ttl, out: Vec::new(), begun: None }))
}

impl Contender for Ignored {
    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        let key = self.keys.get(session).ok_or_else(unprepared)?;
        let (seconds, size) = (ttl.as_secs().max(1), payload.len());
        // The answer is read, as it must be, and not looked at, as it must not be.
        self.line.ask(format_args!("set {key} 0 {seconds} {size}"), Some(payload)).map(drop)
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let key = self.keys.get(session).ok_or_else(unprepared)?;
        let there = self.line.get(key, &mut self.out)?;
        Ok(there.then_some(self.out.as_slice()))
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        self.begun = Some(session);
        self.read(session)
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let session = self.begun.take().ok_or_else(unprepared)?;
        self.create(session, payload, self.ttl)
    }
}
