//! `cycle`: one locked request after the other: begin exclusively, read, change, commit; or a peek, the read alone; or what the
//! requests of a workload do.
//!
//! The figure that matters for an application. Sessions are chosen uniformly among all, unless a workload says otherwise. Closed
//! loop, or at a fixed rate with latency from the moment when a request was due; on a fresh store, or on one that was rewritten.

use crate::experiments::Bench;
use crate::experiments::throughput::{self, Op};
use crate::options::CycleOp;
use crate::run::RunError;
use crate::selection::{Choice, Target};
use crate::spread::Spread;
use crate::traffic::Workload;
use crate::worker::protocol::Action;

/// What a workload measures. Its rows have a name of their own, so that nobody takes them for those of cycles.
const REQUEST: &str = "request";

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    let ops: Vec<Op> = match bench.settings.workload {
        None => bench.settings.ops.iter().copied().map(measured).collect(),
        Some(workload) => {
            settle(bench, workload);
            vec![Op { name: REQUEST, action: Action::Request(workload) }]
        }
    };
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

/// Puts the sizes of a workload in force, and leaves out who cannot take part in it.
fn settle(bench: &mut Bench, workload: Workload) {
    let settings = &mut bench.settings;
    settings.spread = settings.spreads.first().cloned().unwrap_or_default();
    settings.payload_bytes = settings.spread.mean(settings.seed, settings.sessions, settings.payload_bytes);
    let differ = settings.spread != Spread::Fixed;
    bench.keep_choices(|choice| obstacle(choice, workload, differ));
}

fn obstacle(choice: &Choice, workload: Workload, differ: bool) -> Option<String> {
    let name = workload.name();
    match choice.target {
        Target::Reference(reference) if differ && !reference.any_size => {
            Some(format!("its slots are of one size, and the sessions of {name} are not"))
        }
        _ if workload.creates() && !choice.creates => {
            Some(format!("its table has a fixed size, and requests of {name} make sessions"))
        }
        _ => None,
    }
}
