//! What a history is like, drawn from its seed.

use std::time::{Duration, Instant};

use crate::SyncMode;
use crate::memory::Mutation;
use crate::tests::disk::PlannedFault;

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub tier: SyncMode,
    pub processes: usize,
    pub sessions: usize,
    pub payload_bytes_max: usize,
    /// Of 100 payloads, so many are in chunks.
    pub chunked: u8,
    pub size_bytes_max: u64,
    /// Segments that the disk has room for.
    pub room: Option<u64>,
    /// Of 100 changes, during so many a sync fails.
    pub faults: u8,
    pub tells_once: bool,
    /// Besides.
    pub fault: PlannedFault,
    pub background_calls: Option<u8>,
    /// Of 100 events of the disk, at so many another process does something.
    pub nested: u8,
    /// Changes of the disk between two cuts, at most; images of each.
    pub cut_every: u64,
    pub images: usize,
    /// Of recoveries that write to the disk, how many are cut short within each other.
    pub recoveries: usize,
    pub steps: usize,
    pub lives: usize,
    /// Of 100 times to live, so many are short.
    pub short: u8,
    pub destroys: u8,
    /// Of 100 waits, so many are of hours.
    pub long_waits: u8,
    /// Its changes are printed.
    pub told: bool,
    /// It ends then.
    pub until: Option<Instant>,
    /// It is run to see that a mistake is found.
    pub mutation: Option<Mutation>,
}

impl Plan {
    pub fn drawn(seed: u64) -> Plan {
        let mut random = fastrand::Rng::with_seed(seed);
        let second = SyncMode::Interval(Duration::from_secs(1));
        let tiers = [SyncMode::EachChange, SyncMode::EachChange, second, second, SyncMode::Never];
        let tier = tiers[random.usize(0..tiers.len())];
        let crowded = random.u8(0..8) == 0;
        let mut plan = Plan {
            seed,
            tier,
            processes: random.usize(1..=3),
            sessions: random.usize(3..24),
            payload_bytes_max: [200, 2_000, 9_000, 30_000][random.usize(0..4)],
            chunked: [0, 0, 8, 40][random.usize(0..4)],
            size_bytes_max: if random.bool() { 8 << 20 } else { 0 },
            room: crowded.then(|| random.u64(6..12)),
            faults: if random.u8(0..3) == 0 { random.u8(1..30) } else { 0 },
            tells_once: random.bool(),
            fault: None,
            background_calls: random.bool().then(|| random.u8(0..20)),
            nested: [0, 3, 10][random.usize(0..3)],
            cut_every: random.u64(4..60),
            images: random.usize(2..6),
            recoveries: 3,
            steps: random.usize(100..500),
            lives: random.usize(1..4),
            short: [0, 10, 60][random.usize(0..3)],
            destroys: [4, 10, 25][random.usize(0..3)],
            long_waits: [2, 2, 30][random.usize(0..3)],
            until: None,
            mutation: None,
            told: std::env::var_os("SESSILE_POWERCUT_SEED").is_some(),
        };
        if random.u8(0..6) == 0 {
            // The process that has begun a sync never notices its end.
            plan.background_calls = plan.background_calls.map(|_| u8::MAX);
        }
        plan
    }
}
