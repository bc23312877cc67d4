//! A SQLite file of another program, for reading only.
//!
//! Each page opens the file anew, so nothing is locked or open between pages. During a page a
//! writer waits, unless the database has a write-ahead log. How a database with such a log is read:
//!
//! * Not open elsewhere: as a file that does not change. Any other way makes files beside it.
//! * With a log but no index, after a crash or a copy: refused. Reading would make the index.

use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Params};
use sessile_core::{Error, ErrorKind, Result};

use super::table::{self, Content, Contents, Dialect, Row, Rows, Table};
use crate::sqlite::failure::failure;
use crate::sqlite::files::beside;
use crate::store_url::StoreUrl;

const BUSY_MAX: Duration = Duration::from_secs(1);
/// Longer than the last user of a database takes from removing the index to removing the log.
const CLOSING: Duration = Duration::from_millis(100);
/// The characters that would end the path of a URI.
const IN_PATH: &AsciiSet = &CONTROLS.add(b'%').add(b'?').add(b'#').add(b' ');
/// The header bytes that declare a write-ahead log, and their value (file format, 1.3.3).
const LOG_BYTES: std::ops::Range<usize> = 18..20;
const HAS_LOG: [u8; 2] = [2, 2];

const DIALECT: Dialect = Dialect {
    whole: |expression| format!("CAST({expression} AS INTEGER)"),
    seconds: |column| format!("strftime('%s', \"{column}\")"),
    bytes: str::to_owned,
};

pub(crate) fn open(url: &StoreUrl) -> Result<Box<dyn Rows>> {
    // SQLite keeps the log beside the file itself, not beside a link.
    let path = fs::canonicalize(url.path()?).map_err(unreadable)?;
    let file = File(path);
    file.connect()?;
    Ok(Box::new(file))
}

struct File(PathBuf);

impl File {
    fn connect(&self) -> Result<Connection> {
        if !has_index(&self.0) {
            // The last user of a database removes the index first, then the log.
            std::thread::sleep(CLOSING);
            if !has_index(&self.0) {
                return Err(left_behind());
            }
        }
        let unchanging = if is_at_rest(&self.0).map_err(unreadable)? { "&immutable=1" } else { "" };
        let path = percent_encode(self.0.as_os_str().as_bytes(), IN_PATH);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let url = format!("file:{path}?mode=ro{unchanging}");
        let connection = Connection::open_with_flags(url, flags).map_err(failed)?;
        connection.busy_timeout(BUSY_MAX).map_err(failed)?;
        Ok(connection)
    }

    fn ask<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let connection = self.connect()?;
        let rows = || -> rusqlite::Result<_> {
            connection.prepare(sql)?.query_map(values, read)?.collect()
        };
        rows().map_err(failed)
    }
}

impl Rows for File {
    fn columns(&mut self, names: &[&str]) -> Result<Vec<(String, String)>> {
        // Virtual tables have no page; a query of their columns fails if the module is missing.
        let sql = format!(
            "SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
            WHERE t.type = 'table' AND t.rootpage > 0 AND c.name IN ('{}')",
            names.join("', '")
        );
        self.ask(&sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// In the order of rows: only the other program may know the order of keys.
    fn next(&mut self, table: &Table, after: &[Vec<u8>], most: usize) -> Result<Vec<Row>> {
        let (columns, name) = (DIALECT.columns_of(table), &table.name);
        let after = after.first().and_then(|row| str::from_utf8(row).ok()?.parse().ok());
        let sql = format!(
            "SELECT rowid, {columns} FROM \"{name}\" WHERE rowid > ? ORDER BY rowid LIMIT {most}"
        );
        self.ask(&sql, [after.unwrap_or(i64::MIN)], |row| {
            let place = row.get::<_, i64>(0)?.to_string().into_bytes();
            Ok(Row { key: vec![place], name: bytes(row, 1)?, numbers: numbers(row, 2)? })
        })
    }

    fn count(&mut self, table: &Table) -> Result<Option<i64>> {
        Ok(self.ask(&table::count(table), [], |row| row.get(0))?.into_iter().next())
    }

    fn content(&mut self, table: &Table, contents: &Contents, id: &str) -> Result<Option<Content>> {
        let sql = DIALECT.content(table, contents, "?1");
        let rows = self.ask(&sql, [id], |row| {
            let (user, numbers) = (row.get(1)?, numbers(row, 3)?);
            Ok(Content { bytes: bytes(row, 0)?, user, numbers })
        });
        Ok(rows?.into_iter().next())
    }
}

fn bytes(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Vec<u8>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
        ValueRef::Integer(number) => number.to_string().into_bytes(),
        ValueRef::Real(_) | ValueRef::Null => Vec::new(),
    })
}

fn numbers(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<[Option<i64>; 4]> {
    Ok([row.get(first)?, row.get(first + 1)?, row.get(first + 2)?, row.get(first + 3)?])
}

/// Whether a database has a write-ahead log and is not open: an open one has the log's file.
fn is_at_rest(path: &Path) -> std::io::Result<bool> {
    let mut header = Vec::new();
    fs::File::open(path)?.take(LOG_BYTES.end as u64).read_to_end(&mut header)?;
    Ok(header.get(LOG_BYTES) == Some(&HAS_LOG) && log_bytes(path) == 0)
}

fn has_index(path: &Path) -> bool {
    log_bytes(path) == 0 || beside(path, "-shm").exists()
}

fn log_bytes(path: &Path) -> u64 {
    fs::metadata(beside(path, "-wal")).map_or(0, |status| status.len())
}

fn left_behind() -> Error {
    let why = "the database has a write-ahead log without an index, and nobody has it open";
    Error::new(ErrorKind::Incompatible, why).advice(
        "a crash or a copy left it so, and reading it would make files beside it: open it once \
         with its own program, or scan a copy that sqlite3 made with .backup",
    )
}

fn unreadable(error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        _ => ErrorKind::Io,
    };
    Error::new(kind, "the database cannot be read")
        .advice("name an existing file that this user may read")
        .source(error)
}

/// As for our own store, but busy and unopenable databases have other reasons here.
fn failed(error: rusqlite::Error) -> Error {
    use rusqlite::ffi::ErrorCode::{CannotOpen, DatabaseBusy, DatabaseLocked, ReadOnly};
    let (kind, why, advice) = match error.sqlite_error_code() {
        Some(DatabaseBusy | DatabaseLocked) => (
            ErrorKind::Unreachable,
            "another process keeps the database locked",
            "try again when it writes less",
        ),
        Some(CannotOpen | ReadOnly) => (
            ErrorKind::Denied,
            "the database cannot be opened for reading",
            "scan as the user of the program; what a crash left behind only that program can clean \
             up",
        ),
        _ => return failure(error),
    };
    Error::new(kind, why).advice(advice).source(error)
}
