//! Transactions: to look before writing, or to write two rows.
//!
//! Invariant: none is left open, whatever its failure. Later statements would be part of it, and
//! lost with it.

use sessile_core::{Error, ErrorKind, Key, Result, Stored, Timestamp};

use super::connection::Connection;
use super::failure::{Attempt, LOCK_WAIT, MysqlFailure};
use super::lock::{IS_OURS, RELEASE, lost};
use super::row::decode_head;
use super::statement::Message;
use super::statements::{Statements, row_values};
use crate::connections::pool::AttemptFailure;
use crate::sql::row::Columns;
use crate::sql::value::{Value, key_values};

const ATTEMPTS_MAX: usize = 8;

pub(super) fn repeat_on_collision<T>(
    connection: &mut Connection,
    mut run: impl FnMut(&mut Connection) -> Attempt<T>,
) -> Attempt<T> {
    for _ in 0..ATTEMPTS_MAX {
        let failure = match run(connection) {
            Err(failure) if !failure.breaks_connection() => failure,
            done => return done,
        };
        let rolled_back = roll_back(connection);
        // A deadlock is told at once; after a wait for a row there may be no time for another.
        let too_late = failure.is(&[LOCK_WAIT]) && connection.is_late();
        if !failure.is_collision() || too_late {
            return Err(failure);
        }
        rolled_back?;
    }
    Err(MysqlFailure::RowChanged)
}

/// Looks before it writes, says what is wrong, and gives up the lock. `next` is the record to write
/// over what is there.
pub(super) fn write_with_care(
    connection: &mut Connection,
    statements: &Statements,
    (key, lock): (&Key, &str),
    payload: &[u8],
    now: Timestamp,
    next: impl FnOnce(&Stored) -> Result<Stored>,
) -> Attempt<()> {
    let message = Message::of("START TRANSACTION", &[])
        .then(&statements.lock_head, &key_values(key))
        .then(IS_OURS, &[Value::Word(lock)]);
    let mut results = connection.run(&message)?;
    let ours = results.row().map(|row| row.integer(0)).transpose()? == Some(Some(1));
    let there = decode_head(results.row(), key)?;
    let next = next(&there).and_then(|next| if ours { Ok(next) } else { Err(lost()) });
    if let Ok(next) = &next {
        let statement =
            if there == Stored::Nothing { &statements.insert } else { &statements.replace };
        let values = row_values(key, next, Some(payload), now);
        if connection.takes_text(payload) {
            connection.run(&Message::of(statement, &values))?;
        } else {
            connection.execute(statement, &values)?;
        }
    }
    let end = if next.is_ok() { "COMMIT" } else { "ROLLBACK" };
    connection.run(&Message::of(end, &[]).then(RELEASE, &[Value::Word(lock)]))?;
    Ok(next.map(drop)?)
}

fn roll_back(connection: &mut Connection) -> Attempt<()> {
    let done = connection.run(&Message::of("ROLLBACK", &[]));
    if done.is_err() {
        connection.give_up();
    }
    done.map(drop)
}

/// Refuses what the server would not take: it would cut the connection.
pub(super) fn check_size(connection: &Connection, payload: &[u8]) -> Result<()> {
    let (size, limit) = (payload.len() as u64, connection.facts.payload_bytes_max);
    if size <= limit {
        return Ok(());
    }
    let why = "the payload is too large for the server's packets";
    Err(Error::new(ErrorKind::TooLarge { size, limit }, why)
        .advice("raise max_allowed_packet on the server"))
}
