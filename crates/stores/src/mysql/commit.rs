//! Commit: the next version of the record that the lease has read, or a new one.

use sessile_core::{Head, Key, Limits, OwnerChange, Stored, Timestamp, Ttl};

use super::connection::Connection;
use super::failure::{Attempt, DUPLICATE, NO_VALUE};
use super::lock::{Held, RELEASE_IF_CHANGED, lost, release};
use super::statement::Message;
use super::statements::{Statements, row_values};
use super::transaction::{check_size, repeat_on_collision, write_with_care};
use crate::sql::value::{Value, key_values};

/// Replaces the payload, if the row is still what the lease has read, and gives up the lock.
///
/// Not tried again on another connection: the lock went with this one.
pub(super) fn commit(
    held: &mut Held,
    statements: &Statements,
    (payload, ttl, set): (&[u8], Ttl, OwnerChange),
    now: Timestamp,
) -> Attempt<()> {
    let Held { key, lock, stored, begun, connection } = held;
    check_size(connection, payload)?;
    let of = (&*key, lock.as_str());
    repeat_on_collision(connection, |connection| {
        // The statements of the common cases leave the owner alone.
        if set == OwnerChange::Keep
            && commit_at_once(connection, statements, of, (stored, *begun), payload, (ttl, now))?
        {
            return Ok(());
        }
        write_with_care(connection, statements, of, payload, now, |there| {
            let old = stored.check_lease(there, *begun, now)?;
            Ok(Stored::Live(Head::next(old, ttl, now).with_owner(set)))
        })
    })
}

/// The common cases, in one statement that is its own transaction. False when a check in it failed,
/// or would not do.
fn commit_at_once(
    connection: &mut Connection,
    statements: &Statements,
    of: (&Key, &str),
    (stored, begun): (&Stored, Timestamp),
    payload: &[u8],
    (ttl, now): (Ttl, Timestamp),
) -> Attempt<bool> {
    let ((key, lock), read) = (of, stored.live(begun));
    let next = Head::next(read, ttl, now);
    let new = Stored::Live(next);
    let (statement, values) = match (&read, stored) {
        (Some(read), _) => {
            let heads = (&next, read);
            if let Some(done) = commit_and_release(connection, statements, of, payload, heads)? {
                return Ok(done);
            }
            statements.next_version(of, payload, heads)
        }
        // After that time a tombstone is forgotten, and its absence proves nothing.
        (None, Stored::Nothing) if now.since(begun) < Limits::TOMBSTONE_TTL => {
            (statements.insert.as_str(), row_values(key, &new, Some(payload), now))
        }
        _ => return Ok(false),
    };
    let changed = if connection.takes_text(payload) {
        let message =
            Message::of(statement, &values).then(RELEASE_IF_CHANGED, &[Value::Word(lock)]);
        connection.run(&message).map(|mut results| results.changed())
    } else {
        let changed = connection.execute(statement, &values);
        // The change is made, whatever becomes of the connection.
        if matches!(changed, Ok(1)) && release(connection, lock).is_err() {
            connection.give_up();
        }
        changed
    };
    match changed {
        // Most likely a tombstone stands where there was no row.
        Err(failure) if failure.is(&[DUPLICATE]) => Ok(false),
        Err(failure) if failure.is(&[NO_VALUE]) => Err(lost().into()),
        changed => Ok(changed? == 1),
    }
}

/// A commit and the end of its lock in one prepared statement. `None`: not done, try another way.
/// False: row or lock are not what was read; a lock that is ours is still held.
///
/// Where the row is gone, a tombstone that nobody sees stands in its place until it is removed; if
/// the connection breaks in between, the next sweep does that.
///
/// The lock is given up while the statement has the row to itself, after its conditions were found
/// to hold. The row is free when the statement has committed. The next holder reads the row with a
/// row lock, so waits for that. A statement that fails behind that point has changed nothing, and a
/// second attempt finds the lock gone.
///
/// Not where commits are durable: the server frees a row before the log is on the disk, and the
/// next holder would see what a power cut may still undo.
fn commit_and_release(
    connection: &mut Connection,
    statements: &Statements,
    of: (&Key, &str),
    payload: &[u8],
    heads: (&Head, &Head),
) -> Attempt<Option<bool>> {
    if connection.facts.commits_are_durable || !connection.prepares() {
        return Ok(None);
    }
    let (statement, values) = statements.next_version_and_release(of, payload, heads);
    match connection.if_prepared(|connection| connection.execute(statement, &values)) {
        Err(failure) if failure.is(&[NO_VALUE]) => Ok(Some(false)),
        Ok(Some(1)) => {
            connection.run(&Message::of(&statements.delete_forgotten, &key_values(of.0)))?;
            Ok(Some(false))
        }
        done => Ok(done?.map(|_| true)),
    }
}
