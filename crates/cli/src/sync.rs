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
    store.sync()?;
    let took = units::duration(start.elapsed());
    print(&format!("all that was acknowledged is on the disk ({took})\n"))
}
