//! Experiments that have no section of their own: every row, as operations a second.

use maud::{Markup, html};

use super::throughput;
use crate::DrawError;
use crate::ids::Ids;
use crate::runs::Runs;

const OF_THEIR_OWN: [&str; 11] =
    ["cycle", "ops", "lifecycle", "gc", "scale", "contention", "expiry", "oversize", "rebuild", "perl", "faults"];

/// Every other experiment that the results contain; nothing when there is none.
pub(super) fn body(runs: &Runs<'_>, ids: &Ids) -> Result<Option<Markup>, DrawError> {
    let others: Vec<&str> = runs.experiments().into_iter().filter(|name| !OF_THEIR_OWN.contains(name)).collect();
    let mut parts = Vec::new();
    for name in &others {
        for run in runs.of_experiment(name) {
            parts.push(throughput::of_run(&run, ids)?);
        }
    }
    Ok((!parts.is_empty()).then(|| html! { @for part in parts { (part) } }))
}
