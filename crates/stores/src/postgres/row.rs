//! The row of a key.

use std::time::Duration;

use sessile_core::{Head, Key, Result, Stored, Timestamp, Ttl};

use super::connection::Connection;
use super::failure::Attempt;
use super::result::{Row, StatementResult};
use super::statements::Sql;
use crate::sql::row::{self, Columns, wrong_type};
use crate::sql::value::key_values;

#[derive(Default)]
pub(super) struct KeyRow {
    pub number: i64,
    /// The mark of the lease or creation that wrote the record.
    pub writer: i64,
    pub stored: Stored,
}

pub(super) fn read_head(connection: &mut Connection, key: &Key) -> Attempt<KeyRow> {
    Ok(decode_head(&connection.run_one(Sql::ReadHead, &key_values(key))?, key)?)
}

pub(super) fn decode_head(found: &StatementResult, key: &Key) -> Result<KeyRow> {
    let Some(row) = found.rows.first() else { return Ok(KeyRow::default()) };
    let integer = |column| row.integer(column)?.ok_or_else(wrong_type);
    let stored = row::stored(row, 0, key)?;
    Ok(KeyRow { number: integer(10)?, writer: integer(11)?, stored })
}

pub(super) fn decode(found: &StatementResult, key: &Key) -> Result<(KeyRow, Vec<u8>)> {
    let Some(row) = found.rows.first() else { return Ok(Default::default()) };
    let head = decode_head(found, key)?;
    let payload = row::payload(&head.stored, row.bytes(12)?)?;
    Ok((head, payload))
}

/// Where the row that `Destroy` has replaced led to: its kind, target and end of the grace.
pub(super) fn replaced_alias(row: &Row, key: &Key, now: Timestamp) -> Result<Option<Key>> {
    if row.integer(0)? != Some(row::ALIAS) || row::time(row, 2)? <= now {
        return Ok(None);
    }
    row.text(1)?.map(|target| key.sibling(target.as_bytes())).transpose()
}

/// Moves the expiry of a live record, or only of the one that was `read`; else returns what is
/// there.
pub(super) fn touch(
    connection: &mut Connection,
    key: &Key,
    read: Option<Head>,
    ttl: Ttl,
    now: Timestamp,
) -> Attempt<Option<Stored>> {
    // The longest lifetime is ten years, so adding it to a time cannot overflow.
    let sliding = now.plus(Duration::from_millis(ttl.idle_ms()));
    let [bin, id] = key_values(key);
    let (version, created) = (read.map(|head| head.version), read.map(|head| head.created));
    let values = [
        sliding.into(),
        ttl.absolute_ms().into(),
        bin,
        id,
        now.into(),
        version.into(),
        created.into(),
    ];
    if connection.run_one(Sql::Touch, &values)?.count == 1 {
        return Ok(None);
    }
    Ok(Some(read_head(connection, key)?.stored))
}
