//! One entry of a walk, and how much of its name may be shown.
//!
//! Invariant: a possible session id leaves [`EntryName`] only as a digest. Keys of cache entries
//! are no secrets, and operators need them. In our own stores the bin's name tells a cache. In
//! other programs the layout does, not the table's name.

use std::fmt;
use std::sync::Arc;

use sessile_core::{Key, Timestamp};
use sha2::{Digest, Sha256};

/// One entry, without its payload.
#[derive(Clone, Debug)]
pub struct ScannedEntry {
    /// The bin, or the table where there are several.
    pub bin: Arc<str>,
    /// The name.
    pub name: EntryName,
    /// The size in bytes, see [`Sizes`].
    pub bytes: u64,
    /// When it was made, if known.
    pub created: Option<Timestamp>,
    /// When it was last used, or at least written, if known.
    pub used: Option<Timestamp>,
    /// The expiry; `None` if there is none or it is unknown.
    pub expires: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
/// The meaning of sizes.
pub enum Sizes {
    /// The payload alone.
    Payload,
    /// The server's memory for the entry: payload, key and bookkeeping.
    Memory,
}

impl Sizes {
    /// The word in results.
    pub const fn name(self) -> &'static str {
        match self {
            Sizes::Payload => "payload",
            Sizes::Memory => "memory",
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
/// The name of an entry.
pub enum EntryName {
    /// A session id, or a possible one.
    Secret(Vec<u8>),
    /// The key of a session in our own store, for which log lines have a tag.
    Tagged(Key),
    /// The whole key of a cache entry: two may differ only behind the shown part. Never a key that
    /// may be a session id.
    Shown(Vec<u8>),
}

/// The longest shown name, in characters. Drupal's keys have up to 255, ours 256.
const NAME_CHARS_MAX: usize = 256;
/// Shown hexadecimal digits of a digest: 48 bits tell millions of sessions apart, and reveal no id.
const DIGEST_DIGITS: usize = 12;

impl EntryName {
    /// The name of an entry with this key in a bin of one of our own stores.
    pub fn of(bin: &str, key: &[u8]) -> EntryName {
        let name = if shows_keys(bin) { EntryName::Shown } else { EntryName::Secret };
        name(key.to_vec())
    }

    /// The key in printable form, if it is no secret.
    pub fn shown(&self) -> Option<String> {
        let EntryName::Shown(key) = self else { return None };
        let text = String::from_utf8_lossy(key);
        let mut shown: String = text.chars().take(NAME_CHARS_MAX).map(printable).collect();
        if text.chars().nth(NAME_CHARS_MAX).is_some() {
            shown.push_str("...");
        }
        Some(shown)
    }

    /// The first 12 hexadecimal digits of the SHA-256 of a secret id:
    /// `printf %s ID | sha256sum | cut -c1-12`.
    pub fn digest(&self) -> Option<String> {
        let id = match self {
            EntryName::Shown(_) => return None,
            EntryName::Secret(id) => id.as_slice(),
            EntryName::Tagged(key) => key.id().as_bytes(),
        };
        let mut digits: String =
            Sha256::digest(id).iter().map(|byte| format!("{byte:02x}")).collect();
        digits.truncate(DIGEST_DIGITS);
        Some(digits)
    }

    /// The tag of the session in this host's log lines.
    pub fn tag(&self) -> Option<String> {
        match self {
            EntryName::Tagged(key) => Some(key.tag()),
            EntryName::Secret(_) | EntryName::Shown(_) => None,
        }
    }
}

// A derived Debug would print the id.
impl fmt::Debug for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shown() {
            Some(text) => write!(f, "EntryName({text:?})"),
            None => write!(f, "EntryName(sha256:{})", self.digest().unwrap_or_default()),
        }
    }
}

/// Whether the keys of a bin of ours are no secrets: `crates/core/CONTRACT.md` promises exactly
/// this. The keys of `cache_form` are form tokens of visitors, as in Drupal.
fn shows_keys(bin: &str) -> bool {
    (bin == "cache" || bin.starts_with("cache_")) && bin != "cache_form"
}

/// Control characters change a terminal, and marks of direction reorder text.
fn printable(letter: char) -> char {
    let unseen = matches!(
        letter,
        '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
    );
    if letter.is_control() || unseen { '?' } else { letter }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leaves_as_a_digest_and_the_key_of_a_cache_as_it_is() {
        let secret = EntryName::of("sessions", b"topsecret0123456789");
        // printf %s topsecret0123456789 | sha256sum | cut -c1-12
        assert_eq!(secret.digest().as_deref(), Some("09574c73521a"));
        assert!(secret.shown().is_none() && secret.tag().is_none());
        let own = EntryName::Tagged(Key::session("topsecret0123456789").unwrap());
        assert_eq!(own.digest(), secret.digest());
        assert!(own.tag().is_some_and(|tag| tag.starts_with('#')));
        for name in [&secret, &own] {
            assert!(!format!("{name:?}").contains("topsecret"), "{name:?}");
        }
        let cache = EntryName::of("cache", "theme_registry:garland\x1b[2J\u{202e}x".as_bytes());
        assert_eq!(cache.shown().as_deref(), Some("theme_registry:garland?[2J?x"));
        assert_eq!(cache.digest(), None);
    }

    #[test]
    fn only_a_bin_that_is_called_a_cache_shows_keys() {
        for (bin, shows) in [
            ("cache", true),
            ("cache_menu", true),
            ("cache_form", false),
            ("session_cache", false),
            ("shop_cache_menu", false),
            ("shop_cache_sessions", false),
            ("session", false),
            ("cached_sessions", false),
            ("", false),
        ] {
            assert_eq!(EntryName::of(bin, b"x").shown().is_some(), shows, "{bin}");
        }
        let shown = |bytes: usize| {
            EntryName::of("cache", &vec![b'x'; bytes]).shown().map(|name| name.len())
        };
        assert_eq!((shown(256), shown(500)), (Some(256), Some(259)));
    }
}
