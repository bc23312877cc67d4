//! The first record of a session, which goes into the empty file that its lease made: whole for
//! whoever looks and whatever dies, or not there at all.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sessile_core::{Budget, ErrorKind};

use super::{IN_PLACE_MAX, WAIT, child, file_of, files_below, key, open_at, ttl, until};

/// What a worker killed between the two writes of a first commit leaves: nothing but zeros where
/// the header belongs.
fn write_unfinished(path: &Path) {
    let file = fs::File::create(path).unwrap();
    file.write_all_at(&[7; 9_000], 4_096).unwrap();
}

#[test]
fn a_first_commit_fills_the_file_of_its_lease() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    for (number, length) in [0, 1, IN_PLACE_MAX, IN_PLACE_MAX + 1, 20_000].into_iter().enumerate() {
        let (id, payload) = (format!("s{number}"), vec![9; length]);
        let begun = sessions.begin(&key(&id), WAIT).unwrap();
        let inode = fs::metadata(file_of(&root, &id)).unwrap().ino();
        begun.lease.commit(&payload, ttl()).unwrap();
        let file = fs::metadata(file_of(&root, &id)).unwrap();
        assert_eq!(
            (file.ino(), file.len()),
            (inode, u64::try_from(length + 72).unwrap().max(4_096))
        );
        assert!(
            file.modified().unwrap() > std::time::SystemTime::now(),
            "the time repeats the expiry"
        );
        let record = sessions.peek(&key(&id)).unwrap().unwrap();
        assert_eq!((record.payload, record.head.version), (payload, 1));
        // The lock is free, and what comes next finds the record.
        let begun = sessions.begin(&key(&id), Duration::ZERO).unwrap();
        assert_eq!(begun.record.unwrap().payload.len(), length);
        begun.lease.commit(b"second", ttl()).unwrap();
        assert_eq!(sessions.peek(&key(&id)).unwrap().unwrap().head.version, 2);
    }
    assert!(sessions.verify(&mut |_| ()).unwrap().problems.is_empty());
}

#[test]
fn a_writer_killed_in_first_commits_leaves_whole_sessions_and_missing_ones() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    let (mut whole, mut missing, mut unfinished) = (0, 0, 0);
    for round in 0..20 {
        let before = files_below(&root).len();
        let mut writer = child("first", &root);
        until("the child writes", || files_below(&root).len() > before + 3);
        std::thread::sleep(Duration::from_micros(round * 37));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let ids = files_below(&root)
            .into_iter()
            .filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
        for id in ids.filter(|id| id.starts_with(&format!("first-{}-", writer.id()))) {
            if let Some(record) = sessions.peek(&key(&id)).unwrap() {
                assert!(
                    record.payload.len() == 200_000 && record.payload.iter().all(|byte| *byte == 7)
                );
                whole += 1;
            } else {
                unfinished += u32::from(fs::metadata(file_of(&root, &id)).unwrap().len() > 0);
                let begun = sessions.begin(&key(&id), Duration::from_secs(1)).unwrap();
                assert!(begun.record.is_none());
                begun.lease.commit(b"goes on", ttl()).unwrap();
                missing += 1;
            }
        }
    }
    eprintln!(
        "of the sessions of killed writers {whole} are whole, {missing} without a record, \
         {unfinished} of them begun"
    );
    assert!(whole >= 20);
    assert!(sessions.verify(&mut |_| ()).unwrap().problems.is_empty());
}

#[test]
fn what_a_killed_first_commit_leaves_is_a_session_without_a_record() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    sessions.create(&key("a"), b"to have its folder", ttl()).unwrap();
    let path = file_of(&root, "a");
    write_unfinished(&path);
    assert!(sessions.peek(&key("a")).unwrap().is_none());
    assert_eq!(*sessions.touch(&key("a"), ttl()).unwrap_err().kind(), ErrorKind::Gone);
    assert_eq!(sessions.stat().unwrap().sessions, 0);
    assert!(sessions.verify(&mut |_| ()).unwrap().problems.is_empty());
    let begun = sessions.begin(&key("a"), WAIT).unwrap();
    assert!(begun.record.is_none());
    begun.lease.commit(b"cart", ttl()).unwrap();
    assert_eq!(sessions.peek(&key("a")).unwrap().unwrap().payload, b"cart");
    write_unfinished(&path);
    sessions.create(&key("a"), b"cart: 1 book", ttl()).expect("its id is free");
    write_unfinished(&path);
    assert_eq!(sessions.sweep(Budget::default()).unwrap().removed, 0, "it was no session");
    assert!(!path.exists(), "the sweep takes it");
}

