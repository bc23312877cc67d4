//! The bytes that the home store keeps for a session: its payload, or a stub.
//!
//! ```text
//! offset 0       15     16      32      40       48       49            112     120
//!        | magic | 'S'  | token | size  | check  | length | store, 0... | seal  |  a stub
//!        | magic | 'P'  | payload ...      a payload that begins with the magic
//!        | payload ...                     any other payload
//! ```
//!
//! * `token` is the id of the large payload; `size` and `check` (XXH3-64) are those of its bytes,
//!   and decide a read.
//! * `store` is the redacted URL under which it was written, cut to 63 bytes, for messages only: a
//!   moved file is still the same store.
//! * `seal` is the XXH3-64 of the bytes before it. Numbers are little-endian.
//!
//! Other payloads are stored as they are, so that the store of a running site can become a home
//! store. No payload can pass for a stub.

use sessile_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_64;

use crate::locks::token::Token;

const MAGIC: &[u8; 15] = b"\0sessile-route\0";
const KIND_STUB: u8 = b'S';
const KIND_PAYLOAD: u8 = b'P';
const SEAL_AT: usize = 112;
const STORE_BYTES_MAX: usize = 63;
/// The length of every stub. A listing finds possible stubs by it.
pub const STUB_BYTES: usize = SEAL_AT + 8;
/// The prefix of a payload that begins with the magic.
const ESCAPE_BYTES: usize = MAGIC.len() + 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stub {
    pub token: Token,
    pub size: u64,
    pub check: u64,
    pub store: String,
}

#[derive(Debug, PartialEq, Eq)]
pub enum HomeContent {
    Payload(Vec<u8>),
    Stub(Stub),
}

impl Stub {
    pub fn new(token: Token, payload: &[u8], store: &str) -> Stub {
        let store = store.chars().filter(char::is_ascii).take(STORE_BYTES_MAX).collect();
        Stub { token, size: payload.len() as u64, check: xxh3_64(payload), store }
    }

    pub fn fits(&self, payload: &[u8]) -> bool {
        payload.len() as u64 == self.size && xxh3_64(payload) == self.check
    }

    pub fn encode(&self) -> Vec<u8> {
        let store_bytes = u8::try_from(self.store.len()).unwrap_or(0);
        let numbers = [self.size.to_le_bytes(), self.check.to_le_bytes()];
        let head = [&MAGIC[..], &[KIND_STUB], &self.token, numbers.as_flattened(), &[store_bytes]];
        let mut bytes = [&head.concat(), self.store.as_bytes()].concat();
        bytes.resize(SEAL_AT, 0);
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Stub> {
        let number = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        if bytes.len() != STUB_BYTES || number(SEAL_AT)? != xxh3_64(bytes.get(..SEAL_AT)?) {
            return None;
        }
        let token = bytes.get(16..32)?.try_into().ok()?;
        let name = bytes.get(49..49 + usize::from(*bytes.get(48)?).min(STORE_BYTES_MAX))?;
        let store = String::from_utf8_lossy(name).into_owned();
        Some(Stub { token, size: number(32)?, check: number(40)?, store })
    }
}

pub fn inline_bytes(payload: &[u8]) -> u64 {
    let escape = if payload.starts_with(MAGIC) { ESCAPE_BYTES } else { 0 };
    (payload.len() + escape) as u64
}

pub fn inline(payload: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    if !payload.starts_with(MAGIC) {
        return payload.into();
    }
    [MAGIC, [KIND_PAYLOAD].as_slice(), payload].concat().into()
}

/// Decodes the bytes of the home store. Errors: `Corrupt` for a damaged stub, `Incompatible` for an
/// unknown kind.
pub fn open(mut bytes: Vec<u8>) -> Result<HomeContent> {
    if !bytes.starts_with(MAGIC) {
        return Ok(HomeContent::Payload(bytes));
    }
    match bytes.get(MAGIC.len()) {
        Some(&KIND_STUB) => Stub::read(&bytes).map(HomeContent::Stub).ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "the stub of a large payload is not what was written")
                .advice("destroy the session to be rid of it")
        }),
        Some(&KIND_PAYLOAD) => Ok(HomeContent::Payload(bytes.split_off(ESCAPE_BYTES))),
        _ => Err(Error::new(
            ErrorKind::Incompatible,
            "the home store holds a kind of stub that this program is too old for",
        )
        .advice("upgrade")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_reads_back_as_it_was_written_and_is_always_as_long() {
        for store in ["files:/x", "", &"long:/".repeat(40)] {
            let stub = Stub::new([7; 16], b"payload", store);
            let bytes = stub.encode();
            assert_eq!(bytes.len(), STUB_BYTES);
            assert_eq!(open(bytes).unwrap(), HomeContent::Stub(stub.clone()));
            assert!(stub.fits(b"payload") && !stub.fits(b"payloae") && !stub.fits(b"payloadd"));
        }
    }

    #[test]
    fn every_changed_byte_of_a_stub_is_noticed() {
        let bytes = Stub::new([7; 16], b"payload", "files:/x").encode();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            match open(changed.clone()) {
                // Without its first bytes it is a payload like any other.
                Ok(HomeContent::Payload(payload)) => {
                    assert!(at < MAGIC.len() && payload == changed, "{at}")
                }
                Ok(HomeContent::Stub(_)) => panic!("a change of byte {at} passes"),
                Err(_) => assert!(at >= MAGIC.len()),
            }
            assert!(!matches!(open(bytes[..at].to_vec()), Ok(HomeContent::Stub(_))));
        }
    }

    #[test]
    fn no_payload_passes_for_a_stub() {
        let stub = Stub::new([7; 16], b"payload", "files:/x").encode();
        for payload in [b"".as_slice(), b"cart", MAGIC, &stub, &inline(&stub)] {
            let stored = inline(payload);
            assert_eq!(stored.len() as u64, inline_bytes(payload));
            assert_eq!(open(stored.into_owned()).unwrap(), HomeContent::Payload(payload.to_vec()));
        }
    }
}
