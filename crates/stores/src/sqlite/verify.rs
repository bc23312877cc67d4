//! `verify`: SQLite's own check of the file, during which the log grows; then every row as a reader
//! would see it. Invariant: a problem names a row by its number, never by its id.

use rusqlite::Connection;
use sessile_core::{Result, Verified};

use super::failure::failure;
use super::row::{cached, columns, decode};
use crate::sql::row::key;

/// Rows of one read, and between two reports of progress, at which the caller may rest.
const CHUNK_ROWS: i64 = 256;

pub(super) fn verify(connection: &Connection, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
    let mut verified = Verified::default();
    check_file(connection, &mut verified)?;
    // A damaged file gives rows that were never written: its own problems are enough then.
    if verified.problems.is_empty() {
        check_rows(connection, &mut verified, progress)?;
    }
    Ok(verified)
}

/// SQLite reports tables, indexes, pages and row numbers, not values.
fn check_file(connection: &Connection, verified: &mut Verified) -> Result<()> {
    let sql = format!("PRAGMA integrity_check({})", Verified::PROBLEMS_LISTED_MAX);
    let mut statement = connection.prepare(&sql).map_err(failure)?;
    let mut lines = statement.query(()).map_err(failure)?;
    while let Some(line) = lines.next().map_err(failure)? {
        let line: String = line.get(0).map_err(failure)?;
        if line != "ok" {
            line.lines().for_each(|problem| verified.note(format!("the file: {problem}")));
        }
    }
    Ok(())
}

fn check_rows(
    connection: &Connection,
    verified: &mut Verified,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let sql = concat!(
        "SELECT ",
        columns!("payload"),
        ", bin, id FROM session WHERE row > ?1 ORDER BY row LIMIT ?2"
    );
    let mut last = i64::MIN;
    loop {
        let mut statement = cached(connection, sql)?;
        let mut rows = statement.query((last, CHUNK_ROWS)).map_err(failure)?;
        let mut count = 0;
        while let Some(row) = rows.next().map_err(failure)? {
            (last, count) = (row.get(10).map_err(failure)?, count + 1);
            verified.checked += 1;
            if let Err(error) = key(row, 12).and_then(|key| decode(row, &key)) {
                verified.note(format!("row {last}: {}", error.why()));
            }
        }
        drop(rows);
        progress(verified.checked);
        if count < CHUNK_ROWS {
            return Ok(());
        }
    }
}
