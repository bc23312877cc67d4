//! Experiments that have no section of their own: every row, in the order of the result.

use maud::{Markup, html};

use super::throughput;
use crate::DrawError;
use crate::ids::Ids;
use crate::runs::Runs;

const OF_THEIR_OWN: [&str; 10] =
    ["cycle", "ops", "lifecycle", "perl", "gc", "scale", "contention", "expiry", "oversize", "faults"];

/// Every other experiment that the results contain.
pub(super) fn body(runs: &Runs<'_>, ids: &Ids) -> Result<Markup, DrawError> {
    let others: Vec<&str> = runs.experiments().into_iter().filter(|name| !OF_THEIR_OWN.contains(name)).collect();
    let mut parts = Vec::new();
    for name in &others {
        for run in runs.of_experiment(name) {
            parts.push(throughput::of_run(&run, ids)?);
        }
    }
    Ok(html! {
        @if others.is_empty() { p { "There are none in these results." } }
        @for part in parts { (part) }
    })
}
