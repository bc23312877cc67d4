//! Commits of the files store's own mode: in place and by rename, whole for whoever looks and
//! whatever dies.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use sessile_core::Budget;
use xxhash_rust::xxh3::xxh3_64;

use super::{FREE, IN_PLACE_MAX, WAIT, child, file_of, key, open_at, ttl, until};

/// A payload that is replaced by rename.
const BY_RENAME: usize = 20_000;

#[test]
fn a_writer_killed_at_any_moment_leaves_the_old_or_the_new_payload() {
    for length in [IN_PLACE_MAX, BY_RENAME] {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("files");
        let sessions = open_at(&root).unwrap();
        sessions.create(&key("shared"), &vec![0; length], ttl()).unwrap();
        for round in 0..20 {
            let mut writer = child("churn", &root);
            let version = sessions.peek(&key("shared")).unwrap().unwrap().head.version;
            until("the child writes", || {
                sessions.peek(&key("shared")).unwrap().unwrap().head.version > version + 3
            });
            std::thread::sleep(Duration::from_micros(round * 37));
            writer.kill().unwrap();
            writer.wait().unwrap();
            let begun = sessions.begin(&key("shared"), FREE).unwrap();
            let payload = begun.record.unwrap().payload;
            assert_eq!(payload.len(), length);
            assert!(payload.iter().all(|byte| *byte == payload[0]));
        }
    }
}

#[test]
fn readers_beside_a_writer_see_whole_records_and_always_one() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    sessions.create(&key("shared"), &[0; IN_PLACE_MAX], ttl()).unwrap();
    let mut writer = child("churn", &root);
    let (mut version, mut changes, start) = (1, 0, Instant::now());
    while changes < 2_000 {
        assert!(start.elapsed() < WAIT, "the writer did not get on");
        let record =
            sessions.peek(&key("shared")).unwrap().expect("the session is live all the time");
        assert!(record.payload.iter().all(|byte| *byte == record.payload[0]), "a mixed payload");
        assert_eq!(record.payload.len(), IN_PLACE_MAX);
        assert!(record.head.version >= version, "a record from before");
        changes += u64::from(record.head.version > version);
        version = record.head.version;
        // A touch rewrites the header beside the commits, and must neither be lost in one nor tear
        // one.
        sessions.touch(&key("shared"), ttl()).unwrap();
        if changes % 64 == 0 {
            assert_eq!(
                sessions.stat().unwrap().sessions,
                1,
                "a session that is being written is counted"
            );
        }
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
}

/// What a reader without the lock may see of a page that another processor is just writing, held
/// still here.
#[test]
fn a_reader_that_meets_a_half_written_record_reads_again() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    sessions.create(&key("a"), &[1; IN_PLACE_MAX], ttl()).unwrap();
    let file = fs::File::options().read(true).write(true).open(file_of(&root, "a")).unwrap();
    let gate = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 1,
        l_pid: 0,
    };
    fcntl(&file, FcntlArg::F_OFD_SETLK(&gate)).unwrap();
    for (at, half) in [(72, [2; 100]), (0, [0; 100])] {
        let mut whole = [0; 100];
        file.read_exact_at(&mut whole, at).unwrap();
        file.write_all_at(&half, at).unwrap();
        let (tell, asked) = std::sync::mpsc::channel();
        let reader = sessions.clone();
        let reader = std::thread::spawn(move || {
            tell.send(()).unwrap();
            (reader.peek(&key("a")), reader.stat().unwrap().sessions)
        });
        asked.recv().unwrap();
        std::thread::sleep(Duration::from_millis(20)); // how long the write takes
        file.write_all_at(&whole, at).unwrap();
        let (record, counted) = reader.join().unwrap();
        assert_eq!(record.unwrap().unwrap().payload, [1; IN_PLACE_MAX]);
        assert_eq!(counted, 1);
    }
}

#[test]
fn a_commit_keeps_the_file_while_the_payload_fits_and_wipes_what_a_longer_one_leaves() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    sessions.create(&key("a"), b"small", ttl()).unwrap();
    let inode = || fs::metadata(file_of(&root, "a")).unwrap().ino();
    let commit = |payload: &[u8]| {
        let version = sessions.peek(&key("a")).unwrap().unwrap().head.version;
        sessions.begin(&key("a"), WAIT).unwrap().lease.commit(payload, ttl()).unwrap();
        let record = sessions.peek(&key("a")).unwrap().unwrap();
        assert_eq!((record.payload.as_slice(), record.head.version), (payload, version + 1));
        assert!(sessions.verify(&mut |_| ()).unwrap().problems.is_empty());
    };
    let first = inode();
    for payload in [&[1; IN_PLACE_MAX][..], b"secret", b"", &[2; 3_000], b"short"] {
        commit(payload);
        assert_eq!(inode(), first, "{} bytes fit", payload.len());
        let file = fs::read(file_of(&root, "a")).unwrap();
        assert_eq!(file.len(), 4_096);
        assert!(
            file[72 + payload.len()..].iter().all(|byte| *byte == 0),
            "nothing of the old payload is left"
        );
    }
    commit(&[3; IN_PLACE_MAX + 1]);
    assert_ne!(inode(), first, "a longer payload does not fit");
    assert_eq!(fs::read(file_of(&root, "a")).unwrap().len(), 4_097);
    commit(b"small again");
    let second = inode();
    commit(b"and in place again");
    assert_eq!(inode(), second);
}

