//! Owners: a listing of an owner misses no session that has the owner while the listing lasts.

use std::path::Path;
use std::time::Duration;

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
    commit_owned_as(engine, held, owner(name))
}

fn commit_owned_as(engine: &Engine, held: &HeldEntry, owner: Owner) -> bool {
    let (saved, set) = ((&[2; PAYLOAD_BYTES][..], ttl()), OwnerChange::Set(Some(owner)));
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

/// What `Sessions::revoke` does.
fn revoke(engine: &Engine, owner: Owner) {
    let filter = Filter { owner: Some(owner), ..Filter::default() };
    for _ in 0..16 {
        let entries = engine.list(None, &filter).unwrap().entries;
        if entries.is_empty() {
            return;
        }
        for entry in entries {
            engine.destroy_owned(&entry.key.as_listed(), owner).unwrap();
        }
    }
    panic!("a revocation comes to an end");
}

/// A session gets a new id while all sessions of its owner are ended, and another one gets another
/// owner.
fn revoking(path: &Path) {
    let [holder, other, revoker, last] = processes(path);
    let [owner, somebody] = [owner(b"17"), owner(b"18")];
    for number in [0, 1] {
        let (held, _) = lease(&holder, number);
        commit_owned_as(&holder, &held, owner);
    }
    let (mut held, _) = lease(&holder, 0);
    let regenerates = move || {
        if holder.regenerate(&mut held, &key(9), Duration::ZERO).is_ok() {
            commit_owned_as(&holder, &held, owner);
        }
    };
    let changes = move || {
        let (held, found) = lease(&other, 1);
        if found.is_some() {
            commit_owned_as(&other, &held, somebody);
        } else {
            other.release(held).unwrap();
        }
    };
    let revokes = move || revoke(&revoker, owner);
    let bodies: Bodies<3> = [Box::new(regenerates), Box::new(changes), Box::new(revokes)];
    machine::together(bodies);
    for number in [0, 9] {
        let left = last.peek(&key(number)).unwrap().record;
        assert!(left.is_none(), "a revocation misses no session");
    }
    if let Some(record) = last.peek(&key(1)).unwrap().record {
        assert_eq!(record.head.owner, Some(somebody), "a revocation misses no session");
    }
}

#[test]
fn a_revocation_misses_no_session_that_gets_a_new_id() {
    holds(150, Sleep::ToTheEnd, revoking);
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
