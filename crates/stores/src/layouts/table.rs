//! Tables of other programs: the meaning of their columns, and the walk through them in small
//! pages.
//!
//! A page is one SELECT of a few hundred rows after the last key, in a read-only session. The
//! database tells lengths; no content is transferred. Between pages there is no transaction, cursor
//! or lock.

#![cfg_attr(not(feature = "default"), allow(dead_code, reason = "some databases are left out"))]

use std::fmt::Display;
use std::sync::Arc;

use sessile_core::{Error, ErrorKind, Result, Timestamp};

use super::{EntryName, ScannedEntry, Walk};
use crate::registry::OptionHelp;
use crate::store_url::{StoreUrl, invalid};

pub struct Table {
    pub name: String,
    /// One or two columns of its primary key. The first names an entry.
    pub key: Vec<String>,
    /// Whether it is a cache: its keys are no secrets. All other keys are.
    pub shows_keys: bool,
    pub content: String,
    pub created: Moment,
    /// The last use or write.
    pub used: Moment,
    pub expires: Moment,
}

#[derive(Clone)]
pub enum Moment {
    Absent,
    /// An expression in whole seconds since 1970, or NULL.
    Seconds(String),
    /// A column with a date and a time in UTC.
    Date(&'static str),
}

pub struct Row {
    /// Its place in the order of the walk. The first value names the entry.
    pub key: Vec<Vec<u8>>,
    /// Length of the content; created, used and expires in seconds since 1970.
    pub numbers: [Option<i64>; 4],
}

pub trait Rows {
    /// The columns with these names, which are words, in all tables, as (table, column).
    fn columns(&mut self, names: &[&str]) -> Result<Vec<(String, String)>>;

    /// The next rows of a table after a key, which is empty at the start. Fewer than `most`: the
    /// table has no more.
    fn next(&mut self, table: &Table, after: &[Vec<u8>], most: usize) -> Result<Vec<Row>>;
}

/// The parts of SQL that differ.
pub struct Dialect {
    pub whole: fn(&str) -> String,
    /// A column with a date and a time in UTC as seconds since 1970.
    pub seconds: fn(&str) -> String,
}

impl Dialect {
    /// The columns that a SELECT names behind the key: length, created, used, expires. All
    /// databases have `octet_length`, and names in double quotes (MySQL on demand).
    pub fn columns_of(&self, table: &Table) -> String {
        let moment = |moment: &Moment| match moment {
            Moment::Absent => "NULL".to_owned(),
            Moment::Seconds(expression) => (self.whole)(expression),
            Moment::Date(column) => (self.whole)(&(self.seconds)(column)),
        };
        let moments = [&table.created, &table.used, &table.expires].map(moment);
        format!("octet_length(\"{}\"), {}", table.content, moments.join(", "))
    }

    /// `after` has the values of the last key as they stand in a statement.
    pub fn page(&self, table: &Table, after: &[impl Display], most: usize) -> String {
        let beyond = match (table.key.as_slice(), after) {
            // MySQL uses the index for this form, but not for (a, b) > (?, ?).
            ([first, second], [a, b]) => {
                format!("WHERE \"{first}\" >= {a} AND (\"{first}\" > {a} OR \"{second}\" > {b})")
            }
            ([only], [a]) => format!("WHERE \"{only}\" > {a}"),
            _ => String::new(),
        };
        let (columns, key, name) = (self.columns_of(table), key_of(table), &table.name);
        format!("SELECT {key}, {columns} FROM \"{name}\" {beyond} ORDER BY {key} LIMIT {most}")
    }
}

pub const SCHEMES: &[&str] =
    &["mysql", "mariadb", "mysql+unix", "postgres", "postgresql", "postgres+unix", "sqlite"];

pub fn open(url: &StoreUrl) -> Result<Box<dyn Rows>> {
    match url.scheme().trim_end_matches("+unix") {
        #[cfg(feature = "sqlite")]
        "sqlite" => super::sqlite_database::open(url),
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => super::mysql_database::open(url),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => super::postgres_database::open(url),
        _ => Err(Error::new(ErrorKind::InvalidUrl, "no database of this build has this scheme")),
    }
}

/// `None` if it is not there with these columns.
pub fn walk(url: &StoreUrl, table: Table, wanted: &[&str]) -> Result<Option<Box<dyn Walk>>> {
    let mut rows = open(url)?;
    let there = has(&rows.columns(wanted)?, &table.name, wanted);
    Ok(there.then(|| TableWalk::boxed(rows, vec![table])))
}

pub fn options(scheme: &str) -> &'static [OptionHelp] {
    match scheme.trim_end_matches("+unix") {
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => super::mysql_database::OPTIONS,
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => super::postgres_database::OPTIONS,
        _ => &[],
    }
}

