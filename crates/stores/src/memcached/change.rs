//! Writing a record: commit and create.
//!
//! Invariant: what is replaced is the very item that was read, by its CAS number, or one that differs from it only by a
//! touch. Whoever else has changed it, by destroying, committing or taking the lock over, has made the lease worthless;
//! what the item says tells how.

use sessile_core::{Clock, Error, ErrorKind, Key, Result, Timestamp, Ttl};

use super::acquire::Answer;
use super::contest::{ATTEMPTS_MAX, busy, step_aside};
use super::failure::fault;
use super::item::{self, Header, Kind};
use super::lock::Standing;
use super::look::{Base, Meaning, Read, looked_up, writer_of};
use super::reply::{Fault, Item, Reply};
use super::request::Batch;
use super::{Held, Memcached, writer};
use crate::owner::{check_process, new_token};

/// What became of the item that a lease goes by.
pub(super) enum Verdict {
    /// It is what this lease has committed: the answer to that was lost.
    Committed,
    /// It was touched: the lease goes by this from now on.
    Touched(Read),
}

impl Memcached {
    pub(super) fn write_and_unlock(&self, mut held: Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        check_process(held.pid)?;
        let committed = self.commit(&mut held, payload, ttl);
        if let Err(error) = &committed
            && *error.kind() == ErrorKind::Unreachable
        {
            self.orphans.remember(&held.key, &held.token);
        }
        committed
    }

    fn commit(&self, held: &mut Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        for attempt in 0..ATTEMPTS_MAX {
            let header = self.next_header(held, ttl);
            let mut batch = Batch::default();
            let (name, value) = (self.names.data(&held.key), header.encode(payload));
            batch.cas(&name, header.kind.byte(), self.life(header.expires), &value, held.read.cas);
            if let Some(cas) = held.lock_cas {
                batch.delete(&self.names.lock(&held.key), cas);
            }
            batch.get(&self.names.lock(&held.key));
            let mut replies = self.servers.call_any(&held.key, &batch)?;
            let seen = replies.pop().map(looked_up).transpose()?.flatten().map(|item| Standing::of(&item));
            match replies.into_iter().next() {
                Some(Reply::Done(_)) => {
                    self.leave_after(held, seen);
                    return Ok(());
                }
                Some(Reply::Failed(why)) => {
                    self.leave_after(held, seen);
                    return Err(self.save_failed(&held.key, why, payload));
                }
                _ => {}
            }
            step_aside(attempt);
            match self.look_again(held, seen) {
                Ok(Verdict::Touched(read)) => held.read = read,
                Ok(Verdict::Committed) => {
                    self.leave_or_remember(&held.key, &held.token);
                    return Ok(());
                }
                Err(error) => {
                    self.leave_or_remember(&held.key, &held.token);
                    return Err(error);
                }
            }
        }
        self.leave_or_remember(&held.key, &held.token);
        Err(busy())
    }

    /// Leaves the lock as it was seen after our write. That is done, so a failure here is none of the commit.
    fn leave_after(&self, held: &Held, seen: Option<Standing>) {
        if self.leave_as_seen(&held.key, &held.token, seen).is_err() {
            self.orphans.remember(&held.key, &held.token);
        }
    }

    /// After a write that was refused: why, and whether another attempt may follow. The attempt may have given the lock
    /// back; it is taken again then, and who was faster is our successor.
    fn look_again(&self, held: &mut Held, seen: Option<Standing>) -> Result<Verdict> {
        if let Some(standing) = seen.filter(|standing| standing.is_held_by(&held.token)) {
            held.lock_cas = (standing.waiters() == 0).then_some(standing.cas);
            return self.judge(held, self.data_of(&held.key)?);
        }
        match self.take(&held.key, &held.token, held.since, None)? {
            Answer::Granted(grant) => {
                held.lock_cas = grant.lock_cas;
                self.judge(held, Some(grant.data))
            }
            _ => match self.judge(held, self.data_of(&held.key)?)? {
                Verdict::Touched(_) => Err(stale()),
                Verdict::Committed => Ok(Verdict::Committed),
            },
        }
    }

    /// What the item that is there now means for a lease whose item it is not.
    ///
    /// # Errors
    ///
    /// `Destroyed`, `Stale`, `Gone`, `Evicted` when the lease is worthless.
    pub(super) fn judge(&self, held: &Held, now: Option<Item>) -> Result<Verdict> {
        // What came after a restart of the server is none of this lease, whatever its numbers.
        let now = now.filter(|item| item.cas.generation == held.read.cas.generation);
        let Some(item) = now.filter(|item| item.stale || !item.value.is_empty()) else {
            return Err(self.lost(&held.read));
        };
        if item.stale {
            return Err(destroyed());
        }
        let (cas, wrote) = (item.cas, writer_of(&item));
        let (header, _) = item::open(item.value)?;
        match header.kind {
            // The destruction that was there when the lease began, tidied up meanwhile.
            Kind::Tombstone if header.version == held.read.cas.number => {
                Ok(Verdict::Touched(Read { cas, writer: wrote, ..held.read }))
            }
            Kind::Tombstone => Err(destroyed()),
            _ if wrote == Some(writer(&held.token)) => Ok(Verdict::Committed),
            Kind::Live | Kind::Pending if wrote == held.read.writer => {
                let base = held.read.base.map(|base| Base { version: base.version, ..Base::of(&header) });
                Ok(Verdict::Touched(Read { cas, base, ..held.read }))
            }
            _ => Err(stale()),
        }
    }

