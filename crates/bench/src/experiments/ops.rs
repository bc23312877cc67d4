//! `ops`: create, read and change, each on its own: the hoster's benchmark of 1,500 random characters.
//!
//! `change` is a locked read and write, because an unlocked one loses updates. `create` adds sessions, so
//! the store grows while it is measured; reads and changes choose among the sessions that were there at first.

use crate::experiments::Bench;
use crate::experiments::throughput::{self, Op};
use crate::run::RunError;
use crate::worker::protocol::Action;

const OPS: &[Op] = &[
    Op { name: throughput::CREATE, action: Action::Create },
    Op { name: "read", action: Action::Read },
    Op { name: "change", action: Action::Cycle },
];

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    throughput::run(bench, &bench.choices.clone(), OPS)
}
