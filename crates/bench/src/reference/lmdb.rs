//! `lmdb`: the fastest embedded engine that processes can share, at its best.
//!
//! NOSYNC and WRITEMAP on a file in shared memory; one transaction an operation, which also moves
//! the expiry index; one futex word a session in shared memory as the cheapest correct lock (not
//! robust: a killed holder leaves it locked). The only file of this crate with unsafe code.

#![allow(unsafe_code, reason = "LMDB's flags and shared memory; each block says why it is sound")]

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use heed::types::{Bytes, Unit};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use memmap2::MmapRaw;
use rustix::thread::futex;
use sessile_core::{Clock, Error, ErrorKind, Result};

use crate::contender::Contender;
use crate::reference::unprepared;
use crate::worker::protocol::OpenRequest;

/// The file is sparse.
const MAP_BYTES: usize = 64 << 30;
/// The expiry in milliseconds, before the payload.
const HEADER_BYTES: usize = 8;

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

struct Lmdb {
    env: &'static Env,
    records: Database<'static, Bytes, Bytes>,
    /// Keys are expiry (big-endian) and id, so they sort by expiry.
    expiries: Database<'static, Bytes, Unit>,
    locks: MmapRaw,
    lock_count: usize,
    ids: Vec<[u8; 16]>,
    ttl: Duration,
    out: Vec<u8>,
    /// The held session, and its expiry if it has a record.
    begun: Option<(usize, Option<u64>)>,
    clock: Clock,
}

pub(super) fn open(place: &Path, opening: &OpenRequest) -> Result<Box<dyn Contender>> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES).max_dbs(2);
    // SAFETY: NOSYNC can corrupt the file when the host crashes; a crash clears shared memory.
    unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP) };
    // SAFETY: the directory is private to this run, so no foreign program changes the mapped file,
    // and this process opens it once.
    let env = unsafe { options.open(place) }.map_err(failed)?;
    let env: &'static Env = Box::leak(Box::new(env)); // lives as long as the worker
    let txn = env.write_txn().map_err(failed)?;
    let created = env.create_databases_and_commit(txn, |opener, txn| {
        let records: Database<'_, Bytes, Bytes> = opener.create_database(txn, Some("records"))?;
        let expiries: Database<'_, Bytes, Unit> = opener.create_database(txn, Some("expiries"))?;
        Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit((records, expiries)))
    });
    let Some((records, expiries)) = created.map_err(failed)?.commit() else {
        return Err(Error::new(ErrorKind::Io, "LMDB did not create its databases"));
    };

    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(place.join("locks"));
    let file = file.map_err(failed)?;
    file.set_len(opening.ids as u64 * 4).map_err(failed)?;
    let locks = MmapRaw::map_raw(&file).map_err(failed)?;
    let mut random = fastrand::Rng::with_seed(opening.seed);
    let ids = std::iter::repeat_with(|| random.u128(..).to_ne_bytes()).take(opening.ids).collect();
    let out = Vec::with_capacity(opening.payload_bytes);
    let (lock_count, ttl, clock) = (opening.ids, opening.ttl, Clock::system());
    Ok(Box::new(Lmdb {
        env,
        records,
        expiries,
        locks,
        lock_count,
        ids,
        ttl,
        out,
        begun: None,
        clock,
    }))
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Io, "LMDB refused the operation").source(error)
}

fn index_key(expires: u64, id: &[u8; 16]) -> [u8; 24] {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&expires.to_be_bytes());
    key[8..].copy_from_slice(id);
    key
}

impl Lmdb {
    fn id(&self, session: usize) -> Result<[u8; 16]> {
        self.ids.get(session).copied().ok_or_else(unprepared)
    }

    fn lock_word(&self, session: usize) -> Result<&AtomicU32> {
        if session >= self.lock_count {
            return Err(unprepared());
        }
        let word = self.locks.as_ptr().cast::<AtomicU32>();
        // SAFETY: the mapping has `lock_count` words, is aligned to a page, is shared read-write
        // and lives as long as `self`; all processes access these words only as atomics.
        Ok(unsafe { &*word.add(session) })
    }

