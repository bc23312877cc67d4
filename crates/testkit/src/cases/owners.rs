//! Owners: the sessions of one user are listed and ended, all of them and no other.

use std::collections::BTreeSet;

use sessile_core::{Begun, Listed, Owner, Record};

use super::*;

/// Of one case alone: other cases use the same store.
fn new_owner() -> CaseResult<Owner> {
    Ok(Owner::new(new_key().id().as_bytes())?)
}

fn commit_for(begun: Begun, owner: Option<Owner>) -> CaseResult {
    let mut lease = begun.lease;
    lease.set_owner(owner)?;
    Ok(lease.commit(&payload("owned"), minute())?)
}

fn own(store: &TestStore, key: &Key, owner: Option<Owner>) -> CaseResult {
    commit_for(store.lock(key)?, owner)
}

fn locked_record(store: &TestStore, key: &Key) -> CaseResult<Record> {
    store.lock(key)?.record.ok_or_else(|| Failure("there is no record under the lock".into()))
}

fn owned(store: &TestStore, owner: Owner) -> CaseResult<Key> {
    let key = new_key();
    own(store, &key, Some(owner)).map(|()| key)
}

fn several_owned(store: &TestStore, count: usize, owner: Owner) -> CaseResult<Vec<Key>> {
    (0..count).map(|_| owned(store, owner)).collect()
}

fn keys_of(listed: Vec<Listed>) -> BTreeSet<Key> {
    listed.into_iter().map(|entry| entry.key).collect()
}

/// Exactly these sessions are listed.
fn expect_listed(what: &str, store: &TestStore, owner: Owner, keys: &[Key]) -> CaseResult {
    let listed = keys_of(store.sessions_of(owner)?);
    let wanted: BTreeSet<Key> = keys.iter().map(|key| store.listed_key(key)).collect();
    let (missing, foreign) =
        (wanted.difference(&listed).count(), listed.difference(&wanted).count());
    ensure(missing == 0 && foreign == 0, || {
        format!("{what}: of {} sessions {missing} are missing, {foreign} are foreign", keys.len())
    })
}

fn expect_owner(what: &str, store: &TestStore, key: &Key, owner: Option<Owner>) -> CaseResult {
    equal(what, store.record(key)?.head.owner == owner, true)
}

/// What is listed is what the records say, for each of some owners.
fn expect_agreement(store: &TestStore, keys: &[Key], owners: &[Owner]) -> CaseResult {
    for owner in owners {
        let mut of_owner = Vec::new();
        for key in keys {
            if store.peek(key)?.is_some_and(|record| record.head.owner == Some(*owner)) {
                of_owner.push(key.clone());
            }
        }
        expect_listed("the sessions of one owner", store, *owner, &of_owner)?;
    }
    Ok(())
}

