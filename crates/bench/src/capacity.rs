//! Checks that a store fits into the machine; one that does not is left out.
//!
//! All sessions must fit into memory, those on a disk too, because the kernel caches files in
//! memory. A store larger than memory would measure the disk, which no experiment asks for.

use std::fs;
use std::path::Path;

use nix::sys::statvfs::statvfs;

use crate::options::Settings;
use crate::selection::Choice;
use crate::storage_location::StorageLocation;

/// Part of the free space that may be used.
const USABLE: f64 = 0.8;
/// A worker's memory for each session: id and size.
const PREPARED_BYTES: u64 = 100;
/// Assumed for a store that was not measured yet: the payload (whole pages in files) and as much as
/// an inode.
const PAGE_BYTES: u64 = 4_096;
const OVERHEAD_BYTES: u64 = 1_024;

#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedFill {
    pub sessions: usize,
    /// Ids that each worker prepares: for filled sessions and for those that requests create.
    pub ids: usize,
    pub workers: usize,
}

/// Bytes in memory and at the contender's storage location.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceBytes {
    pub memory: u64,
    pub medium: u64,
}

impl SpaceBytes {
    /// The free memory now. The kernel's file cache counts as free.
    pub(crate) fn free(medium: &StorageLocation) -> SpaceBytes {
        let medium = match medium {
            StorageLocation::Memory | StorageLocation::Remote => u64::MAX,
            StorageLocation::FileSystem(path) => free_in(path),
        };
        SpaceBytes { memory: memory_available(), medium }
    }

    pub(crate) fn usable(self) -> SpaceBytes {
        let usable = |bytes: u64| (bytes as f64 * USABLE) as u64;
        SpaceBytes { memory: usable(self.memory), medium: usable(self.medium) }
    }
}

/// What a contender needs and may use now, or why it does not fit. `seen`: bytes of a session when
/// it was last measured.
pub(crate) fn check_fit(
    choice: &Choice,
    settings: &Settings,
    filling: PlannedFill,
    seen: Option<u64>,
) -> Result<(SpaceBytes, SpaceBytes), String> {
    let medium = StorageLocation::of(choice);
    let session_bytes = session_bytes(choice, &medium, settings.payload_bytes, seen);
    let (need, room) =
        (required_space(&medium, filling, session_bytes), SpaceBytes::free(&medium).usable());
    let (needed, free, place) = if need.memory > room.memory {
        (need.memory, room.memory, "memory")
    } else if need.medium > room.medium {
        (need.medium, room.medium, "the place of its sessions")
    } else {
        return Ok((need, room));
    };
    let (sessions, bytes, spread) =
        (filling.sessions, settings.payload_bytes, settings.spread.name());
    Err(format!(
        "{sessions} sessions or more of {bytes} bytes ({spread}) need about {}, and {} of {place} \
         may be used",
        bytes_text(needed),
        bytes_text(free)
    ))
}

fn bytes_text(bytes: u64) -> String {
    let (unit, name) = if bytes < 1 << 30 { (1 << 20, "MiB") } else { (1 << 30, "GiB") };
    format!("{:.1} {name}", bytes as f64 / f64::from(unit))
}

pub(crate) fn required_space(
    medium: &StorageLocation,
    filling: PlannedFill,
    session_bytes: u64,
) -> SpaceBytes {
    let prepared = filling.ids as u64 * PREPARED_BYTES * filling.workers as u64;
    let stored = filling.sessions as u64 * session_bytes;
    match medium {
        StorageLocation::Memory => SpaceBytes { memory: prepared + stored, medium: 0 },
        StorageLocation::FileSystem(_) => SpaceBytes { memory: prepared + stored, medium: stored },
        StorageLocation::Remote => SpaceBytes { memory: prepared, medium: 0 },
    }
}

pub(crate) fn session_bytes(
    choice: &Choice,
    medium: &StorageLocation,
    payload_bytes: usize,
    seen: Option<u64>,
) -> u64 {
    match seen {
        // A server may keep less in memory than it has stored.
        Some(bytes) if choice.over_socket => bytes.max(payload_bytes as u64),
        Some(bytes) => bytes,
        None => assumed_session_bytes(medium, payload_bytes),
    }
}

fn assumed_session_bytes(medium: &StorageLocation, payload_bytes: usize) -> u64 {
    let payload = payload_bytes as u64;
    let in_pages = matches!(medium, StorageLocation::FileSystem(_));
    OVERHEAD_BYTES + if in_pages { payload.next_multiple_of(PAGE_BYTES) } else { payload }
}

/// Free bytes of the file system of a path that may not exist yet. `u64::MAX` if unknown.
fn free_in(path: &Path) -> u64 {
    let stat = path.ancestors().find_map(|place| statvfs(place).ok());
    stat.map_or(u64::MAX, |stat| stat.blocks_available().saturating_mul(stat.fragment_size()))
}

/// Memory available without swapping, within the container's limit.
fn memory_available() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = kib.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib * 1_024).min(container_headroom().unwrap_or(u64::MAX))
}

fn container_headroom() -> Option<u64> {
    let read = |name: &str| fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok();
    headroom(
        &read("memory.max")?,
        &read("memory.current")?,
        &read("memory.stat").unwrap_or_default(),
    )
}

