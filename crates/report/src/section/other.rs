//! Experiments without a section: every row, as operations per second.

use maud::{Markup, html};

use super::throughput;
use crate::DrawError;
use crate::ids::ElementIds;
use crate::runs::PageReports;

const OF_THEIR_OWN: [&str; 11] = [
    "cycle",
    "ops",
    "lifecycle",
    "gc",
    "scale",
    "contention",
    "expiry",
    "oversize",
    "rebuild",
    "perl",
    "faults",
];

/// All other experiments of the results; `None` if there are none.
pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Result<Option<Markup>, DrawError> {
    let others: Vec<&str> =
        runs.experiments().into_iter().filter(|name| !OF_THEIR_OWN.contains(name)).collect();
    let mut parts = Vec::new();
    for name in &others {
        for run in runs.of_experiment(name) {
            parts.push(throughput::of_run(&run, ids)?);
        }
    }
    Ok((!parts.is_empty()).then(|| html! { @for part in parts { (part) } }))
}
