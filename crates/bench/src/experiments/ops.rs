//! `ops`: create, read and change, each on its own: the hoster's benchmark of 1,500 random
//! characters.
//!
//! `change` locks, because an unlocked write loses updates. `create` grows the store; reads and
//! changes use only the sessions that were filled in.

use crate::experiments::Bench;
use crate::experiments::throughput::{self, MeasuredOp};
use crate::run::RunError;
use crate::worker::protocol::SampleAction;

const OPS: &[MeasuredOp] = &[
    MeasuredOp { name: throughput::CREATE, action: SampleAction::Create },
    MeasuredOp { name: "read", action: SampleAction::Read },
    MeasuredOp { name: "change", action: SampleAction::Cycle },
];

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    throughput::run(bench, &bench.choices.clone(), OPS)
}
