//! `django+postgres:` and others: the table of Django's sessions.
//!
//! Source: Django's `AbstractBaseSession` and `django.core.signing`. The content is
//! `[.]DATA:TIME:SIGNATURE`, with DATA in base64, compressed by zlib after a dot. Over Sessile
//! (`sessile.django`) a session is the bytes of the serializer, without a signature: a store is not
//! in the hands of visitors, as a cookie is. So a copy takes DATA out.
//!
//! Invariant: nothing but JSON is copied. A signature cannot be checked here without the site's
//! key, and an unsigned pickle runs code. Not here: sessions of Django before 3.1, which have
//! another format.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::read::ZlibDecoder;
use serde_json::Value;
use sessile_core::{Clock, Error, ErrorKind, Limits, Owner, OwnerChange, Result};
use sha2::{Digest, Sha256};

use super::table::{self, Contents, Converted, Moment, Table, named, no_table};
use super::{Layout, Walk};
use crate::registry::option;
use crate::store_url::StoreUrl;

pub const LAYOUT: Layout = Layout {
    program: "django",
    storages: table::SCHEMES,
    reads: "the sessions that Django keeps in a database",
    example: "django+sqlite:/srv/shop/db.sqlite3",
    options: &[option("table", "name of the table (default django_session)")],
    of_connection: table::options,
    sessions_only: None,
    store: None,
    open,
};

/// The key of the user who is logged in (`django.contrib.auth.SESSION_KEY`).
const USER: &str = "_auth_user_id";

/// The table has only the end of a session: age and idle time are unknown.
fn open(url: &StoreUrl, _clock: &Clock) -> Result<Box<dyn Walk>> {
    let table = Table {
        name: named(url, "table", "django_session")?,
        key: vec!["session_key".to_owned()],
        shows_keys: false,
        content: "session_data".to_owned(),
        created: Moment::Absent,
        used: Moment::Absent,
        expires: Moment::Date("expire_date"),
        contents: Ok(Contents { is_text: true, user: None, convert }),
    };
    let walk = table::walk(url, table, &["session_key", "session_data", "expire_date"])?;
    walk.ok_or_else(|| no_table("table of Django's sessions"))
}

fn convert(text: Vec<u8>, _: Option<i64>) -> Result<Converted> {
    let bytes = unsigned(&text, Limits::PAYLOAD_BYTES_MAX_DEFAULT);
    let json = bytes.filter(|bytes| bytes.first() == Some(&b'{')).ok_or_else(no_json)?;
    let owner = owner(&json);
    Ok((json, owner))
}

/// The bytes of the serializer, if they are no more than so many.
fn unsigned(text: &[u8], bytes_max: u64) -> Option<Vec<u8>> {
    let mut parts = text.splitn(3, |byte| *byte == b':');
    let (data, _time, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    let Some(compressed) = data.strip_prefix(b".") else {
        return URL_SAFE_NO_PAD.decode(data).ok();
    };
    let compressed = URL_SAFE_NO_PAD.decode(compressed).ok()?;
    let mut bytes = Vec::new();
    // A few bytes can stand for many.
    ZlibDecoder::new(compressed.as_slice()).take(bytes_max + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= bytes_max).then_some(bytes)
}

/// As `sessile.django` sets it. It stays where the JSON is one that only Python reads (NaN).
fn owner(json: &[u8]) -> OwnerChange {
    let Ok(session) = serde_json::from_slice::<Value>(json) else { return OwnerChange::Keep };
    let user = match session.get(USER) {
        Some(Value::String(user)) => user.clone(),
        Some(Value::Number(user)) => user.to_string(),
        _ => String::new(),
    };
    let name = if user.len() <= Limits::OWNER_BYTES_MAX {
        user
    } else {
        let digest = Sha256::digest(user.as_bytes());
        digest.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
    };
    OwnerChange::Set(Owner::new(name.as_bytes()).ok())
}

fn no_json() -> Error {
    Error::new(ErrorKind::Corrupt, "the content is not what Django's JSONSerializer writes")
        .advice("other serializers and Django before 3.1 are not copied: visitors log in anew")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the form of `django.core.signing.dumps`.
    const PLAIN: &[u8] = b"eyJfYXV0aF91c2VyX2lkIjoiMTciLCJjYXJ0IjpbMV19:1tGx0A:c2lnbmF0dXJl";

    fn compressed(bytes: &[u8]) -> Vec<u8> {
        use std::io::Write;
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
        encoder.write_all(bytes).unwrap();
        let text = URL_SAFE_NO_PAD.encode(encoder.finish().unwrap());
        format!(".{text}:1tGx0A:c2lnbmF0dXJl").into_bytes()
    }

    #[test]
    fn a_session_is_the_bytes_of_the_serializer_with_the_user_as_its_owner() {
        let expected = br#"{"_auth_user_id":"17","cart":[1]}"#;
        for text in [PLAIN.to_vec(), compressed(expected)] {
            let (payload, owner) = convert(text, None).unwrap();
            assert_eq!(payload, expected);
            assert_eq!(owner, OwnerChange::Set(Owner::new(b"17").ok()));
        }
        let (_, owner) = convert(compressed(b"{}"), None).unwrap();
        assert_eq!(owner, OwnerChange::Set(None));
        let (_, owner) = convert(compressed(b"{\"price\":NaN}"), None).unwrap();
        assert_eq!(owner, OwnerChange::Keep);
    }

    /// As `sessile.django._owner` names it.
    #[test]
    fn a_user_with_a_long_name_is_one_by_its_digest() {
        let session = format!("{{\"_auth_user_id\":\"{}\"}}", "x".repeat(256));
        let name = b"sha256:85e62acd750c4eb56b7b6a1d66dca5bfaac5f062608a1a893410d0288936c09a";
        assert_eq!(owner(session.as_bytes()), OwnerChange::Set(Owner::new(name).ok()));
    }

    #[test]
    fn what_is_not_signed_json_is_refused() {
        let pickle = compressed(b"\x80\x05}q\x00.");
        for text in [&b""[..], b"e30", b"e30:x", b"e3!0:x:y", b".e30:x:y", &pickle] {
            let error = convert(text.to_vec(), None).err().unwrap();
            assert_eq!(error.kind(), &ErrorKind::Corrupt);
        }
        let many = compressed(&[b'{'; 100]);
        assert!(unsigned(&many, 99).is_none() && unsigned(&many, 100).is_some());
    }
}
