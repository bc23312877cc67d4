//! The fate of a session of megabytes: stored, refused with an error, or lost.

use maud::{Markup, html};
use sessile_results::tables::oversize;

use super::{each, spoilt};
use crate::ids::ElementIds;
use crate::runs::PageReports;
use crate::table::draw;

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    html! {
        p {
            "A request saves a large payload over a small one. A time: it was stored and read "
            "back. " em { "Refused" } ": there was an error, and the "
            "old payload is in place. " em { "Lost" } ": what was acknowledged, or what was there "
            "before, is gone."
        }
        (each(runs, "oversize", |run| {
            html! { p { (spoilt(run.report)) } (draw(oversize::table(&run.rows), ids)) }
        }))
    }
}
