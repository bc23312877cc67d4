//! `sessile metrics`: a store for Prometheus. Changes nothing.

use sessile_core::Clock;
use sessile_watch::{Sampler, metrics, serve_metrics};

use crate::arguments::MetricsArguments;
use crate::command_result::CommandResult;
use crate::existing_store;
use crate::interrupted;
use crate::terminal::print;

pub fn run(arguments: &MetricsArguments) -> CommandResult {
    let store = existing_store::open_to_look(&arguments.url)?;
    let Some(address) = arguments.listen else {
        return print(&metrics(&Sampler::new(store, Clock::system()).sample()));
    };
    interrupted::watch();
    Ok(serve_metrics(
        &store,
        address,
        |served| eprintln!("metrics at http://{}/metrics", served.address()),
        interrupted::is_so,
    )?)
}
