//! What an operator sees of a store from another process: the locks that are held, and what all
//! processes have counted.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use sessile_core::{Clock, Durability, Key, SharedCounts, Ttl};
use sessile_fixtures::{Instance, ServerOptions, StartError};
use sessile_stores::{Context, registry};

fn start(store: &str) -> Option<Instance> {
    let entry = registry::by_name(store).unwrap();
    let options = ServerOptions { durability: Durability::None, ..ServerOptions::default() };
    match Instance::start(entry, &entry.fixtures[0], &options) {
        Ok(instance) => Some(instance),
        Err(StartError::Missing { server, package }) => {
            println!("skipped: {server} is not installed (package {package})");
            assert!(std::env::var_os("CI").is_none(), "CI has all that the tests need");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn hour() -> Ttl {
    Ttl::sliding(Duration::from_secs(3_600)).unwrap()
}

const WITH_LOCKS: [&str; 6] = ["sessile", "files", "sqlite", "redis", "mysql", "postgres"];

#[test]
fn a_held_lock_is_listed_with_its_holder_and_a_free_one_is_not() {
    for name in WITH_LOCKS {
        let Some(instance) = start(name) else { continue };
        let store = instance.open(Clock::system()).unwrap();
        let watcher = instance.open(Clock::system()).unwrap();
        let (held, free) = (Key::session("held1").unwrap(), Key::session("free1").unwrap());
        for key in [&held, &free] {
            store.create(key, b"cart", hour()).unwrap();
        }
        assert_eq!(watcher.locks(10).unwrap(), [], "{name}");
        let begun = store.begin(&held, Duration::ZERO).unwrap();
        let locks = watcher.locks(10).unwrap();
        assert_eq!(locks.len(), 1, "{name}: {locks:?}");
        assert_eq!(locks[0].key, Some(watcher.listed_key(&held)), "{name}");
        assert_eq!(locks[0].holder.pid, Some(std::process::id()), "{name}");
        if let Some(since) = locks[0].holder.since {
            assert!(Clock::system().now().since(since) < Duration::from_secs(30), "{name}");
        }
        begun.lease.release().unwrap();
        assert_eq!(watcher.locks(10).unwrap(), [], "{name}");
    }
}

#[test]
fn waiters_are_seen_where_the_store_can_tell() {
    for name in ["sessile", "redis", "postgres"] {
        let Some(instance) = start(name) else { continue };
        let store = instance.open(Clock::system()).unwrap();
        let key = Key::session("held1").unwrap();
        store.create(&key, b"cart", hour()).unwrap();
        let begun = store.begin(&key, Duration::ZERO).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| store.begin(&key, Duration::from_secs(20)).map(drop));
            let start = std::time::Instant::now();
            while store.locks(10).unwrap()[0].has_waiters != Some(true) {
                assert!(start.elapsed().as_secs() < 15, "{name}: the waiter is not seen");
                std::thread::sleep(Duration::from_millis(5));
            }
            begun.lease.release().unwrap();
            waiter.join().unwrap().unwrap();
        });
    }
}

#[test]
fn a_store_that_cannot_list_its_locks_says_so() {
    let Some(instance) = start("memcached") else { return };
    let store = instance.open(Clock::system()).unwrap();
    assert_eq!(store.locks(10).unwrap_err().kind().code(), "unsupported");
}

/// One more of each: two begins of which one finds a session, a commit, a refused save, a wait.
#[test]
fn events_of_one_opener_are_seen_by_another_and_stay() {
    for name in ["sessile", "files", "sqlite", "redis", "mysql", "postgres", "memcached"] {
        let Some(instance) = start(name) else { continue };
        let url = instance.url_with("payload_bytes_max", "100");
        let open = || sessile_stores::open(&url, &Context::default()).unwrap();
        let (worker, watcher) = (open(), open());
        assert_eq!(watcher.shared_counts(), Some(SharedCounts::default()), "{name}");
        let key = Key::session("counted1").unwrap();
        worker.begin(&key, Duration::ZERO).unwrap().lease.commit(b"cart", hour()).unwrap();
        let begun = worker.begin(&key, Duration::ZERO).unwrap();
        assert!(begun.lease.commit(&[b'x'; 101], hour()).is_err());
        let held = worker.begin(&key, Duration::ZERO).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| worker.begin(&key, Duration::from_secs(20)).map(drop));
            std::thread::sleep(Duration::from_millis(1_000));
            held.lease.release().unwrap();
            waiter.join().unwrap().unwrap();
        });
        drop(worker); // what was counted outlives the one who counted
        let counts = watcher.shared_counts().unwrap();
        let counted = (counts.requests, counts.hits, counts.commits, counts.failed_saves);
        assert_eq!(counted, (4, 3, 1, 1), "{name}");
        // A slow server looks like a lock; the engine counts only locks.
        let of_others = if name == "sessile" { 0 } else { 3 };
        assert!((1..=1 + of_others).contains(&counts.lock_waits), "{name}: {counts:?}");
        assert!(counts.lock_wait_us_max >= 20_000, "{name}: {counts:?}");
        assert!(counts.lock_wait_us >= counts.lock_wait_us_max, "{name}: {counts:?}");
    }
}

