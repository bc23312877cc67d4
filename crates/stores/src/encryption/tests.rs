//! Tests of an encrypted store of files: what is stored, and what each key and limit leads to. Not
//! the format, which `envelope.rs` tests.

#![cfg(feature = "files")]

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use sessile_core::{ErrorKind, Filter, Key, Sessions, Ttl};

use crate::{Context, open};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    /// A key file in which each key is one repeated byte.
    fn key_file(&self, name: &str, keys: &[u8]) -> String {
        let path = self.0.path().join(name);
        let lines: String = keys.iter().map(|key| format!("{key:02x}").repeat(32) + "\n").collect();
        std::fs::write(&path, lines).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        path.display().to_string()
    }

    fn open(&self, option: &str) -> sessile_core::Result<Sessions> {
        open(&format!("files:{}/store{option}", self.0.path().display()), &Context::default())
    }

    fn sealed(&self, keys: &[u8]) -> Sessions {
        self.open(&format!("?seal={}", self.key_file("keys", keys))).unwrap()
    }

    /// Whether a file of the store contains the text.
    fn is_stored(&self, text: &[u8]) -> bool {
        fn search(dir: &std::path::Path, text: &[u8]) -> bool {
            std::fs::read_dir(dir).unwrap().any(|entry| {
                let path = entry.unwrap().path();
                let is_in = |bytes: Vec<u8>| bytes.windows(text.len()).any(|part| part == text);
                if path.is_dir() {
                    search(&path, text)
                } else {
                    is_in(std::fs::read(path).unwrap())
                }
            })
        }
        search(&self.0.path().join("store"), text)
    }
}

fn key(id: &str) -> Key {
    Key::session(id).unwrap()
}

fn ttl() -> Ttl {
    Ttl::sliding(Duration::from_secs(60)).unwrap()
}

fn payload(sessions: &Sessions, id: &str) -> sessile_core::Result<Option<Vec<u8>>> {
    Ok(sessions.peek(&key(id))?.map(|record| record.payload))
}

#[test]
fn the_store_holds_nothing_of_a_payload_and_the_application_reads_it() {
    let place = Place::new();
    let sessions = place.sealed(&[7]);
    sessions.create(&key("a"), b"cart: 1 book", ttl()).unwrap();
    let begun = sessions.begin(&key("a"), Duration::ZERO).unwrap();
    assert_eq!(begun.record.unwrap().payload, b"cart: 1 book");
    begun.lease.commit(b"cart: 2 books", ttl()).unwrap();
    assert_eq!(payload(&sessions, "a").unwrap().unwrap(), b"cart: 2 books");
    assert!(!place.is_stored(b"book"));
    let entries = sessions.list(None, &Filter::default()).unwrap().entries;
    assert_eq!(entries[0].payload_bytes, 13);
    let plain = place.open("").unwrap();
    plain.create(&key("b"), b"cart: 3 books", ttl()).unwrap();
    assert!(place.is_stored(b"3 books"), "the search finds what is there");
}

#[test]
fn equal_payloads_are_stored_as_different_bytes() {
    let place = Place::new();
    let sessions = place.sealed(&[7]);
    sessions.create(&key("a"), b"the same", ttl()).unwrap();
    sessions.create(&key("b"), b"the same", ttl()).unwrap();
    let plain = place.open("").unwrap();
    assert_ne!(payload(&plain, "a").unwrap(), payload(&plain, "b").unwrap());
}

/// A request that died between the new id and its commit: the record has moved, and nothing wrote
/// it again.
#[test]
fn a_session_with_a_new_id_is_readable_before_its_next_commit() {
    let place = Place::new();
    let sessions = place.sealed(&[7]);
    sessions.create(&key("old"), b"cart", ttl()).unwrap();
    let mut begun = sessions.begin(&key("old"), Duration::ZERO).unwrap();
    begun.lease.regenerate(&key("new"), Duration::from_secs(5)).unwrap();
    drop(begun);
    assert_eq!(payload(&sessions, "new").unwrap().unwrap(), b"cart");
    assert_eq!(payload(&sessions, "old").unwrap().unwrap(), b"cart");
}

