//! One row of the table: the statements on it, and its decoding.
//!
//! Invariant: what comes out of a row was checked. The schema is strict, but a file can be edited or damaged,
//! so types, signs and the parts that each kind must have are looked at before use; anything else is
//! `Corrupt` and stays as it is.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row as SqlRow};
use sessile_core::{Key, Record, Result, Timestamp};

use super::failure::failure;
use crate::sql::{Content, corrupt, ms};

const LIVE: i64 = 0;
const DESTROYED: i64 = 1;
const REGENERATED: i64 = 2;

const SELECT: &str = "SELECT row, kind, version, created, written, expires, ends, due, mark, target, payload
    FROM session WHERE bin = ?1 AND id = ?2";
const SELECT_HEAD: &str = "SELECT row, kind, version, created, written, expires, ends, due, mark, target, NULL
    FROM session WHERE bin = ?1 AND id = ?2";

/// A checked row.
#[derive(Debug)]
pub(super) struct Row {
    pub row: i64,
    pub content: Content,
    pub due: Timestamp,
}

pub(super) fn prepare<'c>(connection: &'c Connection, sql: &str) -> Result<CachedStatement<'c>> {
    connection.prepare_cached(sql).map_err(failure)
}

/// Reads the row of a key; without its payload when only the `head` is wanted.
pub(super) fn select(connection: &Connection, key: &Key, head: bool) -> Result<Option<Row>> {
    let mut statement = prepare(connection, if head { SELECT_HEAD } else { SELECT })?;
    let row = statement.query_row((key.bin().name(), key.id()), |row| Ok(decode(row, head)));
    row.optional().map_err(failure)?.transpose()
}

pub(super) fn decode(row: &SqlRow<'_>, head: bool) -> Result<Row> {
    let text = "a stored row has a column of the wrong type";
    let number = |index: usize| row.get::<_, i64>(index).map_err(|_| corrupt(text));
    let time = |index: usize| {
        let ms = u64::try_from(number(index)?).map_err(|_| corrupt("a stored row has a negative time"))?;
        Ok(Timestamp::from_ms(ms))
    };
    let (expires, due) = (time(5)?, time(7)?);
    let content = match number(1)? {
        LIVE => {
            let payload = match row.get_ref(10).map_err(failure)? {
                rusqlite::types::ValueRef::Blob(bytes) => bytes.to_vec(),
                rusqlite::types::ValueRef::Null if head => Vec::new(),
                _ => return Err(corrupt("a stored session has no payload, or one that is not bytes")),
            };
            let ends = row.get::<_, Option<i64>>(6).map_err(|_| corrupt(text))?;
            let ends = ends.map(u64::try_from).transpose().map_err(|_| corrupt("a stored row has a negative time"))?;
            Content::Live(Record {
                payload,
                version: u64::try_from(number(2)?).map_err(|_| corrupt("a stored row has a negative version"))?,
                created: time(3)?,
                written: time(4)?,
                expires,
                ends: ends.map(Timestamp::from_ms),
            })
        }
        DESTROYED => Content::Destroyed { mark: number(8)?, forget: due },
        REGENERATED => {
            let target = row.get::<_, String>(9).map_err(|_| corrupt("a regenerated row leads nowhere"))?;
            Content::Regenerated { target: target.into(), until: expires, forget: due }
        }
        _ => return Err(corrupt("a stored row is of an unknown kind")),
    };
    Ok(Row { row: number(0)?, content, due })
}

/// Puts a record (its own payload is ignored) in place of whatever the key has, due when it expires.
pub(super) fn put(connection: &Connection, key: &Key, record: &Record, payload: &[u8]) -> Result<()> {
    let sql = "INSERT INTO session (bin, id, kind, version, created, written, expires, ends, due, mark, payload)
        VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, ?6, 0, ?8)
        ON CONFLICT (bin, id) DO UPDATE SET kind = 0, version = ?3, created = ?4, written = ?5, expires = ?6,
            ends = ?7, due = ?6, mark = 0, target = NULL, payload = ?8";
    let version = i64::try_from(record.version).unwrap_or(i64::MAX);
    let (created, written) = (ms(record.created), ms(record.written));
    let (expires, ends) = (ms(record.expires), record.ends.map(ms));
    let values = (key.bin().name(), key.id(), version, created, written, expires, ends, payload);
    prepare(connection, sql)?.execute(values).map_err(failure)?;
    Ok(())
}

/// Turns whatever the key has into a tombstone.
pub(super) fn bury(connection: &Connection, key: &Key, mark: i64, now: Timestamp, forget: Timestamp) -> Result<()> {
    let sql = "INSERT INTO session (bin, id, kind, version, created, written, expires, due, mark)
        VALUES (?1, ?2, 1, 0, ?3, ?3, ?3, ?4, ?5)
        ON CONFLICT (bin, id) DO UPDATE SET kind = 1, version = 0, created = ?3, written = ?3, expires = ?3,
            ends = NULL, due = ?4, mark = ?5, target = NULL, payload = NULL";
    let values = (key.bin().name(), key.id(), ms(now), ms(forget), mark);
    prepare(connection, sql)?.execute(values).map_err(failure)?;
    Ok(())
}

/// Lets an id lead to another one until the grace is over.
pub(super) fn lead(
    connection: &Connection,
    old: &Key,
    new: &Key,
    now: Timestamp,
    until: Timestamp,
    forget: Timestamp,
) -> Result<()> {
    let sql = "INSERT INTO session (bin, id, kind, version, created, written, expires, due, mark, target)
        VALUES (?1, ?2, 2, 0, ?3, ?3, ?4, ?5, 0, ?6)";
    let values = (old.bin().name(), old.id(), ms(now), ms(until), ms(forget), new.id());
    prepare(connection, sql)?.execute(values).map_err(failure)?;
    Ok(())
}
