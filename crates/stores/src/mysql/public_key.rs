//! A password, encrypted with the public key that the server has sent.
//!
//! Source: MySQL's documentation, "Caching SHA-2 Pluggable Authentication"; RFC 8017, OAEP.
//! `mysql_common` encrypts. It panics at what is no key, so the key is checked before.

use mysql_common::crypto::der::parse_pub_key_pkcs1;
use mysql_common::crypto::rsa::{GetRandom, Pkcs1OaepPadding, PublicKey};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use x509_cert::der::asn1::UintRef;
use x509_cert::der::{Decode, Reader, SliceReader};
use x509_cert::spki::SubjectPublicKeyInfoRef;

/// From 1,024 to 8,192 bits: what is longer would cost seconds.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 128..=1_024;
const EXPONENT_BYTES_MAX: usize = 4;
/// Two digests of SHA-1 and two more bytes.
const PADDING_BYTES: usize = 42;

/// `None` for what is no RSA key in PEM, and for a password that is too long for the key.
pub(super) fn encrypt(password: &[u8], pem: &[u8]) -> Option<Vec<u8>> {
    let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).ok()?;
    let info = SubjectPublicKeyInfoRef::from_der(&der).ok()?;
    let key = info.subject_public_key.as_bytes()?;
    let (modulus, exponent) = numbers(key)?;
    if !MODULUS_BYTES.contains(&modulus.as_bytes().len())
        || exponent.as_bytes().len() > EXPONENT_BYTES_MAX
    {
        return None;
    }
    let (modulus, exponent) = parse_pub_key_pkcs1(key);
    let key = PublicKey::new(modulus, exponent);
    let fits = password.len() + PADDING_BYTES <= key.num_octets();
    fits.then(|| key.encrypt_block(password, Pkcs1OaepPadding::new(GetRandom)))
}

/// Modulus and exponent (RFC 8017, RSAPublicKey).
fn numbers(key: &[u8]) -> Option<(UintRef<'_>, UintRef<'_>)> {
    let mut reader = SliceReader::new(key).ok()?;
    reader.sequence(|fields| Ok((UintRef::decode(fields)?, UintRef::decode(fields)?))).ok()
}
