//! The row of a key: reading and writing it.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{
    CachedStatement, Connection, OptionalExtension, Params, Row as Columns, ToSql, params_from_iter,
};
use sessile_core::{Key, Result, Stored, Timestamp, Ttl};

use super::failure::failure;
use crate::sql::row::{self, encoded};
use crate::sql::value::{Value, key_values};
use crate::sql::{corrupt, ms};

/// The columns of a [`KeyRow`], and in front of them those that `sql::row` decodes.
macro_rules! columns {
    ($payload:literal) => {
        concat!(
            "kind, version, created, written, expires, ends, due, mark, target, ",
            "(SELECT owner FROM session_owner AS its
                WHERE its.row = session.row AND its.created = session.created), row, ",
            $payload
        )
    };
}
pub(super) use columns;

#[derive(Default)]
pub(super) struct KeyRow {
    pub number: i64,
    pub stored: Stored,
    /// When a sweep looks at the row.
    due: Timestamp,
}

impl row::Columns for Columns<'_> {
    fn integer(&self, column: usize) -> Result<Option<i64>> {
        self.get(column).map_err(|_| row::wrong_type())
    }

    fn text(&self, column: usize) -> Result<Option<&str>> {
        let text = self.get_ref(column).ok().and_then(|value| value.as_str_or_null().ok());
        text.ok_or_else(row::wrong_type)
    }
}

pub(super) fn cached<'c>(connection: &'c Connection, sql: &str) -> Result<CachedStatement<'c>> {
    connection.prepare_cached(sql).map_err(failure)
}

/// Returns the number of rows changed.
pub(super) fn execute(connection: &Connection, sql: &str, values: impl Params) -> Result<usize> {
    cached(connection, sql)?.execute(values).map_err(failure)
}

pub(super) fn read(connection: &Connection, key: &Key) -> Result<(KeyRow, Vec<u8>)> {
    let sql = concat!("SELECT ", columns!("payload"), " FROM session WHERE bin = ?1 AND id = ?2");
    select(connection, sql, key, decode)
}

/// Reads the row of a key without its payload, whose pages then stay on the disk.
pub(super) fn read_head(connection: &Connection, key: &Key) -> Result<KeyRow> {
    let sql = concat!("SELECT ", columns!("NULL"), " FROM session WHERE bin = ?1 AND id = ?2");
    select(connection, sql, key, decode_head)
}

fn select<T: Default>(
    connection: &Connection,
    sql: &str,
    key: &Key,
    decode: fn(&Columns<'_>, &Key) -> Result<T>,
) -> Result<T> {
    let mut statement = cached(connection, sql)?;
    let row = statement.query_row((key.bin().name(), key.id()), |row| Ok(decode(row, key)));
    row.optional().map_err(failure)?.unwrap_or_else(|| Ok(T::default()))
}

pub(super) fn decode(columns: &Columns<'_>, key: &Key) -> Result<(KeyRow, Vec<u8>)> {
    let head = decode_head(columns, key)?;
    let payload = columns.get_ref(11).ok().and_then(|value| value.as_blob_or_null().ok());
    let payload = payload.ok_or_else(|| corrupt("a stored payload is not bytes"))?;
    let payload = row::payload(&head.stored, payload.map(<[u8]>::to_vec))?;
    Ok((head, payload))
}

fn decode_head(columns: &Columns<'_>, key: &Key) -> Result<KeyRow> {
    let stored = row::stored(columns, 0, key)?;
    Ok(KeyRow { number: columns.get(10).map_err(failure)?, stored, due: row::time(columns, 6)? })
}

/// Within a transaction of the caller.
pub(super) fn put(
    connection: &Connection,
    key: &Key,
    stored: &Stored,
    payload: Option<&[u8]>,
    now: Timestamp,
) -> Result<()> {
    let sql = "INSERT INTO session (kind, version, created, written, expires, ends, due, mark, \
               target, bin, id, payload)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
        ON CONFLICT (bin, id) DO UPDATE SET kind = ?1, version = ?2, created = ?3, written = ?4, \
        expires = ?5,
            ends = ?6, due = ?7, mark = ?8, target = ?9, payload = ?12
        RETURNING row";
    let payload = payload.map_or(Value::Null, Value::Bytes);
    let [columns @ .., owner] = encoded(stored, now);
    let values = columns.into_iter().chain(key_values(key)).chain([payload]);
    let number: i64 = cached(connection, sql)?
        .query_row(params_from_iter(values), |row| row.get(0))
        .map_err(failure)?;
    match stored.head().filter(|head| head.owner.is_some()) {
        Some(head) => {
            let sql = "INSERT OR REPLACE INTO session_owner (row, owner, created)
                VALUES (?1, ?2, ?3)";
            execute(connection, sql, (number, owner, ms(head.created))).map(drop)
        }
        None => execute(connection, "DELETE FROM session_owner WHERE row = ?1", [number]).map(drop),
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Value::Owner(ref digits) => ValueRef::Text(digits),
            Value::Number(number) => ValueRef::Integer(number),
            Value::Null => ValueRef::Null,
            Value::Word(word) => word.into(),
            Value::Bytes(bytes) => bytes.into(),
        }))
    }
}

/// Moves the expiry of a live record, within the transaction in which it was read.
pub(super) fn touch(connection: &Connection, row: &KeyRow, ttl: Ttl, now: Timestamp) -> Result<()> {
    let head = row.stored.touched(ttl, now)?;
    // Only a shorter life moves the index entry.
    let sql = if row.due <= head.expires {
        "UPDATE session SET expires = ?2, ends = ?3 WHERE row = ?1"
    } else {
        "UPDATE session SET expires = ?2, ends = ?3, due = ?2 WHERE row = ?1"
    };
    execute(connection, sql, (row.number, ms(head.expires), head.ends.map(ms))).map(drop)
}
