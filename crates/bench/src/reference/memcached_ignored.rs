//! `memcached-ignored`: memcached without a check of the answer to `set`.
//!
//! A page lost its cache entry of more than 1 MB at each save: the server refuses the item and
//! removes the old one, the call returns false, the program goes on. Only `oversize` has this row,
//! which shows a loss.

use std::path::Path;
use std::time::Duration;

use sessile_core::Result;

use super::handlers::ids;
use super::memcached_trips::MemcachedConnection;
use crate::contender::Contender;
use crate::reference::unprepared;
use crate::worker::protocol::OpenRequest;

struct Ignored {
    line: MemcachedConnection,
    keys: Vec<String>,
    ttl: Duration,
    out: Vec<u8>,
    begun: Option<usize>,
}

pub(super) fn open(place: &Path, opening: &OpenRequest) -> Result<Box<dyn Contender>> {
    let keys = ids(opening).map(|id| format!("cache.{id}")).collect();
    Ok(Box::new(Ignored {
        line: MemcachedConnection::connect(place)?,
        keys,
        ttl: opening.ttl,
        out: Vec::new(),
        begun: None,
    }))
}

impl Contender for Ignored {
    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        let key = self.keys.get(session).ok_or_else(unprepared)?;
        let (seconds, size) = (ttl.as_secs().max(1), payload.len());
        // The answer must be read; ignoring it is the point of this row.
        self.line.command(format_args!("set {key} 0 {seconds} {size}"), Some(payload)).map(drop)
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
