//! How much room the machine has, so that a store which cannot fit is left out instead of filling it up.
//!
//! All sessions must fit into memory, those on a disk too: the kernel keeps in memory what was read and written there. A store that
//! is larger than memory answers another question, how fast the disk is, and no experiment asks it.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use sessile_core::Durability;

use crate::selection::{Choice, Target};

/// Part of the free room that may be used: the rest of the machine goes on living.
const USABLE: f64 = 0.8;
/// What a worker keeps for one session besides the store: its id, and its size.
const PREPARED_BYTES: u64 = 100;
/// Assumed of a store that was not seen yet: the payload, in whole pages if in files, and as much as an inode for itself.
const PAGE_BYTES: u64 = 4_096;
const OVERHEAD_BYTES: u64 = 1_024;

/// Room in memory and on the medium of a contender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub memory: u64,
    pub medium: u64,
}

/// Where a contender's sessions take room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Medium {
    Memory,
    SharedMemory,
    Disk,
}

impl Room {
    /// What may be used now.
    pub(crate) fn now(choice: &Choice) -> Room {
        let usable = |bytes: u64| (bytes as f64 * USABLE) as u64;
        let memory = usable(memory_available());
        let medium = match medium(choice) {
            Medium::Memory => memory,
            Medium::SharedMemory => memory.min(usable(free(Path::new("/dev/shm")))),
            Medium::Disk => usable(free(&disk())),
        };
        Room { memory, medium }
    }
}

/// What a contender needs: in memory, and on its medium if that is another one.
pub(crate) fn need(choice: &Choice, sessions: usize, session_bytes: u64, workers: usize) -> Room {
    let prepared = sessions as u64 * PREPARED_BYTES * workers as u64;
    let stored = sessions as u64 * session_bytes;
    Room { memory: prepared + stored, medium: if medium(choice) == Medium::Memory { 0 } else { stored } }
}

/// What a session is assumed to take of a store that was not seen yet.
pub(crate) fn assumed_session_bytes(choice: &Choice, payload_bytes: usize) -> u64 {
    let payload = payload_bytes as u64;
    let in_pages = medium(choice) != Medium::Memory;
    OVERHEAD_BYTES + if in_pages { payload.next_multiple_of(PAGE_BYTES) } else { payload }
}

fn medium(choice: &Choice) -> Medium {
    match choice.target {
        Target::Fixture(_, fixture) if fixture.url.contains("{disk}") => Medium::Disk,
        Target::Fixture(_, fixture) if fixture.url.contains("{shm}") => Medium::SharedMemory,
        // A server that promises more than memory can has its private directory on a disk.
        Target::Fixture(entry, _) | Target::FixtureOn(entry, ..)
            if entry.capabilities.server.is_some() && outlives_memory(entry.capabilities.durability) =>
        {
            Medium::Disk
        }
        Target::Reference(reference) if reference.server.is_some() && outlives_memory(reference.durability) => {
            Medium::Disk
        }
        Target::Reference(reference) if reference.shared_by_processes && reference.server.is_none() => {
            Medium::SharedMemory
        }
        Target::Fixture(..)
        | Target::FixtureOn(..)
        | Target::Reference(_)
        | Target::Url(..)
        | Target::Handler(_)
        | Target::Keeper(_)
        | Target::Test(..) => Medium::Memory,
    }
}

fn outlives_memory(tiers: &[Durability]) -> bool {
    tiers.iter().any(|tier| *tier != Durability::None)
}

fn disk() -> PathBuf {
    std::env::var_os("SESSILE_DISK").map_or_else(|| "/var/tmp".into(), PathBuf::from)
}

/// Free bytes of a file system; plenty if it does not tell, because then its limit is another one.
fn free(place: &Path) -> u64 {
    statvfs(place).map_or(u64::MAX, |stat| stat.blocks_available().saturating_mul(stat.fragment_size()))
}

/// What the kernel would give out without swapping, and what the container may still take.
fn memory_available() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = kib.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib * 1_024).min(container_headroom().unwrap_or(u64::MAX))
}

/// The limit of the control group, as a container sees its own (v2): file cache is given back when memory is short.
fn container_headroom() -> Option<u64> {
    let number = |name: &str| fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse::<u64>().ok();
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::selection::select;

    /// A store on a disk was measured with more sessions than fit into memory, and nothing said that the disk was measured then.
    #[test]
    fn a_store_on_disk_must_fit_into_memory_too() {
        let stores: Vec<String> = ["files#default", "files#shm", "memory"].map(str::to_owned).into();
        let choices = select(&stores, Experiment::Scale, Durability::None).unwrap().choices;
        let needs: Vec<Room> = choices.iter().map(|choice| need(choice, 1_000, 4_096, 2)).collect();
        assert_eq!(needs.iter().map(|need| need.memory).collect::<Vec<_>>(), [4_296_000, 4_296_000, 4_296_000]);
        assert_eq!(needs.iter().map(|need| need.medium).collect::<Vec<_>>(), [4_096_000, 4_096_000, 0]);
        let assumed = choices.iter().map(|choice| assumed_session_bytes(choice, 1_500));
        assert_eq!(assumed.collect::<Vec<_>>(), [5_120, 5_120, 2_524]);
    }

    #[test]
    fn this_machine_has_room() {
        assert!(memory_available() > 1 << 20);
        assert!(free(Path::new("/")) < u64::MAX);
    }
}