    fn lock(&self, session: usize) -> Result<()> {
        let word = self.lock_word(session)?;
        // Acquire pairs with the release in `unlock`. Three states as in Drepper's "Futexes are
        // tricky".
        if word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Ok(());
        }
        while word.swap(AWAITED, Ordering::Acquire) != FREE {
            // Also returns early after a signal; the loop checks the word again.
            let _ = futex::wait(word, futex::Flags::empty(), AWAITED, None);
        }
        Ok(())
    }

    fn unlock(&self, session: usize) -> Result<()> {
        let word = self.lock_word(session)?;
        // Release pairs with the acquire in `lock`.
        if word.swap(FREE, Ordering::Release) == AWAITED {
            futex::wake(word, futex::Flags::empty(), 1).map_err(failed)?;
        }
        Ok(())
    }

    /// Copies a live record out, and returns its expiry.
    fn copy_out(&mut self, session: usize) -> Result<Option<u64>> {
        let id = self.id(session)?;
        let txn = self.env.read_txn().map_err(failed)?;
        let found = self.records.get(&txn, &id).map_err(failed)?;
        let Some((expires, payload)) =
            found.and_then(|bytes| bytes.split_first_chunk::<HEADER_BYTES>())
        else {
            return Ok(None);
        };
        let expires = u64::from_be_bytes(*expires);
        if expires <= self.clock.now().as_ms() {
            return Ok(None);
        }
        self.out.clear();
        self.out.extend_from_slice(payload);
        Ok(Some(expires))
    }

    fn write(&self, session: usize, old: Option<u64>, payload: &[u8], ttl: Duration) -> Result<()> {
        let id = self.id(session)?;
        let expires = self.clock.now().plus(ttl).as_ms();
        let mut txn = self.env.write_txn().map_err(failed)?;
        if let Some(old) = old {
            self.expiries.delete(&mut txn, &index_key(old, &id)).map_err(failed)?;
        }
        self.expiries.put(&mut txn, &index_key(expires, &id), &()).map_err(failed)?;
        let write = |space: &mut heed::ReservedSpace<'_>| {
            use std::io::Write;
            space.write_all(&expires.to_be_bytes())?;
            space.write_all(payload)
        };
        // Reserved: the payload is copied once, into the map.
        let size = HEADER_BYTES + payload.len();
        self.records.put_reserved(&mut txn, &id, size, write).map_err(failed)?;
        txn.commit().map_err(failed)
    }
}

impl Contender for Lmdb {
    fn prefetch_ids(&mut self, sessions: &[usize]) {
        let ids = sessions.iter().filter_map(|session| self.ids.get(*session));
        std::hint::black_box(ids.fold(0, |all, id| all ^ id[0]));
    }

    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        self.lock(session)?;
        let written = self.write(session, None, payload, ttl);
        self.unlock(session)?;
        written
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        Ok(self.copy_out(session)?.map(|_| self.out.as_slice()))
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        self.lock(session)?;
        self.begun = Some((session, None));
        let expires = self.copy_out(session)?;
        self.begun = Some((session, expires));
        Ok(expires.map(|_| self.out.as_slice()))
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let (session, old) = self.begun.take().ok_or_else(unprepared)?;
        let written = self.write(session, old, payload, self.ttl);
        self.unlock(session)?;
        written
    }

    /// Rewrites the payload too, because the expiry precedes it.
    fn touch(&mut self) -> Result<()> {
        let (session, old) = self.begun.take().ok_or_else(unprepared)?;
        let payload = std::mem::take(&mut self.out);
        let written = self.write(session, old, &payload, self.ttl);
        self.out = payload;
        self.unlock(session)?;
        written
    }

    fn release(&mut self) -> Result<()> {
        self.begun.take().map_or(Ok(()), |(session, _)| self.unlock(session))
    }
}
