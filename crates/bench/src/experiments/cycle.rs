//! `cycle`: one locked request after the other: begin exclusively, read, change, commit; or a peek, the read alone.
//!
//! The figure that matters for an application. Sessions are chosen uniformly among all. Closed loop, or at a fixed
//! rate with latency from the moment when a request was due; on a fresh store, or on one that was rewritten.

use crate::experiments::Bench;
use crate::experiments::throughput::{self, Op};
use crate::options::CycleOp;
use crate::run::RunError;
use crate::worker::protocol::Action;

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    let ops: Vec<Op> = bench.settings.ops.iter().copied().map(measured).collect();
    throughput::run(bench, &bench.choices.clone(), &ops)
}

/// What a worker does for it.
pub(super) fn measured(op: CycleOp) -> Op {
    let action = match op {
        CycleOp::Cycle => Action::Cycle,
        CycleOp::Peek => Action::Read,
    };
    Op { name: op.name(), action }
}
