//! The row of a key: decoded, read without its payload, touched.

use mysql_common::Value as Column;
use sessile_core::{Head, Key, Result, Stored, Timestamp, Ttl};

use super::connection::Connection;
use super::failure::Attempt;
use super::statement::Message;
use super::statements::Statements;
use crate::sql::row::{self, Columns, wrong_type};
use crate::sql::value::{Value, key_values};

pub struct Row(pub Vec<Column>);

impl Row {
    pub(super) fn is_null(&self, column: usize) -> bool {
        self.0.get(column) == Some(&Column::NULL)
    }

    fn take(&mut self, column: usize) -> Option<Column> {
        self.0.get_mut(column).map(|value| std::mem::replace(value, Column::NULL))
    }
}

impl Columns for Row {
    /// Numbers come as text, except from prepared statements.
    fn integer(&self, column: usize) -> Result<Option<i64>> {
        let number = match self.0.get(column) {
            Some(Column::NULL) => return Ok(None),
            Some(Column::Int(number)) => Some(*number),
            Some(Column::UInt(number)) => i64::try_from(*number).ok(),
            Some(Column::Bytes(text)) => str::from_utf8(text).ok().and_then(|n| n.parse().ok()),
            _ => None,
        };
        number.map(Some).ok_or_else(wrong_type)
    }

    fn text(&self, column: usize) -> Result<Option<&str>> {
        match self.0.get(column) {
            Some(Column::NULL) => Ok(None),
            Some(Column::Bytes(text)) => str::from_utf8(text).map(Some).map_err(|_| wrong_type()),
            _ => Err(wrong_type()),
        }
    }
}

pub(super) fn decode_head(row: Option<Row>, key: &Key) -> Result<Stored> {
    row.map_or(Ok(Stored::Nothing), |row| row::stored(&row, 0, key))
}

/// From column `first` on what `sql::row` decodes; the payload is in another.
pub(super) fn decode(
    row: Option<Row>,
    first: usize,
    payload: usize,
    key: &Key,
) -> Result<(Stored, Vec<u8>)> {
    let Some(mut row) = row else { return Ok(Default::default()) };
    let stored = row::stored(&row, first, key)?;
    let payload = match row.take(payload) {
        Some(Column::Bytes(bytes)) => Some(bytes),
        _ => None,
    };
    let payload = row::payload(&stored, payload)?;
    Ok((stored, payload))
}

pub(super) fn read_head(
    connection: &mut Connection,
    statements: &Statements,
    key: &Key,
) -> Attempt<Stored> {
    Ok(decode_head(connection.row(&statements.select_head, &key_values(key))?, key)?)
}

/// Moves the expiry of a live record, or only of the one that was `read`; else returns what is
/// there.
pub(super) fn touch(
    connection: &mut Connection,
    statements: &Statements,
    key: &Key,
    read: Option<&Head>,
    (ttl, now): (Ttl, Timestamp),
) -> Attempt<Option<Stored>> {
    let [bin, id] = key_values(key);
    let (mut touch, mut values) = (statements.touch(ttl, now), vec![bin, id, now.into()]);
    if let Some(head) = read {
        touch.push_str(" AND version = ? AND created = ?");
        values.extend([Value::from(head.version), head.created.into()]);
    }
    if connection.run(&Message::of(&touch, &values))?.changed() == 1 {
        return Ok(None);
    }
    read_head(connection, statements, key).map(Some)
}