#[test]
fn a_site_that_turns_encryption_on_keeps_its_sessions_and_encrypts_them_when_they_change() {
    let place = Place::new();
    place.open("").unwrap().create(&key("a"), b"cart: 1 book", ttl()).unwrap();
    let sessions = place.sealed(&[7]);
    let begun = sessions.begin(&key("a"), Duration::ZERO).unwrap();
    assert_eq!(begun.record.unwrap().payload, b"cart: 1 book");
    begun.lease.commit(b"cart: 2 books", ttl()).unwrap();
    assert!(!place.is_stored(b"book"));
}

#[test]
fn a_key_is_replaced_in_two_steps_and_a_former_one_still_reads() {
    let place = Place::new();
    place.sealed(&[1]).create(&key("a"), b"cart", ttl()).unwrap();
    // All hosts read the new key before one of them writes with it.
    let (both, rotated) = (place.sealed(&[1, 2]), place.sealed(&[2, 1]));
    assert_eq!(payload(&rotated, "a").unwrap().unwrap(), b"cart");
    rotated.create(&key("b"), b"cart 2", ttl()).unwrap();
    assert_eq!(payload(&both, "b").unwrap().unwrap(), b"cart 2");
    let error = payload(&place.sealed(&[2]), "a").unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Incompatible);
    assert!(format!("{error:#}").contains("former key"), "{error:#}");
    let lost = place.sealed(&[2]).begin(&key("a"), Duration::ZERO);
    assert!(lost.is_err());
    rotated.begin(&key("a"), Duration::ZERO).unwrap().lease.release().unwrap();
}

#[test]
fn every_changed_byte_is_noticed_and_a_record_cannot_pass_for_one_of_another_bin() {
    let place = Place::new();
    let envelope = super::Envelope::new(vec![[7; 32]]);
    let (bin, other) = (key("a").bin().clone(), sessile_core::Bin::new("cache").unwrap());
    let sealed = envelope.seal(&bin, b"cart").unwrap();
    assert_eq!(sealed.len() as u64, 4 + super::envelope::OVERHEAD_BYTES);
    assert_eq!(envelope.open(&bin, sealed.clone()).unwrap(), b"cart");
    assert!(envelope.open(&other, sealed.clone()).is_err());
    // A changed magic makes a payload of it like any other, which an application must bear anyway.
    for at in 8..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert!(envelope.open(&bin, changed).is_err(), "byte {at}");
    }
    for length in 8..sealed.len() {
        assert!(envelope.open(&bin, sealed[..length].to_vec()).is_err(), "{length} bytes");
    }
    assert_eq!(envelope.open(&bin, envelope.seal(&bin, b"").unwrap()).unwrap(), b"");
    drop(place);
}

#[test]
fn a_key_file_that_protects_nothing_is_refused() {
    let place = Place::new();
    let path = place.key_file("keys", &[1]);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    for (option, reason) in [
        (format!("?seal={path}"), "every user"),
        ("?seal=/nowhere/keys".to_owned(), "cannot be read"),
        ("?seal=keys".to_owned(), "absolute"),
        (format!("?php=1&seal={}", place.key_file("others", &[1])), "another program"),
    ] {
        let error = format!("{:#}", place.open(&option).unwrap_err());
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn the_largest_payload_is_that_of_the_url_and_a_larger_one_is_refused_in_its_words() {
    let place = Place::new();
    let keys = place.key_file("keys", &[1]);
    let sessions = place.open(&format!("?seal={keys}&payload_bytes_max=1000")).unwrap();
    assert_eq!(sessions.limits().payload_bytes_max, 1000);
    sessions.create(&key("a"), &[1; 1000], ttl()).unwrap();
    let error = sessions.create(&key("b"), &[1; 1001], ttl()).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::TooLarge { size: 1001, limit: 1000 });
}
