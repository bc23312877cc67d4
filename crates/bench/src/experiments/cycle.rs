//! `cycle`: one locked request after the other: begin exclusively, read, change, commit.
//!
//! The figure that matters for an application. Sessions are chosen uniformly among all.

use crate::experiments::Bench;
use crate::experiments::throughput::{self, Op};
use crate::run::RunError;
use crate::worker::protocol::Action;

const OPS: &[Op] = &[Op { name: "cycle", action: Action::Cycle }];

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    throughput::run(bench, OPS)
}
