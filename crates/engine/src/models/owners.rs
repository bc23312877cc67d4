//! Owners: a listing of an owner misses no session that has the owner while the listing lasts.

use std::path::Path;

use sessile_core::{Filter, Owner, OwnerChange, Store};

use super::publish::{PAYLOAD_BYTES, key, lease, processes, ttl};
use super::{Bodies, NOW, Sleep, holds, notices};
use crate::Engine;
use crate::memory::{Mutation, machine};
use crate::operations::HeldEntry;

fn owner(name: &[u8]) -> Owner {
    Owner::new(name).unwrap()
}

fn commit_owned(engine: &Engine, held: &HeldEntry, name: &[u8]) -> bool {
    let (saved, set) = ((&[2; PAYLOAD_BYTES][..], ttl()), OwnerChange::Set(Some(owner(name))));
    engine.me().unwrap().commit(&engine.plane, held, saved, set, NOW).is_ok()
}

/// What the record of session 0 says: its version and its owner.
fn head(engine: &Engine) -> Option<(u64, Owner)> {
    let head = engine.peek(&key(0)).unwrap().record?.head;
    Some((head.version, head.owner?))
}

fn is_listed(engine: &Engine, owner: Owner) -> bool {
    let filter = Filter { owner: Some(owner), ..Filter::default() };
    let entries = engine.list(None, &filter).unwrap().entries;
    assert!(entries.iter().all(|entry| entry.head.owner == Some(owner)), "no foreign session");
    !entries.is_empty()
}

fn check(engine: &Engine) {
    if let Some(before) = head(engine) {
        let listed = is_listed(engine, before.1);
        let missed = !listed && head(engine) == Some(before);
        assert!(!missed, "a listing of an owner misses no session");
    }
}

/// A holder gives the session an owner while another one logs it out and begins it anew for
/// somebody else, and a third one lists.
fn owning(path: &Path) {
    let [holder, other, lister, last] = processes(path);
    let (held, _) = lease(&holder, 0);
    let owns = move || {
        commit_owned(&holder, &held, b"17");
    };
    let begins_anew = move || {
        other.me().unwrap().destroy(&other.plane, &key(0)).unwrap();
        let (held, _) = lease(&other, 0);
        commit_owned(&other, &held, b"18");
    };
    let lists = move || {
        check(&lister);
        check(&lister);
    };
    let bodies: Bodies<3> = [Box::new(owns), Box::new(begins_anew), Box::new(lists)];
    machine::together(bodies);
    check(&last);
}

#[test]
fn a_listing_of_an_owner_misses_no_session() {
    holds(150, Sleep::ToTheEnd, owning);
}

#[test]
fn an_owner_that_changes_without_a_doubt_is_noticed() {
    notices(Mutation::DoubtsNoOwner, &["misses no session"], Sleep::ToTheEnd, owning);
}

#[test]
fn an_owner_settled_by_a_late_holder_is_noticed() {
    notices(Mutation::SettlesOwnerBlindly, &["misses no session"], Sleep::ToTheEnd, owning);
}
