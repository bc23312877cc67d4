//! What a statement answered: rows, and how many it found or changed.
//!
//! Invariant: bytes from the server are untrusted; a column that is not there or of another type than was asked for is an
//! error, and that names no value.

use std::ops::Range;
use std::sync::Arc;

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::DataRowBody;
use postgres_types::{FromSql, Type};

use super::failure::{Failure, Tried};

#[derive(Default)]
pub(super) struct Answer {
    pub rows: Vec<Row>,
    /// Rows changed or found.
    pub count: u64,
}

impl Answer {
    /// Its only row, if there is one.
    pub fn row(&self) -> Option<&Row> {
        self.rows.first()
    }
}

/// One row, in the server's binary form.
pub(super) struct Row {
    body: DataRowBody,
    /// Where each column lies; `None` for NULL.
    columns: Vec<Option<Range<usize>>>,
    kinds: Arc<[Type]>,
}

impl Row {
    pub fn new(body: DataRowBody, kinds: &Arc<[Type]>) -> Tried<Row> {
        let columns: Vec<Option<Range<usize>>> = body.ranges().collect().map_err(Failure::garbled)?;
        Ok(Row { body, columns, kinds: Arc::clone(kinds) })
    }

    /// The value of a column.
    pub fn try_get<'a, T: FromSql<'a>>(&'a self, column: usize) -> Tried<T> {
        let wrong = || Failure::Client("a column of the answer is not what was asked for".to_owned());
        let (kind, range) = self.kinds.get(column).zip(self.columns.get(column)).ok_or_else(wrong)?;
        let bytes = match range {
            Some(range) => Some(self.body.buffer().get(range.clone()).ok_or_else(wrong)?),
            None => None,
        };
        if !T::accepts(kind) {
            return Err(wrong());
        }
        T::from_sql_nullable(kind, bytes).map_err(|_| wrong())
    }
}
