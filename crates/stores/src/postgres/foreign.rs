//! A PostgreSQL database of another program, for reading only.
//!
//! Each SELECT is a transaction of its own that may only read: a longer one would keep the server from removing old versions
//! of rows. `octet_length` takes the length of a large value from its head.
//!
//! Invariant: nothing is set but within such a transaction. A setting of the session stays on the connection of a proxy that
//! pools transactions (PgBouncer), and the application that is served by it next could not write any more.

use sessile_core::{Error, ErrorKind, Result};

use super::failure::Failure;
use super::link::{Link, TextRows};
use super::options::{HELP, Options};
use crate::foreign::table::{Dialect, Row, Rows, Table, key_of};
use crate::registry::OptionHelp;
use crate::store_url::StoreUrl;

/// The options of a connection, and `schema`; the first of the store is about its own table.
pub(crate) const OPTIONS: &[OptionHelp] = HELP.split_at(1).1;

const DIALECT: Dialect = Dialect {
    whole: |expression| format!("({expression})::bigint"),
    seconds: |column| format!("extract(epoch FROM \"{column}\")"),
};
/// More tables than this with such columns are not looked at.
const COLUMNS_MAX: usize = 100_000;

pub(crate) fn open(url: &StoreUrl) -> Result<Box<dyn Rows>> {
    let options = Options::parse(url)?;
    let link = Link::connect(&options).map_err(Failure::translate)?;
    Ok(Box::new(Database { link, options, table: String::new(), after: Vec::new() }))
}

/// Whether the table of our own store is there.
pub(crate) fn has_own(url: &StoreUrl) -> Result<bool> {
    let table = Options::parse(url)?.table;
    let columns = open(url)?.columns(&["payload", "due"])?;
    // Some servers have all names in lower case.
    Ok(columns.iter().any(|(of, _)| of.eq_ignore_ascii_case(&table)))
}

struct Database {
    link: Link,
    options: Options,
    /// What is being read.
    table: String,
    /// The key of the last row that was seen, as literals.
    after: Vec<String>,
}

impl Database {
    /// Statements in one message are one transaction, which ends with it even where one of them fails.
    fn ask(&mut self, sql: &str, most: usize) -> Result<TextRows> {
        let Options { timeouts, schema, .. } = &self.options;
        let schema = schema.as_ref().map_or_else(String::new, |schema| format!("SET LOCAL search_path = {schema}; "));
        let text = format!(
            "SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = {}; {schema}{sql}",
            timeouts.response.as_millis()
        );
        self.link.list_text(&text, most, timeouts.response).map_err(Failure::translate)
    }
}

impl Rows for Database {
    fn columns(&mut self, names: &[&str]) -> Result<Vec<(String, String)>> {
        let names = names.iter().map(|name| literal(name.as_bytes())).collect::<Result<Vec<String>>>()?.join(", ");
        let sql = format!(
            "SELECT table_name, column_name FROM information_schema.columns
            WHERE table_schema = current_schema() AND column_name IN ({names}) LIMIT {COLUMNS_MAX}"
        );
        let rows = self.ask(&sql, COLUMNS_MAX)?;
        let word = |column: Option<Option<Vec<u8>>>| {
            column.flatten().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(unexpected)
        };
        rows.into_iter()
            .map(|row| {
                let mut columns = row.into_iter();
                Ok((word(columns.next())?, word(columns.next())?))
            })
            .collect()
    }

    fn next(&mut self, table: &Table, most: usize, show: &mut dyn FnMut(Row)) -> Result<usize> {
        if self.table != table.name {
            (self.table, self.after) = (table.name.clone(), Vec::new());
        }
        let (columns, key, name) = (DIALECT.columns_of(table), key_of(table), &table.name);
        let beyond =
            if self.after.is_empty() { String::new() } else { format!("WHERE ({key}) > ({})", self.after.join(", ")) };
        let sql = format!("SELECT {key}, {columns} FROM \"{name}\" {beyond} ORDER BY {key} LIMIT {most}");
        let rows = self.ask(&sql, most)?;
        let count = rows.len();
        for row in rows {
            let mut row = row.into_iter();
            let keys: Vec<Vec<u8>> = row.by_ref().take(table.key.len()).map(Option::unwrap_or_default).collect();
            let mut number = || match row.next() {
                Some(Some(digits)) => std::str::from_utf8(&digits).ok().and_then(|text| text.parse::<i64>().ok()),
                _ => None,
            };
            let bytes = number().and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
            let (created, used, expires) = (number(), number(), number());
            self.after = keys.iter().map(|key| literal(key)).collect::<Result<_>>()?;
            show(Row { key: keys.into_iter().next().unwrap_or_default(), bytes, created, used, expires });
        }
        Ok(count)
    }
}

/// A text as it stands in a statement, in the form that means the same whatever `standard_conforming_strings` says.
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
        assert_eq!(literal(b"it's'; DROP TABLE x --\\").unwrap(), "E'it''s''; DROP TABLE x --\\\\'");
        assert!(literal(b"a\0b").is_err() && literal(b"\xff").is_err());
    }
}