/// Its length is on the disk, and the bytes are not.
#[test]
fn a_page_of_zeros_after_a_power_cut_is_a_session_without_a_record_and_other_bytes_are_damage() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    sessions.create(&key("a"), b"to have its folder", ttl()).unwrap();
    let path = file_of(&root, "a");
    fs::write(&path, [0; 4_096]).unwrap();
    assert!(sessions.peek(&key("a")).unwrap().is_none());
    assert!(sessions.verify(&mut |_| ()).unwrap().problems.is_empty());
    sessions.begin(&key("a"), WAIT).unwrap().lease.commit(b"cart", ttl()).unwrap();
    assert_eq!(sessions.peek(&key("a")).unwrap().unwrap().payload, b"cart");
    fs::write(&path, [0; 4_096]).unwrap();
    sessions.sweep(Budget::default()).unwrap();
    assert!(!path.exists(), "the sweep takes it");
    for damaged in [[&[0; 4_095][..], &[1]].concat(), vec![0; 4_095], vec![0; 72]] {
        fs::write(&path, damaged).unwrap();
        assert_eq!(*sessions.peek(&key("a")).unwrap_err().kind(), ErrorKind::Corrupt);
        sessions.sweep(Budget::default()).unwrap();
        assert!(path.exists(), "what is damaged stays where it is");
    }
}

/// The length of the file changes under a reader that has asked for it before.
#[test]
fn readers_beside_first_commits_see_nothing_or_the_whole() {
    let base = tempfile::tempdir().unwrap();
    let sessions = open_at(&base.path().join("files")).unwrap();
    let number = AtomicUsize::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut seen = 0;
                    while start.elapsed() < Duration::from_secs(2) {
                        let id = format!("s{}", number.load(Ordering::Relaxed));
                        if let Some(record) = sessions.peek(&key(&id)).unwrap() {
                            assert!(
                                record.payload.len() == 40_000
                                    && record.payload.iter().all(|byte| *byte == 7)
                            );
                            seen += 1;
                        }
                    }
                    seen
                })
            })
            .collect();
        while start.elapsed() < Duration::from_secs(2) {
            let id = format!("s{}", number.fetch_add(1, Ordering::Relaxed) + 1);
            sessions.begin(&key(&id), WAIT).unwrap().lease.commit(&[7; 40_000], ttl()).unwrap();
        }
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
}

/// Whoever creates a session looks at its file before he has the lock. What he saw then may have
/// got a record since: to be seen when he is kept from a processor in between, for which there are
/// more of them than processors.
#[test]
fn a_create_beside_a_first_commit_never_takes_its_place() {
    let base = tempfile::tempdir_in("/dev/shm").unwrap();
    let sessions = open_at(&base.path().join("files")).unwrap();
    let (number, start) = (AtomicUsize::new(0), Instant::now());
    // The first one is taken from the start.
    let mut begun = sessions.begin(&key("s0"), WAIT).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while start.elapsed() < Duration::from_secs(4) {
                    let id = format!("s{}", number.load(Ordering::Relaxed));
                    // The loop below has begun it, and ends it with a record: the id is never free.
                    assert!(sessions.create(&key(&id), b"created", ttl()).is_err());
                }
            });
        }
        while start.elapsed() < Duration::from_secs(4) {
            let next = number.load(Ordering::Relaxed) + 1;
            let after = sessions.begin(&key(&format!("s{next}")), WAIT).unwrap();
            std::mem::replace(&mut begun, after).lease.commit(b"committed", ttl()).unwrap();
            number.store(next, Ordering::Relaxed);
        }
    });
}

#[test]
fn a_log_out_of_a_session_without_a_record_leaves_no_file_and_voids_its_lease() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    let before = files_below(&root).len();
    for payload in [&b"late"[..], &[7; 20_000]] {
        let late = sessions.begin(&key("a"), WAIT).unwrap();
        sessions.destroy(&key("a")).unwrap();
        assert_eq!(files_below(&root).len(), before);
        let next = sessions.begin(&key("a"), Duration::ZERO).expect("the id is free at once");
        assert_eq!(*late.lease.commit(payload, ttl()).unwrap_err().kind(), ErrorKind::Destroyed);
        assert!(sessions.peek(&key("a")).unwrap().is_none());
        next.lease.commit(b"next", ttl()).unwrap();
        assert_eq!(sessions.peek(&key("a")).unwrap().unwrap().payload, b"next");
        fs::remove_file(file_of(&root, "a")).unwrap();
    }
}
