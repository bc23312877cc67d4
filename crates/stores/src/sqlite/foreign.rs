//! A SQLite file of another program, for reading only.
//!
//! The file is opened anew for each page, so between pages nothing is locked and nothing is open. During a page of a
//! database without a write-ahead log a writer waits. One with such a log that nobody has open is read as a file that does
//! not change, because opening it otherwise makes files beside it. One whose log was left behind without its index, by a
//! crash or a copy, can only be read by making that index, so it is refused.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, params_from_iter};
use sessile_core::{Error, ErrorKind, Result};

use super::beside;
use super::failure::failure;
use crate::foreign::table::{Dialect, Row, Rows, Table, key_of};
use crate::store_url::StoreUrl;

/// Longest wait for somebody who writes.
const BUSY_MAX: Duration = Duration::from_secs(1);
/// Longer than whoever closes a database takes from removing the index to removing the log.
const CLOSING: Duration = Duration::from_millis(100);
/// What would end the path of a URI.
const IN_PATH: &AsciiSet = &CONTROLS.add(b'%').add(b'?').add(b'#').add(b' ');
/// Where the header of a file says whether it has a write-ahead log, and what it says then (file format, 1.3.3).
const LOG_BYTES: std::ops::Range<usize> = 18..20;
const HAS_LOG: [u8; 2] = [2, 2];

const DIALECT: Dialect = Dialect {
    whole: |expression| format!("CAST({expression} AS INTEGER)"),
    seconds: |column| format!("strftime('%s', \"{column}\")"),
};

pub(crate) fn open(url: &StoreUrl) -> Result<Box<dyn Rows>> {
    // SQLite has the log beside the file itself, whatever links lead to it.
    let path = fs::canonicalize(url.path()?).map_err(unreadable)?;
    let file = File { path, table: String::new(), after: i64::MIN };
    file.connect()?;
    Ok(Box::new(file))
}

struct File {
    path: PathBuf,
    /// What is being read.
    table: String,
    /// The last row that was seen.
    after: i64,
}

impl File {
    fn connect(&self) -> Result<Connection> {
        if !has_index(&self.path) {
            // Whoever closes it last removes the index first, then the log.
            std::thread::sleep(CLOSING);
            if !has_index(&self.path) {
                return Err(left_behind());
            }
        }
        let unchanging = if is_at_rest(&self.path).map_err(unreadable)? { "&immutable=1" } else { "" };
        let path = percent_encode(std::os::unix::ffi::OsStrExt::as_bytes(self.path.as_os_str()), IN_PATH);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(format!("file:{path}?mode=ro{unchanging}"), flags).map_err(failed)?;
        connection.busy_timeout(BUSY_MAX).map_err(failed)?;
        Ok(connection)
    }
}

impl Rows for File {
    fn columns(&mut self, names: &[&str]) -> Result<Vec<(String, String)>> {
        let places = vec!["?"; names.len()].join(", ");
        // Virtual tables have no page; asked for their columns they fail where the module is missing.
        let sql = format!(
            "SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
            WHERE t.type = 'table' AND t.rootpage > 0 AND c.name IN ({places})"
        );
        let connection = self.connect()?;
        let mut statement = connection.prepare(&sql).map_err(failed)?;
        let found = statement.query_map(params_from_iter(names), |row| Ok((row.get(0)?, row.get(1)?)));
        found.and_then(Iterator::collect).map_err(failed)
    }

    /// In the order of rows, not of keys: their order may be one that only the program knows.
    fn next(&mut self, table: &Table, most: usize, show: &mut dyn FnMut(Row)) -> Result<usize> {
        if self.table != table.name {
            (self.table, self.after) = (table.name.clone(), i64::MIN);
        }
        let (columns, name) = (DIALECT.columns_of(table), &table.name);
        let key = key_of(table);
        let key = key.split(',').next().unwrap_or(&key);
        let sql = format!("SELECT rowid, {key}, {columns} FROM \"{name}\" WHERE rowid > ?1 ORDER BY rowid LIMIT ?2");
        let connection = self.connect()?;
        let mut statement = connection.prepare(&sql).map_err(failed)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut rows = statement.query((self.after, most)).map_err(failed)?;
        let mut count = 0;
        while let Some(row) = rows.next().map_err(failed)? {
            self.after = row.get(0).map_err(failed)?;
            count += 1;
            let key = match row.get_ref(1).map_err(failed)? {
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
                ValueRef::Integer(number) => number.to_string().into_bytes(),
                ValueRef::Real(_) | ValueRef::Null => Vec::new(),
            };
            let moment = |column| row.get::<_, Option<i64>>(column).map_err(failed);
            show(Row {
                key,
                bytes: row.get::<_, Option<u64>>(2).map_err(failed)?.unwrap_or(0),
                created: moment(3)?,
                used: moment(4)?,
                expires: moment(5)?,
            });
        }
        Ok(count)
    }
}

/// Whether a database has a write-ahead log and nobody has it open: whoever does has made the file of the log.
fn is_at_rest(path: &Path) -> std::io::Result<bool> {
    let mut header = Vec::new();
    fs::File::open(path)?.take(LOG_BYTES.end as u64).read_to_end(&mut header)?;
    Ok(header.get(LOG_BYTES) == Some(&HAS_LOG) && log_bytes(path) == 0)
}

/// Whether there is no log, or it has the index that any reader would make.
fn has_index(path: &Path) -> bool {
    log_bytes(path) == 0 || beside(path, "-shm").exists()
}

fn log_bytes(path: &Path) -> u64 {
    fs::metadata(beside(path, "-wal")).map_or(0, |status| status.len())
}

fn left_behind() -> Error {
    Error::new(ErrorKind::Incompatible, "the database has a write-ahead log without an index, and nobody has it open")
        .advice(
            "a crash or a copy left it so, and reading it would make files beside it: open it once with its own program, \
             or scan a copy that sqlite3 made with .backup",
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

/// The same as for our own, but for what has another reason here.
fn failed(error: rusqlite::Error) -> Error {
    use rusqlite::ffi::ErrorCode::{CannotOpen, DatabaseBusy, DatabaseLocked, ReadOnly};
    match error.sqlite_error_code() {
        Some(DatabaseBusy | DatabaseLocked) => {
            Error::new(ErrorKind::Unreachable, "another process keeps the database locked")
                .advice("try again when it writes less")
                .source(error)
        }
        Some(CannotOpen | ReadOnly) => Error::new(ErrorKind::Denied, "the database cannot be opened for reading")
            .advice("scan as the user of the program; what a crash left behind only that program can clean up")
            .source(error),
        _ => failure(error),
    }
}
