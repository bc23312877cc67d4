//! Payloads of PHP's serialisers `php` and `php_serialize`, split into values and joined again.
//!
//! No object is made, so no code of the application runs.
//!
//! `serialize` numbers its values, and a repeated object or reference is the number of the first.
//! Numbers inside a leaf are kept relative to its start. A leaf that refers to another one cannot
//! be split off.

use std::ops::Range;

use crate::merge::{Map, Value};
use crate::rules::Format;

/// Deeper payloads are not split: the stack of a thread has an end.
const DEPTH_MAX: usize = 100;

/// The text of a value, with a gap for the number of each value that it refers to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leaf<'a> {
    /// The text before each gap, and the number there, relative to that of the leaf.
    before_gaps: Vec<(&'a [u8], usize)>,
    rest: &'a [u8],
    /// How many values have a number in it.
    values: usize,
}

/// Whether a payload can be split. One without references is read once, and no map is built.
pub(crate) fn can_split(format: Format, payload: &[u8]) -> bool {
    let mut reader = Reader::new(payload, Depth::Check);
    reader.session(format).is_some()
        && (reader.links.is_empty() || split(format, payload).is_some())
}

/// Splits a payload; `None` if it cannot be split.
pub(crate) fn split(format: Format, payload: &[u8]) -> Option<Map<'_, Leaf<'_>>> {
    let mut reader = Reader::new(payload, Depth::Split);
    let spans = reader.session(format)?;
    spans.into_iter().map(|(name, value)| Some((name, reader.resolved(value)?))).collect()
}

/// Joins what [`split`] has split.
pub(crate) fn join(format: Format, map: &Map<'_, Leaf<'_>>) -> Vec<u8> {
    let mut writer = Writer { text: Vec::new(), values: 0 };
    match format {
        Format::Php => {
            for (name, value) in map {
                writer.text.extend_from_slice(name);
                writer.text.push(b'|');
                writer.value(value);
            }
        }
        Format::PhpSerialize => writer.array(map),
        // `split` has refused it.
        Format::Json => {}
    }
    writer.text
}

/// Where a value stands.
struct Span {
    text: Range<usize>,
    values: Range<usize>,
    links: Range<usize>,
}

/// The digits of a reference to an earlier value, and its number.
struct Link {
    digits: Range<usize>,
    number: usize,
}

/// Whether the values inside a map are wanted, or only whether they are well formed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Split,
    Check,
}

struct Reader<'a> {
    depth: Depth,
    all: &'a [u8],
    rest: &'a [u8],
    /// How many values have a number so far.
    values: usize,
    links: Vec<Link>,
    /// Whether an object has a text of its own, which may number values.
    opaque: bool,
}

impl<'a> Reader<'a> {
    fn new(payload: &'a [u8], depth: Depth) -> Reader<'a> {
        Reader { depth, all: payload, rest: payload, values: 0, links: Vec::new(), opaque: false }
    }

    fn session(&mut self, format: Format) -> Option<Map<'a, Span>> {
        match format {
            Format::Php => self.variables(),
            Format::PhpSerialize if self.all.is_empty() => Some(Map::new()),
            Format::PhpSerialize => self.array(),
            Format::Json => None,
        }
    }

