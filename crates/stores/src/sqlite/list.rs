//! List and stat: the rows of the table in the order of their numbers.

use rusqlite::Connection;
use sessile_core::{Cursor, Owner, Result};

use super::failure::failure;
use super::row::cached;
use crate::sql::list::{Chunk, after_row, listed, row_of};
use crate::sql::value::Value;

pub(super) fn next_rows(
    connection: &Connection,
    after: Option<&Cursor>,
    most: usize,
    owner: Option<Owner>,
) -> Result<Chunk> {
    let sql = if owner.is_some() {
        // A CROSS JOIN begins with its left side.
        "SELECT bin, id, kind, version, session.created, written, expires, length(payload), owner, \
         its.row
        FROM session_owner AS its CROSS JOIN session
            ON session.row = its.row AND session.created = its.created
        WHERE its.row > ?1 AND its.owner = ?3 ORDER BY its.row LIMIT ?2"
    } else {
        "SELECT bin, id, kind, version, created, written, expires, length(payload),
            (SELECT owner FROM session_owner AS its
                WHERE its.row = session.row AND its.created = session.created), row
        FROM session WHERE row > ?1 AND ?3 IS NULL ORDER BY row LIMIT ?2"
    };
    let (mut statement, mut last) = (cached(connection, sql)?, None);
    let records = statement.query_map((row_of(after)?, most, owner.map(Value::from)), |row| {
        last = Some(row.get(9)?);
        Ok(listed(row))
    });
    let records = records.and_then(Iterator::collect).map_err(failure)?;
    Ok(Chunk { records, last: last.map(after_row) })
}
