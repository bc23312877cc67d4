//! One row of a table of sessions: columns to [`Stored`] and back.
//!
//! Invariant: the types, the signs and the parts that each kind must have are checked, because a
//! table can be edited or damaged. Anything else is `Corrupt` and stays as it is.

use sessile_core::{Bin, Error, Head, Key, Owner, Result, Stored, Timestamp};

use super::value::Value;
use super::{corrupt, ms};

const LIVE: i64 = 0;
const TOMBSTONE: i64 = 1;
pub const ALIAS: i64 = 2;

/// The columns of one row, as a driver gives them. `None` is NULL. Errors: `Corrupt` for a value of
/// another type, and for a column that is not there: [`wrong_type`].
pub trait Columns {
    fn integer(&self, column: usize) -> Result<Option<i64>>;
    fn text(&self, column: usize) -> Result<Option<&str>>;
}

pub fn wrong_type() -> Error {
    corrupt("a stored row has a column of the wrong type")
}

/// A number that is neither NULL nor negative.
pub fn unsigned(row: &impl Columns, column: usize) -> Result<u64> {
    let number = row.integer(column)?.ok_or_else(wrong_type)?;
    u64::try_from(number).map_err(|_| corrupt("a stored row has a negative number"))
}

pub fn time(row: &impl Columns, column: usize) -> Result<Timestamp> {
    unsigned(row, column).map(Timestamp::from_ms)
}

/// The key in the columns `bin` and `bin + 1`.
pub fn key(row: &impl Columns, bin: usize) -> Result<Key> {
    let malformed = || corrupt("a stored row has a malformed bin or id");
    let (bin, id) = row.text(bin)?.zip(row.text(bin + 1)?).ok_or_else(malformed)?;
    Bin::new(bin).and_then(|bin| Key::in_bin(bin, id)).map_err(|_| malformed())
}

/// An owner, if there is one.
pub fn owner(row: &impl Columns, column: usize) -> Result<Option<Owner>> {
    let malformed = || corrupt("a stored row has a malformed owner");
    row.text(column)?.map(|hex| Owner::from_hex(hex).ok_or_else(malformed)).transpose()
}

/// Decodes the row of `key`. From `first` on its columns are `kind, version, created, written,
/// expires, ends, due, mark, target, owner`.
pub fn stored(row: &impl Columns, first: usize, key: &Key) -> Result<Stored> {
    let (expires, due) = (time(row, first + 4)?, time(row, first + 6)?);
    match row.integer(first)? {
        Some(LIVE) => Ok(Stored::Live(Head {
            version: unsigned(row, first + 1)?,
            created: time(row, first + 2)?,
            written: time(row, first + 3)?,
            expires,
            ends: row.integer(first + 5)?.map(|_| time(row, first + 5)).transpose()?,
            owner: owner(row, first + 9)?,
        })),
        Some(TOMBSTONE) => {
            let mark = row.integer(first + 7)?.ok_or_else(wrong_type)?.cast_unsigned();
            Ok(Stored::Tombstone { mark, forget: due })
        }
        Some(ALIAS) => {
            let target = row.text(first + 8)?.unwrap_or_default();
            let target = key.sibling(target.as_bytes())?;
            Ok(Stored::Alias { target, grace_ends: expires, forget: due })
        }
        _ => Err(corrupt("a stored row is of an unknown kind")),
    }
}

/// `Corrupt` for a record without one.
pub fn payload(stored: &Stored, payload: Option<Vec<u8>>) -> Result<Vec<u8>> {
    match (stored, payload) {
        (Stored::Live(_), None) => Err(corrupt("a stored session has no payload")),
        (_, payload) => Ok(payload.unwrap_or_default()),
    }
}

/// The columns of a row without its key and payload, in the order of [`stored`]. A record is due
/// when it expires. Nothing becomes a tombstone that is forgotten already.
pub fn encoded(stored: &Stored, now: Timestamp) -> [Value<'_>; 10] {
    let (kind, expires) = match stored {
        Stored::Live(head) => (LIVE, head.expires),
        Stored::Alias { grace_ends, .. } => (ALIAS, *grace_ends),
        Stored::Tombstone { .. } | Stored::Nothing => (TOMBSTONE, now),
    };
    let head = stored.head();
    [
        kind.into(),
        head.map_or(0, |head| head.version).into(),
        head.map_or(now, |head| head.created).into(),
        head.map_or(now, |head| head.written).into(),
        expires.into(),
        head.and_then(|head| head.ends).into(),
        stored.due().map_or(0, ms).into(),
        if let Stored::Tombstone { mark, .. } = stored { mark.cast_signed() } else { 0 }.into(),
        if let Stored::Alias { target, .. } = stored {
            Value::Word(target.id())
        } else {
            Value::Null
        },
        head.and_then(|head| head.owner).into(),
    ]
}