    fn variables(&mut self) -> Option<Map<'a, Span>> {
        let mut map = Map::new();
        while !self.rest.is_empty() {
            let name = self.until(b'|')?;
            // PHP reads "!" before a name as "undefined".
            if name.starts_with(b"!") || map.insert(name, self.value(0)?).is_some() {
                return None;
            }
        }
        Some(map)
    }

    fn array(&mut self) -> Option<Map<'a, Span>> {
        self.values += 1;
        self.expect(b"a")?;
        let map = self.entries(0)?;
        self.rest.is_empty().then_some(map)
    }

    fn value(&mut self, depth: usize) -> Option<Value<'a, Span>> {
        let (text, values, links) = (self.at(), self.values, self.links.len());
        let (kind, rest) = self.rest.split_first()?;
        self.rest = rest;
        // A reference has no number of its own.
        self.values += usize::from(*kind != b'R');
        match kind {
            b'N' => self.expect(b";")?,
            b'b' | b'i' | b'd' => drop(self.scalar()?),
            b's' | b'E' => {
                self.text()?;
                self.expect(b";")?;
            }
            b'a' => {
                let map = self.entries(depth)?;
                let is_list =
                    map.keys().enumerate().all(|(n, name)| *name == n.to_string().as_bytes());
                if map.is_empty() || !is_list {
                    return Some(Value::Map(map));
                }
            }
            b'O' => {
                self.text()?;
                let outside = std::mem::replace(&mut self.depth, Depth::Check);
                self.entries(depth)?;
                self.depth = outside;
            }
            b'C' => {
                self.text()?;
                let length = self.count()?;
                self.expect(b"{")?;
                self.take(length)?;
                self.expect(b"}")?;
                self.opaque = true;
            }
            b'R' | b'r' => {
                let digits = self.scalar()?;
                let end = self.at() - 1;
                let number = str::from_utf8(digits).ok()?.parse().ok()?;
                self.links.push(Link { digits: end - digits.len()..end, number });
            }
            _ => return None,
        }
        Some(Value::Leaf(Span {
            text: text..self.at(),
            values: values..self.values,
            links: links..self.links.len(),
        }))
    }

    fn entries(&mut self, depth: usize) -> Option<Map<'a, Span>> {
        let mut map = Map::new();
        let count = self.count()?;
        self.expect(b"{")?;
        for _ in 0..count {
            let (kind, rest) = self.rest.split_first()?;
            self.rest = rest;
            let name = match kind {
                b'i' => self.scalar()?,
                b's' => {
                    let name = self.text()?;
                    self.expect(b";")?;
                    name
                }
                _ => return None,
            };
            if depth == DEPTH_MAX {
                return None;
            }
            let value = self.value(depth + 1)?;
            if self.depth == Depth::Split && map.insert(name, value).is_some() {
                return None;
            }
        }
        self.expect(b"}")?;
        Some(map)
    }

    /// `:...;`
    fn scalar(&mut self) -> Option<&'a [u8]> {
        self.expect(b":")?;
        self.until(b';')
    }

    /// `:LENGTH:`
    fn count(&mut self) -> Option<usize> {
        self.expect(b":")?;
        str::from_utf8(self.until(b':')?).ok()?.parse().ok()
    }

    /// `:LENGTH:"..."`
    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.count()?;
        self.expect(b"\"")?;
        let text = self.take(length)?;
        self.expect(b"\"")?;
        Some(text)
    }

    fn at(&self) -> usize {
        self.all.len() - self.rest.len()
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn until(&mut self, end: u8) -> Option<&'a [u8]> {
        let length = self.rest.iter().position(|byte| *byte == end)?;
        let taken = self.take(length)?;
        self.take(1)?;
        Some(taken)
    }

    fn expect(&mut self, text: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    /// Leaves in place of where they stand; `None` for one that refers to another.
    fn resolved(&self, value: Value<'a, Span>) -> Option<Value<'a, Leaf<'a>>> {
        let span = match value {
            Value::Leaf(span) => span,
            Value::Map(map) => {
                let resolved =
                    map.into_iter().map(|(name, value)| Some((name, self.resolved(value)?)));
                return resolved.collect::<Option<_>>().map(Value::Map);
            }
        };
        let mut at = span.text.start;
        let mut before_gaps = Vec::new();
        for Link { digits, number } in self.links.get(span.links)? {
            // The first value has the number 1.
            let relative = number.checked_sub(span.values.start + 1)?;
            if self.opaque || relative >= span.values.len() {
                return None;
            }
            before_gaps.push((self.all.get(at..digits.start)?, relative));
            at = digits.end;
        }
        let rest = self.all.get(at..span.text.end)?;
        Some(Value::Leaf(Leaf { before_gaps, rest, values: span.values.len() }))
    }
}

struct Writer {
    text: Vec<u8>,
    values: usize,
}

impl Writer {
    fn value(&mut self, value: &Value<'_, Leaf<'_>>) {
        match value {
            Value::Map(map) => self.array(map),
            Value::Leaf(leaf) => {
                for (text, relative) in &leaf.before_gaps {
                    self.text.extend_from_slice(text);
                    self.number(self.values + 1 + relative);
                }
                self.text.extend_from_slice(leaf.rest);
                self.values += leaf.values;
            }
        }
    }

    fn array(&mut self, map: &Map<'_, Leaf<'_>>) {
        self.values += 1;
        self.text.extend_from_slice(b"a:");
        self.number(map.len());
        self.text.extend_from_slice(b":{");
        for (name, value) in map {
            self.name(name);
            self.value(value);
        }
        self.text.push(b'}');
    }

    /// PHP makes no difference between the name 1 and the name "1". Large numbers are written as
    /// texts, because PHP may have 32 bits.
    fn name(&mut self, name: &[u8]) {
        let number = str::from_utf8(name).ok().and_then(|name| name.parse::<i32>().ok());
        if number.is_some_and(|number| number.to_string().as_bytes() == name) {
            self.text.extend_from_slice(b"i:");
            self.text.extend_from_slice(name);
            self.text.push(b';');
        } else {
            self.text.extend_from_slice(b"s:");
            self.number(name.len());
            self.text.extend_from_slice(b":\"");
            self.text.extend_from_slice(name);
            self.text.extend_from_slice(b"\";");
        }
    }

