//! How much room the machine has, so that a store which cannot fit is left out instead of filling it up.
//!
//! All sessions must fit into memory, those on a disk too: the kernel keeps in memory what was read and written there. A store that
//! is larger than memory answers another question, how fast the disk is, and no experiment asks it.

use std::fs;
use std::path::Path;

use nix::sys::statvfs::statvfs;

use crate::medium::Medium;
use crate::options::Settings;
use crate::selection::Choice;

/// Part of the free room that may be used: the rest of the machine goes on living.
const USABLE: f64 = 0.8;
/// What a worker keeps for one session besides the store: its id, and its size.
const PREPARED_BYTES: u64 = 100;
/// Assumed of a store that was not seen yet: the payload, in whole pages if in files, and as much as an inode for itself.
const PAGE_BYTES: u64 = 4_096;
const OVERHEAD_BYTES: u64 = 1_024;

/// What a contender is about to hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling {
    /// Sessions that are filled in.
    pub sessions: usize,
    /// Ids that each worker prepares: of these sessions, and of those that requests will make.
    pub ids: usize,
    pub workers: usize,
}

/// Room in memory and on the medium of a contender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub memory: u64,
    pub medium: u64,
}

impl Room {
    /// What is free now. What lies in the kernel's cache of files counts as free, the sessions of others on a disk too.
    pub(crate) fn free(medium: &Medium) -> Room {
        let medium = match medium {
            Medium::Memory | Medium::Elsewhere => u64::MAX,
            Medium::FileSystem(path) => free_in(path),
        };
        Room { memory: memory_available(), medium }
    }

    /// What of it may be used.
    pub(crate) fn usable(self) -> Room {
        let usable = |bytes: u64| (bytes as f64 * USABLE) as u64;
        Room { memory: usable(self.memory), medium: usable(self.medium) }
    }
}

/// What a contender needs and what it may use now, or why it cannot be filled. `seen` is how many bytes a session of it took when
/// that was last looked at.
pub(crate) fn fit(
    choice: &Choice,
    settings: &Settings,
    filling: Filling,
    seen: Option<u64>,
) -> Result<(Room, Room), String> {
    let medium = Medium::of(choice);
    let session_bytes = session_bytes(choice, &medium, settings.payload_bytes, seen);
    let (need, room) = (need(&medium, filling, session_bytes), Room::free(&medium).usable());
    let (needed, free, place) = if need.memory > room.memory {
        (need.memory, room.memory, "memory")
    } else if need.medium > room.medium {
        (need.medium, room.medium, "the place of its sessions")
    } else {
        return Ok((need, room));
    };
    let (sessions, bytes, spread) = (filling.sessions, settings.payload_bytes, settings.spread.name());
    Err(format!(
        "{sessions} sessions or more of {bytes} bytes ({spread}) need about {}, and {} of {place} may be used",
        in_words(needed),
        in_words(free)
    ))
}

fn in_words(bytes: u64) -> String {
    let (unit, name) = if bytes < 1 << 30 { (1 << 20, "MiB") } else { (1 << 30, "GiB") };
    format!("{:.1} {name}", bytes as f64 / f64::from(unit))
}

/// What a contender needs: in memory, and on its medium if that is another one.
pub(crate) fn need(medium: &Medium, filling: Filling, session_bytes: u64) -> Room {
    let prepared = filling.ids as u64 * PREPARED_BYTES * filling.workers as u64;
    let stored = filling.sessions as u64 * session_bytes;
    match medium {
        Medium::Memory => Room { memory: prepared + stored, medium: 0 },
        Medium::FileSystem(_) => Room { memory: prepared + stored, medium: stored },
        Medium::Elsewhere => Room { memory: prepared, medium: 0 },
    }
}

/// What a session takes: as seen, else as assumed of a store that was not seen yet.
pub(crate) fn session_bytes(choice: &Choice, medium: &Medium, payload_bytes: usize, seen: Option<u64>) -> u64 {
    match seen {
        // A server may keep less in memory than it has stored.
        Some(bytes) if choice.over_socket => bytes.max(payload_bytes as u64),
        Some(bytes) => bytes,
        None => assumed_session_bytes(medium, payload_bytes),
    }
}

fn assumed_session_bytes(medium: &Medium, payload_bytes: usize) -> u64 {
    let payload = payload_bytes as u64;
    let in_pages = matches!(medium, Medium::FileSystem(_));
    OVERHEAD_BYTES + if in_pages { payload.next_multiple_of(PAGE_BYTES) } else { payload }
}

/// Free bytes of the file system in which a path lies, or will lie; plenty if it does not tell, because then its limit is another one.
fn free_in(path: &Path) -> u64 {
    let stat = path.ancestors().find_map(|place| statvfs(place).ok());
    stat.map_or(u64::MAX, |stat| stat.blocks_available().saturating_mul(stat.fragment_size()))
}

