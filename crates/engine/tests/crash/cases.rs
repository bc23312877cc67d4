//! The operations that are killed at each step, and what may be left of each.

use std::time::Duration;

use sessile_core::{Clock, Key, Owner, Sessions};

use crate::{STUCK, payload, sweep_all, ttl};

/// One operation and what must hold of the session when its process died on the way.
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    /// The bytes of the session before; `None` when there is none.
    pub before: Option<usize>,
    pub operation: fn(&Sessions, &Key, &Clock),
    /// What it may have afterwards, besides what it had before.
    pub after: Option<usize>,
    /// Every so many writes: large payloads have thousands that are all alike.
    pub stride: u64,
    /// With the child's entry into the table of processes, and the first segment of its size.
    pub fresh: bool,
}

type Bytes = Option<usize>;

const fn case(
    name: &'static str,
    before: Bytes,
    operation: fn(&Sessions, &Key, &Clock),
    after: Bytes,
) -> Case {
    Case { name, before, operation, after, stride: 1, fresh: false }
}

pub const CASES: &[Case] = &[
    case("create", None, create_small, Some(300)),
    Case {
        stride: 29,
        fresh: true,
        ..case("create_by_a_fresh_child", None, create_small, Some(300))
    },
    Case { stride: 997, ..case("create_in_chunks", None, create_large, Some(150_000)) },
    case("begin", Some(200), begin, Some(200)),
    case("begin_of_nothing", None, begin, None),
    case("commit", Some(200), commit_small, Some(300)),
    case("commit_a_first_record", None, commit_small, Some(300)),
    Case {
        stride: 997,
        ..case("commit_chunks_over_chunks", Some(140_000), commit_large, Some(150_000))
    },
    case("commit_small_over_chunks", Some(140_000), commit_small, Some(300)),
    case("touch", Some(200), touch, Some(200)),
    case("release", Some(200), release, Some(200)),
    case("release_of_nothing", None, release, None),
    case("destroy", Some(200), destroy, None),
    case("destroy_chunks", Some(140_000), destroy, None),
    case("regenerate", Some(200), regenerate, Some(200)),
    case("commit_for_an_owner", Some(200), commit_owned, Some(300)),
    case("commit_a_first_record_for_an_owner", None, commit_owned, Some(300)),
    case("commit_for_another_owner", Some(200), commit_owned_twice, Some(300)),
    case("regenerate_for_an_owner", Some(300), regenerate_owned, Some(300)),
    Case { stride: 61, ..case("sweep_of_an_expired_one", Some(200), sweep_later, None) },
];

fn begin(sessions: &Sessions, key: &Key, _: &Clock) {
    std::mem::forget(sessions.begin(key, STUCK).unwrap());
}

fn create_small(sessions: &Sessions, key: &Key, _: &Clock) {
    sessions.create(key, &payload(300), ttl()).unwrap();
}

fn create_large(sessions: &Sessions, key: &Key, _: &Clock) {
    sessions.create(key, &payload(150_000), ttl()).unwrap();
}

fn commit_small(sessions: &Sessions, key: &Key, _: &Clock) {
    sessions.begin(key, STUCK).unwrap().lease.commit(&payload(300), ttl()).unwrap();
}

fn commit_for(sessions: &Sessions, key: &Key, owner: Option<Owner>) {
    let mut begun = sessions.begin(key, STUCK).unwrap();
    begun.lease.set_owner(owner).unwrap();
    begun.lease.commit(&payload(300), ttl()).unwrap();
}

fn commit_owned(sessions: &Sessions, key: &Key, _: &Clock) {
    commit_for(sessions, key, Owner::new(b"17").ok());
}

fn commit_owned_twice(sessions: &Sessions, key: &Key, clock: &Clock) {
    commit_owned(sessions, key, clock);
    commit_for(sessions, key, Owner::new(b"18").ok());
    commit_for(sessions, key, None);
}

fn regenerate_owned(sessions: &Sessions, key: &Key, clock: &Clock) {
    commit_owned(sessions, key, clock);
    regenerate(sessions, key, clock);
}

fn commit_large(sessions: &Sessions, key: &Key, _: &Clock) {
    sessions.begin(key, STUCK).unwrap().lease.commit(&payload(150_000), ttl()).unwrap();
}

fn touch(sessions: &Sessions, key: &Key, _: &Clock) {
    sessions.touch(key, ttl()).unwrap();
}

fn release(sessions: &Sessions, key: &Key, _: &Clock) {
    sessions.begin(key, STUCK).unwrap().lease.release().unwrap();
}

fn destroy(sessions: &Sessions, key: &Key, _: &Clock) {
    sessions.destroy(key).unwrap();
}

fn regenerate(sessions: &Sessions, key: &Key, _: &Clock) {
    let mut begun = sessions.begin(key, STUCK).unwrap();
    let new = Key::session(&format!("{}-new", key.id())).unwrap();
    begun.lease.regenerate(&new, Duration::from_secs(30)).unwrap();
    begun.lease.release().unwrap();
}

fn sweep_later(sessions: &Sessions, _: &Key, clock: &Clock) {
    // On a disk a record stays a sixteenth of its time longer.
    clock.advance(Duration::from_secs(700));
    sweep_all(sessions);
}
