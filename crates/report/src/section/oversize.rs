//! The fate of a session of megabytes: stored, refused with an error, or lost.

use maud::{Markup, html};
use sessile_bench::report::{Row, SaveOutcome};

use super::{not_run, spoilt};
use crate::ids::ElementIds;
use crate::number::{bytes, count, figure};
use crate::runs::{ExperimentRows, PageReports, titles};
use crate::table::{HtmlTable, TableCell, right, text};

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let measured = runs.by_tier("oversize", |_| true);
    html! {
        p {
            "A request saves a large payload over a small one. A time: it was stored and read "
            "back. " em { "Refused" } ": there was an error, and the "
            "old payload is in place. " em { "Lost" } ": what was acknowledged, or what was there "
            "before, is gone."
        }
        @if measured.is_empty() { (not_run(runs, "oversize")) }
        @for run in &measured { p { (spoilt(run.report)) } (table(run).draw(ids)) }
    }
}

fn table(run: &ExperimentRows<'_>) -> HtmlTable {
    let sized = |row: &&&Row| row.oversize.is_some();
    let mut sizes: Vec<usize> =
        run.rows.iter().filter(sized).map(|row| row.payload_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let columns: Vec<String> = sizes.iter().map(|size| bytes(*size as f64)).collect();
    let header: Vec<&str> = std::iter::once("store")
        .chain(columns.iter().map(String::as_str))
        .chain(["its limit in bytes"])
        .collect();
    let tier = run.tier().map_or(String::new(), |tier| format!(", tier {tier}"));
    let caption = format!(
        "One session whose payload becomes large: what the store said beside what it holds{tier}"
    );
    let mut table = HtmlTable::new(caption, &header);
    for title in titles(&run.rows) {
        let own = || run.rows.iter().filter(|row| row.shown_title() == title);
        let cells = sizes.iter().map(|size| {
            own()
                .find(|row| row.payload_bytes == *size)
                .map_or(TableCell::Bad("failed".into()), |row| outcome(row))
        });
        let limit = own().find_map(|row| row.oversize.as_ref()?.limit);
        let limit = limit.map_or(TableCell::Empty, |limit| right(count(limit as f64)));
        table.row(std::iter::once(text(&title)).chain(cells).chain([limit]).collect());
    }
    table
}

fn outcome(row: &Row) -> TableCell {
    match row.oversize.as_ref().map(|oversize| (oversize.outcome, oversize.silent)) {
        None => TableCell::Bad("failed".to_owned()),
        Some((SaveOutcome::Stored, _)) => right(format!("{} ms", figure(row.latency_us.p50 / 1e3))),
        Some((SaveOutcome::Lost, true)) => TableCell::Bad("LOST, silently".to_owned()),
        Some((SaveOutcome::Lost, false)) => TableCell::Bad("LOST, with an error".to_owned()),
        Some((outcome, _)) => right(outcome.name()),
    }
}
