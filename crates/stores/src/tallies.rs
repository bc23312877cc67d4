//! The files of counters: one for each store and user, in shared memory.
//!
//! ```text
//! /dev/shm/sessile-counters-UID/DIGEST     the digest of the store's label
//! ```
//!
//! Invariants: a process writes only into its own user's directory, which no other user may write;
//! a store without room or right for counters works without them; a file that somebody has open
//! stays. Counters outlive all processes and end with a reboot. If there are too many files, those
//! that nobody has open are removed, the oldest first.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sessile_core::{Tally, Totals};
use sessile_engine::TallyFile;
use sha2::{Digest, Sha256};

const PARENT: &str = "/dev/shm";
const PREFIX: &str = "sessile-counters-";
const FILES_MAX: usize = 1_024;
const DIGEST_BYTES: usize = 16;
const PAGE_BYTES: u64 = 4_096;

/// The counters of all users, and those of this process.
struct Tallies {
    own: TallyFile,
    name: String,
    directory: PathBuf,
}

/// Opens or makes the counters of a store; `None` where that is not possible.
pub fn open(label: &str) -> Option<Box<dyn Tally>> {
    let own = nix::unistd::geteuid().as_raw();
    let directory = Path::new(PARENT).join(format!("{PREFIX}{own}"));
    let made = DirBuilder::new().mode(0o700).create(&directory);
    let status = fs::symlink_metadata(&directory).ok()?;
    let ours = status.is_dir() && status.uid() == own && status.mode() & 0o077 == 0;
    if !ours {
        log::debug!("no counters in {}: {:?}", directory.display(), made.err());
        return None;
    }
    let name = name_of(label);
    let path = directory.join(&name);
    if !path.exists() {
        make_room(&directory);
    }
    let file = open_locked(&path).or_else(|| open_locked(&path))?;
    let _ = file.set_modified(SystemTime::now());
    let own = TallyFile::map(file).ok()?;
    Some(Box::new(Tallies { own, name, directory }))
}

fn name_of(label: &str) -> String {
    let digest = Sha256::digest(label);
    digest.iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// The lock tells that the file is in use. `None` if it was removed before it was locked.
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

/// Removes a quarter of the files if there are too many: the oldest of those that nobody has open.
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
        let is_unused = File::open(&path).is_ok_and(|file| file.try_lock().is_ok());
        if is_unused && fs::remove_file(&path).is_ok() {
            left -= 1;
        }
        if left == 0 {
            break;
        }
    }
}

impl Tally for Tallies {
    fn count_begin(&self, hit: bool, took: Duration) {
        self.own.count_begin(hit, took);
    }

    fn count_commit(&self) {
        self.own.count_commit();
    }

    fn count_failed_save(&self) {
        self.own.count_failed_save();
    }

    /// Root sees the counters of all users.
    fn totals(&self) -> Totals {
        let mut totals = self.own.totals();
        let directories = fs::read_dir(PARENT).into_iter().flatten().flatten();
        for directory in directories {
            let path = directory.path();
            let is_one = directory.file_name().to_string_lossy().starts_with(PREFIX);
            if !is_one || path == self.directory {
                continue;
            }
            if let Some(others) = read_others(&path.join(&self.name)) {
                totals.add(&others);
            }
        }
        totals
    }
}

/// Read and not mapped: a user may shorten its file at any moment.
fn read_others(path: &Path) -> Option<Totals> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
    let file = options.open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(PAGE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(TallyFile::totals_of(&bytes))
}
