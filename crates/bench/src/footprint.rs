//! How much space the sessions of a contender take.
//!
//! In a private directory everything counts, also what an empty store occupies. Servers, workers
//! and the user's directories hold other data too, so there only the growth since opening counts.
//! Unknown is 0.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sessile_fixtures::resident_bytes;

use crate::worker::memory;

#[derive(Clone, Debug)]
pub(crate) enum FootprintSource {
    /// A private directory, and shared memory that workers map elsewhere.
    Directory(PathBuf),
    /// A directory with other sessions in it.
    Shared(PathBuf),
    /// A server, by its process id.
    Server(u32),
    Worker,
    /// Nothing that can be measured.
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct Footprint {
    place: FootprintSource,
    worker: u32,
    empty: u64,
}

impl Footprint {
    /// Call when the contender is open and empty. `worker` has opened it.
    pub(crate) fn of_empty(place: FootprintSource, worker: u32) -> Footprint {
        let mut footprint = Footprint { place, worker, empty: 0 };
        if !matches!(footprint.place, FootprintSource::Directory(_)) {
            footprint.empty = footprint.bytes();
        }
        footprint
    }

    pub(crate) fn bytes(&self) -> u64 {
        let now = match &self.place {
            FootprintSource::Directory(dir) => occupied(dir) + mapped_elsewhere(self.worker, dir),
            FootprintSource::Shared(dir) => occupied(dir),
            FootprintSource::Server(pid) => resident_bytes(*pid).unwrap_or(0),
            FootprintSource::Worker => resident_bytes(self.worker).unwrap_or(0),
            FootprintSource::Unknown => 0,
        };
        now.saturating_sub(self.empty)
    }
}

/// Blocks of all files: holes do not count, a file of one byte counts a block.
pub(crate) fn occupied(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => occupied(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0, // removed meanwhile
    };
    entries.flatten().map(size).sum()
}

/// Shared memory that a process maps from outside `dir`, for example the index of a store on disk.
/// Files count by blocks, unnamed and removed ones by resident pages.
fn mapped_elsewhere(pid: u32, dir: &Path) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let mut named = BTreeMap::new();
    let mut unnamed = 0;
    let mut counts = false;
    for line in maps.lines() {
        if let Some(mapping) = Mapping::of(line) {
            let removed = mapping.path.ends_with(" (deleted)");
            let outside = mapping.shared && (removed || !Path::new(mapping.path).starts_with(dir));
            let metadata = if outside && !removed { fs::metadata(mapping.path).ok() } else { None };
            counts = outside && metadata.is_none();
            if let Some(metadata) = metadata.filter(fs::Metadata::is_file) {
                named.insert((metadata.dev(), metadata.ino()), metadata.blocks() * 512);
            }
        } else if counts {
            unnamed += memory::field(line, "Rss:");
        }
    }
    named.values().sum::<u64>() + unnamed
}

/// The first line of a mapping in `/proc/PID/smaps`: see proc(5).
struct Mapping<'a> {
    shared: bool,
    path: &'a str,
}

impl Mapping<'_> {
    fn of(line: &str) -> Option<Mapping<'_>> {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let hexadecimal =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_hexdigit());
        if !hexadecimal(from) || !hexadecimal(to) {
            return None;
        }
        let shared = rest.split(' ').next()?.ends_with('s');
        Some(Mapping {
            shared,
            path: rest.find('/').and_then(|start| rest.get(start..)).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, PoisonError};

    /// These tests look at the mappings of their own process, which others of them change.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn a_hole_takes_no_space_and_one_byte_takes_a_block() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let footprint = Footprint::of_empty(
            FootprintSource::Directory(dir.path().to_owned()),
            std::process::id(),
        );
        let before = footprint.bytes();
        fs::File::create(dir.path().join("hole")).unwrap().set_len(1 << 30).unwrap();
        fs::create_dir(dir.path().join("deeper")).unwrap();
        fs::write(dir.path().join("deeper/one"), b"1").unwrap();
        assert_eq!(footprint.bytes() - before, 4_096);
    }

    #[test]
    fn shared_memory_outside_the_directory_counts_once_and_inside_not_again() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (dir, other) =
            (tempfile::tempdir_in("/dev/shm").unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
        let mut maps = Vec::new();
        let before = mapped_elsewhere(std::process::id(), dir.path());
        for place in [&dir, &other] {
            fs::write(place.path().join("data"), vec![1; 100_000]).unwrap();
            let file =
                fs::File::options().read(true).write(true).open(place.path().join("data")).unwrap();
            maps.push(memmap2::MmapRaw::map_raw(&file).unwrap());
            maps.push(memmap2::MmapRaw::map_raw(&file).unwrap());
        }
        assert_eq!(mapped_elsewhere(std::process::id(), dir.path()) - before, 102_400);
    }

    #[test]
    fn a_file_that_was_removed_but_is_still_mapped_counts() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let before = mapped_elsewhere(std::process::id(), dir.path());
        fs::write(dir.path().join("data"), vec![1; 1 << 20]).unwrap();
        let file =
            fs::File::options().read(true).write(true).open(dir.path().join("data")).unwrap();
        let _map = memmap2::MmapOptions::new().populate().map_raw(&file).unwrap();
        fs::remove_file(dir.path().join("data")).unwrap();
        assert_eq!(mapped_elsewhere(std::process::id(), dir.path()) - before, 1 << 20);
    }

    #[test]
    fn a_directory_of_the_users_counts_only_by_its_growth() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::write(dir.path().join("theirs"), b"1").unwrap();
        let footprint =
            Footprint::of_empty(FootprintSource::Shared(dir.path().to_owned()), std::process::id());
        fs::write(dir.path().join("ours"), b"1").unwrap();
        assert_eq!(footprint.bytes(), 4_096);
    }
}
