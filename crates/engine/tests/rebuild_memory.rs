//! The heap of a rebuild. The kernel refuses more than it is granted, so a file of its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sessile_core::{Clock, Key, Limits, Sessions, Ttl};
use sessile_engine::{EngineOptions, SyncMode, open};

const MIB: u64 = 1 << 20;
const PAYLOAD: [u8; 300] = [7; 300];

fn opened(path: &Path) -> Sessions {
    let options = EngineOptions { sync: Some(SyncMode::Never), ..EngineOptions::default() };
    let engine = open(path, Clock::system(), &options).unwrap();
    Sessions::new("sessile:", engine, Limits::default())
}

fn key(number: u64) -> Key {
    Key::session(&format!("session-{number}")).unwrap()
}

/// In KiB, of this process.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

/// Makes a store of so many sessions, every fifth of them written twice, and opens it without its
/// control plane and with so much more private memory than before.
fn rebuild_within(sessions: u64, heap_bytes_max: u64) {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let path = folder.path().join("store");
    let ttl = Ttl::sliding(Duration::from_secs(86_400)).unwrap();
    let filling = Instant::now();
    let before = opened(&path);
    for number in 0..sessions {
        let created = before.create(&key(number), &PAYLOAD, ttl);
        created.unwrap_or_else(|error| panic!("{number}: {error:#}; {:?}", before.details()));
        if number % 5 == 4 {
            let again = before.begin(&key(number - 4), Duration::ZERO).unwrap();
            again.lease.commit(&PAYLOAD, ttl).unwrap();
        }
    }
    drop(before);
    println!("{sessions} sessions made in {:.0?}", filling.elapsed());
    let plane = std::fs::read_to_string(path.join("plane")).unwrap();
    let control = plane.lines().next().unwrap().strip_prefix("control ").unwrap();
    std::fs::remove_dir_all(control).unwrap();
    // After a reboot.
    std::fs::remove_file(path.join("plane")).unwrap();
    let usual = getrlimit(Resource::Data);
    let data = status("VmData") * 1_024 + heap_bytes_max;
    setrlimit(Resource::Data, Rlimit { current: Some(data), ..usual }).unwrap();
    let start = Instant::now();
    let after = opened(&path);
    let took = start.elapsed();
    let (peak, shared) = (status("VmHWM"), status("RssShmem") + status("RssFile"));
    println!(
        "rebuilt in {took:.1?} within {} MiB of heap; {} MiB resident at most, of which {} MiB are \
         mapped files",
        heap_bytes_max / MIB,
        peak / 1_024,
        shared / 1_024
    );
    setrlimit(Resource::Data, usual).unwrap();
    assert_eq!(after.peek(&key(0)).unwrap().unwrap().payload, PAYLOAD);
    assert_eq!(after.peek(&key(sessions - 1)).unwrap().unwrap().payload, PAYLOAD);
    drop(after);
    let plane = std::fs::read_to_string(path.join("plane")).unwrap();
    let control = plane.lines().next().unwrap().strip_prefix("control ").unwrap();
    std::fs::remove_dir_all(control).unwrap();
}

/// A rebuild once kept 216 bytes of heap for each record of the log: 13 GB for 50 million sessions
/// of which every fifth had been written twice.
#[test]
fn a_rebuild_needs_no_heap_for_its_records() {
    rebuild_within(40_000, 4 * MIB);
}

#[test]
#[ignore = "about 31 GB on the disk and 8 GB in /dev/shm, as 10 million took a fifth"]
fn rebuild_of_50_million() {
    let sessions = std::env::var("SESSILE_SESSIONS").ok().and_then(|count| count.parse().ok());
    rebuild_within(sessions.unwrap_or(50_000_000), 64 * MIB);
}