/// What the kernel would give out without swapping, and what the container may still take.
fn memory_available() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = kib.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib * 1_024).min(container_headroom().unwrap_or(u64::MAX))
}

/// The limit of the control group, as a container sees its own (v2).
fn container_headroom() -> Option<u64> {
    let read = |name: &str| fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok();
    headroom(&read("memory.max")?, &read("memory.current")?, &read("memory.stat").unwrap_or_default())
}

/// What is left below a limit. What is used contains the cache of files, which the kernel gives back when memory is short; shared
/// memory is not on these two lists.
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

    /// A store on a disk was measured with more sessions than fit into memory, and nothing said that the disk was measured then.
    #[test]
    fn a_store_on_disk_must_fit_into_memory_too() {
        let stores: Vec<String> = ["files#default", "files#shm", "memory"].map(str::to_owned).into();
        let choices = select(&stores, Experiment::Scale, Durability::None).unwrap().choices;
        let filling = Filling { sessions: 1_000, ids: 1_000, workers: 2 };
        let needs: Vec<Room> = choices.iter().map(|choice| need(&Medium::of(choice), filling, 4_096)).collect();
        assert_eq!(needs.iter().map(|need| need.memory).collect::<Vec<_>>(), [4_296_000, 4_296_000, 4_296_000]);
        assert_eq!(needs.iter().map(|need| need.medium).collect::<Vec<_>>(), [4_096_000, 4_096_000, 0]);
        let assumed = choices.iter().map(|choice| assumed_session_bytes(&Medium::of(choice), 1_500));
        assert_eq!(assumed.collect::<Vec<_>>(), [5_120, 5_120, 2_524]);
    }

    /// `ops` prepares ids for whatever it may create: more of them than sessions that it fills in.
    #[test]
    fn what_workers_prepare_counts_for_each_of_them_and_for_what_they_may_create() {
        let memory = |ids, workers| need(&Medium::Memory, Filling { sessions: 10, ids, workers }, 2_000).memory;
        assert_eq!([memory(10, 1), memory(10, 8), memory(1_010, 8)], [21_000, 28_000, 828_000]);
    }

    #[test]
    fn what_no_machine_has_room_for_is_refused_with_what_it_needs() {
        let options = Options { payload_bytes: Some(1 << 20), ..Options::default() };
        let settings = options.check(Experiment::Cycle).unwrap();
        let choice = select(&["memory".to_owned()], Experiment::Cycle, Durability::None).unwrap().choices.remove(0);
        let fit = |sessions, seen| fit(&choice, &settings, Filling { sessions, ids: sessions, workers: 1 }, seen);
        assert!(fit(1, None).is_ok());
        let why = fit(1_000_000_000, None).unwrap_err();
        assert!(why.starts_with("1000000000 sessions or more of 1048576 bytes (fixed) need about 97"), "{why}");
        assert!(why.contains(" GiB, and ") && why.ends_with("iB of memory may be used"), "{why}");
        // A session was seen to take a byte: what is left of it are the ids.
        assert!(fit(1_000, Some(1)).is_ok());
        assert_eq!([in_words(3 << 19), in_words(3 << 29)], ["1.5 MiB", "1.5 GiB"]);
    }

    /// A container that had read or built much was said to have no memory left: all that it could not get back at once was used.
    #[test]
    fn the_cache_of_files_is_not_what_a_container_has_used_up() {
        let stat = "anon 100\nfile 900\nshmem 200\ninactive_file 300\nactive_file 400\nunevictable 0\n";
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
        assert_eq!(free_in(Path::new("/proc/none/sessions.db")), 0, "the file system of processes has no blocks");
        assert!(free_in(Path::new("/dev/shm/none/deeper/sessions.db")) > 0);
    }

    /// Its sessions take room on a machine of which we know nothing; the ids are here.
    #[test]
    fn a_server_elsewhere_needs_room_for_the_prepared_ids_only() {
        let url = "redis://240.0.0.1:6379/1".to_owned();
        let choice = select(&[url], Experiment::Cycle, Durability::None).unwrap().choices.remove(0);
        let need = need(&Medium::of(&choice), Filling { sessions: 1_000, ids: 1_000, workers: 2 }, 4_096);
        assert_eq!((need.memory, need.medium), (200_000, 0));
        let settings = Options::default().check(Experiment::Cycle).unwrap();
        let fit = |ids| fit(&choice, &settings, Filling { sessions: 1_000_000_000, ids, workers: 1 }, None);
        assert!(fit(1_000).is_ok());
        let why = fit(1_000_000_000_000).unwrap_err();
        assert!(why.ends_with(" of memory may be used"), "{why}");
    }
}
