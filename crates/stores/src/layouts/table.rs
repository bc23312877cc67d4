//! Tables of other programs: the meaning of their columns, and the walk through them in small
//! pages.
//!
//! A page is one SELECT of a few hundred rows after the last key, in a read-only session. The
//! database tells lengths; a content is transferred only for a copy, by a SELECT of its own.
//! Between pages there is no transaction, cursor or lock.

#![cfg_attr(not(feature = "default"), allow(dead_code, reason = "some databases are left out"))]

use std::fmt::Display;
use std::sync::Arc;

use sessile_core::{Error, ErrorKind, OwnerChange, Result, Timestamp};

use super::foreign_session::not_copied;
use super::{EntryName, ForeignSession, ScannedEntry, Walk};
use crate::registry::OptionHelp;
use crate::store_url::{StoreUrl, invalid};

pub struct Table {
    pub name: String,
    /// One or two columns of its primary key. The last one with a value names an entry.
    pub key: Vec<String>,
    /// Whether it is a cache: its keys are no secrets. All other keys are.
    pub shows_keys: bool,
    pub content: String,
    pub created: Moment,
    /// The last use or write.
    pub used: Moment,
    pub expires: Moment,
    /// How its sessions are copied, or why they are not.
    pub contents: std::result::Result<Contents, &'static str>,
}

/// The payload and the owner of a copy.
pub type Converted = (Vec<u8>, OwnerChange);

/// What a copy needs of a row, and makes of it.
#[derive(Clone, Copy)]
pub struct Contents {
    /// Whether the column of the content has text, not bytes.
    pub is_text: bool,
    /// The column with the number of the user.
    pub user: Option<&'static str>,
    /// From the content and the number of the user to the payload and the owner of the copy.
    pub convert: fn(Vec<u8>, Option<i64>) -> Result<Converted>,
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
    /// Its place in the order of the walk.
    pub key: Vec<Vec<u8>>,
    pub name: Vec<u8>,
    /// Length of the content; created, used and expires in seconds since 1970.
    pub numbers: [Option<i64>; 4],
}

pub trait Rows {
    /// The columns with these names, which are words, in all tables, as (table, column).
    fn columns(&mut self, names: &[&str]) -> Result<Vec<(String, String)>>;

    /// The next rows of a table after a key, which is empty at the start. Fewer than `most`: the
    /// table has no more.
    fn next(&mut self, table: &Table, after: &[Vec<u8>], most: usize) -> Result<Vec<Row>>;

    /// How many rows there are.
    fn count(&mut self, table: &Table) -> Result<Option<i64>>;

    /// The row with this name, which is a well-formed session id.
    fn content(&mut self, table: &Table, contents: &Contents, id: &str) -> Result<Option<Content>>;
}

/// One row for a copy.
pub struct Content {
    pub bytes: Vec<u8>,
    pub user: Option<i64>,
    /// As in [`Row`].
    pub numbers: [Option<i64>; 4],
}

/// The parts of SQL that differ.
pub struct Dialect {
    pub whole: fn(&str) -> String,
    /// A column with a date and a time in UTC as seconds since 1970.
    pub seconds: fn(&str) -> String,
    /// A column with bytes as an answer can carry it.
    pub bytes: fn(&str) -> String,
}

pub fn count(table: &Table) -> String {
    format!("SELECT COUNT(*) FROM \"{}\"", table.name)
}

impl Dialect {
    /// The columns that a SELECT names behind the key: name, length, created, used, expires. All
    /// databases have `octet_length`, and names in double quotes (MySQL on demand).
    pub fn columns_of(&self, table: &Table) -> String {
        let moment = |moment: &Moment| match moment {
            Moment::Absent => "NULL".to_owned(),
            Moment::Seconds(expression) => (self.whole)(expression),
            Moment::Date(column) => (self.whole)(&(self.seconds)(column)),
        };
        let moments = [&table.created, &table.used, &table.expires].map(moment);
        let (name, content) = (name_of(table), &table.content);
        // A name of its own: PostgreSQL would take it for a column of the key.
        format!("{name} AS entry_name, octet_length(\"{content}\"), {}", moments.join(", "))
    }