    /// Why the item of a lease is not there any more.
    fn lost(&self, read: &Read) -> Error {
        let Some(base) = read.base else {
            return Error::new(ErrorKind::Gone, "the server has forgotten the session that was begun")
                .advice("it was restarted or flushed, is short of memory, or the request took very long");
        };
        let alive = base.expires.plus(self.lock_ttl) > self.clock.now();
        if alive && self.has_evicted() {
            return Error::new(ErrorKind::Evicted, "the server has pushed out the record to make room")
                .advice("raise its -m, or keep these sessions in a store that refuses to lose them");
        }
        Error::new(ErrorKind::Gone, "the record is gone: it expired, or the server was restarted or flushed")
    }

    fn next_header(&self, held: &Held, ttl: Ttl) -> Header {
        let now = self.clock.now();
        let base = held.read.base;
        let created = base.map_or(now, |base| base.created);
        let (expires, ends) = ttl.deadline(now, created, base.and_then(|base| base.ends));
        let version = base.map_or(0, |base| base.version).saturating_add(1);
        let new = Header::new(Kind::Live, writer(&held.token));
        Header { version, created, written: now, expires, ends, ..new }
    }

    fn save_failed(&self, key: &Key, why: Fault, payload: &[u8]) -> Error {
        // The server may have come back with a lower limit since it was asked.
        let limit = match why {
            Fault::TooLarge => self.servers.payload_bytes_max(self.servers.of(key)).unwrap_or(self.payload_bytes_max),
            _ => self.payload_bytes_max,
        };
        fault(why, payload.len(), limit)
    }

    pub(super) fn store_new(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        let (expires, ends) = ttl.deadline(now, now, None);
        let mark = writer(&new_token()?);
        let header = Header { version: 1, created: now, written: now, expires, ends, ..Header::new(Kind::Live, mark) };
        let (name, value, life) = (self.names.data(key), header.encode(payload), self.life(expires));
        let mut batch = Batch::default();
        batch.add(&name, header.kind.byte(), life, &value);
        let [added] = self.servers.call(key, &batch)?;
        match added {
            Reply::Done(_) => return Ok(()),
            Reply::Failed(why) => return Err(self.save_failed(key, why, payload)),
            _ => {}
        }
        // Something is there: perhaps only what is left of a session.
        for attempt in 0..ATTEMPTS_MAX {
            step_aside(attempt);
            let mut batch = Batch::default();
            batch.get(&self.names.lock(key));
            batch.get(&name);
            let [lock, data] = self.servers.call(key, &batch)?;
            let (lock, data) = (looked_up(lock)?, looked_up(data)?);
            if data.as_ref().and_then(writer_of) == Some(mark) {
                return Ok(()); // created before; the answer was lost
            }
            let system_now = Clock::system().now();
            let held = lock.is_some_and(|item| !Standing::of(&item).lapsed(system_now));
            let mut batch = Batch::default();
            match data {
                Some(item) => {
                    let cas = item.cas;
                    if held || takes_id(&self.meaning(key, item)?, now) {
                        return Err(taken());
                    }
                    batch.cas(&name, header.kind.byte(), life, &value, cas);
                }
                None if held => return Err(taken()),
                None => batch.add(&name, header.kind.byte(), life, &value),
            }
            let [stored] = self.servers.call(key, &batch)?;
            match stored {
                Reply::Done(_) => return Ok(()),
                Reply::Failed(why) => return Err(self.save_failed(key, why, payload)),
                _ => {}
            }
        }
        Err(busy())
    }
}

/// Whether an id is taken for create and regenerate.
pub(super) fn takes_id(meaning: &Meaning, now: Timestamp) -> bool {
    match meaning {
        Meaning::Nothing(_) => false,
        Meaning::Live(header, _) => header.expires > now,
        Meaning::LeadsTo(_) => true,
    }
}

pub(super) fn taken() -> Error {
    Error::new(ErrorKind::Exists, "the id is taken")
}

pub(super) fn destroyed() -> Error {
    Error::new(ErrorKind::Destroyed, "the session was destroyed after it was read")
}

pub(super) fn stale() -> Error {
    Error::new(ErrorKind::Stale, "the lock was lost and someone else has held it since")
        .advice("raise lock_ttl_ms if requests may take longer than it; a server short of memory drops locks, too")
}
