//! List and stat: the rows of the table in the order of their numbers.

use rusqlite::Connection;
use sessile_core::{Cursor, Result};

use super::failure::failure;
use super::row::cached;
use crate::sql::list::{Chunk, after_row, listed, row_of};

pub(super) fn next_rows(
    connection: &Connection,
    after: Option<&Cursor>,
    most: usize,
) -> Result<Chunk> {
    let sql = "SELECT bin, id, kind, version, created, written, expires, length(payload), row
        FROM session WHERE row > ?1 ORDER BY row LIMIT ?2";
    let (mut statement, mut last) = (cached(connection, sql)?, None);
    let records = statement.query_map((row_of(after)?, most), |row| {
        last = Some(row.get(8)?);
        Ok(listed(row))
    });
    let records = records.and_then(Iterator::collect).map_err(failure)?;
    Ok(Chunk { records, last: last.map(after_row) })
}
