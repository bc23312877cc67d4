//! Experiments of other versions of this program: every row, as operations per second.

use maud::{Markup, html};
use sessile_bench::Experiment;

use super::throughput;
use crate::DrawError;
use crate::ids::ElementIds;
use crate::runs::PageReports;

/// All experiments of the results without a section; `None` if there are none.
pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Result<Option<Markup>, DrawError> {
    let others: Vec<&str> =
        runs.experiments().into_iter().filter(|it| Experiment::from_name(it).is_none()).collect();
    let mut parts = Vec::new();
    for name in &others {
        for run in runs.of_experiment(name) {
            parts.push(throughput::of_run(&run, ids)?);
        }
    }
    Ok((!parts.is_empty()).then(|| html! { @for part in parts { (part) } }))
}
