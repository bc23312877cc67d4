//! A copy from another program's storage against what the new store has by then.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use sessile_core::Owner;

use super::*;
use crate::Context;

const START: Timestamp = Timestamp::from_ms(1_700_000_000_000);
const ID: &[u8] = b"secret0123456789";

/// A storage with one session.
#[derive(Default)]
struct Storage {
    reads: Cell<u32>,
    /// After so many reads it has ended.
    reads_max: Cell<Option<u32>>,
    content: RefCell<Vec<u8>>,
    owner: Cell<OwnerChange>,
}

struct StorageWalk(Rc<Storage>);

impl Walk for StorageWalk {
    fn page(&mut self, _: usize, _: &mut dyn FnMut(ScannedEntry)) -> Result<bool> {
        Ok(false)
    }

    fn read(&mut self, entry: &ScannedEntry) -> Result<Option<ForeignSession>> {
        let storage = &self.0;
        storage.reads.set(storage.reads.get() + 1);
        if storage.reads_max.get().is_some_and(|most| storage.reads.get() > most) {
            return Ok(None);
        }
        let payload = storage.content.borrow().clone();
        Ok(Some(ForeignSession {
            is_empty: payload.is_empty(),
            payload,
            owner: storage.owner.get(),
            used: entry.used,
            expires: entry.expires,
        }))
    }
}

struct Case {
    storage: Rc<Storage>,
    import: Import,
    clock: Clock,
}

impl Case {
    /// The new store is empty, and the old one has a session with this content.
    fn with(content: &[u8]) -> Case {
        let clock = Clock::manual(START);
        let to = crate::open("memory:", &Context { clock: clock.clone() }).unwrap();
        let storage = Rc::new(Storage::default());
        storage.content.replace(content.to_vec());
        let walk = Box::new(StorageWalk(Rc::clone(&storage)));
        let import = Import::new(("php+redis:".to_owned(), walk), to, clock.clone());
        Case { storage, import, clock }
    }

    /// The present payload in the new store.
    fn payload(&self) -> Option<Vec<u8>> {
        self.import.to.peek(&key()).unwrap().map(|record| record.payload)
    }

    fn head(&self) -> Head {
        self.import.to.peek(&key()).unwrap().unwrap().head
    }

    /// A request of the visitor in the new store.
    fn commit(&self, payload: &[u8], seconds: u64) {
        let ttl = Ttl::sliding(Duration::from_secs(seconds)).unwrap();
        let begun = self.import.to.begin(&key(), WAIT_MAX).unwrap();
        begun.lease.commit(payload, ttl).unwrap();
    }

    fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

fn key() -> Key {
    Key::session("secret0123456789").unwrap()
}

fn after(seconds: u64) -> Timestamp {
    START.plus(Duration::from_secs(seconds))
}

/// `used` in seconds after the start.
fn entry(used: Option<u64>, expires: u64) -> ScannedEntry {
    ScannedEntry {
        bin: "session".into(),
        name: EntryName::Secret(ID.to_vec()),
        bytes: 0,
        created: None,
        used: used.map(after),
        expires: Some(after(expires)),
    }
}

#[test]
fn a_copy_ends_with_its_session_and_a_repetition_finds_it() {
    let mut case = Case::with(b"cart|i:1;");
    let old = entry(Some(0), 1_440);
    assert_eq!(case.import.compare(&old).unwrap(), Compared::Missing);
    assert_eq!(case.payload(), None);
    case.advance(10);
    assert_eq!(case.import.copy(&old).unwrap(), Compared::Missing);
    assert_eq!(case.payload().unwrap(), b"cart|i:1;");
    let head = case.head();
    assert_eq!((head.created, head.written, head.expires), (START, after(10), after(1_440)));
    assert_eq!(case.import.copy(&old).unwrap(), Compared::Same);
    assert_eq!(case.head(), head);
}

#[test]
fn the_session_that_was_used_later_wins() {
    let mut case = Case::with(b"first");
    case.import.copy(&entry(Some(0), 1_440)).unwrap();
    case.storage.content.replace(b"second".to_vec());
    case.advance(60);
    assert_eq!(case.import.copy(&entry(Some(50), 1_490)).unwrap(), Compared::Older);
    assert_eq!(case.payload().unwrap(), b"second");
    // Now the visitor is served by the new store, with a shorter life.
    case.advance(60);
    case.commit(b"third", 300);
    case.advance(60);
    // Redis before 7.2 takes the read of the last copy for a use.
    assert_eq!(case.import.copy(&entry(Some(61), 1_490)).unwrap(), Compared::Newer);
    assert_eq!(case.payload().unwrap(), b"third");
}

/// Redis before 7.2 took each read for a use: after the second repetition the old session looked
/// later than a change in the new store, and replaced it.
#[test]
fn a_session_that_the_new_store_has_changed_is_not_read_again() {
    let mut case = Case::with(b"old");
    case.import.copy(&entry(Some(0), 7_200)).unwrap();
    case.advance(100);
    case.commit(b"new", 1_440);
    let reads = case.storage.reads.get();
    case.advance(100);
    for _ in 0..3 {
        assert_eq!(case.import.copy(&entry(Some(1), 7_200)).unwrap(), Compared::Newer);
        assert_eq!(case.import.compare(&entry(Some(1), 7_200)).unwrap(), Compared::Newer);
    }
    assert_eq!(case.storage.reads.get(), reads);
}

#[test]
fn of_uses_at_the_same_time_or_unknown_ones_the_later_end_wins() {
    for used in [Some(1), None] {
        let mut case = Case::with(b"old");
        case.import.copy(&entry(used, 1_440)).unwrap();
        case.storage.content.replace(b"changed".to_vec());
        assert_eq!(case.import.copy(&entry(used, 1_442)).unwrap(), Compared::Older, "{used:?}");
        assert_eq!(case.payload().unwrap(), b"changed");
        case.commit(b"new", 1_500);
        assert_eq!(case.import.copy(&entry(used, 1_442)).unwrap(), Compared::Newer, "{used:?}");
        assert_eq!(case.payload().unwrap(), b"new");
    }
}

/// A server that started anew told all sessions as used just then, and a repetition replaced carts.
#[test]
fn a_use_alone_does_not_make_a_session_the_later_one() {
    let mut case = Case::with(b"old");
    case.import.copy(&entry(Some(0), 1_440)).unwrap();
    case.advance(100);
    case.commit(b"new", 1_340);
    case.advance(100);
    assert_eq!(case.import.copy(&entry(Some(200), 1_440)).unwrap(), Compared::Newer);
    assert_eq!(case.payload().unwrap(), b"new");
}

/// PHP saves a session that was only read by moving its expiry. The old end would have come back.
#[test]
fn a_copy_that_was_used_without_a_change_keeps_its_later_end() {
    let mut case = Case::with(b"old");
    let old = entry(Some(1), 1_440);
    case.import.copy(&old).unwrap();
    case.advance(100);
    case.import.to.touch(&key(), Ttl::sliding(Duration::from_secs(1_440)).unwrap()).unwrap();
    assert_eq!(case.import.copy(&old).unwrap(), Compared::Newer);
    assert_eq!(case.import.copy(&entry(Some(3), 1_441)).unwrap(), Compared::Newer);
    assert_eq!(case.head().expires, after(1_540));
    // The other way round.
    assert_eq!(case.import.copy(&entry(Some(110), 1_550)).unwrap(), Compared::Older);
    assert_eq!(case.head().expires, after(1_550));
}

#[test]
fn an_empty_session_is_copied_and_replaces_none() {
    let mut case = Case::with(b"");
    assert_eq!(case.import.copy(&entry(Some(0), 1_440)).unwrap(), Compared::Missing);
    assert_eq!(case.payload().unwrap(), b"");
    case.commit(b"new", 1_440);
    case.advance(100);
    assert_eq!(case.import.copy(&entry(Some(90), 2_000)).unwrap(), Compared::Newer);
    assert_eq!(case.payload().unwrap(), b"new");
}

#[test]
fn what_has_ended_on_either_side_is_not_copied() {
    let mut case = Case::with(b"old");
    assert_eq!(case.import.copy(&entry(Some(0), 0)).unwrap(), Compared::Ended);
    // Logged out between the two reads of a copy.
    case.storage.reads_max.set(Some(1));
    assert_eq!(case.import.copy(&entry(Some(0), 1_440)).unwrap(), Compared::Ended);
    assert_eq!(case.payload(), None);
    let mut case = Case::with(b"old");
    case.import.copy(&entry(Some(0), 1_440)).unwrap();
    case.import.to.destroy(&key()).unwrap();
    assert_eq!(case.import.copy(&entry(Some(100), 2_000)).unwrap(), Compared::EndedInNew);
    assert_eq!(case.payload(), None);
}

#[test]
fn an_owner_is_copied_changed_and_kept_where_the_other_program_notes_none() {
    let mut case = Case::with(b"old");
    let [anna, bert] = [b"17", b"18"].map(|name| Owner::new(name).ok());
    case.storage.owner.set(OwnerChange::Set(anna));
    case.import.copy(&entry(Some(0), 1_440)).unwrap();
    assert_eq!(case.head().owner, anna);
    assert_eq!(case.import.compare(&entry(Some(0), 1_440)).unwrap(), Compared::Same);
    case.storage.owner.set(OwnerChange::Set(bert));
    assert_eq!(case.import.compare(&entry(Some(0), 1_440)).unwrap(), Compared::Newer);
    case.advance(100);
    for (owner, kept) in
        [(OwnerChange::Set(bert), bert), (OwnerChange::Keep, bert), (OwnerChange::Set(None), None)]
    {
        case.advance(10);
        case.storage.owner.set(owner);
        case.storage.content.replace(format!("{owner:?}").into_bytes());
        let now = case.clock.now().since(START).as_secs();
        case.advance(5);
        let old = entry(Some(now), 2_000 + now);
        assert_eq!(case.import.copy(&old).unwrap(), Compared::Older, "{owner:?}");
        assert_eq!(case.head().owner, kept, "{owner:?}");
        assert_eq!(case.import.compare(&old).unwrap(), Compared::Same, "{owner:?}");
        case.advance(10);
    }
}

#[test]
fn a_session_without_an_end_or_with_an_id_that_is_none_is_an_error_without_the_id() {
    let mut case = Case::with(b"old");
    let endless = ScannedEntry { expires: None, ..entry(Some(0), 1) };
    let error = case.import.copy(&endless).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Corrupt);
    for id in [&b"secret/../0123"[..], b"secret.0123", b"secret\xff", b""] {
        let named = ScannedEntry { name: EntryName::Secret(id.to_vec()), ..entry(Some(0), 1_440) };
        let error = case.import.copy(&named).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::InvalidId);
        assert!(!format!("{error:#}").contains("secret"), "{error:#}");
    }
    assert_eq!(case.storage.reads.get(), 0);
}