/// A save that `seal=` refused was counted nowhere.
#[test]
fn a_save_that_encryption_refuses_is_counted_once_beneath() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keys");
    std::fs::write(&keys, "07".repeat(32)).unwrap();
    std::fs::set_permissions(&keys, PermissionsExt::from_mode(0o640)).unwrap();
    for name in ["sessile", "files"] {
        let Some(instance) = start(name) else { continue };
        let url = instance.url_with("payload_bytes_max", "100");
        let sealed = sessile_stores::with_option(&url, "seal", keys.to_str().unwrap());
        let store = sessile_stores::open(&sealed, &Context::default()).unwrap();
        let key = Key::session("counted1").unwrap();
        let failed = || store.shared_counts().unwrap().failed_saves;
        let begun = store.begin(&key, Duration::ZERO).unwrap();
        assert!(begun.lease.commit(&[b'x'; 101], hour()).is_err());
        assert_eq!(failed(), 1, "{name}: refused before the store");
        let begun = store.begin(&key, Duration::ZERO).unwrap();
        store.destroy(&key).unwrap();
        assert!(begun.lease.commit(b"cart", hour()).is_err());
        assert_eq!(failed(), 2, "{name}: refused by the store");
    }
}

/// A session that moves while another request waits for it was two waits, one of each try.
#[test]
fn a_begin_that_waits_at_two_ids_is_one_wait() {
    let Some(instance) = start("sessile") else { return };
    let store = instance.open(Clock::system()).unwrap();
    let (old, new) = (Key::session("before1").unwrap(), Key::session("after1").unwrap());
    store.create(&old, b"cart", hour()).unwrap();
    let mut begun = store.begin(&old, Duration::ZERO).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| store.begin(&old, Duration::from_secs(20)).map(drop));
        let waits = || {
            let start = std::time::Instant::now();
            while store.locks(10).unwrap().iter().all(|lock| lock.has_waiters != Some(true)) {
                assert!(start.elapsed().as_secs() < 15, "the waiter is not seen");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        waits();
        begun.lease.regenerate(&new, Duration::from_secs(60)).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        begun.lease.release().unwrap();
        waiter.join().unwrap().unwrap();
    });
    let counts = store.shared_counts().unwrap();
    assert_eq!((counts.requests, counts.lock_waits), (2, 1), "{counts:?}");
}

/// Two stores with different prefixes, and one store of two logins, were counted as one.
#[test]
fn stores_that_differ_by_an_option_have_counters_of_their_own() {
    let Some(instance) = start("redis") else { return };
    let open = |prefix| {
        let url = instance.url_with("prefix", prefix);
        sessile_stores::open(&url, &Context::default()).unwrap()
    };
    let (shop, blog) = (open("shop"), open("blog"));
    let key = Key::session("counted1").unwrap();
    shop.begin(&key, Duration::ZERO).unwrap().lease.commit(b"cart", hour()).unwrap();
    assert_eq!(shop.shared_counts().unwrap().requests, 1);
    assert_eq!(blog.shared_counts(), Some(SharedCounts::default()));
}

/// `top migrate:...` made files of counters for both inner stores, which showed zeros from then on.
#[test]
fn a_store_made_of_others_counts_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let inner = |name: &str| format!("files:{}/{name}", dir.path().display());
    let url = format!("migrate:?from={}&to={}", inner("old"), inner("new"));
    let read = |url: &str| {
        let store = registry::open_to_look(url, &Context::default()).unwrap();
        store.shared_counts().map(|counts| (counts.requests, counts.commits))
    };
    let worker = sessile_stores::open(&url, &Context::default()).unwrap();
    let key = Key::session("counted1").unwrap();
    worker.begin(&key, Duration::ZERO).unwrap().lease.commit(b"cart", hour()).unwrap();
    assert_eq!(read(&url), Some((1, 1)));
    assert_eq!((read(&inner("old")), read(&inner("new"))), (None, None));
}

/// A process that only reads made the file, and showed zeros for a store whose workers count
/// nothing.
#[test]
fn a_reader_makes_no_counters_and_finds_those_that_come_later() {
    let Some(instance) = start("files") else { return };
    let url = instance.url_with("payload_bytes_max", "101");
    let watcher = registry::open_to_look(&url, &Context::default()).unwrap();
    assert_eq!(watcher.shared_counts(), None);
    let worker = sessile_stores::open(&url, &Context::default()).unwrap();
    worker.begin(&Key::session("a1").unwrap(), Duration::ZERO).unwrap().lease.release().unwrap();
    assert_eq!(watcher.shared_counts().unwrap().requests, 1);
    watcher.begin(&Key::session("a1").unwrap(), Duration::ZERO).unwrap();
    assert_eq!(watcher.shared_counts().unwrap().requests, 1, "a look is not counted");
}
