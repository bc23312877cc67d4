//! A new id for a leased record.
//!
//! Three round trips: the new id's lock and a look at both rows; a transaction that moves the record and leaves an alias;
//! giving up the lock that is not wanted any more. Both locks are held meanwhile, so only a destroy, a touch or a sweep can
//! come in between; the transaction checks that too.
//!
//! Invariant: whatever goes wrong, the lease ends up with exactly one of the two locks, or with a connection that nobody uses
//! after it.

use std::time::Duration;

use sessile_core::{Key, Result, Timestamp};

use super::Postgres;
use super::failure::{Failure, Tried};
use super::lease::{Held, is_true, refusal};
use super::link::Call;
use super::row::{self, Row, Text};
use super::statements::Sql;
use crate::sql::{Seen, end_of_grace, ms, taken};

impl Postgres {
    pub(super) fn rename(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        held.check_owner()?;
        let lock = self.lock_of(new);
        let now = self.clock.now();
        let (old_row, new_row) = self.lock_new(held, new, lock).map_err(Failure::translate)?;
        let moved = self.move_record(held, (new, lock), (old_row, new_row), (now, grace));
        let given_up = if moved.is_ok() { held.lock } else { lock };
        self.give_up(held, given_up);
        let seen = moved.map_err(Failure::translate)?;
        // What it has moved is moved; a lease without its connection will be told so by its commit.
        (held.key, held.lock, held.seen) = (new.clone(), lock, seen);
        Ok(())
    }

    /// Gives up one of two locks. One that the server does not give up goes with the connection, when the lease ends.
    fn give_up(&self, held: &mut Held, lock: i64) {
        let unlocked = self.pool.run_one(&mut held.link, Sql::Unlock, &[&lock]);
        if !unlocked.as_ref().is_ok_and(is_true) {
            held.link.retire();
        }
    }

    /// Takes the lock of the new id and reads both rows under it.
    ///
    /// # Errors
    ///
    /// `Exists` when someone has the lock.
    fn lock_new(&self, held: &mut Held, new: &Key, lock: i64) -> Tried<(Option<Row>, Option<Row>)> {
        let (old_id, new_id, bin) = (Text(held.key.id()), Text(new.id()), Text(new.bin().name()));
        let take = Call(Sql::TryLock, &[&lock]);
        let rows = [Call(Sql::ReadHead, &[&old_id, &bin]), Call(Sql::ReadHead, &[&new_id, &bin])];
        let [old, there] = rows;
        let [taken_now, old, there] = self.pool.run(&mut held.link, [take, old, there])?;
        match taken_now {
            Ok(taken_now) if is_true(&taken_now) => {}
            Ok(_) => return Err(taken().into()),
            // It may have it all the same.
            Err(failure) => {
                held.link.retire();
                return Err(failure);
            }
        }
        let decoded = |answer: super::answer::Answer| answer.row().map_or(Ok(None), |row| row::decode(row, true));
        match old.and_then(|old| Ok((old, there?))).and_then(|(old, there)| Ok((decoded(old)?, decoded(there)?))) {
            Ok(rows) => Ok(rows),
            Err(failure) => {
                self.give_up(held, lock);
                Err(failure)
            }
        }
    }

    /// Under both locks. Returns what the lease goes by from now on.
    fn move_record(
        &self,
        held: &mut Held,
        (new, lock): (&Key, i64),
        (old_row, new_row): (Option<Row>, Option<Row>),
        (now, grace): (Timestamp, Duration),
    ) -> Tried<Seen> {
        let there = old_row.as_ref().map(|row| &row.content);
        let found = held.seen.check(there, held.begun, now)?;
        if new_row.as_ref().is_some_and(|row| row.content.takes_id(now)) {
            return Err(taken().into());
        }
        // Without a record only the lock moves.
        let (true, Seen::Live { version, created }, Some(old)) = (found, held.seen, old_row) else {
            return Ok(Seen::of(new_row.as_ref().map(|row| &row.content), now));
        };
        let (until, forget) = end_of_grace(now, grace);
        let (now_ms, until, forget) = (ms(now), ms(until), ms(forget));
        let (version, created) = (i64::try_from(version).unwrap_or(i64::MAX), ms(created));
        let (old_id, new_id, bin) = (Text(held.key.id()), Text(new.id()), Text(new.bin().name()));
        let backend = held.link.backend;
        let calls = [
            Call(Sql::Clear, &[&new_id, &bin, &now_ms]),
            Call(Sql::Move, &[&new_id, &lock, &old_id, &bin, &version, &created, &backend]),
            Call(Sql::Lead, &[&old_id, &bin, &held.lock, &now_ms, &until, &forget, &new_id, &old.number]),
        ];
        let [cleared, moved, lead] = self.pool.run_as_one(&mut held.link, calls)?;
        // The first that was refused has the server take back what was done before it, and pass over what follows.
        cleared?;
        let moved = moved?.count;
        lead?;
        if moved == 1 {
            return Ok(held.seen);
        }
        let there = self.look(&mut held.link, &held.key)?;
        Err(refusal(held.seen, there.as_ref(), held.begun, now).into())
    }
}
