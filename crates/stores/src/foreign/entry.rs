//! One entry as a walk sees it, and what of its name may be shown.
//!
//! Invariant: what may be the id of a session never leaves [`Name`] but as a digest. The key of a cache entry is no
//! secret, and is what an operator has to know of an entry that is too large. What another program calls its tables says
//! nothing of that: whoever knows its layout says which of them are caches. In our own stores the name of a bin does.

use std::fmt;
use std::sync::Arc;

use sessile_core::{Key, Timestamp};
use sha2::{Digest, Sha256};

/// One entry, without its payload.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The bin, or the table where there are several.
    pub bin: Arc<str>,
    /// Which entry it is.
    pub name: Name,
    /// Its size in bytes, see [`Sizes`].
    pub bytes: u64,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// When it was last used, or at least written.
    pub used: Option<Timestamp>,
    /// When it ends; `None` where that is never, or not known.
    pub expires: Option<Timestamp>,
}

/// What sizes are the sizes of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// The payload alone.
    Payload,
    /// What the server takes for the entry: payload, key and its own bookkeeping.
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

/// Which entry it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Name {
    /// A secret: the id of a session, or what could be one.
    Secret(Vec<u8>),
    /// The same of one of our own stores, whose log lines have a tag for it.
    Tagged(Key),
    /// The key of a cache entry, whole: two that differ only behind what is shown of them are two.
    Shown(Vec<u8>),
}

/// Longest name that is shown, in characters. Drupal's keys have up to 255, ours 256.
const NAME_CHARS_MAX: usize = 256;
/// Digits of a digest that are shown: 48 bits tell millions of sessions apart, and lead back to no id.
const DIGEST_DIGITS: usize = 12;

impl Name {
    /// The name of an entry with this key in a bin of one of our own stores.
    pub fn of(bin: &str, key: &[u8]) -> Name {
        if shows_keys(bin) { Name::of_cache(key) } else { Name::Secret(key.to_vec()) }
    }

    /// The name of an entry of a cache. Never to be called with what could be the id of a session.
    pub fn of_cache(key: &[u8]) -> Name {
        Name::Shown(key.to_vec())
    }

    /// The key, if it is no secret, fit to be printed.
    pub fn shown(&self) -> Option<String> {
        let Name::Shown(key) = self else { return None };
        let text = String::from_utf8_lossy(key);
        let mut shown: String = text.chars().take(NAME_CHARS_MAX).map(printable).collect();
        if text.chars().nth(NAME_CHARS_MAX).is_some() {
            shown.push_str("...");
        }
        Some(shown)
    }

    /// The first 12 hexadecimal digits of the SHA-256 of a secret id: `printf %s ID | sha256sum | cut -c1-12`.
    pub fn digest(&self) -> Option<String> {
        let id = match self {
            Name::Shown(_) => return None,
            Name::Secret(id) => id.as_slice(),
            Name::Tagged(key) => key.id().as_bytes(),
        };
        let mut digits: String = Sha256::digest(id).iter().map(|byte| format!("{byte:02x}")).collect();
        digits.truncate(DIGEST_DIGITS);
        Some(digits)
    }

    /// The tag under which log lines of this host speak of it.
    pub fn tag(&self) -> Option<String> {
        match self {
            Name::Tagged(key) => Some(key.tag()),
            Name::Secret(_) | Name::Shown(_) => None,
        }
    }
}

// A derived one would print the id.
impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shown() {
            Some(text) => write!(f, "Name({text:?})"),
            None => write!(f, "Name(sha256:{})", self.digest().unwrap_or_default()),
        }
    }
}

/// Whether the keys of a bin of our own are no secrets: `docs/contract.md` promises this and no more. `cache_form`, as in
/// Drupal, has tokens of visitors' forms for keys.
fn shows_keys(bin: &str) -> bool {
    (bin == "cache" || bin.starts_with("cache_")) && bin != "cache_form"
}

/// A terminal obeys control characters, and marks of direction turn what stands beside them around.
fn printable(letter: char) -> char {
    let unseen =
        matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    if letter.is_control() || unseen { '?' } else { letter }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leaves_as_a_digest_and_the_key_of_a_cache_as_it_is() {
        let secret = Name::of("sessions", b"topsecret0123456789");
        // printf %s topsecret0123456789 | sha256sum | cut -c1-12
        assert_eq!(secret.digest().as_deref(), Some("09574c73521a"));
        assert!(secret.shown().is_none() && secret.tag().is_none());
        let own = Name::Tagged(Key::session("topsecret0123456789").unwrap());
        assert_eq!(own.digest(), secret.digest());
        assert!(own.tag().is_some_and(|tag| tag.starts_with('#')));
        for name in [&secret, &own] {
            assert!(!format!("{name:?}").contains("topsecret"), "{name:?}");
        }
        let cache = Name::of("cache", "theme_registry:garland\x1b[2J\u{202e}x".as_bytes());
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
            assert_eq!(Name::of(bin, b"x").shown().is_some(), shows, "{bin}");
        }
        let shown = |bytes: usize| Name::of("cache", &vec![b'x'; bytes]).shown().map(|name| name.len());
        assert_eq!((shown(256), shown(500)), (Some(256), Some(259)));
    }
}
