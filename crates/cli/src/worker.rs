//! The hidden verb: this program as a worker of its own benchmark.

use crate::outcome::{Failure, Outcome};

/// Serves until the parent closes the pipe.
pub fn run() -> Outcome {
    sessile_bench::worker::serve(&|_, _, _| None).map_err(|error| Failure::usage(format!("a worker's orders: {error}")))
}
