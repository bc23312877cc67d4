//! Writing the record and giving up the lock, all or nothing.

use std::time::Duration;

use redis::Value;
use sessile_core::{ErrorKind, Head, Limits, OwnerChange, Result, Stored, Ttl};

use super::begin::Held;
use super::bounded::Bounded;
use super::connection::Connection;
use super::script::{COMMIT, stale};
use crate::locks::check_process;

/// An unleased touch may move the absolute end between the two trips of a request, but not for
/// ever.
const COMMIT_ATTEMPTS: usize = 8;

pub fn commit(store: &Bounded<'_>, mut held: Held, saved: (&[u8], Ttl, OwnerChange)) -> Result<()> {
    check_process(held.pid)?;
    if let Some(connection) = held.watching.take()
        && store.servers.is_current(&connection, store.deadline)
        && store.write_if_untouched(&held, connection, saved)?
    {
        return Ok(());
    }
    for _ in 0..COMMIT_ATTEMPTS {
        let (value, px) = store.next_value(&held, saved);
        // Nothing read and nothing there proves that nothing was destroyed only while a tombstone
        // would last.
        let trusted = store.clock.now().since(held.since) < Limits::TOMBSTONE_TTL;
        let args = (&held.token, &held.read, value, px, trusted);
        match store.change(&COMMIT, &held.key, &[], args) {
            Ok(Some(stamp)) => held.touched(stamp),
            Ok(None) => return Ok(()),
            Err(error) if is_verdict(error.kind()) => return Err(error),
            Err(error) => {
                // The lock must not stay until its time is over because the server had no memory.
                let _ = store.unlock(&held, true);
                return Err(error);
            }
        }
    }
    let _ = store.unlock(&held, true);
    Err(stale())
}

/// Whether the script has judged the lease: there is nothing to clean up.
fn is_verdict(kind: &ErrorKind) -> bool {
    use ErrorKind::{Corrupt, Destroyed, Exists, Gone, Stale};
    matches!(kind, Corrupt | Destroyed | Exists | Gone | Stale)
}

impl Bounded<'_> {
    /// Commits with plain commands in one write. The server carries them out only if lock and
    /// record are as they were when they were read (see begin.rs). False when they are not, or
    /// when it is unknown whether the commands were carried out: commit.lua then finds out, and
    /// recognises its own writer. Errors: too few replicas have it.
    fn write_if_untouched(
        &self,
        held: &Held,
        mut connection: Connection,
        saved: (&[u8], Ttl, OwnerChange),
    ) -> Result<bool> {
        let (value, px) = self.next_value(held, saved);
        let [lock, data, _] = self.names.of(&held.key);
        let mut commands = redis::pipe();
        commands.cmd("MULTI").ignore();
        commands.cmd("SET").arg(data).arg(value).arg("PX").arg(px).ignore();
        commands.cmd("DEL").arg(lock).ignore().cmd("EXEC");
        let replicas = self.replicas();
        if let Some(replicas) = replicas {
            commands.add_command(replicas.wait(self.deadline));
        }
        connection.set_deadline(self.deadline.of_answer(Duration::ZERO));
        let answers: Vec<Value> =
            match self.servers.on(connection, |connection| commands.query(connection)) {
                Ok((answers, connection)) => {
                    self.servers.give_back(connection);
                    answers
                }
                Err(_) => return Ok(false),
            };
        match (answers.as_slice(), replicas) {
            ([Value::Array(_)], None) => Ok(true),
            ([Value::Array(_), Value::Int(confirmed)], Some(replicas)) => {
                replicas.check(confirmed.unsigned_abs()).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    fn next_value(
        &self,
        held: &Held,
        (payload, ttl, set): (&[u8], Ttl, OwnerChange),
    ) -> (Vec<u8>, u64) {
        let now = self.clock.now();
        let next = Stored::Live(Head::next(held.head, ttl, now).with_owner(set));
        self.value(&next, &held.token, payload, now)
    }
}
