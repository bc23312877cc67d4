//! The hidden verb: this program as a worker of its own benchmark.

use crate::arguments::WORKER_VERB;
use crate::command_result::{CommandFailure, CommandResult};

/// Whether this process was started as a worker.
pub fn is_asked_for() -> bool {
    std::env::args_os().nth(1).is_some_and(|verb| verb == WORKER_VERB)
}

/// Serves until the parent closes the pipe.
pub fn run() -> CommandResult {
    sessile_bench::worker::serve(&|_, _, _| None)
        .map_err(|error| CommandFailure::usage(format!("a worker's orders: {error}")))
}
