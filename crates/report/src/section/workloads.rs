//! Workloads: each is a separate question.

use maud::{Markup, html};
use sessile_results::Workload;

use super::throughput;
use crate::ids::ElementIds;
use crate::runs::PageReports;

/// `None` if there is none.
pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Option<Markup> {
    let mut parts = Vec::new();
    for run in runs.of_workloads() {
        let name = run.report.workload().unwrap_or_default();
        let description = Workload::from_name(name).map_or("", Workload::description);
        let rate = run
            .report
            .settings
            .rate
            .map(|rate| format!(", {rate} requests a second of each worker"));
        parts.push(html! {
            h3 { "Workload " (name) (rate.unwrap_or_default()) }
            p { "Assumed: " (description) "." }
            (throughput::of_run(&run, ids))
        });
    }
    let introduction = html! {
        p {
            "Requests that do not all change a session, or do not ask for all sessions alike. What "
            "they do is assumed, not measured. Compare "
            "within a workload only."
        }
    };
    (!parts.is_empty()).then(|| html! { (introduction) @for part in parts { (part) } })
}
