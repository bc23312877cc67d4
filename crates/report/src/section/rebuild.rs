//! A page that rebuilds its cache on each view, because the save was refused: a column for each
//! contender.

use maud::{Markup, html};
use sessile_results::tables::rebuild;

use super::{not_run, spoilt};
use crate::ids::ElementIds;
use crate::runs::{ExperimentRows, PageReports};
use crate::table::draw;

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let measured = runs.of_experiment("rebuild");
    html! {
        p {
            "Each view of a page needs one large entry of a cache. Where its save is refused the "
            "entry is never there, and every view builds it "
            "anew. The figures carry the names that load generators give them."
        }
        p.callout {
            strong { "Look at how often, and not at how long." } " What a rebuild works on is made "
            "up: ten passes of md5 for each value. So times, "
            "views a second and what follows from them are those of this page, and say nothing of "
            "another one. One view before the samples builds and saves "
            "the entry, so whoever keeps it has it in all of them."
        }
        @if measured.is_empty() { (not_run(runs, "rebuild")) }
        @for run in &measured {
            p { (spoilt(run.report)) } (draw(rebuild::table(&run.rows), ids)) (compressed(run))
        }
    }
}

/// Says that a contender has another entry than the others.
fn compressed(run: &ExperimentRows<'_>) -> Markup {
    let title =
        run.rows.iter().map(|row| row.subject.title()).find(|title| title.ends_with("#compressed"));
    html! {
        @if let Some(title) = title {
            p {
                strong { (title) " has another entry." } " It is as long as that of the others, "
                "but made of words that come again, as paths of templates "
                "do, and the extension compresses it; the entry of the others does not compress "
                "well. So it shows how far compression goes where it "
                "helps, and its times do not compare with theirs."
            }
        }
    }
}
