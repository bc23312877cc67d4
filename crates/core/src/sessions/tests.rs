//! Revocation against a store whose sessions appear as fast as they are ended.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::*;
use crate::Head;

/// Each listing shows one session of the owner, under another id each time, as long as some are
/// left to appear.
struct Fleeting {
    /// Listings that miss it, before the others.
    missed: AtomicU64,
    appear: AtomicU64,
    destroyed: AtomicU64,
}

impl Store for Fleeting {
    type Held = ();

    fn capabilities(&self) -> Capabilities {
        Capabilities { listing: true, owners: true, ..Capabilities::MINIMAL }
    }

    fn begin(&self, _: &Key, _: Duration) -> Result<((), u64, Found)> {
        Err(ErrorKind::Io.into())
    }

    /// An id leads to the session that was listed last: it was regenerated just before.
    fn peek(&self, key: &Key) -> Result<Found> {
        let new = format!("s{}", self.appear.load(Relaxed) + 1);
        Ok(Found { moved_to: Some(key.sibling(new.as_bytes())?), ..Found::default() })
    }

    fn create(&self, _: &Key, _: &[u8], _: Ttl) -> Result<()> {
        Err(ErrorKind::Io.into())
    }

    fn commit(&self, (): (), _: &[u8], _: Ttl, _: OwnerChange) -> Result<()> {
        Err(ErrorKind::Io.into())
    }

    fn touch(&self, _: &Key, _: Ttl) -> Result<()> {
        Err(ErrorKind::Gone.into())
    }

    fn touch_held(&self, (): &mut (), _: Ttl) -> Result<()> {
        Err(ErrorKind::Gone.into())
    }

    fn release(&self, (): ()) -> Result<()> {
        Ok(())
    }

    fn destroy(&self, _: &Key) -> Result<()> {
        Err(ErrorKind::Io.into())
    }

    /// Every second one is gone by then.
    fn destroy_owned(&self, _: &Key, _: Owner) -> Result<bool> {
        Ok(self.destroyed.fetch_add(1, Relaxed).is_multiple_of(2))
    }

    fn regenerate(&self, (): &mut (), _: &Key, _: Duration) -> Result<()> {
        Err(ErrorKind::Io.into())
    }

    fn list(&self, _: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let left = self.appear.load(Relaxed);
        let misses = |left: u64| left.checked_sub(1);
        if left == 0 || self.missed.fetch_update(Relaxed, Relaxed, misses).is_ok() {
            return Ok(Page::default());
        }
        self.appear.store(left - 1, Relaxed);
        let ttl = Ttl::sliding(Duration::from_secs(60))?;
        let head = Head::next(None, ttl, crate::Timestamp::from_ms(1));
        let head = head.with_owner(OwnerChange::Set(filter.owner));
        let entry = Listed { key: Key::session(&format!("s{left}"))?, payload_bytes: 0, head };
        Ok(Page { entries: vec![entry], ..Page::default() })
    }
}

fn fleeting(missed: u64, appear: u64) -> Fleeting {
    let [missed, appear, destroyed] = [missed, appear, 0].map(AtomicU64::new);
    Fleeting { missed, appear, destroyed }
}

fn revoked(appear: u64) -> Result<u64> {
    let store = fleeting(0, appear);
    let sessions = Sessions::new("fleeting:", store, Limits::default());
    sessions.revoke(Owner::new(b"17").unwrap(), None)
}

/// The story: a request of the visitor who logs out everywhere else gave the session a new id after
/// the revocation had begun, and was ended, although it was the one to spare.
#[test]
fn a_session_that_gets_a_new_id_meanwhile_is_spared() {
    let but = Key::session("old").unwrap();
    let store = fleeting(0, 5);
    let sessions = Sessions::new("fleeting:", store, Limits::default());
    assert_eq!(sessions.revoke(Owner::new(b"17").unwrap(), Some(&but)).unwrap(), 0);
}

#[test]
fn a_revocation_goes_on_until_a_pass_finds_no_session() {
    assert_eq!(revoked(0).unwrap(), 0);
    assert_eq!(revoked(1).unwrap(), 1);
    assert_eq!(revoked(15).unwrap(), 8, "only what was there is counted");
}

/// It once gave up after 16 passes and returned a number, as if no session were left.
#[test]
fn a_revocation_that_does_not_come_to_an_end_is_an_error() {
    for appear in [16, 1_000] {
        let error = revoked(appear).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("as fast as they are ended"), "{error}");
    }
}

/// The story: a session that was regenerated during the listing was missed, and it was the only one
/// of its owner. So the first pass was the last.
#[test]
fn a_session_that_the_first_pass_misses_is_ended_though_it_is_the_only_one() {
    let sessions = Sessions::new("fleeting:", fleeting(1, 1), Limits::default());
    assert_eq!(sessions.revoke(Owner::new(b"17").unwrap(), None).unwrap(), 1);
}
