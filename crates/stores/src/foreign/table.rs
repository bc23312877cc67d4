//! Tables of other programs: which column is what, and the walk through them in small pages.
//!
//! A page is one SELECT of a few hundred rows after the last key, in a session that may only read; the database tells the
//! lengths, and no content travels. Between pages nothing is held: no transaction, no cursor, no lock.
//!
//! Not here: how one database is asked (`sqlite`, `mysql`, `postgres`), and what one program's tables are called.

use std::sync::Arc;

use sessile_core::{Error, ErrorKind, Result, Timestamp};

use super::{Name, Seen, Walk};
use crate::store_url::{StoreUrl, invalid};

/// One table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// A word.
    pub name: String,
    /// The columns of its primary key, the first of which names an entry: one or two.
    pub key: Vec<String>,
    /// It is a cache, whose keys are no secrets. All other keys are.
    pub shows_keys: bool,
    /// The column with the content.
    pub content: String,
    /// When an entry was made.
    pub created: Moment,
    /// When it was last used or written.
    pub used: Moment,
    /// When it ends.
    pub expires: Moment,
}

/// Where a table has a moment.
#[derive(Clone, Debug)]
pub(crate) enum Moment {
    /// Nowhere.
    Absent,
    /// An expression in whole seconds since 1970; a NULL is none.
    Seconds(String),
    /// A column with a date and a time in UTC.
    Date(&'static str),
}

/// A row, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// What names the entry.
    pub key: Vec<u8>,
    /// The length of the content.
    pub bytes: u64,
    /// In seconds since 1970, as are the others.
    pub created: Option<i64>,
    pub used: Option<i64>,
    pub expires: Option<i64>,
}

/// A database that is read.
pub(crate) trait Rows {
    /// The columns of these names that tables have: table and column.
    fn columns(&mut self, names: &[&str]) -> Result<Vec<(String, String)>>;

    /// The next rows of a table, from its start when it is another one than before. Fewer than asked for: it has no more.
    fn next(&mut self, table: &Table, most: usize, show: &mut dyn FnMut(Row)) -> Result<usize>;
}

/// How a database says what all of them can say.
pub(crate) struct Dialect {
    /// A number as a whole one.
    pub whole: fn(&str) -> String,
    /// A column with a date and a time in UTC as seconds since 1970.
    pub seconds: fn(&str) -> String,
}

impl Dialect {
    /// The columns that a SELECT names behind the key, in this order: length, created, used, expires. All databases have
    /// `octet_length`, and names in double quotes (MySQL when it is told to).
    pub fn columns_of(&self, table: &Table) -> String {
        let moment = |moment: &Moment| match moment {
            Moment::Absent => "NULL".to_owned(),
            Moment::Seconds(expression) => (self.whole)(expression),
            Moment::Date(column) => (self.whole)(&(self.seconds)(column)),
        };
        let moments = [&table.created, &table.used, &table.expires].map(moment);
        format!("octet_length(\"{}\"), {}", table.content, moments.join(", "))
    }
}

/// A column and a number more: never beyond the type of the column, which fails the statement in PostgreSQL.
pub(crate) fn sum(column: &str, more: &str) -> String {
    format!("CAST(\"{column}\" AS DECIMAL(20)) + {more}")
}

/// The columns of a key, in quotes, with commas.
pub(crate) fn key_of(table: &Table) -> String {
    table.key.iter().map(|column| format!("\"{column}\"")).collect::<Vec<_>>().join(", ")
}

/// Whether a table has all these columns.
pub(crate) fn has(columns: &[(String, String)], table: &str, wanted: &[&str]) -> bool {
    wanted.iter().all(|name| columns.iter().any(|(of, column)| of == table && column == name))
}

/// The name of a table or column that a URL may give: it stands in every statement, so it is a word.
pub(crate) fn named(url: &StoreUrl, option: &str, default: &str) -> Result<String> {
    let name = url.text(option).unwrap_or(default);
    let malformed = || invalid(format!("option {option} must be a word of A-Z a-z 0-9 and _"));
    if is_word(name) { Ok(name.to_owned()) } else { Err(malformed()) }
}

/// Whether a name can stand in a statement as it is.
pub(crate) fn is_word(name: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=64).contains(&name.len()) && name.bytes().all(word)
}

/// What to say where the tables are not there.
pub(crate) fn no_table(what: &str) -> Error {
    Error::new(ErrorKind::Incompatible, format!("the database has no {what}"))
        .advice("name the database of that program, on PostgreSQL its ?schema=, and its table with ?table= if it has another name")
}

/// Tables one after the other.
pub(crate) struct TableWalk {
    rows: Box<dyn Rows>,
    tables: Vec<(Arc<str>, Table)>,
    at: usize,
}

impl TableWalk {
    /// Through these tables.
    pub fn new(rows: Box<dyn Rows>, tables: Vec<Table>) -> TableWalk {
        TableWalk { rows, tables: tables.into_iter().map(|table| (table.name.as_str().into(), table)).collect(), at: 0 }
    }
}

impl Walk for TableWalk {
    fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(Seen)) -> Result<bool> {
        let Some((bin, table)) = self.tables.get(self.at) else { return Ok(false) };
        let count = self.rows.next(table, entries_max, &mut |row| {
            show(Seen {
                bin: Arc::clone(bin),
                name: if table.shows_keys { Name::of_cache(&row.key) } else { Name::Secret(row.key) },
                bytes: row.bytes,
                created: moment(row.created),
                used: moment(row.used),
                expires: moment(row.expires),
            });
        })?;
        if count < entries_max {
            self.at += 1;
        }
        Ok(self.at < self.tables.len())
    }
}

fn moment(seconds: Option<i64>) -> Option<Timestamp> {
    let seconds = u64::try_from(seconds?).unwrap_or(0);
    Some(Timestamp::from_ms(seconds.saturating_mul(1_000)))
}
