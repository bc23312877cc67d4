//! A PostgreSQL database of another program, for reading only.
//!
//! Each SELECT is a read-only transaction of its own: a longer one would keep the server from
//! removing old versions of rows. `octet_length` reads only the head of a large value.
//!
//! Invariant: every setting is local to such a transaction. A setting of the session would stay on
//! a connection of a pooling proxy (PgBouncer), whose next application could not write any more.

use std::time::Instant;

use sessile_core::{Error, ErrorKind, Result};

use super::table::{self, Content, Contents, Dialect, Row, Rows, Table};
use crate::connections::tls::Host;
use crate::postgres::connection::{Connection, TextRows};
use crate::postgres::failure;
use crate::postgres::options::{HELP, Options};
use crate::registry::OptionHelp;
use crate::store_url::StoreUrl;

/// The options of a connection, and `schema`. The store's first option is about its own table.
pub(crate) const OPTIONS: &[OptionHelp] = HELP.split_at(1).1;

const DIALECT: Dialect = Dialect {
    whole: |expression| format!("({expression})::bigint"),
    seconds: |column| format!("extract(epoch FROM \"{column}\")"),
    bytes: |column| format!("encode({column}, 'hex')"),
};
const COLUMNS_MAX: usize = 100_000;

pub(crate) fn open(url: &StoreUrl) -> Result<Box<dyn Rows>> {
    let options = Options::parse(url)?;
    // A standby will do: nothing is changed.
    let connect = |host: &Host, end| Connection::connect(&options, host, end);
    let connected = options.hosts.connect(Instant::now() + options.timeouts.response, connect);
    let connection = connected.map_err(|failure| failure.unwrap_or_else(failure::unexpected))?;
    Ok(Box::new(Database { connection, options }))
}

struct Database {
    connection: Connection,
    options: Options,
}

impl Database {
    /// The statements of one message are one transaction, which ends with it, failed or not.
    fn ask(&mut self, sql: &str, most: usize) -> Result<TextRows> {
        let Options { timeouts, schema, .. } = &self.options;
        let schema = schema.iter().map(|schema| format!("SET LOCAL search_path = {schema}; "));
        let text = format!(
            "SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = {}; {}{sql}",
            timeouts.response.as_millis(),
            schema.collect::<String>()
        );
        // The server ends the statement first.
        self.connection.set_deadline(Instant::now() + 2 * timeouts.response);
        Ok(self.connection.list_text(&text, most)?)
    }
}

impl Rows for Database {
    fn columns(&mut self, names: &[&str]) -> Result<Vec<(String, String)>> {
        let sql = format!(
            "SELECT table_name, column_name FROM information_schema.columns
            WHERE table_schema = current_schema() AND column_name IN ('{}') LIMIT {COLUMNS_MAX}",
            names.join("', '")
        );
        let columns = self.ask(&sql, COLUMNS_MAX)?.into_iter().map(|row| {
            let mut words = row.into_iter().map(|word| String::from_utf8(word?).ok());
            Some((words.next()??, words.next()??))
        });
        columns.collect::<Option<_>>().ok_or_else(unexpected)
    }

    fn next(&mut self, table: &Table, after: &[Vec<u8>], most: usize) -> Result<Vec<Row>> {
        let after = after.iter().map(|key| literal(key)).collect::<Result<Vec<String>>>()?;
        let rows = self.ask(&DIALECT.page(table, &after, most), most)?;
        let rows = rows.into_iter().map(|row| {
            let mut row = row.into_iter();
            let key = row.by_ref().take(table.key.len()).map(Option::unwrap_or_default).collect();
            let name = row.next().flatten().unwrap_or_default();
            Row { key, name, numbers: std::array::from_fn(|_| number(&mut row)) }
        });
        Ok(rows.collect())
    }

    fn count(&mut self, table: &Table) -> Result<Option<i64>> {
        let row = self.ask(&table::count(table), 1)?.into_iter().next();
        Ok(row.and_then(|row| number(&mut row.into_iter())))
    }

    fn content(&mut self, table: &Table, contents: &Contents, id: &str) -> Result<Option<Content>> {
        let sql = DIALECT.content(table, contents, &literal(id.as_bytes())?);
        let Some(row) = self.ask(&sql, 1)?.into_iter().next() else { return Ok(None) };
        let mut row = row.into_iter();
        let text = row.next().flatten().unwrap_or_default();
        let bytes = if contents.is_text { Some(text) } else { from_hex(&text) };
        let user = number(&mut row);
        let _name = row.next();
        let numbers = std::array::from_fn(|_| number(&mut row));
        Ok(Some(Content { bytes: bytes.ok_or_else(unexpected)?, user, numbers }))
    }
}

fn number(row: &mut impl Iterator<Item = Option<Vec<u8>>>) -> Option<i64> {
    str::from_utf8(&row.next()??).ok()?.parse().ok()
}

fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
    pairs.iter().map(byte).collect::<Option<_>>().filter(|_| rest.is_empty())
}

/// A string literal. This form does not depend on `standard_conforming_strings`.
fn literal(bytes: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(bytes).map_err(|_| unexpected())?;
    if text.contains('\0') {
        Err(unexpected())
    } else {
        Ok(format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''")))
    }
}

fn unexpected() -> Error {
    Error::new(ErrorKind::Incompatible, "the table has a key that is no text")
        .advice("the encoding of the database must be one that converts to UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_their_digits() {
        assert_eq!(from_hex(b"00ff7F").unwrap(), [0, 0xff, 0x7f]);
        assert_eq!(from_hex(b"").unwrap(), b"");
        assert!(from_hex(b"0").is_none() && from_hex(b"0g").is_none());
    }

    #[test]
    fn a_key_cannot_leave_its_quotes() {
        assert_eq!(
            literal(b"it's'; DROP TABLE x --\\").unwrap(),
            "E'it''s''; DROP TABLE x --\\\\'"
        );
        assert!(literal(b"a\0b").is_err() && literal(b"\xff").is_err());
    }
}
