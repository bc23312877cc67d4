//! JSON of plain values: texts, numbers, lists, dictionaries.
//!
//! Invariant: the bytes and the values are those of Python's `json`. What may come out otherwise
//! (types of the application, numbers without an exact counterpart, tags, depth, malformed text) is
//! left to `json`, and the answer is None.

use std::fmt;
use std::io::Write;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Values nest so deep at most, as in `serde_json`.
const DEPTH_MAX: usize = 100;
/// What a tag of `sessile.serializers` begins with.
const TAG: &str = " sessile";

/// The bytes of a dictionary.
#[pyfunction]
pub(crate) fn dumps_json<'py>(data: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    let mut out = Vec::with_capacity(1024);
    write(data, &mut out, DEPTH_MAX)?;
    Some(PyBytes::new(data.py(), &out))
}

fn write(value: &Bound<'_, PyAny>, out: &mut Vec<u8>, depth: usize) -> Option<()> {
    if let Ok(text) = value.cast_exact::<PyString>() {
        return write_text(text, out);
    } else if let Ok(number) = value.cast_exact::<PyInt>() {
        return write!(out, "{}", number.extract::<i64>().ok()?).ok();
    } else if let Ok(dict) = value.cast_exact::<PyDict>() {
        let depth = depth.checked_sub(1)?;
        out.push(b'{');
        for (number, (key, value)) in dict.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            write_text(key.cast_exact::<PyString>().ok()?, out)?;
            out.push(b':');
            write(&value, out, depth)?;
        }
        out.push(b'}');
    } else if let Ok(list) = value.cast_exact::<PyList>() {
        write_items(list.iter(), out, depth)?;
    } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        write_items(tuple.iter(), out, depth)?;
    } else if value.is_none() {
        out.extend(b"null");
    } else if let Ok(truth) = value.cast_exact::<PyBool>() {
        out.extend_from_slice(if truth.is_true() { b"true" } else { b"false" });
    } else {
        let number = value.cast_exact::<PyFloat>().ok().filter(|it| it.value().is_finite())?;
        out.extend(number.repr().ok()?.to_str().ok()?.as_bytes());
    }
    Some(())
}

fn write_items<'py>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    out.push(b'[');
    for (number, item) in items.enumerate() {
        if number > 0 {
            out.push(b',');
        }
        write(&item, out, depth)?;
    }
    out.push(b']');
    Some(())
}

/// In ASCII, with the escapes of Python.
fn write_text(text: &Bound<'_, PyString>, out: &mut Vec<u8>) -> Option<()> {
    let text = text.to_str().ok().filter(|text| !text.starts_with(TAG))?;
    out.push(b'"');
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.extend(text.as_bytes());
    } else {
        for letter in text.chars() {
            match letter {
                '"' => out.extend(b"\\\""),
                '\\' => out.extend(b"\\\\"),
                '\n' => out.extend(b"\\n"),
                '\r' => out.extend(b"\\r"),
                '\t' => out.extend(b"\\t"),
                '\u{8}' => out.extend(b"\\b"),
                '\u{c}' => out.extend(b"\\f"),
                ' '..='~' => out.push(letter as u8),
                _ => {
                    for unit in letter.encode_utf16(&mut [0; 2]) {
                        write!(out, "\\u{unit:04x}").ok()?;
                    }
                }
            }
        }
    }
    out.push(b'"');
    Some(())
}

/// The value of bytes.
#[pyfunction]
pub(crate) fn loads_json<'py>(py: Python<'py>, payload: &[u8]) -> Option<Bound<'py, PyAny>> {
    let mut reader = serde_json::Deserializer::from_slice(payload);
    let read = Reader(py).deserialize(&mut reader).ok()?;
    reader.end().ok().map(|()| read)
}

#[derive(Clone, Copy)]
struct Reader<'py>(Python<'py>);

impl<'py> Reader<'py> {
    fn made<T, E: Error>(
        self,
        made: Result<Bound<'py, T>, impl fmt::Display>,
    ) -> Result<Bound<'py, PyAny>, E> {
        made.map(Bound::into_any).map_err(E::custom)
    }
}

impl<'de, 'py> DeserializeSeed<'de> for Reader<'py> {
    type Value = Bound<'py, PyAny>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, 'py> Visitor<'de> for Reader<'py> {
    type Value = Bound<'py, PyAny>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(self.0.None().into_bound(self.0))
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Self::Value, E> {
        Ok(PyBool::new(self.0, truth).to_owned().into_any())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        self.made(number.into_pyobject(self.0))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        self.made(number.into_pyobject(self.0))
    }

    /// A whole number may be an integer that is too large for the ones above.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        if number.fract() == 0.0 {
            return Err(E::custom("a number that is left to Python"));
        }
        Ok(PyFloat::new(self.0, number).into_any())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(PyString::new(self.0, text).into_any())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let list = PyList::empty(self.0);
        while let Some(item) = items.next_element_seed(self)? {
            list.append(item).map_err(A::Error::custom)?;
        }
        Ok(list.into_any())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let dict = PyDict::new(self.0);
        while let Some((key, value)) = entries.next_entry_seed(self, self)? {
            dict.set_item(key, value).map_err(A::Error::custom)?;
        }
        Ok(dict.into_any())
    }
}
