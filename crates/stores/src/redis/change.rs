//! Every operation that changes something: each builds its bytes here and runs one script.
//!
//! The scripts decide; this file translates. A lease that was inherited over a fork is the parent's: a child
//! neither uses nor releases it.

use std::time::Duration;

use redis::{Connection, Value};
use sessile_core::{Error, ErrorKind, Key, Result, Ttl};

use super::failure::unexpected;
use super::lock::{self, Held};
use super::value::{self, Header, Kind};
use super::{EXPIRY_SLACK, RESERVATION, Redis, ms};
use crate::key_value::{ALIAS_STEPS_MAX, circle, corrupt, sibling};
use crate::owner::{Token, check_process, new_token};

/// An unleased touch may move the absolute end between the two trips of a request, but not for ever.
const COMMIT_ATTEMPTS: usize = 8;

impl Redis {
    pub(super) fn write_and_unlock(&self, mut held: Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        check_process(held.pid)?;
        if let Some(connection) = held.watching.take()
            && self.write_if_untouched(&held, connection, payload, ttl)
        {
            return Ok(());
        }
        for _ in 0..COMMIT_ATTEMPTS {
            match self.try_write(&held, payload, ttl) {
                Ok(Value::BulkString(stamp)) => {
                    let ends = value::ends_of_stamp(&stamp);
                    held.base = held.base.map(|base| lock::Base { ends, ..base });
                    held.read = stamp;
                }
                Ok(answer) => return verdict(&answer),
                Err(error) => {
                    // The lock must not stay until its time is over because the server had no memory.
                    let _ = self.unlock(&held);
                    return Err(error);
                }
            }
        }
        let _ = self.unlock(&held);
        Err(refusal(1))
    }

    /// Commits with plain commands in one write. The server carries them out only if nothing has happened to
    /// lock or record since they were read (see acquire.rs). False when something has, or nobody knows whether
    /// the commands were carried out: commit.lua then finds out, and recognises its own writer.
    fn write_if_untouched(&self, held: &Held, connection: Connection, payload: &[u8], ttl: Ttl) -> bool {
        let (value, px) = self.next_value(held, payload, ttl);
        let [lock, data, _] = self.lock_and_data(&held.key);
        let mut commands = redis::pipe();
        commands.cmd("MULTI").cmd("SET").arg(data).arg(value).arg("PX").arg(px);
        commands.cmd("DEL").arg(lock).cmd("EXEC");
        let answers = self.pool.finish(connection, &commands);
        answers.is_some_and(|mut answers| matches!(answers.pop(), Some(Value::Array(_))))
    }

    /// The bytes that a commit stores, and their life on the server in ms.
    fn next_value(&self, held: &Held, payload: &[u8], ttl: Ttl) -> (Vec<u8>, String) {
        let now = self.clock.now();
        let created = held.base.map_or(now, |base| base.created);
        let (expires, ends) = ttl.deadline(now, created, held.base.and_then(|base| base.ends));
        let header = Header {
            version: held.base.map_or(0, |base| base.version).saturating_add(1),
            created,
            written: now,
            ..Header::new(Kind::Live, held.writer(), expires, ends)
        };
        (header.encode(payload), ms(expires.since(now) + EXPIRY_SLACK))
    }

    fn try_write(&self, held: &Held, payload: &[u8], ttl: Ttl) -> Result<Value> {
        let (value, px) = self.next_value(held, payload, ttl);
        // Nothing read and nothing there proves that nothing was destroyed only while a tombstone would last.
        let trusted: &[u8] = if held.taken.elapsed() < self.remembered() { b"1" } else { b"0" };
        self.pool.run(
            &self.scripts.commit,
            &self.lock_and_data(&held.key),
            &[&held.token, &held.writer(), &held.read, &value, px.as_bytes(), ms(RESERVATION).as_bytes(), trusted],
        )
    }

    pub(super) fn unlock(&self, held: &Held) -> Result<()> {
        self.give_up(held, &held.writer())
    }

    pub(super) fn end(&self, mut held: Held) -> Result<()> {
        // In a forked child the connection is the parent's: it is closed with the lease, not used again.
        if check_process(held.pid).is_ok()
            && let Some(connection) = held.watching.take()
        {
            self.pool.unpin(connection);
        }
        self.unlock(&held)
    }

    /// Gives back what failed begins and releases may have left.
    ///
    /// # Errors
    ///
    /// `Unreachable` while the server still does not answer.
    pub(super) fn release_orphans(&self) -> Result<()> {
        let unlock = |key: &Key, token: &Token| {
            let reserve = ms(RESERVATION);
            let args = [token.as_slice(), b"", reserve.as_bytes()];
            self.pool.run(&self.scripts.release, &self.lock_and_data(key), &args).map(drop)
        };
        self.orphans.give_back(self.lock_ttl(), unlock)
    }

    /// Unlocks without leaving a mark: damaged bytes stay as they are.
    pub(super) fn unlock_unmarked(&self, held: &Held) -> Result<()> {
        self.give_up(held, b"")
    }

    fn give_up(&self, held: &Held, writer: &[u8]) -> Result<()> {
        if check_process(held.pid).is_err() {
            return Ok(()); // the parent's
        }
        let reserve = ms(RESERVATION);
        let args = [held.token.as_slice(), writer, reserve.as_bytes()];
        let answer = self.pool.run(&self.scripts.release, &self.lock_and_data(&held.key), &args);
        verdict(&answer.inspect_err(|_| self.orphans.remember(&held.key, &held.token))?)
    }

