//! Sessions in Perl: the cost of opening and closing one, what each keeper locks, and the
//! consequences.

use maud::{Markup, html};
use sessile_results::tables::perl;
use sessile_results::{KINDS, Row};

use super::{conditions, not_run};
use crate::ids::ElementIds;
use crate::runs::{ExperimentRows, PageReports};
use crate::table::draw;

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let measured = runs.by_tier("perl", |_| true);
    html! {
        p {
            "In a process of Perl sessions are opened, ten values are read and ten written in "
            "turn, and they are closed once more. Compare keepers with the same lock and as many "
            "sessions. " em { "whole" } ": nobody else has the session from open "
            "to close. " em { "shared" } ": several may, and of two changes one can be lost. "
            em { "none" } ": nothing beyond a single call."
        }
        @if measured.is_empty() { (not_run(runs, "perl")) }
        @for run in &measured {
            (conditions(run))
            // What makes sessions is in the JSON only.
            @let rows = reopening(run);
            @for (kind, place) in KINDS { (draw(perl::times(&rows, kind, place), ids)) }
            (draw(perl::races(&run.rows), ids))
        }
    }
}

fn reopening<'a>(run: &ExperimentRows<'a>) -> Vec<&'a Row> {
    run.rows.iter().copied().filter(|row| row.op != "make" || row.is_bad()).collect()
}
