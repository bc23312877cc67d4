//! `cycle`: locked requests, peeks, or the requests of a workload.
//!
//! The figure that matters for an application. The loop is closed, or runs at a fixed rate with
//! latency from the moment when a request was due.

use sessile_results::Workload;

use crate::experiments::Bench;
use crate::experiments::throughput::{self, MeasuredOp};
use crate::options::CycleOp;
use crate::payload_spread::PayloadSpread;
use crate::run::RunError;
use crate::selection::{Choice, ContenderSource};
use crate::worker::protocol::SampleAction;

/// Its own op name, so that nobody takes workload rows for cycles.
const REQUEST: &str = "request";

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    let ops: Vec<MeasuredOp> = match bench.settings.workload {
        None => bench.settings.ops.iter().copied().map(measured_op).collect(),
        Some(workload) => {
            apply_workload(bench, workload);
            vec![MeasuredOp { name: REQUEST, action: SampleAction::Request(workload) }]
        }
    };
    throughput::run(bench, &bench.choices.clone(), &ops)
}

pub(super) fn measured_op(op: CycleOp) -> MeasuredOp {
    let action = match op {
        CycleOp::Cycle => SampleAction::Cycle,
        CycleOp::Peek => SampleAction::Read,
    };
    MeasuredOp { name: op.name(), action }
}

/// Applies the sizes of a workload, and leaves out contenders that cannot take part.
fn apply_workload(bench: &mut Bench, workload: Workload) {
    let settings = &mut bench.settings;
    settings.payload_bytes =
        settings.spread.mean(settings.seed, settings.sessions, settings.payload_bytes);
    let sizes_differ = settings.spread != PayloadSpread::Fixed;
    bench.keep_choices(|choice| obstacle(choice, workload, sizes_differ));
}

fn obstacle(choice: &Choice, workload: Workload, sizes_differ: bool) -> Option<String> {
    let name = workload.name();
    match choice.target {
        ContenderSource::Reference(reference) if sizes_differ && !reference.any_size => {
            Some(format!("its slots are of one size, and the sessions of {name} are not"))
        }
        _ if workload.creates() && !choice.creates => {
            Some(format!("its table has a fixed size, and requests of {name} make sessions"))
        }
        _ => None,
    }
}
