//! A MySQL or MariaDB database of another program, for reading only.
//!
//! Each SELECT is a read-only transaction of its own that locks nothing and has a time limit.
//! InnoDB reads a large column to tell its length; small pages and the pauses between them bound
//! that cost.

use std::time::{Duration, Instant};

use mysql_common::Value as Column;
use sessile_core::{Error, ErrorKind, Result};

use super::table::{self, Content, Contents, Dialect, Row, Rows, Table};
use crate::connections::tls::Host;
use crate::mysql::options::{HELP, Options};
use crate::mysql::row::Row as RowRead;
use crate::mysql::wire::Wire;
use crate::registry::OptionHelp;
use crate::sql::row::Columns;
use crate::sql::value::Value;
use crate::store_url::StoreUrl;

/// The options of a connection. The store's first option is about its own table.
pub(crate) const OPTIONS: &[OptionHelp] = HELP.split_at(1).1;

const DIALECT: Dialect = Dialect {
    whole: |expression| format!("CAST({expression} AS SIGNED)"),
    seconds: |column| format!("TIMESTAMPDIFF(SECOND, '1970-01-01 00:00:00', \"{column}\")"),
    bytes: str::to_owned,
};

pub(crate) fn open(url: &StoreUrl) -> Result<Box<dyn Rows>> {
    let options = Options::parse(url)?;
    let response = options.timeouts.response;
    // A standby will do: nothing is changed.
    let connect = |host: &Host, end| Wire::open(&options, host, end);
    let connected = options.hosts.connect(Instant::now() + response, connect);
    let wire = connected.map_err(|failure| failure.map_or_else(unexpected, Error::from))?;
    let mut database = Database { wire, response };
    database.ask(&settings(response))?;
    database.ask("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY")?;
    Ok(Box::new(database))
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

struct Database {
    wire: Wire,
    response: Duration,
}

impl Database {
    fn wire(&mut self) -> &mut Wire {
        // The server ends a statement first.
        self.wire.set_deadline(Instant::now() + 2 * self.response);
        &mut self.wire
    }

    fn ask(&mut self, sql: &str) -> Result<Vec<RowRead>> {
        let results = self.wire().query(sql)?;
        Ok(results.into_iter().next().unwrap_or_default().0)
    }

    fn ask_with(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<RowRead>> {
        let mut statement = self.wire().prepare(sql)?;
        let (rows, _) = self.wire.execute(&mut statement, values)?;
        self.wire.close(&statement)?;
        Ok(rows)
    }
}

impl Rows for Database {
    fn columns(&mut self, names: &[&str]) -> Result<Vec<(String, String)>> {
        let sql = format!(
            "SELECT CONVERT(TABLE_NAME USING utf8), CONVERT(COLUMN_NAME USING utf8)
            FROM information_schema.COLUMNS
            WHERE TABLE_SCHEMA = DATABASE() AND COLUMN_NAME IN ('{}')",
            names.join("', '")
        );
        let text = |row: &RowRead, column| -> Result<String> {
            Ok(row.text(column)?.unwrap_or_default().to_owned())
        };
        self.ask(&sql)?.iter().map(|row| Ok((text(row, 0)?, text(row, 1)?))).collect()
    }

    fn next(&mut self, table: &Table, after: &[Vec<u8>], most: usize) -> Result<Vec<Row>> {
        let sql = DIALECT.page(table, &vec!["?"; after.len()], most);
        // With two columns the first value stands twice.
        let values = after.iter().take(after.len() / 2).chain(after);
        let values: Vec<Value<'_>> = values.map(|value| Value::Bytes(value)).collect();
        let rows = self.ask_with(&sql, &values)?;
        rows.into_iter().map(|row| read(row, table.key.len()).ok_or_else(unexpected)).collect()
    }

    fn count(&mut self, table: &Table) -> Result<Option<i64>> {
        let row = self.ask_with(&table::count(table), &[])?.into_iter().next();
        Ok(row.and_then(|row| number(row.0.into_iter().next()?)?))
    }

    fn content(&mut self, table: &Table, contents: &Contents, id: &str) -> Result<Option<Content>> {
        let sql = DIALECT.content(table, contents, "?");
        let values = vec![Value::Word(id); table.key.len()];
        let row = self.ask_with(&sql, &values)?.into_iter().next();
        row.map(|row| read_content(row).ok_or_else(unexpected)).transpose()
    }
}

fn read(row: RowRead, keys: usize) -> Option<Row> {
    let mut values = row.0.into_iter();
    let key = values.by_ref().take(keys).map(bytes).collect::<Option<_>>()?;
    let name = bytes(values.next()?)?;
    Some(Row { key, name, numbers: numbers(values)? })
}

fn read_content(row: RowRead) -> Option<Content> {
    let mut values = row.0.into_iter();
    let content = match values.next()? {
        Column::NULL => Vec::new(),
        content => bytes(content)?,
    };
    let user = number(values.next()?)?;
    let _name = values.next()?;
    Some(Content { bytes: content, user, numbers: numbers(values)? })
}

fn bytes(value: Column) -> Option<Vec<u8>> {
    match value {
        Column::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn number(value: Column) -> Option<Option<i64>> {
    match value {
        Column::Int(number) => Some(Some(number)),
        Column::UInt(number) => Some(i64::try_from(number).ok()),
        Column::NULL => Some(None),
        _ => None,
    }
}

fn numbers(values: impl Iterator<Item = Column>) -> Option<[Option<i64>; 4]> {
    values.map(number).collect::<Option<Vec<_>>>()?.try_into().ok()
}

fn unexpected() -> Error {
    Error::new(ErrorKind::Incompatible, "the table has columns of other types than it should")
}
