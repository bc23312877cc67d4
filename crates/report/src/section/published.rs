//! `ops` in the published form next to the corrected form: the same contenders, and the causes of
//! the difference.

use maud::{Markup, html};
use sessile_results::number::{count, figure};
use sessile_results::table::{ResultTable, TableCell, bad, right, text};
use sessile_results::{Question, Row};

use super::{conditions, not_run};
use crate::ids::ElementIds;
use crate::runs::{ExperimentRows, PageReports, tiers};
use crate::table::draw;

/// The published variant of a contender that connects for each operation.
const RECONNECT: &str = "reconnect";
const NO_PARTNER: &str = "no corrected row";

/// A published row, and the corrected row of the same contender, operation, workers and tier, if
/// any.
type PublishedPair<'a> = (&'a Row, Option<&'a Row>);

/// The comparison, which needs a corrected run.
pub(super) fn body(
    runs: &PageReports<'_>,
    corrected: &[ExperimentRows<'_>],
    published: &[ExperimentRows<'_>],
    ids: &ElementIds,
) -> Markup {
    let pairs = pairs(corrected, published);
    let tiers = tiers(published);
    let tables = tiers.iter().map(|tier| table(&pairs, tier, &beside(&tiers, tier)));
    html! {
        h3 { "As it was published" }
        p {
            "The published measurement timed more than the stores. A payload was drawn, character "
            "by character, inside the timed part; "
            "a database was connected to anew for each operation while Redis kept its connection; "
            "and sessions had a short "
            "life, so that a store which expires by itself was removing some meanwhile. The "
            "corrected form above draws payloads before, keeps all connections, and lets sessions "
            "live."
        }
        @if published.is_empty() { (not_run(runs, "ops --as-published")) }
        @else {
            @if corrected.is_empty() {
                p.not-run { strong { "There is no corrected run to compare it with." } }
            }
            @for run in published { (conditions(run)) } (drawing(&pairs))
            @for table in tables { (draw(table, ids)) }
        }
    }
}

fn pairs<'a>(
    corrected: &[ExperimentRows<'a>],
    published: &[ExperimentRows<'a>],
) -> Vec<PublishedPair<'a>> {
    let rows = |runs: &[ExperimentRows<'a>]| {
        runs.iter().flat_map(|run| run.rows.iter().copied()).collect::<Vec<&'a Row>>()
    };
    let corrected = rows(corrected);
    let key = |row: &'a Row| {
        let asked = &row.question;
        let sizes = (asked.workers, asked.sessions, asked.payload_bytes);
        (&row.subject.store, &asked.op, &asked.durability, sizes)
    };
    let partner = |row: &'a Row| {
        let same = |other: &&&'a Row| key(other) == key(row);
        // A reconnecting database is compared with the connected one.
        let variant =
            if row.subject.variant == RECONNECT { "default" } else { row.subject.variant.as_str() };
        corrected.iter().filter(same).find(|other| other.subject.variant == variant).copied()
    };
    rows(published).into_iter().map(|row| (row, partner(row))).collect()
}

fn title((published, corrected): &PublishedPair<'_>) -> String {
    corrected.unwrap_or(published).subject.title()
}

/// The cost of drawing a payload, as the harness reports it.
fn drawing(pairs: &[PublishedPair<'_>]) -> Markup {
    let of_harness = |(row, _): &&PublishedPair<'_>| {
        row.subject.store == "null" && row.question.op == "create" && row.question.workers == 1
    };
    let of_harness =
        pairs.iter().filter(of_harness).find_map(|(row, other)| Some((*row, (*other)?)));
    let Some((published, corrected)) = of_harness else { return html! {} };
    let us = published.figures.latency_us.p50 - corrected.figures.latency_us.p50;
    html! {
        p {
            "To draw " (count(published.question.payload_bytes as f64)) " characters took "
            (figure(us.max(0.0))) " \u{b5}s on this machine, by the row "
            code { "null" } ", which stores nothing. The slower the language of a benchmark, the "
            "more of its figures is that."
        }
    }
}

/// The end of a heading of one tier among several.
fn beside(tiers: &[&str], tier: &str) -> String {
    if tiers.len() > 1 { format!(", tier {tier}") } else { String::new() }
}

fn table(pairs: &[PublishedPair<'_>], tier: &str, beside: &str) -> ResultTable {
    let columns = ["store", "operation", "workers", "corrected", "as published", "times", "note"];
    let mut table = ResultTable::new(
        format!("Operations a second, corrected and as published{beside}"),
        columns,
    );
    let speed = |row: &Row| match row.outcome.failed {
        Some(_) => bad("failed"),
        None => right(count(row.figures.ops_per_second.median)),
    };
    let most = pairs.iter().map(|(published, _)| published.question.workers).max().unwrap_or(0);
    let shown = pairs
        .iter()
        .filter(|(row, _)| row.question.durability == tier && row.question.workers == most);
    for pair in shown {
        let (published, corrected) = *pair;
        let rate = |row: &Row| {
            if row.outcome.failed.is_none() { row.figures.ops_per_second.median } else { 0.0 }
        };
        let (was, is) = (corrected.map_or(0.0, rate), rate(published));
        let times = if was > 0.0 && is > 0.0 {
            right(format!("{:.2}", is / was))
        } else {
            TableCell::Empty
        };
        let complaints = [("corrected", corrected), ("as published", Some(published))];
        let complaints = complaints
            .iter()
            .filter_map(|(form, row)| Some(format!("{form}: {}", (*row)?.complaint()?)));
        let complaints = complaints.collect::<Vec<String>>().join("; ");
        let note = match corrected {
            None if complaints.is_empty() => text(NO_PARTNER),
            None => bad(format!("{NO_PARTNER}; {complaints}")),
            Some(_) if complaints.is_empty() => TableCell::Empty,
            Some(_) => bad(complaints),
        };
        let Question { op, workers, .. } = &published.question;
        let cells = [text(title(pair)), text(op), right(workers)];
        let figures = [corrected.map_or(TableCell::Empty, speed), speed(published), times, note];
        table.row(cells.into_iter().chain(figures));
    }
    table
}
