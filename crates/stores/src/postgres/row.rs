//! One row of the table, decoded; and values on their way into one.
//!
//! Invariants: what comes out of a row was checked (a table can be edited by hand), anything else is `Corrupt` and stays as
//! it is; a value that goes in prints as nothing.

use std::error::Error as StdError;
use std::fmt;

use bytes::BytesMut;
use postgres_types::{IsNull, ToSql, Type, to_sql_checked};
use sessile_core::{Record, Result, Timestamp};

use super::answer::Row as SqlRow;
use crate::sql::{Content, corrupt};

const LIVE: i16 = 0;
const DESTROYED: i16 = 1;
const REGENERATED: i16 = 2;

/// A checked row.
#[derive(Debug)]
pub(super) struct Row {
    pub number: i64,
    /// The mark of the lease or creation that wrote the record last.
    pub writer: i64,
    pub content: Content,
}

/// A column of a number or none.
pub(super) fn number(row: &SqlRow, column: usize) -> Result<i64> {
    row.try_get(column).map_err(|_| corrupt("a stored row has a column of the wrong type"))
}

fn time(row: &SqlRow, column: usize) -> Result<Timestamp> {
    let ms = u64::try_from(number(row, column)?).map_err(|_| corrupt("a stored row has a negative time"))?;
    Ok(Timestamp::from_ms(ms))
}

/// The row of a look-up. Without its payload when only the
/// `head` was read.
pub(super) fn decode(row: &SqlRow, head: bool) -> Result<Option<Row>> {
    let wrong = |_| corrupt("a stored row has a column of the wrong type");
    let Some(at) = row.try_get::<Option<i64>>(0).map_err(wrong)? else { return Ok(None) };
    let content = match row.try_get::<i16>(1).map_err(wrong)? {
        LIVE => {
            let payload = match row.try_get::<Option<&[u8]>>(11).map_err(wrong)? {
                Some(bytes) => bytes.to_vec(),
                None if head => Vec::new(),
                None => return Err(corrupt("a stored session has no payload")),
            };
            let ends = row.try_get::<Option<i64>>(6).map_err(wrong)?;
            let ends = ends.map(u64::try_from).transpose().map_err(|_| corrupt("a stored row has a negative time"))?;
            let version = u64::try_from(number(row, 2)?).map_err(|_| corrupt("a stored row has a negative version"))?;
            Content::Live(Record {
                payload,
                version,
                created: time(row, 3)?,
                written: time(row, 4)?,
                expires: time(row, 5)?,
                ends: ends.map(Timestamp::from_ms),
            })
        }
        DESTROYED => Content::Destroyed { mark: number(row, 8)?, forget: time(row, 7)? },
        REGENERATED => {
            let target = row.try_get::<&str>(10).map_err(|_| corrupt("a regenerated row leads nowhere"))?;
            Content::Regenerated { target: target.into(), until: time(row, 5)?, forget: time(row, 7)? }
        }
        _ => return Err(corrupt("a stored row is of an unknown kind")),
    };
    Ok(Some(Row { number: at, writer: number(row, 9)?, content }))
}

/// What a row was before it was buried, as far as an id within its grace leads on: kind, target, end of the grace.
pub(super) fn led_to(row: &SqlRow, now: Timestamp) -> Result<Option<String>> {
    let wrong = |_| corrupt("a stored row has a column of the wrong type");
    let regenerated = row.try_get::<i16>(0).map_err(wrong)? == REGENERATED;
    if !regenerated || time(row, 2)? <= now {
        return Ok(None);
    }
    row.try_get::<Option<String>>(1).map_err(wrong)
}

/// An id or a bin.
pub(super) struct Text<'a>(pub &'a str);

/// A payload.
pub(super) struct Payload<'a>(pub &'a [u8]);

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl fmt::Debug for Payload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl ToSql for Text<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, Box<dyn StdError + Sync + Send>> {
        self.0.to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        <&str as ToSql>::accepts(kind)
    }

    to_sql_checked!();
}

impl ToSql for Payload<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, Box<dyn StdError + Sync + Send>> {
        self.0.to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        <&[u8] as ToSql>::accepts(kind)
    }

    to_sql_checked!();
}
