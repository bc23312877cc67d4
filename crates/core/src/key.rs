//! Keys: the names of records.
//!
//! A key is a bin (a named class of data; `session` by default) and an id. A session id is a
//! secret: it logs a visitor in. Invariants: the id of a [`Key`] is well-formed, and no formatter
//! prints it. Errors and log lines show [`Key::tag`] instead.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use crate::{Error, ErrorKind, Limits, Result};

const SESSION: &str = "session";

/// A named class of data. Stores map it to a prefix, a column or a directory.
///
/// `None` is `session`. A key is moved about in each request, so it is kept small: the result of a
/// look-up is then copied in registers, not by a call.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Bin(Option<Arc<str>>);

impl Bin {
    /// The bin of sessions.
    pub const SESSION: Bin = Bin(None);

    /// A bin by name: 1 to 32 bytes of `a-z`, `0-9` and `_`, starting with a letter.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for any other name.
    pub fn new(name: &str) -> Result<Bin> {
        let well_formed = name.len() <= Limits::BIN_BYTES_MAX
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !well_formed {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "a bin name has 1 to 32 characters of a-z, 0-9 and _, and starts with a letter",
            ));
        }
        Ok(Bin((name != SESSION).then(|| name.into())))
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.0.as_deref().unwrap_or(SESSION)
    }
}

impl PartialOrd for Bin {
    fn partial_cmp(&self, other: &Bin) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bin {
    fn cmp(&self, other: &Bin) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl Hash for Bin {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.name().hash(hasher);
    }
}

impl fmt::Debug for Bin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bin").field(&self.name()).finish()
    }
}

/// The name of one record: a bin and a well-formed id.
#[derive(Clone)]
pub struct Key {
    bin: Bin,
    /// Shared: a lease keeps its key without another allocation.
    id: Arc<str>,
    /// Not part of its identity.
    listed: bool,
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        (&self.bin, &self.id) == (&other.bin, &other.id)
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        (&self.bin, &self.id).cmp(&(&other.bin, &other.id))
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (&self.bin, &self.id).hash(hasher);
    }
}

impl Key {
    /// The key of a session: 1 to 256 bytes of `A-Z a-z 0-9 , _ -`.
    ///
    /// # Errors
    ///
    /// `InvalidId`, with a reason that does not repeat the id.
    pub fn session(id: &str) -> Result<Key> {
        Key::in_bin(Bin::SESSION, id)
    }

    /// A key in any bin. Ids outside the `session` bin may also contain `.` and `:`.
    ///
    /// # Errors
    ///
    /// As [`Key::session`].
    pub fn in_bin(bin: Bin, id: &str) -> Result<Key> {
        check_id(&bin, id.as_bytes())?;
        Ok(Key { bin, id: id.into(), listed: false })
    }

    /// The target of an alias of this key: the key in the same bin with the alias's id.
    ///
    /// # Errors
    ///
    /// `Corrupt` for a malformed id.
    pub fn sibling(&self, id: &[u8]) -> Result<Key> {
        let id = str::from_utf8(id).ok().and_then(|id| Key::in_bin(self.bin.clone(), id).ok());
        let why = "a regenerated id leads to a malformed one";
        id.ok_or_else(|| Error::new(ErrorKind::Corrupt, why).advice("destroy the session"))
    }

    /// The key of a listing, to read or to destroy what it lists: its id is the one that the store
    /// shows, perhaps a digest, and is not digested again.
    #[must_use]
    pub fn as_listed(&self) -> Key {
        Key { listed: true, ..self.clone() }
    }

    /// Whether its id is the one that the store shows.
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    /// The bin.
    pub fn bin(&self) -> &Bin {
        &self.bin
    }

    /// The id itself: a secret. Only for stores; never for an error, a log line or a report.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A short keyed hash that stands for the id in errors and log lines.
    ///
    /// Its key is the boot id of the kernel: all processes of a host agree until the next boot, and
    /// tags of several hosts cannot be compared. 32 bits are enough to follow a session through a
    /// log, and too few to recover an id of 128 bits.
    pub fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        tag_secret().hash(&mut hasher);
        self.hash(&mut hasher);
        format!("#{:08x}", hasher.finish() >> 32)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}/{})", self.bin.name(), self.tag())
    }
}

