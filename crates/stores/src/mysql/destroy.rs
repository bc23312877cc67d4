//! Destroy: a tombstone in place of the session, without waiting for its lock.

use std::ops::ControlFlow;
use std::time::Duration;

use sessile_core::{Key, Owner, Result, Stored, Timestamp, follow_aliases};

use super::Mysql;
use super::connection::{Connection, Results, unexpected};
use super::failure::{Attempt, MysqlFailure};
use super::role;
use super::row::decode_head;
use super::statement::Message;
use super::statements::row_values;
use super::transaction::repeat_on_collision;
use crate::sql::random_mark;
use crate::sql::row::Columns;
use crate::sql::value::{Value, key_values};

const IS_LOCK_HELD: &str = "SELECT IS_USED_LOCK(?) IS NOT NULL";

pub(super) fn destroy(store: &Mysql, asked: &Key) -> Result<()> {
    store.pool.with(store.pool.deadline(Duration::ZERO), |connection| {
        let (now, statements) = (store.clock.now(), store.statements());
        // The mark is random: it only has to differ each time.
        let tombstone = Stored::tombstone(random_mark()?.cast_unsigned(), now);
        let values = row_values(asked, &tombstone, None, now);
        let lock = store.locks.name(asked);
        let run = |connection: &mut Connection| -> Attempt<_> {
            let message = Message::of(&statements.replace_unless_alias, &values)
                .then(IS_LOCK_HELD, &[Value::Word(&lock)])
                .then(&statements.select_head, &key_values(asked));
            let mut results = connection.run(&message)?;
            if results.changed() > 0 {
                return Ok(None);
            }
            let there = decode_head(results.row(), asked)?;
            Ok(Some((decode_is_held(&mut results)?, there)))
        };
        let mut found = run(connection)?;
        if connection.is_of_galera && found == Some((false, Stored::Nothing)) {
            // This node may have to apply yet what another one has acknowledged.
            role::catch_up(connection)?;
            found = run(connection)?;
        }
        let Some(found) = found else { return Ok(()) };
        match found {
            // Without a record and without a holder nobody could bring the session back, and
            // log-outs with invented ids must not fill the disk.
            (false, Stored::Nothing) => Ok(()),
            (true, Stored::Nothing) => {
                connection.run(&Message::of(&statements.insert, &values)).map(drop)
            }
            (_, Stored::Alias { .. }) => repeat_on_collision(connection, |connection| {
                destroy_chain(store, connection, asked, &tombstone, now)
            }),
            _ => Err(MysqlFailure::RowChanged),
        }
    })
}

pub(super) fn destroy_owned(store: &Mysql, key: &Key, owner: Owner) -> Result<bool> {
    store.pool.with(store.pool.deadline(Duration::ZERO), |connection| {
        let now = store.clock.now();
        let tombstone = Stored::tombstone(random_mark()?.cast_unsigned(), now);
        let mut values = row_values(key, &tombstone, None, now);
        values.extend([Value::from(now), Value::from(owner)]);
        let message = Message::of(&store.statements().replace_owned, &values);
        Ok(connection.run(&message)?.changed() > 0)
    })
}

fn destroy_chain(
    store: &Mysql,
    connection: &mut Connection,
    asked: &Key,
    tombstone: &Stored,
    now: Timestamp,
) -> Attempt<()> {
    connection.run(&Message::of("START TRANSACTION", &[]))?;
    let (statements, mut changes) = (store.statements(), Message::default());
    follow_aliases(asked, |key| -> Attempt<_> {
        let look = Message::of(IS_LOCK_HELD, &[Value::Word(&store.locks.name(key))])
            .then(&statements.lock_head, &key_values(key));
        let mut results = connection.run(&look)?;
        let there = decode_head(results.row(), key)?;
        let is_held = decode_is_held(&mut results)?;
        let values = row_values(key, tombstone, None, now);
        if there != Stored::Nothing {
            changes.add(&statements.replace, &values);
        } else if is_held {
            changes.add(&statements.insert, &values);
        }
        Ok(there.leads_to(now).cloned().map_or(ControlFlow::Break(()), ControlFlow::Continue))
    })?;
    connection.run(&changes.then("COMMIT", &[])).map(drop)
}

fn decode_is_held(results: &mut Results) -> Attempt<bool> {
    let row = results.row().ok_or_else(unexpected)?;
    Ok(row.integer(0)?.ok_or_else(unexpected)? != 0)
}