pub(crate) const CASES: &[Case] = &[
    Case::new(
        "a session keeps the owner that a commit has set until another one is",
        |_, store| {
            let [first, second] = [new_owner()?, new_owner()?];
            let key = owned(store, first)?;
            expect_owner("after the first commit", store, &key, Some(first))?;
            expect_listed("after the first commit", store, first, std::slice::from_ref(&key))?;
            let listed = store.sessions_of(first)?.pop().map(|entry| entry.head);
            equal("the head in the listing", listed, Some(store.record(&key)?.head))?;
            store.save(&key, "changed")?;
            store.touch(&key, minute())?;
            let mut begun = store.lock(&key)?;
            begun.lease.touch(minute())?;
            begun.lease.release()?;
            expect_owner("after a commit and touches", store, &key, Some(first))?;
            expect_listed("after a commit and touches", store, first, std::slice::from_ref(&key))?;
            own(store, &key, Some(second))?;
            expect_listed("the former owner's", store, first, &[])?;
            expect_listed("the new owner's", store, second, std::slice::from_ref(&key))?;
            own(store, &key, None)?;
            expect_owner("after it was taken away", store, &key, None)?;
            expect_listed("after it was taken away", store, second, &[])
        },
    )
    .needs(&[OWNERS]),
    Case::new("a session has no owner until a commit sets one", |_, store| {
        let owner = new_owner()?;
        let created = store.stored("created")?;
        let committed = new_key();
        store.save(&committed, "committed")?;
        let mut begun = store.lock(&created)?;
        begun.lease.set_owner(Some(owner))?;
        begun.lease.release()?;
        for key in [created, committed] {
            expect_owner("without a commit that sets it", store, &key, None)?;
        }
        expect_listed("without a commit that sets it", store, owner, &[])
    })
    .needs(&[OWNERS]),
    Case::new("a regenerated session keeps its owner and is listed once", |_, store| {
        let owner = new_owner()?;
        for grace in [Duration::ZERO, secs(30)] {
            let (old, new) = (owned(store, owner)?, new_key());
            let mut begun = store.lock(&old)?;
            begun.lease.regenerate(&new, grace)?;
            let one = std::slice::from_ref(&new);
            expect_listed("before the commit", store, owner, one)?;
            begun.commit_text("new id")?;
            expect_owner("under the new id", store, &new, Some(owner))?;
            expect_listed("after the commit", store, owner, one)?;
            equal("revoked", store.revoke(owner, None)?, 1)?;
            store.expect_none("the new id", &new)?;
            store.expect_none("the old id", &old)?;
        }
        Ok(())
    })
    .needs(&[OWNERS]),
    Case::new("a log-in under a new id sets the owner with its commit", |_, store| {
        let (owner, old, new) = (new_owner()?, store.stored("anonymous")?, new_key());
        let mut begun = store.lock(&old)?;
        begun.lease.set_owner(Some(owner))?;
        begun.lease.regenerate(&new, Duration::ZERO)?;
        begun.commit_text("logged in")?;
        expect_listed("after the log-in", store, owner, &[new])
    })
    .needs(&[OWNERS]),
    Case::new(
        "a log-out takes a session from its owner's list and forgets the owner",
        |_, store| {
            let owner = new_owner()?;
            let keys = several_owned(store, 3, owner)?;
            let [gone, rest @ ..] = keys.as_slice() else { return Ok(()) };
            store.destroy(gone)?;
            expect_listed("after the log-out", store, owner, rest)?;
            store.save(gone, "somebody else")?;
            expect_owner("a new session of this id", store, gone, None)?;
            expect_listed("after the id was used again", store, owner, rest)
        },
    )
    .needs(&[OWNERS]),
    Case::timed(
        "an expired session is not listed, and one that goes on keeps its owner",
        |_, store| {
            let owner = new_owner()?;
            let expired = owned(store, owner)?;
            let held = owned(store, owner)?;
            let begun = store.lock(&held)?;
            store.clock.advance(MINUTE);
            expect_listed("after the expiry", store, owner, &[])?;
            begun.commit_text("later")?;
            expect_listed("after the late commit", store, owner, std::slice::from_ref(&held))?;
            store.save(&expired, "anew")?;
            expect_owner("a new session of an expired id", store, &expired, None)
        },
    )
    .needs(&[OWNERS]),
    Case::new("a listing of an owner has pages", |_, store| {
        let owner = new_owner()?;
        let keys = several_owned(store, 23, owner)?;
        let filter = Filter { owner: Some(owner), entries_max: 5, ..Filter::default() };
        let (mut listed, mut cursor) = (Vec::new(), None);
        for _ in 0..100_000 {
            let page = store.list(cursor.as_ref(), &filter)?;
            ensure(page.entries.len() <= 5, || format!("a page of {}", page.entries.len()))?;
            listed.extend(page.entries);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        equal("the end of the listing", cursor.is_none(), true)?;
        let wanted = keys.iter().map(|key| store.listed_key(key)).collect();
        equal("the keys of all pages", keys_of(listed) == wanted, true)
    })
    .needs(&[OWNERS]),
    Case::new("a large session keeps its payload and its owner", |_, store| {
        // A store may read large payloads in another way than small ones.
        let largest = usize::try_from(store.limits().payload_bytes_max).unwrap_or(usize::MAX);
        let (owner, key) = (new_owner()?, new_key());
        for bytes in [0, 1_000, 4_000, 5_000, 16_000, 17_000, 64 << 10, 1 << 20] {
            let payload = vec![b'x'; bytes.min(largest)];
            let mut begun = store.lock(&key)?;
            begun.lease.set_owner(Some(owner))?;
            begun.lease.commit(&payload, minute())?;
            for record in [store.record(&key)?, locked_record(store, &key)?] {
                equal(&format!("{bytes} bytes with an owner"), record.payload == payload, true)?;
                equal("the owner", record.head.owner == Some(owner), true)?;
            }
            let mut begun = store.lock(&key)?;
            begun.lease.set_owner(None)?;
            begun.lease.commit(&payload, minute())?;
            let record = locked_record(store, &key)?;
            equal(&format!("{bytes} bytes without an owner"), record.payload == payload, true)?;
        }
        Ok(())
    })
    .needs(&[OWNERS]),
    Case::new(
        "a listing of an owner misses no session that gets a new id meanwhile",
        |_, store| {
            let owner = new_owner()?;
            let mut keys = several_owned(store, 24, owner)?;
            let filter = Filter { owner: Some(owner), entries_max: 3, ..Filter::default() };
            let (mut listed, mut cursor, mut pages) = (BTreeSet::new(), None, 0);
            loop {
                let page = store.list(cursor.as_ref(), &filter)?;
                listed.extend(keys_of(page.entries));
                cursor = page.next;
                pages += 1;
                // Each that was not listed so far moves, before the place of the listing or behind.
                if pages == 1 || pages == 3 {
                    for key in &mut keys {
                        if !listed.contains(&store.listed_key(key)) {
                            let mut begun = store.lock(key)?;
                            let new = new_key();
                            begun.lease.regenerate(&new, Duration::ZERO)?;
                            begun.lease.release()?;
                            *key = new;
                        }
                    }
                }
                if cursor.is_none() || pages == 100_000 {
                    break;
                }
            }
            let missed = keys.iter().filter(|key| !listed.contains(&store.listed_key(key))).count();
            equal("sessions that the listing missed", missed, 0)
        },
    )
    .needs(&[OWNERS]),
    Case::new("what belongs to somebody else by then is not ended", |_, store| {
        let [first, second] = [new_owner()?, new_owner()?];
        let key = owned(store, first)?;
        // What `revoke` does with a key that it has listed.
        let end = |key: &Key, owner| store.destroy_owned(&store.listed_key(key).as_listed(), owner);
        own(store, &key, Some(second))?;
        equal("ended for the former owner", end(&key, first)?, false)?;
        expect_owner("after that", store, &key, Some(second))?;
        equal("revoked", store.revoke(first, None)?, 0)?;
        let (new, nobodys) = (new_key(), store.stored("nobody's")?);
        let mut begun = store.lock(&key)?;
        begun.lease.regenerate(&new, secs(30))?;
        begun.commit_text("a new id")?;
        equal("ended under the old id", end(&key, second)?, false)?;
        equal("ended without an owner", end(&nobodys, second)?, false)?;
        equal("ended where nothing is", end(&new_key(), second)?, false)?;
        // Nobody who has the lock keeps it from being ended.
        let begun = store.lock(&new)?;
        equal("ended for its owner", end(&new, second)?, true)?;
        refused("a late commit", begun.commit_text("late"), "destroyed")?;
        equal("ended again", end(&new, second)?, false)?;
        store.expect_none("the ended one", &new)?;
        store.expect_some("nobody's session", &nobodys)
    })
    .needs(&[OWNERS]),
    Case::new("revoke spares a session that it is told by an id in its grace", |_, store| {
        let (owner, new) = (new_owner()?, new_key());
        let keys = several_owned(store, 2, owner)?;
        let [this, other] = keys.as_slice() else { return Ok(()) };
        let mut begun = store.lock(this)?;
        begun.lease.regenerate(&new, secs(30))?;
        begun.commit_text("a new id")?;
        equal("revoked", store.revoke(owner, Some(this))?, 1)?;
        store.expect_some("the session of the late id", &new)?;
        store.expect_none("another session", other)
    })
    .needs(&[OWNERS]),
    Case::new(
        "a session that gets the owner it has changes nothing but its payload",
        |_, store| {
            let owner = new_owner()?;
            let key = owned(store, owner)?;
            let before = store.record(&key)?.head;
            own(store, &key, Some(owner))?;
            let after = store.record(&key)?.head;
            equal("the version", after.version, before.version + 1)?;
            equal("the owner", after.owner == before.owner, true)?;
            expect_listed("after that", store, owner, std::slice::from_ref(&key))
        },
    )
    .needs(&[OWNERS]),
    Case::new("revoke ends all sessions of an owner and no other", |_, store| {
        let [owner, other] = [new_owner()?, new_owner()?];
        let (mine, theirs) = (several_owned(store, 25, owner)?, several_owned(store, 3, other)?);
        let nobodys = store.stored("nobody's")?;
        let held = mine.first().ok_or_else(|| Failure("no session".into()))?;
        let begun = store.lock(held)?;
        equal("revoked", store.revoke(owner, None)?, 25)?;
        for key in &mine {
            store.expect_none("a revoked session", key)?;
        }
        refused("a late commit", begun.commit_text("late"), "destroyed")?;
        expect_listed("the others'", store, other, &theirs)?;
        store.expect_some("nobody's session", &nobodys)?;
        equal("revoked again", store.revoke(owner, None)?, 0)
    })
    .needs(&[OWNERS]),
    Case::new("revoke spares the one session that it is told", |_, store| {
        let owner = new_owner()?;
        let keys = several_owned(store, 4, owner)?;
        let [this, others @ ..] = keys.as_slice() else { return Ok(()) };
        let begun = store.lock(this)?;
        equal("revoked", store.revoke(owner, Some(this))?, 3)?;
        begun.commit_text("goes on")?;
        expect_listed("what is left", store, owner, std::slice::from_ref(this))?;
        others.iter().try_for_each(|key| store.expect_none("another session", key))
    })
    .needs(&[OWNERS]),
    Case::new("a revocation misses no session while others log in and change ids", |_, store| {
        let [owner, other] = [new_owner()?, new_owner()?];
        let (before, theirs) = (several_owned(store, 40, owner)?, several_owned(store, 5, other)?);
        let busy = |thread: usize| -> CaseResult {
            for key in before.iter().skip(thread).step_by(4) {
                // The revocation may be faster.
                if let Ok(mut begun) = store.lock(key)
                    && begun.record.is_some()
                    && begun.lease.regenerate(&new_key(), Duration::ZERO).is_ok()
                {
                    let _ = begun.commit_text("another id");
                }
                owned(store, other)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| -> CaseResult {
            let threads: Vec<_> = (0..3).map(|thread| scope.spawn(move || busy(thread))).collect();
            store.revoke(owner, None)?;
            threads.into_iter().try_for_each(|thread| join(thread)?)
        })?;
        expect_listed("the sessions from before", store, owner, &[])?;
        let others = store.sessions_of(other)?.len();
        ensure(others >= theirs.len() + 30, || format!("{others} sessions of the other are left"))
    })
    .needs(&[OWNERS]),
    Case::new(
        "writers killed at random moments leave each session in its owner's list",
        |bed, store| {
            let owners = [new_owner()?, new_owner()?];
            let names = owners.map(Owner::to_hex).join(" ");
            let mut keys = Vec::new();
            for _ in 0..40 * storm_factor() {
                let key = new_key();
                let mut worker = bed.worker()?;
                worker.send(&command(&format!("own {names}"), &key))?;
                worker.next_line();
                std::thread::sleep(Duration::from_micros(fastrand::u64(0..4_000)));
                worker.kill()?;
                keys.push(key);
            }
            expect_agreement(store, &keys, &owners)?;
            equal("damage", store.verify(&mut |_| {}).map_or(0, |found| found.problems.len()), 0)?;
            owners.iter().try_for_each(|owner| store.revoke(*owner, None).map(drop))?;
            owners.iter().try_for_each(|owner| expect_listed("after all", store, *owner, &[]))
        },
    )
    .needs(&[OWNERS, PROCESSES])
    .within(300),
    Case::new("without owners, setting one and listing by one are Unsupported", |_, store| {
        let owner = new_owner()?;
        let (key, mut begun) = store.leased("text")?;
        refused("set", begun.lease.set_owner(Some(owner)), "unsupported")?;
        store.expect_commit(begun, &key, "the lease is still good")?;
        refused("list", store.sessions_of(owner), "unsupported")?;
        refused("revoke", store.revoke(owner, None), "unsupported").map(drop)
    })
    .needs(&[NO_OWNERS]),
];
