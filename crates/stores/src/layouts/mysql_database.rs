//! A MySQL or MariaDB database of another program, for reading only.
//!
//! Each SELECT is a read-only transaction of its own that locks nothing and has a time limit.
//! InnoDB reads a large column to tell its length; small pages and the pauses between them bound
//! that cost.

use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, Params, Value};
use sessile_core::{Error, ErrorKind, Result};

use super::table::{Dialect, Row, Rows, Table};
use crate::mysql::failure::MysqlFailure;
use crate::mysql::options::{HELP, Options};
use crate::registry::OptionHelp;
use crate::store_url::StoreUrl;

/// The options of a connection. The store's first option is about its own table.
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
    Ok(Box::new(Database(connected().map_err(MysqlFailure::from)?)))
}

/// The lock timeout also bounds the wait for an ALTER TABLE.
fn settings(response: Duration) -> String {
    let (seconds, ms) = (response.as_secs().max(1), response.as_millis());
    format!(
        "SET SESSION sql_mode = 'ANSI_QUOTES', SESSION autocommit = 1, SESSION lock_wait_timeout = \
         {seconds} \
         /*M!100101 , SESSION max_statement_time = {seconds} */ /*!50708 , SESSION \
         max_execution_time = {ms} */"
    )
}

struct Database(Conn);

impl Rows for Database {
    fn columns(&mut self, names: &[&str]) -> Result<Vec<(String, String)>> {
        let sql = format!(
            "SELECT CONVERT(TABLE_NAME USING utf8), CONVERT(COLUMN_NAME USING utf8)
            FROM information_schema.COLUMNS
            WHERE TABLE_SCHEMA = DATABASE() AND COLUMN_NAME IN ('{}')",
            names.join("', '")
        );
        Ok(self.0.query(sql).map_err(MysqlFailure::from)?)
    }

    fn next(&mut self, table: &Table, after: &[Vec<u8>], most: usize) -> Result<Vec<Row>> {
        let sql = DIALECT.page(table, &vec!["?"; after.len()], most);
        // With two columns the first value stands twice.
        let values = after.iter().take(after.len() / 2).chain(after).map(Value::from).collect();
        let rows: Vec<mysql::Row> =
            self.0.exec(sql, Params::Positional(values)).map_err(MysqlFailure::from)?;
        rows.into_iter().map(|row| read(row, table.key.len()).ok_or_else(unexpected)).collect()
    }
}

fn read(row: mysql::Row, keys: usize) -> Option<Row> {
    let mut values = row.unwrap().into_iter();
    let key = values.by_ref().take(keys).map(|value| match value {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    });
    let key = key.collect::<Option<_>>()?;
    let numbers = values.map(|value| match value {
        Value::Int(number) => Some(Some(number)),
        Value::UInt(number) => Some(i64::try_from(number).ok()),
        Value::NULL => Some(None),
        _ => None,
    });
    Some(Row { key, numbers: numbers.collect::<Option<Vec<_>>>()?.try_into().ok()? })
}

fn unexpected() -> Error {
    Error::new(ErrorKind::Incompatible, "the table has columns of other types than it should")
}
