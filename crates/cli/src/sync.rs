//! `sessile sync`: makes all acknowledged changes survive a power cut.

use std::time::Instant;

use crate::arguments::SyncArguments;
use crate::command_result::CommandResult;
use crate::existing_store;
use crate::terminal::print;
use crate::units;

pub fn run(arguments: &SyncArguments) -> CommandResult {
    let store = existing_store::open_to_look(&arguments.url)?;
    let start = Instant::now();
    store.sync().map_err(|error| existing_store::failure(&error))?;
    let took = units::milliseconds(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
    print(&format!("all that was acknowledged is on the disk ({took})\n"))
}
