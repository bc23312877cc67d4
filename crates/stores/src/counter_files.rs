//! The files of counters: one for each store and user, in shared memory.
//!
//! ```text
//! /dev/shm/sessile-counters-UID/DIGEST     the digest of the store's identity
//! ```
//!
//! Invariants: a process writes only into its own user's directory, which no other user may write;
//! a store without room or right for counters works without them; a file that a process has open
//! stays. Counters outlive all processes and end with a reboot. If there are too many files, those
//! that no process has open are removed, the oldest first.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use sessile_core::{SharedCounters, SharedCounts};
use sessile_engine::CounterFile;
use sha2::{Digest, Sha256};

const PARENT: &str = "/dev/shm";
const PREFIX: &str = "sessile-counters-";
const FILES_MAX: usize = 1_024;
const DIGEST_BYTES: usize = 16;
/// A file may be removed, or asked for its lock, while it is opened.
const OPEN_TRIES: usize = 5;
/// Names looked at in the directory that all users share.
const NAMES_MAX: usize = 10_000;
const USERS_MAX: usize = 1_000;

/// The counters of all users, and those of this process.
struct CounterFiles {
    /// `None` in a process that only reads.
    own: Option<CounterFile>,
    name: String,
    parent: PathBuf,
    uid: u32,
}

/// Opens the counters of a store to count, and creates what is missing; `None` where that is not
/// possible.
pub fn open_to_count(identity: &str) -> Option<Box<dyn SharedCounters>> {
    let files = CounterFiles::of(identity);
    let own = open_own(&files.parent, files.uid, &files.name)?;
    Some(Box::new(CounterFiles { own: Some(own), ..files }))
}

/// Opens the counters of a store to read what is there at the time.
pub fn open_to_read(identity: &str) -> Box<dyn SharedCounters> {
    Box::new(CounterFiles::of(identity))
}

impl CounterFiles {
    fn of(identity: &str) -> CounterFiles {
        let uid = nix::unistd::geteuid().as_raw();
        CounterFiles { own: None, name: name_of(identity), parent: PathBuf::from(PARENT), uid }
    }
}

fn open_own(parent: &Path, uid: u32, name: &str) -> Option<CounterFile> {
    let directory = parent.join(format!("{PREFIX}{uid}"));
    let made = DirBuilder::new().mode(0o700).create(&directory);
    if open_directory(parent, uid).is_none() {
        log::debug!("no counters in {}: {:?}", directory.display(), made.err());
        return None;
    }
    let path = directory.join(name);
    if !path.exists() {
        make_room(&directory);
    }
    let file = (0..OPEN_TRIES).find_map(|_| open_locked(&path))?;
    let _ = file.set_modified(SystemTime::now());
    CounterFile::map(file).ok()
}

/// The directory of a user, if it belongs to that user and to no other: anybody can make one with
/// the name of another user.
fn open_directory(parent: &Path, uid: u32) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_DIRECTORY);
    let directory = options.open(parent.join(format!("{PREFIX}{uid}"))).ok()?;
    let status = directory.metadata().ok()?;
    (status.uid() == uid && status.mode() & 0o077 == 0).then_some(directory)
}