    fn number(&mut self, number: usize) {
        self.text.extend_from_slice(number.to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PHP 8.2 has written them.
    const SESSIONS: [&str; 6] = [
        "",
        r#"n|N;b|b:1;i|i:-5;d|d:0.1;s|s:9:"a;b|c"}{:";"#,
        r#"cart|a:2:{i:7;a:1:{s:3:"qty";i:2;}s:0:"";a:0:{}}list|a:2:{i:0;s:1:"x";i:1;a:0:{}}"#,
        // An object that refers to itself and to a value of its own.
        r#"u|s:1:"x";o|O:8:"stdClass":3:{s:4:"self";r:2;s:1:"a";i:1;s:1:"b";R:4;}"#,
        r#"e|E:5:"E:One";c|C:1:"C":4:{ab;}}"#,
        // The same object twice in a list.
        r#"l|a:2:{i:0;O:8:"stdClass":0:{}i:1;r:2;}"#,
    ];

    #[test]
    fn what_is_joined_is_what_was_split() {
        for text in SESSIONS {
            let map = split(Format::Php, text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(String::from_utf8(join(Format::Php, &map)).unwrap(), text);
            assert!(can_split(Format::Php, text.as_bytes()), "{text}");
        }
        let text = br#"a:2:{i:5;O:1:"o":1:{s:1:"x";r:2;}s:1:"y";a:1:{s:2:"05";N;}}"#;
        let map = split(Format::PhpSerialize, text).unwrap();
        assert_eq!(join(Format::PhpSerialize, &map), text);
        assert!(split(Format::PhpSerialize, b"").unwrap().is_empty());
    }

    /// A leaf that moves refers to its own values afterwards.
    #[test]
    fn references_inside_a_leaf_follow_it() {
        let mut map = split(Format::Php, SESSIONS[3].as_bytes()).unwrap();
        map.shift_remove(&b"u"[..]);
        let moved = r#"o|O:8:"stdClass":3:{s:4:"self";r:1;s:1:"a";i:1;s:1:"b";R:3;}"#;
        assert_eq!(String::from_utf8(join(Format::Php, &map)).unwrap(), moved);
        let again = split(Format::Php, moved.as_bytes()).unwrap();
        assert_eq!(again.as_slice(), map.as_slice(), "it is the same leaf");
    }

    #[test]
    fn values_that_share_something_cannot_be_split() {
        for text in [
            "a|i:1;b|R:1;",
            r#"a|O:8:"stdClass":0:{}b|a:1:{s:1:"x";r:1;}"#,
            r#"a|O:8:"stdClass":0:{}b|O:1:"c":1:{s:1:"x";r:1;}"#,
            // What an object has encoded itself may number values.
            r#"c|C:1:"C":4:{i:1;}o|O:1:"o":1:{s:1:"x";r:2;}"#,
        ] {
            assert_eq!(split(Format::Php, text.as_bytes()), None, "{text}");
            assert!(!can_split(Format::Php, text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn malformed_payloads_cannot_be_split() {
        let deep = format!("a|{}{}", "a:1:{s:1:\"x\";".repeat(100_000), "}".repeat(100_000));
        for text in [
            "a",
            "a|",
            "a|i:1",
            "a|s:9:\"x\";",
            "a|a:9:{i:0;N;}",
            "a|a:2:{i:0;N;i:0;N;}",
            "a|N;a|N;",
            "!a|N;",
            "a|O:1:\"o\":1:{N;N;}",
            "a|r:0;",
            "a|R:99999999999999999999;",
            "a|C:1:\"C\":9:{}",
            "a|a:18446744073709551615:{",
            &deep,
        ] {
            assert_eq!(split(Format::Php, text.as_bytes()), None, "{:.40}", text);
        }
        assert_eq!(split(Format::PhpSerialize, b"a:0:{}x"), None);
        assert_eq!(split(Format::PhpSerialize, b"i:1;"), None);
    }

    /// Whatever the bytes are: no panic, and what can be split is joined to the same text, unless
    /// a number was written in another way.
    #[test]
    fn hostile_payloads_are_refused_or_kept() {
        let mut random = fastrand::Rng::new();
        for _ in 0..100_000 {
            let mut text = random.choice(SESSIONS).unwrap().as_bytes().to_vec();
            for _ in 0..=random.usize(..3) {
                if !text.is_empty() {
                    let at = random.usize(..text.len());
                    text[at] = *random.choice(b"0123456789;:|{}\"aOrRsiNC").unwrap();
                }
            }
            if let Some(map) = split(Format::Php, &text) {
                let joined = join(Format::Php, &map);
                let again = split(Format::Php, &joined);
                assert_eq!(again.as_ref(), Some(&map), "{}", text.escape_ascii());
            }
        }
    }
}
