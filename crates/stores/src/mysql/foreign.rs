//! A MySQL or MariaDB database of another program, for reading only.
//!
//! The session may only read, each SELECT is a transaction of its own that locks nothing, and the server ends one that
//! takes too long. InnoDB has to read a large column to tell its length; small pages and the pauses between them bound
//! what that costs others.

use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, Value};
use sessile_core::{Error, ErrorKind, Result};

use super::failure::{Fault, settled};
use super::options::{HELP, Options};
use crate::foreign::table::{Dialect, Row, Rows, Table, key_of};
use crate::registry::OptionHelp;
use crate::store_url::StoreUrl;

/// The options of a connection; the first of the store is about its own table.
pub(crate) const OPTIONS: &[OptionHelp] = HELP.split_at(1).1;

const DIALECT: Dialect = Dialect {
    whole: |expression| format!("CAST({expression} AS SIGNED)"),
    seconds: |column| format!("TIMESTAMPDIFF(SECOND, '1970-01-01 00:00:00', \"{column}\")"),
};

pub(crate) fn open(url: &StoreUrl) -> Result<Box<dyn Rows>> {
    let options = Options::parse(url)?;
    let response = options.timeouts.response;
    let connected = || -> mysql::Result<Conn> {
        let mut conn = Conn::new(options.answering_within(response))?;
        conn.query_drop(settings(response))?;
        conn.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY")?;
        Ok(conn)
    };
    let conn = settled(connected().map_err(Fault::from))?;
    Ok(Box::new(Database { conn, table: String::new(), after: Vec::new() }))
}

/// Whether the table of our own store is there.
pub(crate) fn has_own(url: &StoreUrl) -> Result<bool> {
    let table = Options::parse(url)?.table;
    let columns = open(url)?.columns(&["payload", "due"])?;
    // Some servers have all names in lower case.
    Ok(columns.iter().any(|(of, _)| of.eq_ignore_ascii_case(&table)))
}

/// A table that is being altered is not waited for.
fn settings(response: Duration) -> String {
    let (seconds, ms) = (response.as_secs().max(1), response.as_millis());
    format!(
        "SET SESSION sql_mode = 'ANSI_QUOTES', SESSION autocommit = 1, SESSION lock_wait_timeout = {seconds} \
         /*M!100101 , SESSION max_statement_time = {seconds} */ /*!50708 , SESSION max_execution_time = {ms} */"
    )
}

struct Database {
    conn: Conn,
    /// What is being read.
    table: String,
    /// The key of the last row that was seen.
    after: Vec<Value>,
}

impl Rows for Database {
    fn columns(&mut self, names: &[&str]) -> Result<Vec<(String, String)>> {
        let places = vec!["?"; names.len()].join(", ");
        let sql = format!(
            "SELECT CONVERT(TABLE_NAME USING utf8), CONVERT(COLUMN_NAME USING utf8) FROM information_schema.COLUMNS \
             WHERE TABLE_SCHEMA = DATABASE() AND COLUMN_NAME IN ({places})"
        );
        let names: Vec<Value> = names.iter().map(|name| Value::from(*name)).collect();
        settled(self.conn.exec(sql, names).map_err(Fault::from))
    }

    fn next(&mut self, table: &Table, most: usize, show: &mut dyn FnMut(Row)) -> Result<usize> {
        if self.table != table.name {
            (self.table, self.after) = (table.name.clone(), Vec::new());
        }
        let (columns, key, name) = (DIALECT.columns_of(table), key_of(table), &table.name);
        let beyond = match (table.key.as_slice(), self.after.len()) {
            (_, 0) => String::new(),
            // In this form the server goes to the place in the index; it does not with (a, b) > (?, ?).
            ([first, second], _) => format!("WHERE \"{first}\" >= ? AND (\"{first}\" > ? OR \"{second}\" > ?)"),
            (single, _) => format!("WHERE \"{}\" > ?", single.first().map_or("", String::as_str)),
        };
        let values = match self.after.as_slice() {
            [first, second] => vec![first.clone(), first.clone(), second.clone()],
            other => other.to_vec(),
        };
        let sql = format!("SELECT {key}, {columns} FROM \"{name}\" {beyond} ORDER BY {key} LIMIT {most}");
        let rows: Vec<mysql::Row> = settled(self.conn.exec(sql, values).map_err(Fault::from))?;
        let keys = table.key.len();
        for row in &rows {
            let (key, numbers) = read(row, keys)?;
            let [bytes, created, used, expires] = numbers;
            let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
            show(Row { key, bytes, created, used, expires });
        }
        if let Some(last) = rows.last() {
            self.after = (0..keys).filter_map(|column| last.as_ref(column).cloned()).collect();
        }
        Ok(rows.len())
    }
}

/// The first column of the key, and the four numbers behind the key.
fn read(row: &mysql::Row, keys: usize) -> Result<(Vec<u8>, [Option<i64>; 4])> {
    let unexpected = || Error::new(ErrorKind::Incompatible, "the table has columns of other types than it should");
    let key = match row.as_ref(0) {
        Some(Value::Bytes(bytes)) => bytes.clone(),
        _ => return Err(unexpected()),
    };
    let mut numbers = [None; 4];
    for (column, slot) in numbers.iter_mut().enumerate() {
        *slot = match row.as_ref(keys + column) {
            Some(Value::Int(number)) => Some(*number),
            Some(Value::UInt(number)) => i64::try_from(*number).ok(),
            Some(Value::NULL) => None,
            _ => return Err(unexpected()),
        };
    }
    Ok((key, numbers))
}