fn name_of(identity: &str) -> String {
    let digest = Sha256::digest(identity);
    digest.iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// The lock tells that the file is in use. `None` if it was removed before it was locked, or
/// another process asks at this moment whether it is in use.
fn open_locked(path: &Path) -> Option<File> {
    let file = open_file(path)?;
    file.try_lock_shared().ok()?;
    let (here, there) = (file.metadata().ok()?, fs::symlink_metadata(path).ok()?);
    (here.ino() == there.ino()).then_some(file)
}

fn open_file(path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(nix::libc::O_NOFOLLOW);
    options.open(path).ok().filter(|file| file.metadata().is_ok_and(|status| status.is_file()))
}

/// Removes a quarter of the files if there are too many: the oldest that no process has open.
fn make_room(directory: &Path) {
    let names = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<(SystemTime, PathBuf)> = names
        .filter_map(|name| Some((name.metadata().ok()?.modified().ok()?, name.path())))
        .collect();
    if files.len() < FILES_MAX {
        return;
    }
    files.sort();
    let mut left = FILES_MAX / 4;
    for (_, path) in files {
        // Locked until it is removed: a process that opens it meanwhile notices, and tries again.
        let unused = File::open(&path).ok().filter(|file| file.try_lock().is_ok());
        if unused.is_some() && fs::remove_file(&path).is_ok() {
            left -= 1;
        }
        if left == 0 {
            break;
        }
    }
}

impl SharedCounters for CounterFiles {
    fn count_begin(&self, hit: bool, took: Duration) {
        if let Some(own) = &self.own {
            own.count_begin(hit, took);
        }
    }

    fn count_commit(&self) {
        if let Some(own) = &self.own {
            own.count_commit();
        }
    }

    fn count_failed_save(&self) {
        if let Some(own) = &self.own {
            own.count_failed_save();
        }
    }

    /// Root sees the counters of all users.
    fn shared_counts(&self) -> Option<SharedCounts> {
        let mut counts = self.own.as_ref().and_then(SharedCounters::shared_counts);
        let others = if self.uid == 0 { users(&self.parent) } else { vec![self.uid] };
        for uid in others.into_iter().filter(|uid| self.own.is_none() || *uid != self.uid) {
            if let Some(read) = read_counters(&self.parent, uid, &self.name) {
                counts.get_or_insert_default().add(&read);
            }
        }
        counts
    }
}

/// The users whose counters may be there.
fn users(parent: &Path) -> Vec<u32> {
    let names = fs::read_dir(parent).into_iter().flatten().take(NAMES_MAX).flatten();
    // The name that the user itself would choose: 033 is not another user 33.
    let uid_of = |name: String| {
        let number = name.strip_prefix(PREFIX)?;
        number.parse::<u32>().ok().filter(|uid| uid.to_string() == number)
    };
    names
        .filter_map(|entry| uid_of(entry.file_name().into_string().ok()?))
        .filter(|uid| open_directory(parent, *uid).is_some())
        .take(USERS_MAX)
        .collect()
}

/// Read and not mapped: a user may shorten its file at any moment.
fn read_counters(parent: &Path, uid: u32, name: &str) -> Option<SharedCounts> {
    let directory = open_directory(parent, uid)?;
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::from(openat(&directory, name, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(CounterFile::BYTES).read_to_end(&mut bytes).ok()?;
    Some(CounterFile::counts_of(&bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    const ORDINARY: u32 = 4_711;

    fn one_request(parent: &Path, uid: u32, owner: u32) {
        let directory = parent.join(format!("{PREFIX}{uid}"));
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(directory.join("counted"), 1_u64.to_ne_bytes().repeat(8)).unwrap();
        chown(directory, Some(owner), None).unwrap();
    }

    fn requests(parent: &Path, uid: u32) -> Option<u64> {
        let (name, parent) = ("counted".to_owned(), parent.to_owned());
        CounterFiles { own: None, name, parent, uid }.shared_counts().map(|counts| counts.requests)
    }

    /// Any user could make a directory with a number of another, and root added it up.
    #[test]
    fn only_a_users_own_directory_counts_and_only_root_reads_others() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: only root can plant this");
            assert!(std::env::var_os("CI").is_none(), "CI runs as root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(requests(dir.path(), 0), None);
        one_request(dir.path(), 0, 0);
        one_request(dir.path(), ORDINARY, ORDINARY);
        one_request(dir.path(), ORDINARY + 1, ORDINARY);
        for other in ["0", "+"] {
            fs::create_dir(dir.path().join(format!("{PREFIX}{other}{ORDINARY}"))).unwrap();
        }
        assert_eq!(requests(dir.path(), 0), Some(2));
        assert_eq!(requests(dir.path(), ORDINARY), Some(1));
        assert_eq!(requests(dir.path(), ORDINARY + 1), None);
    }

    #[test]
    fn a_file_in_use_stays_when_room_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let used = open_locked(&dir.path().join("a-used")).unwrap();
        used.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        for number in 0..FILES_MAX {
            File::create(dir.path().join(format!("{number}"))).unwrap();
        }
        make_room(dir.path());
        let left = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, FILES_MAX + 1 - FILES_MAX / 4);
        assert!(dir.path().join("a-used").exists());
    }
}
