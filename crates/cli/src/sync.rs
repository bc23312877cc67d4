//! `sessile sync`: everything that was acknowledged so far survives a power cut from now on.

use std::time::Instant;

use crate::arguments::SyncArguments;
use crate::opened;
use crate::outcome::Outcome;
use crate::terminal::print;
use crate::units;

/// Syncs.
pub fn run(arguments: &SyncArguments) -> Outcome {
    let store = opened::open(&arguments.url)?;
    let start = Instant::now();
    store.sync().map_err(|error| opened::failure(&error))?;
    let took = units::milliseconds(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
    print(&format!("all that was acknowledged is on the disk ({took})\n"))
}
