//! Destroy: a tombstone in place of the session, without waiting for its lock.
//!
//! Invariant: sent twice, as after a broken connection, it has the effect of once.

use std::ops::ControlFlow;
use std::time::Duration;

use sessile_core::{Error, ErrorKind, Key, Limits, Owner, Result, Stored, follow_aliases};

use super::Postgres;
use super::connection::{Call, Connection};
use super::failure::Attempt;
use super::row::{decode_head, replaced_alias};
use super::statements::Sql;
use crate::sql::value::key_values;

/// Regenerations that one destruction of an id may run into.
const ATTEMPTS_MAX: usize = 8;

/// Each round trip destroys one id and returns where that led to, so ids in a circle end as
/// tombstones, too.
pub(super) fn destroy(store: &Postgres, asked: &Key) -> Result<()> {
    store.pool.with(store.pool.deadline(Duration::ZERO), |connection| {
        let destroy = |key: &Key| -> Attempt<_> {
            for _ in 0..ATTEMPTS_MAX {
                if let Some(destroyed) = destroy_one(store, connection, key)? {
                    return Ok(destroyed);
                }
            }
            let why = "the session was changed again and again while it was destroyed";
            Err(Error::new(ErrorKind::Io, why).advice("try again").into())
        };
        follow_aliases(asked, destroy).map(drop)
    })
}

/// A regeneration that is writing the row meanwhile is waited for; the row then has another id.
pub(super) fn destroy_owned(store: &Postgres, key: &Key, owner: Owner) -> Result<bool> {
    store.pool.with(store.pool.deadline(Duration::ZERO), |connection| {
        let now = store.clock.now();
        let forget = now.plus(Limits::TOMBSTONE_TTL).into();
        let [bin, id] = key_values(key);
        let values = [bin, id, now.into(), forget, owner.into()];
        Ok(!connection.run_one(Sql::DestroyOwned, &values)?.rows.is_empty())
    })
}

/// Destroys one id, and returns where it led to. `None` when a regeneration was faster.
///
/// The first statement makes a tombstone where there is no row but a holder, the second in place of
/// the row. The order matters: a holder that the first does not see any more has unlocked, so it
/// has written, and the second sees that. Without a row and without a holder nobody could bring the
/// session back, and log-outs with invented ids must not fill the disk.
///
/// The second statement waits for a regeneration that is writing the row, which then has another
/// id. The alias to there is younger than the statement; the third statement sees it.
fn destroy_one(
    store: &Postgres,
    connection: &mut Connection,
    key: &Key,
) -> Attempt<Option<ControlFlow<(), Key>>> {
    let now = store.clock.now();
    let forget = now.plus(Limits::TOMBSTONE_TTL).into();
    let ([bin, id], lock) = (key_values(key), connection.names.lock_of(key));
    let [_, replaced, left] = connection.run([
        Call(Sql::DestroyHeld, &[lock.into(), bin, id, now.into(), forget]),
        Call(Sql::Destroy, &[bin, id, now.into(), forget]),
        Call(Sql::ReadHead, &[bin, id]),
    ])?;
    if let Some(row) = replaced.rows.first() {
        let target = replaced_alias(row, key, now)?;
        return Ok(Some(target.map_or(ControlFlow::Break(()), ControlFlow::Continue)));
    }
    let left = decode_head(&left, key)?.stored;
    let gone = matches!(left, Stored::Nothing | Stored::Tombstone { .. });
    Ok(gone.then_some(ControlFlow::Break(())))
}
