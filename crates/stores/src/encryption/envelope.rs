//! The bytes that the store keeps for an encrypted payload.
//!
//! ```text
//! offset 0       8        12      36                    length - 16
//!        | magic | key id | nonce | encrypted payload ... | tag |
//! ```
//!
//! * XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha) with a random nonce of 24 bytes: any number of
//!   processes may draw nonces without a counter that they share.
//! * The key id finds the key of the file; it tells nothing about it.
//! * The tag covers magic, key id, the bin of the session, and the payload. It does not cover the
//!   id, which a regeneration changes without writing the payload.

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use sessile_core::{Bin, Error, ErrorKind, Result};
use sha2::{Digest, Sha256};

use super::key_file::EncryptionKey;
use crate::random;

const MAGIC: &[u8; 8] = b"\0sealed1";
const KEY_ID_BYTES: usize = 4;
const HEAD_BYTES: usize = MAGIC.len() + KEY_ID_BYTES;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// How much longer an encrypted payload is.
pub const OVERHEAD_BYTES: u64 = (HEAD_BYTES + NONCE_BYTES + TAG_BYTES) as u64;

type Head = [u8; HEAD_BYTES];

/// Encrypts with the first key, decrypts with each.
pub struct Envelope(Vec<(Head, XChaCha20Poly1305)>);

impl Envelope {
    pub fn new(keys: Vec<EncryptionKey>) -> Envelope {
        let cipher = |key: EncryptionKey| (head(&key), XChaCha20Poly1305::new(&key.into()));
        Envelope(keys.into_iter().map(cipher).collect())
    }

    pub fn keys(&self) -> usize {
        self.0.len()
    }

    pub fn seal(&self, bin: &Bin, payload: &[u8]) -> Result<Vec<u8>> {
        let Some((head, cipher)) = self.0.first() else { return Err(failed()) };
        let nonce: [u8; NONCE_BYTES] = random::bytes()?;
        let mut sealed = Vec::with_capacity(payload.len() + OVERHEAD_BYTES as usize);
        [&head[..], &nonce, payload].into_iter().for_each(|part| sealed.extend_from_slice(part));
        let (_, body) = sealed.split_at_mut(HEAD_BYTES + NONCE_BYTES);
        let tag = cipher
            .encrypt_inout_detached(&XNonce::from(nonce), &covered(head, bin), body.into())
            .map_err(|_| failed())?;
        sealed.extend_from_slice(&tag);
        Ok(sealed)
    }

    /// Bytes without the magic are a payload from before the option was set.
    pub fn open(&self, bin: &Bin, mut stored: Vec<u8>) -> Result<Vec<u8>> {
        if !stored.starts_with(MAGIC) {
            return Ok(stored);
        }
        let cipher = self.0.iter().find(|(head, _)| stored.starts_with(head));
        if cipher.is_none() && stored.len() >= OVERHEAD_BYTES as usize {
            return Err(Error::new(
                ErrorKind::Incompatible,
                "a session is encrypted with a key that the file of seal= does not have",
            )
            .advice("add the former key to the file, below the first one"));
        }
        let start = HEAD_BYTES + NONCE_BYTES;
        let parts = cipher.and_then(|(head, cipher)| {
            let nonce: [u8; NONCE_BYTES] = stored.get(HEAD_BYTES..start)?.try_into().ok()?;
            let end = stored.len().checked_sub(TAG_BYTES)?;
            let tag: [u8; TAG_BYTES] = stored.get(end..)?.try_into().ok()?;
            let body = stored.get_mut(start..end)?;
            let nonce = XNonce::from(nonce);
            let covered = covered(head, bin);
            cipher.decrypt_inout_detached(&nonce, &covered, body.into(), &tag.into()).ok()
        });
        if parts.is_none() {
            return Err(Error::new(
                ErrorKind::Corrupt,
                "an encrypted payload is not what was written",
            )
            .advice("destroy the session to be rid of it"));
        }
        stored.truncate(stored.len() - TAG_BYTES);
        stored.drain(..start);
        Ok(stored)
    }
}

/// Magic and key id: the first bytes of everything that a key encrypts.
fn head(key: &EncryptionKey) -> Head {
    let id = Sha256::new().chain_update("sessile key id\0").chain_update(key).finalize();
    let mut head = [0; HEAD_BYTES];
    head.iter_mut().zip(MAGIC.iter().chain(id.iter())).for_each(|(to, from)| *to = *from);
    head
}

/// What the tag covers besides the payload.
fn covered(head: &Head, bin: &Bin) -> Vec<u8> {
    [&head[..], bin.name().as_bytes()].concat()
}

fn failed() -> Error {
    Error::new(ErrorKind::Io, "the payload could not be encrypted")
}
