//! The values of statements, as the servers take them.

use sessile_core::{Key, Owner, Timestamp};

use super::{ms, signed};

/// Without `Debug`, which would print ids and payloads.
#[derive(Clone, Copy)]
pub enum Value<'v> {
    Number(i64),
    Null,
    /// An id, a bin, or the name of a lock.
    Word(&'v str),
    Bytes(&'v [u8]),
    /// Hexadecimal digits.
    Owner([u8; 2 * Owner::BYTES]),
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Value::Number(number)
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        signed(number).into()
    }
}

impl From<Timestamp> for Value<'_> {
    fn from(time: Timestamp) -> Self {
        ms(time).into()
    }
}

impl From<Owner> for Value<'_> {
    fn from(owner: Owner) -> Self {
        let mut digits = [b'0'; 2 * Owner::BYTES];
        digits.iter_mut().zip(owner.to_hex().bytes()).for_each(|(to, from)| *to = from);
        Value::Owner(digits)
    }
}

impl<'v, T: Into<Value<'v>>> From<Option<T>> for Value<'v> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, T::into)
    }
}

/// Bin and id.
pub fn key_values(key: &Key) -> [Value<'_>; 2] {
    [Value::Word(key.bin().name()), Value::Word(key.id())]
}