    pub(super) fn store_new(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let now = self.clock.now();
        let (expires, ends) = ttl.deadline(now, now, None);
        let writer = lock::writer(&new_token()?);
        let header =
            Header { version: 1, created: now, written: now, ..Header::new(Kind::Live, writer, expires, ends) };
        let answer = self.pool.run(
            &self.scripts.create,
            &self.lock_and_data(key),
            &[
                now.as_ms().to_string().as_bytes(),
                &header.encode(payload),
                ms(expires.since(now) + EXPIRY_SLACK).as_bytes(),
                &writer,
            ],
        )?;
        verdict(&answer)
    }

    pub(super) fn slide(&self, asked: &Key, ttl: Ttl) -> Result<()> {
        let mut key = asked.clone();
        for _ in 0..=ALIAS_STEPS_MAX {
            let [now, idle, absolute, slack] = self.deadline_args(ttl);
            let answer = self.pool.run(
                &self.scripts.touch,
                &[self.names.data(&key)],
                &[now.as_bytes(), idle.as_bytes(), absolute.as_bytes(), slack.as_bytes()],
            )?;
            match answer {
                Value::BulkString(id) => key = sibling(&key, &id).ok_or_else(corrupt)?,
                answer => return verdict(&answer),
            }
        }
        Err(circle())
    }

    pub(super) fn slide_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        check_process(held.pid)?;
        let [now, idle, absolute, slack] = self.deadline_args(ttl);
        let answer = self.pool.run(
            &self.scripts.touch_held,
            &[self.names.lock(&held.key), self.names.data(&held.key)],
            &[
                now.as_bytes(),
                idle.as_bytes(),
                absolute.as_bytes(),
                slack.as_bytes(),
                &held.token,
                &held.read,
                ms(self.lock_ttl()).as_bytes(),
            ],
        )?;
        match answer {
            Value::BulkString(stamp) => {
                let ends = value::ends_of_stamp(&stamp);
                held.base = held.base.map(|base| lock::Base { ends, ..base });
                held.read = stamp;
                Ok(())
            }
            answer => verdict(&answer),
        }
    }

    fn deadline_args(&self, ttl: Ttl) -> [String; 4] {
        let absolute = ttl.absolute_ms().map_or(String::new(), |ms| ms.to_string());
        [self.clock.now().as_ms().to_string(), ttl.idle_ms().to_string(), absolute, ms(EXPIRY_SLACK)]
    }

    /// Destroys what an id leads to, the last one first: if this is cut short, the id still leads to the rest.
    pub(super) fn bury(&self, asked: &Key) -> Result<()> {
        let mut chain = Vec::new();
        let mut key = asked.clone();
        while let Some(next) = self.try_bury(&key, true)? {
            chain.push(std::mem::replace(&mut key, next));
            if chain.len() > ALIAS_STEPS_MAX {
                return Err(circle());
            }
        }
        for key in chain.iter().rev() {
            self.try_bury(key, false)?;
        }
        Ok(())
    }

    fn try_bury(&self, key: &Key, follow: bool) -> Result<Option<Key>> {
        let now = self.clock.now();
        let forget = now.plus(self.remembered());
        let token = new_token()?;
        let header = Header::new(Kind::Tombstone, lock::writer(&token), forget, Some(forget));
        let answer = self.pool.run(
            &self.scripts.destroy,
            &self.lock_and_data(key),
            &[
                &token,
                &header.encode(b""),
                ms(self.tombstone_kept()).as_bytes(),
                now.as_ms().to_string().as_bytes(),
                ms(RESERVATION).as_bytes(),
                if follow { b"1" } else { b"0" },
            ],
        )?;
        match answer {
            Value::BulkString(id) => sibling(key, &id).map(Some).ok_or_else(corrupt),
            answer => verdict(&answer).map(|()| None),
        }
    }

    pub(super) fn rename(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        check_process(held.pid)?;
        if held.key == *new {
            return Err(refusal(4)); // the script would take our own lock for that of an answer that was lost
        }
        let now = self.clock.now();
        let grace_end = now.plus(grace);
        let forget = grace_end.plus(self.remembered());
        let alias = Header::new(Kind::Alias, held.writer(), grace_end, Some(forget));
        let [lock, data, wait] = self.lock_and_data(&held.key);
        let [new_lock, new_data, new_wait] = self.lock_and_data(new);
        let answer = self.pool.run(
            &self.scripts.regenerate,
            &[lock, data, wait, new_lock, new_data, new_wait],
            &[
                &held.token,
                &held.read,
                now.as_ms().to_string().as_bytes(),
                &held.lock_value(),
                ms(self.lock_ttl()).as_bytes(),
                &alias.encode(new.id().as_bytes()),
                ms(grace + self.tombstone_kept()).as_bytes(),
                ms(RESERVATION).as_bytes(),
                if held.base.is_some() { b"1" } else { b"0" },
            ],
        )?;
        verdict(&answer)?;
        if let Some(connection) = held.watching.take() {
            self.pool.unpin(connection); // it watched the old id
        }
        held.key = new.clone();
        if held.base.is_none() {
            held.read.clear(); // only the lock moved
        }
        Ok(())
    }
}

/// The meaning of a script's number; see `lease.lua`.
fn verdict(answer: &Value) -> Result<()> {
    match answer {
        Value::Int(0) => Ok(()),
        Value::Int(number) => Err(refusal(*number)),
        _ => Err(unexpected()),
    }
}

fn refusal(number: i64) -> Error {
    match number {
        1 => Error::new(ErrorKind::Stale, "the lock was lost and someone else has held it since")
            .advice("raise lock_ttl_ms if requests may take longer than it"),
        2 => Error::new(ErrorKind::Destroyed, "the session was destroyed after it was read"),
        3 => Error::new(ErrorKind::Gone, "there is no live record"),
        4 => Error::new(ErrorKind::Exists, "the id is taken"),
        5 => corrupt(),
        _ => unexpected(),
    }
}
