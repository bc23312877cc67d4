//! Free space, checked once before a contender is filled; one without room is left out.
//!
//! All sessions must fit into memory, those on a disk too, because the kernel caches files in
//! memory. A store larger than memory would measure the disk, which no experiment asks for.

use std::fs;
use std::path::Path;

use nix::sys::statvfs::statvfs;

use crate::options::Settings;
use crate::selection::Choice;
use crate::storage_location::StorageLocation;
use crate::worker::memory;

/// Part of the free space that may be used.
const USABLE: f64 = 0.8;
/// A worker's memory for each session: id and size.
const PREPARED_BYTES: u64 = 100;
/// Assumed for a store that was not measured yet: the payload (whole pages in files) and as much as
/// an inode.
const PAGE_BYTES: u64 = 4_096;
const OVERHEAD_BYTES: u64 = 1_024;

/// `prepared`: ids that all workers together prepare. `seen`: bytes of a session when it was last
/// measured. The error is a sentence for the user.
pub(crate) fn check(
    choice: &Choice,
    settings: &Settings,
    sessions: usize,
    prepared: usize,
    seen: Option<u64>,
) -> Result<(), String> {
    let place = StorageLocation::of(choice);
    let each = session_bytes(choice, &place, settings.payload_bytes, seen);
    let (stored, ids) = (sessions as u64 * each, prepared as u64 * PREPARED_BYTES);
    let [memory, file_system] = usable_bytes(&place);
    let (need, usable, of) = if stored + ids > memory {
        (stored + ids, memory, "memory")
    } else if stored > file_system {
        (stored, file_system, "the place of its sessions")
    } else {
        return Ok(());
    };
    let (bytes, spread) = (settings.payload_bytes, settings.spread.name());
    let (need, usable) = (bytes_text(need), bytes_text(usable));
    Err(format!(
        "{sessions} sessions or more of {bytes} bytes ({spread}) need about {need}, and {usable} \
         of {of} may be used"
    ))
}

/// Further sessions of this many bytes for which there is room now. What takes no space is not
/// limited.
pub(crate) fn further_sessions(choice: &Choice, settings: &Settings, bytes: u64) -> usize {
    let place = StorageLocation::of(choice);
    let seen = Some(bytes).filter(|bytes| *bytes > 0);
    let each = session_bytes(choice, &place, settings.payload_bytes, seen);
    let [memory, file_system] = usable_bytes(&place);
    let sessions = memory.min(file_system).checked_div(each).unwrap_or(u64::MAX);
    usize::try_from(sessions).unwrap_or(usize::MAX)
}

/// Of memory, and of the file system. The kernel's file cache counts as free.
fn usable_bytes(place: &StorageLocation) -> [u64; 2] {
    let bytes = match place {
        StorageLocation::Memory => [memory_available(), u64::MAX],
        StorageLocation::FileSystem(path) => [memory_available(), free_in(path)],
        StorageLocation::Unknown => [u64::MAX; 2],
    };
    bytes.map(|bytes| (bytes as f64 * USABLE) as u64)
}

fn bytes_text(bytes: u64) -> String {
    let (unit, name) = if bytes < 1 << 30 { (1 << 20, "MiB") } else { (1 << 30, "GiB") };
    format!("{:.1} {name}", bytes as f64 / f64::from(unit))
}

fn session_bytes(
    choice: &Choice,
    place: &StorageLocation,
    payload_bytes: usize,
    seen: Option<u64>,
) -> u64 {
    let payload = payload_bytes as u64;
    match (seen, place) {
        // A server may keep less in memory than it has stored.
        (Some(bytes), _) if choice.over_socket => bytes.max(payload),
        (Some(bytes), _) => bytes,
        (None, StorageLocation::FileSystem(_)) => {
            OVERHEAD_BYTES + payload.next_multiple_of(PAGE_BYTES)
        }
        (None, _) => OVERHEAD_BYTES + payload,
    }
}

/// Free bytes of the file system of a path that may not exist yet. `u64::MAX` if unknown.
fn free_in(path: &Path) -> u64 {
    let stat = path.ancestors().find_map(|place| statvfs(place).ok());
    stat.map_or(u64::MAX, |stat| stat.blocks_available().saturating_mul(stat.fragment_size()))
}

/// Memory available without swapping, within the container's limit.
fn memory_available() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let told = text.contains("MemAvailable:");
    let available = if told { memory::field(&text, "MemAvailable:") } else { u64::MAX };
    available.min(container_headroom().unwrap_or(u64::MAX))
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
    use crate::options::Options;
    use crate::selection::select;
    use sessile_results::experiment::Experiment;

    fn choice(name: &str) -> Choice {
        select(&[name.to_owned()], Experiment::Cycle, Durability::None).unwrap().choices.remove(0)
    }

    fn settings() -> Settings {
        let options = Options { payload_bytes: Some(1 << 20), ..Options::default() };
        options.check(Experiment::Cycle).unwrap()
    }

    #[test]
    fn what_no_machine_has_room_for_is_refused_with_what_it_needs() {
        let fits = |sessions, prepared, seen| {
            check(&choice("memory"), &settings(), sessions, prepared, seen)
        };
        assert!(fits(1, 1, None).is_ok());
        let why = fits(1_000_000_000, 1, None).unwrap_err();
        assert!(
            why.starts_with("1000000000 sessions or more of 1048576 bytes (fixed) need about 97"),
            "{why}"
        );
        assert!(why.contains(" GiB, and ") && why.ends_with("iB of memory may be used"), "{why}");
        // A session was seen to take a byte: what is left of it are the ids.
        assert!(fits(1_000, 1_000, Some(1)).is_ok());
        assert!(fits(1_000, 1 << 40, Some(1)).is_err());
        assert_eq!([bytes_text(3 << 19), bytes_text(3 << 29)], ["1.5 MiB", "1.5 GiB"]);
    }

    /// Nothing is known of its machine: one that is large was refused on a small one.
    #[test]
    fn the_users_server_is_not_asked() {
        let remote = choice("redis://240.0.0.1:6379/1");
        assert!(check(&remote, &settings(), 1_000_000_000, 1, None).is_ok());
    }

    #[test]
    fn a_session_in_a_file_is_assumed_to_take_whole_pages() {
        let bytes = |name: &str, seen| {
            let choice = choice(name);
            session_bytes(&choice, &StorageLocation::of(&choice), 1_500, seen)
        };
        assert_eq!([bytes("files#shm", None), bytes("memory", None)], [5_120, 2_524]);
        assert_eq!(bytes("files#shm", Some(1_700)), 1_700);
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
}
