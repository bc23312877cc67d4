//! Payloads that are a JSON object, split into values and joined again.
//!
//! Objects are maps, and their names stay as they are written. Every other value is a leaf: its
//! text. A scalar is not checked further, because its text only moves.

use crate::merge::{Map, Value};

/// Deeper payloads are not split: the stack of a thread has an end.
const DEPTH_MAX: usize = 100;

/// Whether a payload can be split. No map is built.
pub(crate) fn can_split(payload: &[u8]) -> bool {
    session(payload, |reader| reader.skip(0), |_, ()| Some(())).is_some()
}

/// Splits a payload; `None` if it cannot be split.
pub(crate) fn split(payload: &[u8]) -> Option<Map<'_, &[u8]>> {
    let mut map = Map::new();
    let put = |name, value| map.insert(name, value).is_none().then_some(());
    session(payload, |reader| reader.value(0), put)?;
    Some(map)
}

/// Joins what [`split`] has split.
pub(crate) fn join(map: &Map<'_, &[u8]>) -> Vec<u8> {
    let mut text = Vec::new();
    write(&mut text, map);
    text
}

fn write(text: &mut Vec<u8>, map: &Map<'_, &[u8]>) {
    text.push(b'{');
    for (number, (name, value)) in map.iter().enumerate() {
        text.extend_from_slice(if number > 0 { b",\"" } else { b"\"" });
        text.extend_from_slice(name);
        text.extend_from_slice(b"\":");
        match value {
            Value::Leaf(leaf) => text.extend_from_slice(leaf),
            Value::Map(inner) => write(text, inner),
        }
    }
    text.push(b'}');
}

/// Reads a whole payload. An empty one has no values.
fn session<'a, T>(
    payload: &'a [u8],
    read: impl Fn(&mut Reader<'a>) -> Option<T>,
    put: impl FnMut(&'a [u8], T) -> Option<()>,
) -> Option<()> {
    let mut reader = Reader { rest: payload.trim_ascii() };
    if !reader.rest.is_empty() {
        reader.object(read, put)?;
    }
    reader.rest.is_empty().then_some(())
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Option<Value<'a, &'a [u8]>> {
        let before = self.rest;
        if before.first() == Some(&b'{') && depth < DEPTH_MAX {
            let mut map = Map::new();
            let put = |name, value| map.insert(name, value).is_none().then_some(());
            self.object(|reader| reader.value(depth + 1), put)?;
            return Some(Value::Map(map));
        }
        self.skip(depth)?;
        before.get(..before.len() - self.rest.len()).map(Value::Leaf)
    }

    fn skip(&mut self, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.rest.first()? {
            b'{' => self.object(|reader| reader.skip(depth + 1), |_, ()| Some(())),
            b'[' => self.items(b'[', b']', |reader| reader.skip(depth + 1)),
            b'"' => self.string().map(|_| ()),
            _ => {
                let scalar = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                let length = self.rest.iter().take_while(|byte| scalar(byte)).count();
                self.rest = self.rest.get(length..)?;
                (length > 0).then_some(())
            }
        }
    }

    fn object<T>(
        &mut self,
        read: impl Fn(&mut Self) -> Option<T>,
        mut put: impl FnMut(&'a [u8], T) -> Option<()>,
    ) -> Option<()> {
        self.items(b'{', b'}', |reader| {
            let name = reader.string()?;
            reader.space();
            reader.expect(b':')?;
            reader.space();
            let value = read(reader)?;
            put(name, value)
        })
    }

    /// Items with commas between them.
    fn items(
        &mut self,
        open: u8,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.expect(open)?;
        self.space();
        if self.expect(close).is_some() {
            return Some(());
        }
        loop {
            self.space();
            item(self)?;
            self.space();
            if self.expect(close).is_some() {
                return Some(());
            }
            self.expect(b',')?;
        }
    }

    /// The text between the quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let mut escaped = false;
        let end = self.rest.iter().position(|byte| {
            let ends = *byte == b'"' && !escaped;
            escaped = *byte == b'\\' && !escaped;
            ends
        })?;
        let text = self.rest.get(..end)?;
        self.rest = self.rest.get(end + 1..)?;
        Some(text)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.rest = self.rest.strip_prefix(&[byte])?;
        Some(())
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::{Removals, merge};

    const SESSIONS: &[&str] = &[
        "{}",
        r#"{"a":1}"#,
        r#"{"cart":{"x":[1,{"y":2}],"z":{}},"name":"\"}\\","u":"\u00e9","n":-1.5e+3,"t":null}"#,
    ];

    #[test]
    fn what_is_split_is_joined_to_the_same_text() {
        for text in SESSIONS {
            assert!(can_split(text.as_bytes()), "{text}");
            assert_eq!(join(&split(text.as_bytes()).unwrap()), text.as_bytes());
        }
        assert_eq!(split(b""), Some(Map::new()));
        assert_eq!(join(&split(b" { \"a\" : [1, 2] } ").unwrap()), b"{\"a\":[1, 2]}");
    }

    #[test]
    fn objects_are_merged_by_name_and_lists_are_not() {
        let merged = |base, mine, theirs| {
            let (map, conflicts) = merge(
                &split(base).unwrap(),
                &split(mine).unwrap(),
                &split(theirs).unwrap(),
                Removals::Lose,
            );
            (String::from_utf8(join(&map)).unwrap(), conflicts.len())
        };
        let both = merged(br#"{"c":{"x":1}}"#, br#"{"c":{"x":1,"a":2}}"#, br#"{"c":{"x":3}}"#);
        assert_eq!(both, (r#"{"c":{"x":3,"a":2}}"#.to_owned(), 0));
        let lists = merged(br#"{"l":[]}"#, br#"{"l":[1]}"#, br#"{"l":[2]}"#);
        assert_eq!(lists, (r#"{"l":[1]}"#.to_owned(), 1));
    }

    #[test]
    fn what_is_no_object_is_not_split() {
        let deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
        let list = format!("{{\"a\":{}1{}}}", "[".repeat(9_999), "]".repeat(9_999));
        for text in [
            "[]",
            "1",
            "null",
            "{",
            "{}x",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\":1",
            "{\"a\":\"1}",
            "\u{80}\u{4}}",
            &deep,
            &list,
        ] {
            assert_eq!(split(text.as_bytes()), None, "{text:.40}");
            assert!(!can_split(text.as_bytes()), "{text:.40}");
        }
        assert_eq!(split(br#"{"a":1,"a":2}"#), None, "one name twice");
    }

    /// Whatever the bytes are: no panic, and the joined text is split to the same map.
    #[test]
    fn hostile_payloads_are_refused_or_kept() {
        let mut random = fastrand::Rng::new();
        for _ in 0..100_000 {
            let mut text = random.choice(SESSIONS).unwrap().as_bytes().to_vec();
            for _ in 0..=random.usize(..3) {
                let at = random.usize(..text.len());
                text[at] = *random.choice(b"0:,{}[]\"\\ a").unwrap();
            }
            if let Some(map) = split(&text) {
                assert_eq!(split(&join(&map)).as_ref(), Some(&map), "{}", text.escape_ascii());
            }
        }
    }
}
