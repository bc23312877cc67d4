//! Statements: one form in which they are written, two in which they are sent.
//!
//! A statement is a text with `?` for each value. As *text* it goes out with its values in it, several statements in one
//! message, which is what makes an operation one round trip. As *prepared statement* its values travel as they are.
//!
//! Invariant: no value can end a literal, whatever `sql_mode` or character set the server believes to be in force: bytes
//! are written in hexadecimal, words are checked to consist of harmless characters, and the rest are numbers. So
//! nothing is ever escaped. Hexadecimal doubles the bytes on the wire; what is larger than [`TEXT_BYTES_MAX`] goes as a
//! prepared statement, which costs a round trip more and nothing that matters beside the payload.

use std::fmt::Write as _;

use mysql::Value as Sent;
use sessile_core::{Key, Timestamp};

use crate::sql::ms;

/// Largest payload that is put into the text of a statement.
pub(super) const TEXT_BYTES_MAX: usize = 64 << 10;

/// A value of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Number(i64),
    Null,
    /// Of an id, of a bin, or of the name of a lock.
    Word(&'a str),
    Bytes(&'a [u8]),
}

impl Value<'_> {
    pub fn time(time: Timestamp) -> Value<'static> {
        Value::Number(ms(time))
    }

    pub fn time_or_null(time: Option<Timestamp>) -> Value<'static> {
        time.map_or(Value::Null, Value::time)
    }

    fn sent(self) -> Sent {
        match self {
            Value::Number(number) => Sent::Int(number),
            Value::Null => Sent::NULL,
            Value::Word(word) => Sent::Bytes(word.as_bytes().to_vec()),
            Value::Bytes(bytes) => Sent::Bytes(bytes.to_vec()),
        }
    }
}

/// The bin and the id of a key.
pub(super) fn of_key(key: &Key) -> [Value<'_>; 2] {
    [Value::Word(key.bin().name()), Value::Word(key.id())]
}

/// The values as a prepared statement sends them.
pub(super) fn sent(values: &[Value<'_>]) -> Vec<Sent> {
    values.iter().map(|value| value.sent()).collect()
}

/// Statements of one message, as text.
#[derive(Default)]
pub(super) struct Message(String);

impl Message {
    pub fn new() -> Message {
        Message::default()
    }

    /// Adds a statement with its values.
    #[must_use]
    pub fn then(mut self, statement: &str, values: &[Value<'_>]) -> Message {
        self.add(statement, values);
        self
    }

    /// The same in a loop.
    pub fn add(&mut self, statement: &str, values: &[Value<'_>]) {
        let bytes = values.iter().map(|value| if let Value::Bytes(bytes) = value { bytes.len() } else { 0 });
        self.0.reserve(statement.len() + values.len() * 24 + 2 * bytes.sum::<usize>() + 16);
        if !self.0.is_empty() {
            self.0.push(';');
        }
        let mut values = values.iter();
        let mut parts = statement.split('?');
        self.0.push_str(parts.next().unwrap_or_default());
        for part in parts {
            // A statement with fewer values than places is a fault that the server refuses.
            self.literal(values.next().copied().unwrap_or(Value::Word("")));
            self.0.push_str(part);
        }
        debug_assert!(values.next().is_none(), "more values than places");
    }

    /// Adds a statement as it is: its question marks are its own.
    pub fn add_verbatim(&mut self, statement: &str) {
        if !self.0.is_empty() {
            self.0.push(';');
        }
        self.0.push_str(statement);
    }

    fn literal(&mut self, value: Value<'_>) {
        match value {
            Value::Number(number) => drop(write!(self.0, "{number}")),
            Value::Null => self.0.push_str("NULL"),
            Value::Word(word) => {
                debug_assert!(!word.is_empty(), "a statement has fewer values than places");
                self.0.push('\'');
                self.0.extend(word.chars().filter(|c| harmless(*c)));
                self.0.push('\'');
            }
            Value::Bytes(bytes) => {
                self.0.push_str("x'");
                push_hex(&mut self.0, bytes);
                self.0.push('\'');
            }
        }
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}

/// What ids, bins and names of locks consist of; see `Key`. Any other character is left out, not escaped: none can be here.
fn harmless(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, ',' | '_' | '-' | '.' | ':')
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |half: u8| DIGITS.get(usize::from(half)).copied().unwrap_or('0');
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_literals_that_end_where_they_should() {
        let message = Message::new()
            .then("SELECT ?, ?", &[Value::Word("a,b_C-1.:"), Value::Bytes(b"\0'\\x\xff")])
            .then("DO ?, ?", &[Value::Number(-7), Value::Null]);
        assert_eq!(message.text(), "SELECT 'a,b_C-1.:', x'00275c78ff';DO -7, NULL");
    }

    /// `Key` lets no such id come into being; this is the second lock on the same door.
    #[test]
    fn no_word_ends_its_literal() {
        let message = Message::new().then("SELECT ?", &[Value::Word("a' OR \\'1\u{bf}\u{27}")]);
        assert_eq!(message.text(), "SELECT 'aOR1'");
    }
}
