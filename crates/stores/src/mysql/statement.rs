//! Statements: one form in which they are written, two in which they are sent.
//!
//! A statement is a text with `?` for each value. As *text* it carries its values, and several
//! statements are one message: so an operation is one round trip. As *prepared statement* its
//! values travel as they are.
//!
//! Invariant: no value can end a literal, whatever `sql_mode` or character set is in force: bytes
//! are written in hexadecimal, words consist of harmless characters, and the rest are numbers.
//! Nothing is ever escaped. Hexadecimal doubles the bytes; a payload over [`TEXT_BYTES_MAX`] goes
//! as a prepared statement, which costs one round trip more.

use std::fmt::Write as _;

use crate::sql::value::Value;

pub(super) const TEXT_BYTES_MAX: usize = 64 << 10;

#[derive(Default)]
pub(super) struct Message(String);

impl Message {
    pub fn of(statement: &str, values: &[Value<'_>]) -> Message {
        Message::default().then(statement, values)
    }

    #[must_use]
    pub fn then(mut self, statement: &str, values: &[Value<'_>]) -> Message {
        self.add(statement, values);
        self
    }

    pub fn add(&mut self, statement: &str, values: &[Value<'_>]) {
        let bytes = values
            .iter()
            .map(|value| if let Value::Bytes(bytes) = value { bytes.len() } else { 0 });
        self.0.reserve(statement.len() + values.len() * 24 + 2 * bytes.sum::<usize>() + 16);
        if !self.0.is_empty() {
            self.0.push(';');
        }
        let mut values = values.iter();
        let mut parts = statement.split('?');
        self.0.push_str(parts.next().unwrap_or_default());
        for part in parts {
            // The server refuses a statement with fewer values than places.
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
            Value::Owner(digits) => {
                self.0.push('\'');
                self.0.extend(digits.map(char::from));
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

/// The characters of ids, bins and names of locks; see `Key`. Any other is left out, not escaped.
fn harmless(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, ',' | '_' | '-' | '.' | ':')
}

pub(super) fn push_hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
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
        let message =
            Message::of("SELECT ?, ?", &[Value::Word("a,b_C-1.:"), Value::Bytes(b"\0'\\x\xff")])
                .then("DO ?, ?", &[Value::Number(-7), Value::Null]);
        assert_eq!(message.text(), "SELECT 'a,b_C-1.:', x'00275c78ff';DO -7, NULL");
    }

    /// `Key` lets no such id come into being; this is the second lock on the same door.
    #[test]
    fn no_word_ends_its_literal() {
        let message = Message::of("SELECT ?", &[Value::Word("a' OR \\'1\u{bf}\u{27}")]);
        assert_eq!(message.text(), "SELECT 'aOR1'");
    }
}
