//! Sessions in PHP, Python, Node and Perl, each in its own runtime.

use maud::{Markup, html};
use sessile_results::tables::languages;

use super::{conditions, each};
use crate::ids::ElementIds;
use crate::runs::PageReports;
use crate::table::draw;

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    html! {
        p {
            "Each language opens, changes and saves sessions through the session classes of its "
            "frameworks, and counts what it reads. Compare rows of one framework. Floors keep "
            "nothing: they are what a framework or its serialiser takes whatever keeps sessions. "
            "In PHP one start in ten collects garbage in " code { "start-gc-0.1" } ", and "
            code { "session_gc" } " removes nine of ten sessions."
        }
        (each(runs, "languages", |run| {
            html! { (conditions(run)) (draw(languages::table(&run.rows), ids)) }
        }))
    }
}
