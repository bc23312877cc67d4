//! The cost of a request and of a session: processor time and space, with the most workers.

use maud::{Markup, html};
use sessile_results::Row;
use sessile_results::tables::throughput;

use crate::ids::ElementIds;
use crate::runs::{PageReports, most_workers};
use crate::table::folded;

/// The first of these that was measured in a closed loop.
const WEIGHED: [&str; 2] = ["cycle", "ops"];

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let rows = |experiment: &&str| weighed(runs, experiment);
    let measured = WEIGHED.iter().map(|it| (it, rows(it))).find(|(_, rows)| !rows.is_empty());
    html! {
        p {
            "Processor time of the workers contains the harness; that of a server is its own "
            "process. Space is all files and shared memory of a store, or by how "
            "much its process has grown. Of a server that keeps sessions on its disk this is "
            "memory and not their space, so that it is no multiple of the payload."
        }
        @match measured {
            Some((experiment, rows)) => {
                (folded(throughput::resources(&rows, experiment), ids))
            }
            None => { p.not-run { strong { "Not measured." } } }
        }
    }
}

/// At a fixed rate workers spin until a request is due.
fn weighed<'a>(runs: &PageReports<'a>, experiment: &str) -> Vec<&'a Row> {
    let mut weighed = Vec::new();
    for run in runs.of_experiment(experiment) {
        if run.report.settings.rate.is_some() || run.report.settings.as_published {
            continue;
        }
        let most = most_workers(&run.rows);
        weighed
            .extend(run.only(|row| row.question.workers == most || row.outcome.failed.is_some()));
    }
    weighed
}