/// The memory left below a limit. The file cache counts as free, because the kernel reclaims it.
/// Shared memory is not in these two lists.
fn headroom(limit: &str, used: &str, stat: &str) -> Option<u64> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let entries = stat.lines().filter_map(|line| line.split_once(' '));
    let of_files = entries.filter(|(name, _)| matches!(*name, "inactive_file" | "active_file"));
    let cache: u64 = of_files.filter_map(|(_, bytes)| number(bytes)).sum();
    Some(number(limit)?.saturating_sub(number(used)?.saturating_sub(cache)))
}

#[cfg(test)]
mod tests {
    use sessile_core::Durability;

    use super::*;
    use crate::experiment::Experiment;
    use crate::options::Options;
    use crate::selection::select;

    /// A store on a disk was measured with more sessions than fit into memory, and nothing said
    /// that the disk was measured then.
    #[test]
    fn a_store_on_disk_must_fit_into_memory_too() {
        let stores: Vec<String> =
            ["files#default", "files#shm", "memory"].map(str::to_owned).into();
        let choices = select(&stores, Experiment::Scale, Durability::None).unwrap().choices;
        let filling = PlannedFill { sessions: 1_000, ids: 1_000, workers: 2 };
        let needs: Vec<SpaceBytes> = choices
            .iter()
            .map(|choice| required_space(&StorageLocation::of(choice), filling, 4_096))
            .collect();
        assert_eq!(
            needs.iter().map(|need| need.memory).collect::<Vec<_>>(),
            [4_296_000, 4_296_000, 4_296_000]
        );
        assert_eq!(
            needs.iter().map(|need| need.medium).collect::<Vec<_>>(),
            [4_096_000, 4_096_000, 0]
        );
        let assumed =
            choices.iter().map(|choice| assumed_session_bytes(&StorageLocation::of(choice), 1_500));
        assert_eq!(assumed.collect::<Vec<_>>(), [5_120, 5_120, 2_524]);
    }

    /// `ops` prepares ids for whatever it may create: more of them than sessions that it fills in.
    #[test]
    fn what_workers_prepare_counts_for_each_of_them_and_for_what_they_may_create() {
        let memory = |ids, workers| {
            required_space(
                &StorageLocation::Memory,
                PlannedFill { sessions: 10, ids, workers },
                2_000,
            )
            .memory
        };
        assert_eq!([memory(10, 1), memory(10, 8), memory(1_010, 8)], [21_000, 28_000, 828_000]);
    }

    #[test]
    fn what_no_machine_has_room_for_is_refused_with_what_it_needs() {
        let options = Options { payload_bytes: Some(1 << 20), ..Options::default() };
        let settings = options.check(Experiment::Cycle).unwrap();
        let choice = select(&["memory".to_owned()], Experiment::Cycle, Durability::None)
            .unwrap()
            .choices
            .remove(0);
        let fits = |sessions, seen| {
            check_fit(&choice, &settings, PlannedFill { sessions, ids: sessions, workers: 1 }, seen)
        };
        assert!(fits(1, None).is_ok());
        let why = fits(1_000_000_000, None).unwrap_err();
        assert!(
            why.starts_with("1000000000 sessions or more of 1048576 bytes (fixed) need about 97"),
            "{why}"
        );
        assert!(why.contains(" GiB, and ") && why.ends_with("iB of memory may be used"), "{why}");
        // A session was seen to take a byte: what is left of it are the ids.
        assert!(fits(1_000, Some(1)).is_ok());
        assert_eq!([bytes_text(3 << 19), bytes_text(3 << 29)], ["1.5 MiB", "1.5 GiB"]);
    }

    /// A container that had read or built much was said to have no memory left: all that it could
    /// not get back at once was used.
    #[test]
    fn the_cache_of_files_is_not_what_a_container_has_used_up() {
        let stat =
            "anon 100\nfile 900\nshmem 200\ninactive_file 300\nactive_file 400\nunevictable 0\n";
        assert_eq!(headroom("2000\n", "1000\n", stat), Some(1_700));
        assert_eq!(headroom("900\n", "1000\n", ""), Some(0));
        assert_eq!(headroom("max\n", "1000\n", stat), None);
    }

    #[test]
    fn this_machine_has_room() {
        assert!(memory_available() > 1 << 20);
        assert!(free_in(Path::new("/")) < u64::MAX);
    }

    /// A file that is made later lies where its directory will.
    #[test]
    fn the_room_of_a_path_that_is_not_there_yet_is_that_of_its_file_system() {
        assert_eq!(
            free_in(Path::new("/proc/none/sessions.db")),
            0,
            "the file system of processes has no blocks"
        );
        assert!(free_in(Path::new("/dev/shm/none/deeper/sessions.db")) > 0);
    }

    /// Its sessions take room on a machine of which we know nothing; the ids are here.
    #[test]
    fn a_server_elsewhere_needs_room_for_the_prepared_ids_only() {
        let url = "redis://240.0.0.1:6379/1".to_owned();
        let choice = select(&[url], Experiment::Cycle, Durability::None).unwrap().choices.remove(0);
        let need = required_space(
            &StorageLocation::of(&choice),
            PlannedFill { sessions: 1_000, ids: 1_000, workers: 2 },
            4_096,
        );
        assert_eq!((need.memory, need.medium), (200_000, 0));
        let settings = Options::default().check(Experiment::Cycle).unwrap();
        let fits = |ids| {
            check_fit(
                &choice,
                &settings,
                PlannedFill { sessions: 1_000_000_000, ids, workers: 1 },
                None,
            )
        };
        assert!(fits(1_000).is_ok());
        let why = fits(1_000_000_000_000).unwrap_err();
        assert!(why.ends_with(" of memory may be used"), "{why}");
    }
}