/// A worker killed between the write and the setting of the time leaves a file that was modified
/// "now", and "now" is no expiry.
#[test]
fn a_time_that_a_killed_commit_left_behind_expires_nothing() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    sessions.create(&key("a"), b"cart", ttl()).unwrap();
    sessions.begin(&key("a"), WAIT).unwrap().lease.commit(b"cart: 1 book", ttl()).unwrap();
    let past = std::time::SystemTime::now() - Duration::from_secs(1);
    fs::File::options().write(true).open(file_of(&root, "a")).unwrap().set_modified(past).unwrap();
    assert_eq!(sessions.peek(&key("a")).unwrap().unwrap().payload, b"cart: 1 book");
    assert_eq!(sessions.sweep(Budget::default()).unwrap().removed, 0);
    sessions.begin(&key("a"), WAIT).unwrap().lease.commit(b"cart: 2 books", ttl()).unwrap();
    assert!(
        fs::metadata(file_of(&root, "a")).unwrap().modified().unwrap()
            > std::time::SystemTime::now()
    );
}

/// The lock lives in the open file, and a child that a worker forked while it held a lease has that
/// file too. Commits by rename left the child a file without a name; a commit in place must give
/// the lock back itself.
#[test]
fn a_child_that_outlives_a_commit_in_place_does_not_keep_the_lock() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    let sessions = open_at(&root).unwrap();
    sessions.create(&key("a"), b"cart", ttl()).unwrap();
    let begun = sessions.begin(&key("a"), WAIT).unwrap();
    // Stands for the child: another descriptor of the same open file description.
    let path = file_of(&root, "a");
    let leased =
        |entry: &fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|target| target == path);
    let entry = fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(Result::unwrap)
        .find(leased)
        .expect("the lease has a file");
    let number = entry.file_name().to_str().unwrap().parse().unwrap();
    let own = rustix::process::pidfd_open(
        rustix::process::getpid(),
        rustix::process::PidfdFlags::empty(),
    )
    .unwrap();
    let of_child =
        rustix::process::pidfd_getfd(own, number, rustix::process::PidfdGetfdFlags::empty())
            .unwrap();
    begun.lease.commit(b"cart: 1 book", ttl()).unwrap();
    sessions.begin(&key("a"), FREE).expect("the lock is free").lease.commit(b"", ttl()).unwrap();
    drop(of_child);
}

/// A session as the version before wrote it: no longer than it had to be, its expiry in the file's
/// time alone.
fn write_format_1(path: &std::path::Path, payload: &[u8], created_ms: u64) {
    let half = |sum: u64| sum.to_le_bytes()[..4].to_vec();
    let mut file = b"sessile\x01\x01\0\0\0\0\0\0\0".to_vec();
    for number in [7, created_ms, created_ms, 0, 0, payload.len() as u64] {
        file.extend_from_slice(&number.to_le_bytes());
    }
    file.extend_from_slice(&half(xxh3_64(payload)));
    file.extend_from_slice(&half(xxh3_64(&file)));
    file.extend_from_slice(payload);
    fs::write(path, file).unwrap();
    let later = std::time::SystemTime::now() + Duration::from_secs(500);
    fs::File::options().write(true).open(path).unwrap().set_modified(later).unwrap();
}

#[test]
fn a_directory_of_the_version_before_goes_on() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("files");
    open_at(&root).unwrap().create(&key("a"), b"", ttl()).unwrap();
    let path = file_of(&root, "a");
    let created = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let created_ms = u64::try_from(created.as_millis()).unwrap();
    let in_place_also_by_size = vec![b'o'; IN_PLACE_MAX];
    for old in [&b"cart: 1 book"[..], b"", &in_place_also_by_size, &[b'o'; BY_RENAME]] {
        write_format_1(&path, old, created_ms);
        let sessions = open_at(&root).unwrap();
        assert!(sessions.verify(&mut |_| ()).unwrap().problems.is_empty());
        assert_eq!(sessions.stat().unwrap().sessions, 1);
        let record = sessions.peek(&key("a")).unwrap().unwrap();
        assert_eq!(
            (record.payload.as_slice(), record.head.version, record.head.created.as_ms()),
            (old, 7, created_ms)
        );
        assert!(
            record.head.expires.since(record.head.created) > Duration::from_secs(400),
            "its expiry is the file's time"
        );
        let bytes = fs::metadata(&path).unwrap().len();
        sessions.touch(&key("a"), ttl().within(Duration::from_secs(700)).unwrap()).unwrap();
        assert_eq!(sessions.peek(&key("a")).unwrap().unwrap().payload, old);
        assert_eq!(fs::metadata(&path).unwrap().len(), bytes, "a touch leaves it in its format");
        for payload in [&b"cart: 2 books"[..], b"cart: 3 books"] {
            sessions.begin(&key("a"), WAIT).unwrap().lease.commit(payload, ttl()).unwrap();
            let record = sessions.peek(&key("a")).unwrap().unwrap();
            assert_eq!(
                (record.payload.as_slice(), record.head.created.as_ms()),
                (payload, created_ms)
            );
            assert_eq!(record.head.ends.unwrap().as_ms(), created_ms + 700_000);
            assert_eq!(fs::metadata(&path).unwrap().len(), 4_096);
        }
        assert!(sessions.verify(&mut |_| ()).unwrap().problems.is_empty());
    }
    // What pwrite changes first is the time. While that is the only expiry, a reader or a kill must
    // not come in between.
    write_format_1(&path, &in_place_also_by_size, created_ms);
    let inode = fs::metadata(&path).unwrap().ino();
    open_at(&root).unwrap().begin(&key("a"), WAIT).unwrap().lease.commit(b"cart", ttl()).unwrap();
    assert_ne!(fs::metadata(&path).unwrap().ino(), inode);
}
