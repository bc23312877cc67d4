//! Moving the expiry: with a lease and without.
//!
//! The exact expiry is in the record, and memcached can only replace a whole item: so a touch reads and rewrites the
//! record, by its CAS number, keeping the mark of who wrote it. A lease recognises its record by that mark.

use sessile_core::{Error, ErrorKind, Key, Result, Ttl};

use super::cas::Cas;
use super::change::{Verdict, stale};
use super::contest::{ATTEMPTS_MAX, busy, step_aside};
use super::failure::fault;
use super::item::Header;
use super::lock::{Lock, Standing};
use super::look::{Base, Meaning, looked_up, writer_of};
use super::reply::{Item, Reply};
use super::request::{Batch, Life};
use super::{Held, Memcached};
use crate::key_value::{ALIAS_STEPS_MAX, circle};
use crate::owner::check_process;

impl Memcached {
    pub(super) fn slide(&self, asked: &Key, ttl: Ttl) -> Result<()> {
        let mut key = asked.clone();
        let mut steps = 0;
        for attempt in 0..ATTEMPTS_MAX {
            step_aside(attempt);
            let item = self.data_of(&key)?.ok_or_else(nothing_to_touch)?;
            let cas = item.cas;
            let (header, payload) = match self.meaning(&key, item)? {
                Meaning::Live(header, payload) if header.expires > self.clock.now() => (header, payload),
                Meaning::LeadsTo(_) if steps == ALIAS_STEPS_MAX => return Err(circle()),
                Meaning::LeadsTo(next) => {
                    (key, steps) = (next, steps + 1);
                    continue;
                }
                _ => return Err(nothing_to_touch()),
            };
            let mut batch = Batch::default();
            self.add_touch(&mut batch, &key, header, &payload, ttl, cas);
            let [stored] = self.servers.call(&key, &batch)?;
            match stored {
                Reply::Done(_) => return Ok(()),
                Reply::Failed(why) => return Err(fault(why, payload.len(), self.payload_bytes_max)),
                _ => {}
            }
        }
        Err(busy())
    }

    pub(super) fn slide_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        check_process(held.pid)?;
        for attempt in 0..ATTEMPTS_MAX {
            step_aside(attempt);
            let mut batch = Batch::default();
            batch.get(&self.names.lock(&held.key));
            batch.get(&self.names.data(&held.key));
            let [lock, data] = self.servers.call(&held.key, &batch)?;
            let standing = looked_up(lock)?.map(|item| Standing::of(&item));
            let data = self.still_ours(held, standing.as_ref(), looked_up(data)?)?;
            let cas = data.cas;
            let live = match self.meaning(&held.key, data)? {
                Meaning::Live(header, payload) if header.expires > self.clock.now() => Some((header, payload)),
                _ => None,
            };
            // A lease on nothing stays good: its commit makes the record.
            let (header, payload) = live.filter(|_| held.read.base.is_some()).ok_or_else(nothing_to_touch)?;
            let mut batch = Batch::default();
            self.add_touch(&mut batch, &held.key, header, &payload, ttl, cas);
            self.add_renewal(&mut batch, held, standing.as_ref());
            batch.get(&self.names.lock(&held.key));
            batch.get(&self.names.data(&held.key));
            let [stored, _, lock, data] = self.servers.call(&held.key, &batch)?;
            if let Reply::Failed(why) = stored {
                return Err(fault(why, payload.len(), self.payload_bytes_max));
            }
            let standing = looked_up(lock)?.map(|item| Standing::of(&item));
            let data = self.still_ours(held, standing.as_ref(), looked_up(data)?)?;
            held.read.cas = data.cas;
            if let Meaning::Live(header, _) = self.meaning(&held.key, data)? {
                held.read.base = Some(Base::of(&header));
            }
            let ours = standing.filter(|standing| standing.is_held_by(&held.token) && standing.waiters() == 0);
            held.lock_cas = ours.map(|standing| standing.cas);
            // If somebody else touched it between our look and our write, that one has decided how long it lives; ours
            // came later, so it goes once more.
            if matches!(stored, Reply::Done(_)) {
                return Ok(());
            }
        }
        Err(busy())
    }

    /// The item of a lease that is still good.
    fn still_ours(&self, held: &Held, standing: Option<&Standing>, data: Option<Item>) -> Result<Item> {
        if let Some(standing) = standing
            && !standing.is_held_by(&held.token)
        {
            // Either somebody has taken it over, or the session was destroyed and begun anew.
            self.judge(held, data)?;
            return Err(stale());
        }
        match data {
            Some(item) if item.cas == held.read.cas => Ok(item),
            Some(item) if !item.stale && held.read.writer.is_some() && writer_of(&item) == held.read.writer => Ok(item),
            // Only a destruction that was tidied up leaves the lease good here, and there is nothing to touch then.
            other => match self.judge(held, other)? {
                Verdict::Committed | Verdict::Touched(_) => Err(nothing_to_touch()),
            },
        }
    }

    fn add_touch(&self, batch: &mut Batch, key: &Key, header: Header, payload: &[u8], ttl: Ttl, cas: Cas) {
        let (expires, ends) = ttl.deadline(self.clock.now(), header.created, header.ends);
        let header = Header { expires, ends, ..header };
        batch.cas(&self.names.data(key), header.kind.byte(), self.life(expires), &header.encode(payload), cas);
    }

    /// Starts the time of a lock anew. If somebody joins its queue at the same moment, the old time goes on.
    fn add_renewal(&self, batch: &mut Batch, held: &Held, standing: Option<&Standing>) {
        let name = self.names.lock(&held.key);
        let waiters = standing.map_or(Vec::new(), |standing| standing.waiters_without(&held.token));
        let lock = Lock::held(held.token, self.lock_ttl, held.since, waiters);
        let life = Life::from(lock.native_s());
        match standing {
            Some(standing) => batch.cas(&name, 0, life, &lock.encode(), standing.cas),
            None => batch.add(&name, 0, life, &lock.encode()),
        }
    }
}

pub(super) fn nothing_to_touch() -> Error {
    Error::new(ErrorKind::Gone, "there is no live record")
}