fn tag_secret() -> &'static [u8] {
    static SECRET: OnceLock<Vec<u8>> = OnceLock::new();
    SECRET.get_or_init(|| {
        std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| {
            use std::hash::BuildHasher;
            let random = std::hash::RandomState::new().build_hasher().finish();
            random.to_ne_bytes().to_vec()
        })
    })
}

/// Whether an id may have this byte in every bin.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b',' | b'_' | b'-')
}

fn check_id(bin: &Bin, id: &[u8]) -> Result<()> {
    // Without an early exit the loop is vectorized. Every request comes here.
    let plain = id.iter().fold(true, |all, byte| all & is_plain(*byte));
    if plain && (1..=Limits::ID_BYTES_MAX).contains(&id.len()) {
        Ok(())
    } else {
        check_closely(bin, id)
    }
}

/// Checks again, for the reason of the error.
#[cold]
fn check_closely(bin: &Bin, id: &[u8]) -> Result<()> {
    if id.is_empty() {
        return Err(invalid("it is empty"));
    }
    if id.len() > Limits::ID_BYTES_MAX {
        return Err(invalid("it is longer than 256 bytes"));
    }
    if id.contains(&0) {
        return Err(invalid("it contains a NUL byte"));
    }
    if !id.is_ascii() {
        return Err(invalid("it is not ASCII"));
    }
    let session = *bin == Bin::SESSION;
    let allowed = |b: u8| is_plain(b) || (!session && matches!(b, b'.' | b':'));
    if !id.iter().copied().all(allowed) {
        return Err(invalid(if session {
            "it contains a character outside A-Z a-z 0-9 , _ -"
        } else {
            "it contains a character outside A-Z a-z 0-9 , _ - . :"
        }));
    }
    if id.iter().all(|b| *b == b'.') {
        return Err(invalid("it consists of dots only"));
    }
    Ok(())
}

fn invalid(why: &str) -> Error {
    Error::new(ErrorKind::InvalidId, format!("the id is malformed: {why}")).advice(
        "take ids only from your own cookie and create new ones with your framework's generator",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_ids_are_refused_before_any_store() {
        let long = "a".repeat(257);
        for id in ["", "a/b", "../etc", "a\0b", "a b", "\u{e9}", "a.b", "a:b", &long] {
            let error = Key::session(id).unwrap_err();
            assert_eq!(error.kind().code(), "invalid-id");
            assert!(id.is_empty() || !error.to_string().contains(id), "the error repeats the id");
        }
    }

    #[test]
    fn the_target_of_an_alias_is_checked_like_any_id() {
        let bin = Bin::new("cache_page").unwrap();
        let key = Key::in_bin(bin.clone(), "old").unwrap();
        assert_eq!(key.sibling(b"new:1").unwrap(), Key::in_bin(bin, "new:1").unwrap());
        for id in [b"".as_slice(), b"a/b", b"\xff\xfe"] {
            assert_eq!(*key.sibling(id).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn the_bin_of_sessions_is_one_by_its_name_and_sorted_by_it() {
        let [session, cache, token] = ["session", "cache", "token"].map(|it| Bin::new(it).unwrap());
        assert_eq!((&session, &Bin::default()), (&Bin::SESSION, &Bin::SESSION));
        assert_eq!(
            (session.name(), format!("{session:?}")),
            ("session", r#"Bin("session")"#.into())
        );
        assert!(cache < session && session < token);
    }

    #[test]
    fn other_bins_take_dots_and_colons_but_no_path_tricks() {
        let bin = Bin::new("cache_page").unwrap();
        assert!(Key::in_bin(bin.clone(), "node:1.html").is_ok());
        for id in [".", "..", "a/../b"] {
            assert!(Key::in_bin(bin.clone(), id).is_err());
        }
        for name in ["", "Session", "a-b", "../x", "1a"] {
            assert!(Bin::new(name).is_err());
        }
    }

    #[test]
    fn debug_shows_the_tag_and_never_the_id() {
        let key = Key::session("topsecret0123456789").unwrap();
        let shown = format!("{key:?} {}", key.tag());
        assert!(!shown.contains("topsecret"));
        assert_eq!(key.tag(), Key::session("topsecret0123456789").unwrap().tag());
        assert_ne!(key.tag(), Key::session("topsecret0123456780").unwrap().tag());
    }
}
