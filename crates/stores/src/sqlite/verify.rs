//! `verify`: SQLite's own check of the file, then every row as a reader would see it.
//!
//! It reads in snapshots and changes nothing. While SQLite checks the file the log cannot be reused and grows
//! with what others write. Invariant: a problem names a row by its number, never by its id.

use rusqlite::Connection;
use sessile_core::{Bin, Key, Result, Timestamp, Verified};

use super::failure::failure;
use super::row::{decode, prepare};

/// Rows between two reports of progress, and of one read.
const CHUNK_ROWS: i64 = 1_000;

pub(super) fn verify(connection: &Connection, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
    let mut verified = Verified::default();
    check_file(connection, &mut verified)?;
    // A damaged file gives rows that were never written; what it says about itself is enough then.
    if verified.clean() {
        check_rows(connection, &mut verified, progress)?;
    }
    Ok(verified)
}

/// What it reports are tables, indexes, pages and row numbers, not values.
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

fn check_rows(connection: &Connection, verified: &mut Verified, progress: &mut dyn FnMut(u64)) -> Result<()> {
    let sql = "SELECT row, kind, version, created, written, expires, ends, due, mark, target, payload, bin, id
        FROM session WHERE row > ?1 ORDER BY row LIMIT ?2";
    let mut last = i64::MIN;
    loop {
        let mut statement = prepare(connection, sql)?;
        let mut rows = statement.query((last, CHUNK_ROWS)).map_err(failure)?;
        let mut count = 0;
        while let Some(row) = rows.next().map_err(failure)? {
            (last, count) = (row.get(0).map_err(failure)?, count + 1);
            verified.checked += 1;
            let (bin, id): (String, String) = (row.get(11).map_err(failure)?, row.get(12).map_err(failure)?);
            if let Err(problem) = check_row(&bin, &id, || decode(row, false)) {
                verified.note(format!("row {last}: {problem}"));
            }
        }
        drop(rows);
        progress(verified.checked);
        if count < CHUNK_ROWS {
            return Ok(());
        }
    }
}

fn check_row(
    bin: &str,
    id: &str,
    decoded: impl FnOnce() -> Result<super::row::Row>,
) -> std::result::Result<(), String> {
    let bin = Bin::new(bin).map_err(|_| "its bin is malformed")?;
    Key::in_bin(bin.clone(), id).map_err(|_| "its id is malformed")?;
    let row = decoded().map_err(|error| error.why().to_owned())?;
    // As if its grace still ran: the id it leads to is malformed or not, whatever the time.
    row.content.leads_to(&bin, Timestamp::ZERO).map_err(|error| error.why().to_owned())?;
    Ok(())
}
