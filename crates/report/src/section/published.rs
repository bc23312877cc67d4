//! `ops` as a hoster published it, beside the corrected form: the same contenders, and what the difference is made of.

use maud::{Markup, html};
use sessile_bench::report::Row;

use super::throughput::{length, small};
use super::{KINDS, conditions, not_run};
use crate::DrawError;
use crate::chart::{Bar, BarRow, Bars, Length, Words};
use crate::ids::Ids;
use crate::number::{count, figure};
use crate::runs::{Run, Runs, complaint, tiers};
use crate::table::{Cell, Table, right, text};

/// What the published form appends to the name of a contender that connects anew.
const RECONNECT: &str = "reconnect";
/// What stands where the corrected figure would.
const NO_PARTNER: &str = "no corrected row";
const OPS: [&str; 3] = ["create", "read", "change"];

/// A row as published and the corrected one of the same contender, operation, workers and tier, if there is one.
type Pair<'a> = (&'a Row, Option<&'a Row>);

/// The comparison; without a corrected run there is nothing to compare with.
pub(super) fn body(
    runs: &Runs<'_>,
    corrected: &[Run<'_>],
    published: &[Run<'_>],
    ids: &Ids,
) -> Result<Markup, DrawError> {
    let pairs = pairs(corrected, published);
    let tiers = tiers(published);
    let tables = tiers.iter().map(|tier| table(&pairs, tier, &beside(&tiers, tier)));
    let mut figures = Vec::new();
    for op in OPS {
        for (kind, place) in KINDS {
            for tier in &tiers {
                let here = |(row, _): &&Pair<'_>| row.op == op && row.kind == kind && row.durability == *tier;
                let own: Vec<Pair<'_>> = pairs.iter().filter(here).copied().collect();
                if !own.is_empty() {
                    let beside = beside(&tiers, tier);
                    let title = format!("As published and corrected: {op}, {}{beside}", small(place));
                    figures.push(html! { h3 { (title) } (chart(&own, &title, op, ids)?) });
                }
            }
        }
    }
    Ok(html! {
        h3 { "As it was published" }
        p {
            "The published measurement timed more than the stores. A payload was drawn, character by character, inside the timed part; "
            "a database was connected to anew for each operation while Redis kept its connection; and sessions had a short "
            "life, so that a store which expires by itself was removing some meanwhile. The corrected form above draws payloads before, keeps all connections, and lets sessions live."
        }
        @if published.is_empty() { (not_run(runs, "ops --as-published")) }
        @else {
            @if corrected.is_empty() { p.not-run { strong { "There is no corrected run to compare it with." } } }
            @for run in published { (conditions(run)) } (drawing(&pairs)) @for figure in figures { (figure) } @for table in tables { (table.draw(ids)) }
        }
    })
}

fn pairs<'a>(corrected: &[Run<'a>], published: &[Run<'a>]) -> Vec<Pair<'a>> {
    let rows = |runs: &[Run<'a>]| runs.iter().flat_map(|run| run.rows.iter().copied()).collect::<Vec<&'a Row>>();
    let corrected = rows(corrected);
    let partner = |row: &'a Row| {
        let same = |other: &&&Row| {
            (&other.store, &other.op, other.workers, other.sessions, other.payload_bytes, &other.durability)
                == (&row.store, &row.op, row.workers, row.sessions, row.payload_bytes, &row.durability)
        };
        // A database that connects anew stands beside the one that does not.
        let variant = if row.variant == RECONNECT { "default" } else { row.variant.as_str() };
        corrected.iter().filter(same).find(|other| other.variant == variant).copied()
    };
    rows(published).into_iter().map(|row| (row, partner(row))).collect()
}

/// The contender of a pair.
fn title((published, corrected): &Pair<'_>) -> String {
    corrected.unwrap_or(published).title()
}

/// What the harness says that drawing a payload costs.
fn drawing(pairs: &[Pair<'_>]) -> Markup {
    let of_harness = |(row, _): &&Pair<'_>| row.store == "null" && row.op == "create" && row.workers == 1;
    let of_harness = pairs.iter().filter(of_harness).find_map(|(row, other)| Some((*row, (*other)?)));
    let Some((published, corrected)) = of_harness else { return html! {} };
    let us = published.latency_us.p50 - corrected.latency_us.p50;
    html! {
        p {
            "To draw " (count(published.payload_bytes as f64)) " characters took " (figure(us.max(0.0))) " \u{b5}s on this machine, by the row "
            code { "null" } ", which stores nothing. The slower the language of a benchmark, the more of its figures is that."
        }
    }
}

fn chart(pairs: &[Pair<'_>], heading: &str, op: &str, ids: &Ids) -> Result<Markup, DrawError> {
    let mut names: Vec<String> = Vec::new();
    for name in pairs.iter().map(title) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let bars = |name: &String| {
        let own = pairs.iter().filter(|pair| title(pair) == *name);
        let both = own.flat_map(|(published, corrected)| {
            let bar =
                |series, word: &str, length| Bar { series, name: format!("{}, {word}", published.workers), length };
            let none = || Length::Failed(NO_PARTNER.to_owned());
            [bar(0, "corrected", corrected.map_or_else(none, length)), bar(1, "published", length(published))]
        });
        both.collect()
    };
    let chart = Bars {
        words: Words {
            title: heading.to_owned(),
            description: "Two bars for each contender and number of workers; their values are in the table below."
                .to_owned(),
        },
        unit: format!("{op}s a second"),
        series: "workers, form".to_owned(),
        rows: names.iter().map(|name| BarRow { name: name.clone(), bars: bars(name) }).collect(),
    };
    Ok(html! { figure { (chart.draw(ids)?) figcaption { "Further to the right is better." } } })
}

/// How a heading ends that is of one tier among several.
fn beside(tiers: &[&str], tier: &str) -> String {
    if tiers.len() > 1 { format!(", tier {tier}") } else { String::new() }
}

fn table(pairs: &[Pair<'_>], tier: &str, beside: &str) -> Table {
    let columns = ["store", "operation", "workers", "corrected", "as published", "times", "note"];
    let mut table = Table::new(format!("Operations a second, corrected and as published{beside}"), &columns);
    let speed = |row: &Row| match row.failed {
        Some(_) => Cell::Bad("failed".to_owned()),
        None => right(count(row.ops_per_second.median)),
    };
    for pair in pairs.iter().filter(|(published, _)| published.durability == tier) {
        let (published, corrected) = *pair;
        let rate = |row: &Row| if row.failed.is_none() { row.ops_per_second.median } else { 0.0 };
        let (was, is) = (corrected.map_or(0.0, rate), rate(published));
        let times = if was > 0.0 && is > 0.0 { right(format!("{:.2}", is / was)) } else { Cell::Empty };
        let complaints = [("corrected", corrected), ("as published", Some(published))];
        let complaints = complaints.iter().filter_map(|(form, row)| Some(format!("{form}: {}", complaint((*row)?)?)));
        let complaints = complaints.collect::<Vec<String>>().join("; ");
        let note = match corrected {
            None if complaints.is_empty() => text(NO_PARTNER),
            None => Cell::Bad(format!("{NO_PARTNER}; {complaints}")),
            Some(_) if complaints.is_empty() => Cell::Empty,
            Some(_) => Cell::Bad(complaints),
        };
        let cells = [text(title(pair)), text(&published.op), right(published.workers)];
        let figures = [corrected.map_or(Cell::Empty, speed), speed(published), times, note];
        table.row(cells.into_iter().chain(figures).collect());
    }
    table
}
