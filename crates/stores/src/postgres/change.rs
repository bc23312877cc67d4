//! Changes and look-ups that need no lease.
//!
//! Invariant: each may be sent twice with the same effect as once, as it is after a connection broke.

use std::cell::Cell;

use postgres_types::ToSql;
use sessile_core::{Error, ErrorKind, Found, Key, Limits, Result, Ttl};

use super::Postgres;
use super::failure::Tried;
use super::lease::{life, new_writer};
use super::link::{Call, Link};
use super::lock::halves;
use super::row::{self, Payload, Text};
use super::statements::Sql;
use crate::sql::{ALIAS_STEPS_MAX, Content, circle, corrupt, ms, new_head, nothing_to_touch, taken};

/// Regenerations that one destruction of an id may run into.
const BURY_TRIES: usize = 8;

/// What became of one attempt to destroy what an id stands for.
enum Buried {
    /// Nothing is left there; it led to another id, or to none.
    Done(Option<Key>),
    /// A regeneration was faster: there is something else now.
    Moved,
}

impl Postgres {
    pub(super) fn find(&self, asked: &Key) -> Result<Found> {
        self.pool.with(|link| {
            let mut key = asked.clone();
            for _ in 0..=ALIAS_STEPS_MAX {
                let (id, bin) = (Text(key.id()), Text(key.bin().name()));
                let answer = self.pool.run_one(link, Sql::Read, &[&id, &bin])?;
                let row = answer.row().map_or(Ok(None), |row| row::decode(row, false))?;
                let now = self.clock.now();
                match row.as_ref().map_or(Ok(None), |row| row.content.leads_to(asked.bin(), now))? {
                    Some(target) => key = target,
                    None => {
                        let found = row.map_or_else(Found::nothing, |row| row.content.found(now));
                        return Ok(Found { moved_to: (key != *asked).then_some(key), ..found });
                    }
                }
            }
            Err(circle().into())
        })
    }

    pub(super) fn store_new(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let (writer, again) = (new_writer()?, Cell::new(false));
        self.pool.with(|link| {
            let now = self.clock.now();
            let head = new_head(ttl, now);
            let (id, bin, lock) = (Text(key.id()), Text(key.bin().name()), self.lock_of(key));
            let (created, expires, ends) = (ms(now), ms(head.expires), head.ends.map(ms));
            let payload = Payload(payload);
            let values: &[&(dyn ToSql + Sync)] = &[&id, &bin, &lock, &created, &expires, &ends, &writer, &payload];
            let again = again.replace(true);
            if self.pool.run_one(link, Sql::Create, values)?.count == 1 {
                return Ok(());
            }
            // The answer to an earlier attempt may have been lost.
            if again && self.look(link, key)?.is_some_and(|row| row.writer == writer) {
                return Ok(());
            }
            Err(taken().into())
        })
    }

    pub(super) fn slide(&self, asked: &Key, ttl: Ttl) -> Result<()> {
        self.pool.with(|link| {
            let mut key = asked.clone();
            for _ in 0..=ALIAS_STEPS_MAX {
                let now = self.clock.now();
                let (sliding, absolute) = life(ttl, now);
                let (id, bin, now_ms) = (Text(key.id()), Text(key.bin().name()), ms(now));
                if self.pool.run_one(link, Sql::Touch, &[&sliding, &absolute, &id, &bin, &now_ms])?.count == 1 {
                    return Ok(());
                }
                let there = self.look(link, &key)?;
                match there.map_or(Ok(None), |row| row.content.leads_to(asked.bin(), now))? {
                    Some(target) => key = target,
                    None => return Err(nothing_to_touch().into()),
                }
            }
            Err(circle().into())
        })
    }

    pub(super) fn bury(&self, asked: &Key) -> Result<()> {
        self.pool.with(|link| {
            let mut key = asked.clone();
            for _ in 0..=ALIAS_STEPS_MAX {
                match self.bury_one(link, &key)? {
                    Some(target) => key = target,
                    None => return Ok(()),
                }
            }
            Err(circle().into())
        })
    }

    /// Buries one id; returns where it led to.
    fn bury_one(&self, link: &mut Link, key: &Key) -> Tried<Option<Key>> {
        for _ in 0..BURY_TRIES {
            if let Buried::Done(target) = self.try_to_bury(link, key)? {
                return Ok(target);
            }
        }
        Err(Error::new(ErrorKind::Io, "the session was changed again and again while it was destroyed")
            .advice("try again")
            .into())
    }

    /// First a tombstone where there is no row but a holder, then one in place of the row. The order matters: a holder that
    /// the first statement does not see any more has unlocked, so it has written, and the second statement sees that.
    /// Without a row and without a holder there is nobody who could bring the session back, and no row is written:
    /// log-outs with invented ids must not fill the disk.
    ///
    /// The second statement waits for a regeneration that is writing the row, which then has another id: the row that
    /// leads there is younger than the statement. The third one sees it.
    fn try_to_bury(&self, link: &mut Link, key: &Key) -> Tried<Buried> {
        let now = self.clock.now();
        let (now_ms, forget) = (ms(now), ms(now.plus(Limits::TOMBSTONE_TTL)));
        let (id, bin, lock) = (Text(key.id()), Text(key.bin().name()), self.lock_of(key));
        let (high, low) = halves(lock);
        let held = Call(Sql::BuryHeld, &[&high, &low, &id, &bin, &lock, &now_ms, &forget]);
        let there = Call(Sql::Bury, &[&id, &bin, &now_ms, &forget]);
        let look = Call(Sql::ReadHead, &[&id, &bin]);
        let [held, buried, left] = self.pool.run(link, [held, there, look])?;
        held?;
        let (buried, left) = (buried?, left?);
        let Some(row) = buried.row() else {
            let left = left.row().map_or(Ok(None), |row| row::decode(row, true))?;
            let buried = left.is_none_or(|row| matches!(row.content, Content::Destroyed { .. }));
            return Ok(if buried { Buried::Done(None) } else { Buried::Moved });
        };
        let Some(target) = row::led_to(row, now)? else { return Ok(Buried::Done(None)) };
        let target = Key::in_bin(key.bin().clone(), &target);
        Ok(Buried::Done(Some(target.map_err(|_| corrupt("a regenerated row leads to a malformed id"))?)))
    }
}