    /// The SELECT of one row: content, user, and the columns of [`Dialect::columns_of`]. `id` is
    /// the name as it stands in a statement, once for each column of the key.
    pub fn content(&self, table: &Table, contents: &Contents, id: &str) -> String {
        let content = format!("\"{}\"", table.content);
        let content = if contents.is_text { content } else { (self.bytes)(&content) };
        let quoted = |user: &str| (self.whole)(&format!("\"{user}\""));
        let user = contents.user.map_or("NULL".to_owned(), quoted);
        let is_it = match table.key.as_slice() {
            // An index is used for each side.
            [first, second] => {
                format!("\"{second}\" = {id} OR (\"{first}\" = {id} AND \"{second}\" = '')")
            }
            key => format!("\"{}\" = {id}", key.first().map_or("", String::as_str)),
        };
        let (columns, name) = (self.columns_of(table), &table.name);
        format!("SELECT {content}, {user}, {columns} FROM \"{name}\" WHERE {is_it} LIMIT 1")
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

fn name_of(table: &Table) -> String {
    match table.key.as_slice() {
        [first, second] => {
            format!("CASE WHEN \"{second}\" <> '' THEN \"{second}\" ELSE \"{first}\" END")
        }
        key => format!("\"{}\"", key.first().map_or("", String::as_str)),
    }
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
    tables: Vec<(Arc<str>, Table)>,
    /// The table of the next page.
    present: usize,
    after: Vec<Vec<u8>>,
}

impl TableWalk {
    pub fn boxed(rows: Box<dyn Rows>, tables: Vec<Table>) -> Box<dyn Walk> {
        let tables = tables.into_iter().map(|table| (table.name.as_str().into(), table));
        Box::new(TableWalk { rows, tables: tables.collect(), present: 0, after: Vec::new() })
    }
}

impl Walk for TableWalk {
    fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(ScannedEntry)) -> Result<bool> {
        let Some((bin, table)) = self.tables.get(self.present) else { return Ok(false) };
        let rows = self.rows.next(table, &self.after, entries_max)?;
        self.after = rows.last().map_or(Vec::new(), |row| row.key.clone());
        let full = rows.len() == entries_max;
        let name_of = if table.shows_keys { EntryName::Shown } else { EntryName::Secret };
        for Row { name, numbers: [bytes, created, used, expires], .. } in rows {
            show(ScannedEntry {
                bin: Arc::clone(bin),
                name: name_of(name),
                bytes: bytes.and_then(|bytes| bytes.try_into().ok()).unwrap_or(0),
                created: moment(created),
                used: moment(used),
                expires: moment(expires),
            });
        }
        if !full {
            self.present += 1;
            self.after.clear();
        }
        Ok(self.present < self.tables.len())
    }

    fn count(&mut self) -> Option<u64> {
        let rows = &mut self.rows;
        let count = |table| u64::try_from(rows.count(table).ok()??).ok();
        self.tables.iter().map(|(_, table)| table).map(count).sum()
    }

    fn check_contents(&self) -> Result<()> {
        let refused = self.tables.iter().find_map(|(_, table)| table.contents.as_ref().err());
        refused.map_or(Ok(()), |why| Err(not_copied(*why)))
    }

    fn read(&mut self, entry: &ScannedEntry) -> Result<Option<ForeignSession>> {
        let table = self.tables.iter().find(|(bin, _)| *bin == entry.bin);
        let EntryName::Secret(id) = &entry.name else { return Ok(None) };
        let (Some((_, table)), Ok(id)) = (table, str::from_utf8(id)) else { return Ok(None) };
        let contents = table.contents.map_err(not_copied)?;
        let Some(content) = self.rows.content(table, &contents, id)? else { return Ok(None) };
        let [_, _, used, expires] = content.numbers.map(moment);
        let is_empty = content.bytes.is_empty();
        let (payload, owner) = (contents.convert)(content.bytes, content.user)?;
        Ok(Some(ForeignSession { payload, is_empty, owner, used, expires }))
    }
}

fn moment(seconds: Option<i64>) -> Option<Timestamp> {
    let seconds = u64::try_from(seconds?).unwrap_or(0);
    Some(Timestamp::from_ms(seconds.saturating_mul(1_000)))
}