/// A column plus a number. Not in the column's type: an overflow fails the statement in PostgreSQL.
pub fn sum(column: &str, more: &str) -> String {
    format!("CAST(\"{column}\" AS DECIMAL(20)) + {more}")
}

fn key_of(table: &Table) -> String {
    table.key.iter().map(|column| format!("\"{column}\"")).collect::<Vec<_>>().join(", ")
}

pub fn has(columns: &[(String, String)], table: &str, wanted: &[&str]) -> bool {
    wanted.iter().all(|name| columns.iter().any(|(of, column)| of == table && column == name))
}

/// The name of a table or column from a URL option. It is a word, because statements contain it.
pub fn named(url: &StoreUrl, option: &str, default: &str) -> Result<String> {
    let name = url.text(option).unwrap_or(default);
    let malformed = || invalid(format!("option {option} must be a word of A-Z a-z 0-9 and _"));
    if is_word(name) { Ok(name.to_owned()) } else { Err(malformed()) }
}

/// Whether a name can stand in a statement unquoted.
pub fn is_word(name: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=64).contains(&name.len()) && name.bytes().all(word)
}

pub fn no_table(what: &str) -> Error {
    Error::new(ErrorKind::Incompatible, format!("the database has no {what}")).advice(
        "name the database of that program, on PostgreSQL its ?schema=, and its table with \
                 ?table= if it has another name",
    )
}

pub struct TableWalk {
    rows: Box<dyn Rows>,
    /// The tables that are left, the present one last.
    tables: Vec<(Arc<str>, Table)>,
    after: Vec<Vec<u8>>,
}

impl TableWalk {
    pub fn boxed(rows: Box<dyn Rows>, tables: Vec<Table>) -> Box<dyn Walk> {
        let tables = tables.into_iter().rev().map(|table| (table.name.as_str().into(), table));
        Box::new(TableWalk { rows, tables: tables.collect(), after: Vec::new() })
    }
}

impl Walk for TableWalk {
    fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(ScannedEntry)) -> Result<bool> {
        let Some((bin, table)) = self.tables.last() else { return Ok(false) };
        let rows = self.rows.next(table, &self.after, entries_max)?;
        self.after = rows.last().map_or(Vec::new(), |row| row.key.clone());
        let full = rows.len() == entries_max;
        let name_of = if table.shows_keys { EntryName::Shown } else { EntryName::Secret };
        for Row { key, numbers: [bytes, created, used, expires] } in rows {
            show(ScannedEntry {
                bin: Arc::clone(bin),
                name: name_of(key.into_iter().next().unwrap_or_default()),
                bytes: bytes.and_then(|bytes| bytes.try_into().ok()).unwrap_or(0),
                created: moment(created),
                used: moment(used),
                expires: moment(expires),
            });
        }
        if !full {
            self.tables.pop();
            self.after.clear();
        }
        Ok(!self.tables.is_empty())
    }
}

fn moment(seconds: Option<i64>) -> Option<Timestamp> {
    let seconds = u64::try_from(seconds?).unwrap_or(0);
    Some(Timestamp::from_ms(seconds.saturating_mul(1_000)))
}
