//! The result of a statement: rows, and how many it found or changed.
//!
//! Invariant: bytes from the server are untrusted. A column that is missing or of another type than
//! was asked for is an error, and the error names no value.

use std::ops::Range;
use std::sync::Arc;

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::DataRowBody;
use postgres_protocol::{Oid, types};
use sessile_core::Result;

use super::failure::{Attempt, unexpected};
use crate::sql::row::{Columns, wrong_type};

/// The server's numbers of types (`pg_type.dat`).
const BOOL: Oid = 16;
const BYTEA: Oid = 17;
const INT8: Oid = 20;
const TEXT: Oid = 25;

#[derive(Default)]
pub struct StatementResult {
    pub rows: Vec<Row>,
    pub count: u64,
}

impl StatementResult {
    pub fn row(&self) -> Attempt<&Row> {
        self.rows.first().ok_or_else(unexpected)
    }

    pub fn is_true(&self) -> bool {
        self.rows.first().is_some_and(|row| row.is_true(0))
    }
}

pub struct Row {
    body: DataRowBody,
    /// Where each column lies; `None` for NULL.
    columns: Vec<Option<Range<usize>>>,
    types: Arc<[Oid]>,
}

impl Row {
    pub fn new(body: DataRowBody, types: &Arc<[Oid]>) -> Attempt<Row> {
        let columns = body.ranges().collect()?;
        Ok(Row { body, columns, types: Arc::clone(types) })
    }

    pub fn is_true(&self, column: usize) -> bool {
        matches!(self.cell(column, BOOL), Ok(Some([1])))
    }

    pub fn bytes(&self, column: usize) -> Result<Option<Vec<u8>>> {
        Ok(self.cell(column, BYTEA)?.map(<[u8]>::to_vec))
    }

    fn cell(&self, column: usize, kind: Oid) -> Result<Option<&[u8]>> {
        let range = self.columns.get(column).filter(|_| self.types.get(column) == Some(&kind));
        let bytes = |range| self.body.buffer().get(range).ok_or_else(wrong_type);
        range.ok_or_else(wrong_type)?.clone().map(bytes).transpose()
    }
}

impl Columns for Row {
    fn integer(&self, column: usize) -> Result<Option<i64>> {
        let number = self.cell(column, INT8)?.map(types::int8_from_sql);
        number.transpose().map_err(|_| wrong_type())
    }

    fn text(&self, column: usize) -> Result<Option<&str>> {
        self.cell(column, TEXT)?.map(str::from_utf8).transpose().map_err(|_| wrong_type())
    }
}
