//! What the laboratory has tried: images by their content, in each tier, and recoveries that were
//! cut short.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex};

use crate::SyncMode;

#[derive(Default)]
pub struct Count {
    pub distinct: HashSet<u64>,
    pub tiers: [usize; 3],
    /// Images of a store, of its recovery, and of the recovery from that.
    pub depths: [usize; 3],
}

static COUNT: LazyLock<Mutex<Count>> = LazyLock::new(Mutex::default);

pub fn count_image(hash: u64, tier: SyncMode, depth: usize) {
    let mut count = COUNT.lock().unwrap();
    if count.distinct.insert(hash) {
        let tier = match tier {
            SyncMode::Never => 0,
            SyncMode::Interval(_) => 1,
            SyncMode::EachChange => 2,
        };
        count.tiers[tier] += 1;
        count.depths[depth - 1] += 1;
    }
}

pub fn counted<T>(look: impl FnOnce(&Count) -> T) -> T {
    look(&COUNT.lock().unwrap())
}
