//! What stores on servers of keys and values share: the first part of the names of keys, where one
//! space of keys is for all, and the way from the state of a session to a header and back.

use sessile_core::{Error, ErrorKind, Head, Result, Stored, Timestamp};

use crate::registry::{OptionHelp, option};
use crate::store_url::{StoreUrl, invalid};

pub const PREFIX: OptionHelp = option("prefix", "first part of every key name (default sessile)");

pub fn prefix(url: &StoreUrl, bytes_max: usize) -> Result<String> {
    let prefix = url.text("prefix").unwrap_or("sessile");
    // A space would end a key of Memcached. In Redis braces would move the hash tag, and glob
    // characters would widen a listing.
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':');
    if prefix.is_empty() || prefix.len() > bytes_max || !prefix.bytes().all(allowed) {
        return Err(invalid(format!(
            "option prefix must be 1 to {bytes_max} characters of A-Z a-z 0-9 _ - . :"
        )));
    }
    Ok(prefix.to_owned())
}

/// The longest key of Memcached.
const FOREIGN_PREFIX_BYTES_MAX: usize = 250;

/// The prefix of another program's keys: any text, also none.
pub fn foreign_prefix(url: &StoreUrl, default: &str) -> Result<String> {
    let prefix = url.text(PREFIX.name).unwrap_or(default);
    if prefix.len() > FOREIGN_PREFIX_BYTES_MAX {
        return Err(invalid(format!(
            "option prefix must have at most {FOREIGN_PREFIX_BYTES_MAX} bytes"
        )));
    }
    Ok(prefix.to_owned())
}

pub fn corrupt() -> Error {
    Error::new(ErrorKind::Corrupt, "the stored bytes are not what was written").advice(
        "find out who else writes keys with this prefix, another version of Sessile perhaps; \
         destroy the session to be rid of it",
    )
}

const NEVER: Timestamp = Timestamp::ZERO;
/// The head of a record that expired in 1970.
pub const NO_HEAD: Head =
    Head { version: 0, created: NEVER, written: NEVER, expires: NEVER, ends: None, owner: None };

/// The kind of a session's value, its head, and the bytes after the head: the payload of a record
/// (`L`), the new id of an alias (`A`), none of a tombstone (`D`). In the head of an alias or a
/// tombstone, `ends` is the time when it is forgotten; in that of an alias, `expires` is the end of
/// its grace. `None` for a session of which nothing is stored.
pub fn to_header<'b>(stored: &'b Stored, payload: &'b [u8]) -> Option<(u8, Head, &'b [u8])> {
    let gone = |expires, forget| Head { expires, ends: Some(forget), ..NO_HEAD };
    Some(match stored {
        Stored::Nothing => return None,
        Stored::Live(head) => (b'L', *head, payload),
        Stored::Tombstone { forget, .. } => (b'D', gone(*forget, *forget), b""),
        Stored::Alias { target, grace_ends, forget } => {
            (b'A', gone(*grace_ends, *forget), target.id().as_bytes())
        }
    })
}

/// The reverse. `target` reads the new id of an alias. `Corrupt` for an unknown kind.
pub fn from_header<K>(
    kind: u8,
    head: Head,
    mark: u64,
    target: impl FnOnce() -> Result<K>,
) -> Result<Stored<K>> {
    let forget = head.ends.unwrap_or(head.expires);
    Ok(match kind {
        b'L' => Stored::Live(head),
        b'D' => Stored::Tombstone { mark, forget },
        b'A' => Stored::Alias { target: target()?, grace_ends: head.expires, forget },
        _ => return Err(corrupt()),
    })
}

/// The little-endian number at this place.
pub fn number(value: &[u8], at: usize) -> Option<u64> {
    value.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

/// The moment at this place; `None` inside for 0.
pub fn moment(value: &[u8], at: usize) -> Option<Timestamp> {
    number(value, at).map(Timestamp::from_ms)
}
