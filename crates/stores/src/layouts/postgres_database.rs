//! A PostgreSQL database of another program, for reading only.
//!
//! Each SELECT is a read-only transaction of its own: a longer one would keep the server from
//! removing old versions of rows. `octet_length` reads only the head of a large value.
//!
//! Invariant: every setting is local to such a transaction. A setting of the session would stay on
//! a connection of a pooling proxy (PgBouncer), whose next application could not write any more.

use std::time::Instant;

use sessile_core::{Error, ErrorKind, Result};

use super::table::{Dialect, Row, Rows, Table};
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
            let mut number = || str::from_utf8(&row.next()??).ok()?.parse().ok();
            Row { key, numbers: std::array::from_fn(|_| number()) }
        });
        Ok(rows.collect())
    }
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
    fn a_key_cannot_leave_its_quotes() {
        assert_eq!(
            literal(b"it's'; DROP TABLE x --\\").unwrap(),
            "E'it''s''; DROP TABLE x --\\\\'"
        );
        assert!(literal(b"a\0b").is_err() && literal(b"\xff").is_err());
    }
}
