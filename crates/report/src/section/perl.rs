//! Sessions in Perl: the cost of opening and closing one, what each keeper locks, and the
//! consequences.

use maud::{Markup, html};
use sessile_bench::report::Row;

use super::throughput::{length, small};
use super::{KINDS, conditions, interval, not_run, went_wrong};
use crate::DrawError;
use crate::chart::{Bar, BarRow, Bars, ChartText};
use crate::ids::ElementIds;
use crate::number::{count, figure, short, with_noun};
use crate::runs::{ExperimentRows, PageReports, titles};
use crate::table::{HtmlTable, TableCell, right, text};

/// Sessions are created, and opened again.
const OPS: [&str; 2] = ["make", "reopen"];

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let measured = runs.by_tier("perl", |_| true);
    Ok(html! {
        p {
            "In a process of Perl sessions are opened, ten values are read and ten written in "
            "turn, and they are closed: as new ones "
            "(make), then once more (reopen). Only keepers with the same lock and as many sessions "
            "stand in one chart. " em { "whole" } ": nobody else has the session from open "
            "to close. " em { "shared" } ": several may, and of two changes one can be lost. "
            em { "none" } ": nothing beyond a single call."
        }
        @if measured.is_empty() { (not_run(runs, "perl")) }
        @for run in &measured { (of_run(run, ids)?) }
    })
}

fn of_run(run: &ExperimentRows<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let mut charts = Vec::new();
    for op in OPS {
        for (kind, place) in KINDS {
            // More locking is more work, and the cost depends on the number of sessions: each
            // combination has its own chart.
            for (lock, sessions) in run.distinct(|row| (locking(row).to_owned(), row.sessions)) {
                let here = |row: &&&Row| {
                    row.op == op
                        && row.kind == kind
                        && locking(row) == lock
                        && row.sessions == sessions
                };
                let rows: Vec<&Row> = run.rows.iter().filter(here).copied().collect();
                if !rows.is_empty() {
                    let group = format!(
                        "{}, lock: {lock}, {}{}",
                        small(place),
                        with_noun(sessions, "session"),
                        run.tier_suffix
                    );
                    charts.push(
                        html! { h3 { (op) ", " (group) } (chart(run, &rows, op, &group, ids)?) },
                    );
                }
            }
        }
    }
    let tables: Vec<HtmlTable> =
        KINDS.iter().map(|(kind, place)| times(run, kind, place)).collect();
    let race = races(run);
    Ok(html! {
        (conditions(run))
        @for chart in charts { (chart) }
        @for table in tables.iter().filter(|table| !table.is_empty()) { (table.draw(ids)) }
        @if !race.is_empty() { (race.draw(ids)) }
        @for title in titles(&run.rows) { (stand_in(run, &title)) }
    })
}

/// What a keeper locks; empty for an unknown keeper.
fn locking(row: &Row) -> &str {
    row.keeper.as_ref().map_or("unknown", |keeper| keeper.locking.as_str())
}

/// Fastest first.
fn chart(
    run: &ExperimentRows<'_>,
    rows: &[&Row],
    op: &str,
    group: &str,
    ids: &ElementIds,
) -> Result<Markup, DrawError> {
    let mut names = titles(rows);
    let best = |name: &str| {
        let own = rows.iter().filter(|row| row.title() == name && row.failed.is_none());
        own.map(|row| row.ops_per_second.median).fold(-1.0, f64::max)
    };
    names.sort_by(|a, b| best(b).total_cmp(&best(a)));
    let bars = |name: &String| {
        let own = rows.iter().filter(|row| row.title() == *name);
        own.map(|row| Bar { series: 0, name: locking(row).to_owned(), length: length(row) })
            .collect()
    };
    let bars = Bars {
        words: ChartText {
            title: format!("Sessions a second, {op}, {group}"),
            description: "A bar for each keeper with this lock, the fastest first; its values are \
                          in the table below."
                .to_owned(),
        },
        unit: "sessions a second, from open to close".to_owned(),
        series: "lock".to_owned(),
        rows: names.iter().map(|name| BarRow { name: name.clone(), bars: bars(name) }).collect(),
    };
    let rounds = rows.iter().map(|row| row.rounds).max().unwrap_or(0);
    Ok(html! {
        figure {
            (bars.draw(ids)?)
            figcaption { (interval(run.report, rounds)) " Further to the right is better." }
        }
    })
}

fn times(run: &ExperimentRows<'_>, kind: &str, place: &str) -> HtmlTable {
    let columns = [
        "store",
        "operation",
        "sessions",
        "lock",
        "a second",
        "slowest..fastest",
        "p50",
        "p99",
        "p99.9",
        "went wrong",
    ];
    let mut table = HtmlTable::new(
        format!("{place}: open to close, latency in microseconds{}", run.tier_suffix),
        &columns,
    );
    for row in run.rows.iter().filter(|row| row.kind == kind) {
        let mut cells = vec![
            text(row.title()),
            text(&row.op),
            right(count(row.sessions as f64)),
            text(locking(row)),
        ];
        if row.failed.is_some() {
            cells.push(TableCell::Bad("failed".to_owned()));
            cells.extend([TableCell::Empty, TableCell::Empty, TableCell::Empty, TableCell::Empty]);
        } else {
            let (rate, latency) = (row.ops_per_second, row.latency_us);
            cells.push(right(count(rate.median)));
            cells.push(right(format!("{}..{}", short(rate.low), short(rate.high))));
            cells.extend([latency.p50, latency.p99, latency.p999].map(|us| right(figure(us))));
        }
        cells.push(went_wrong(row));
        table.row(cells);
    }
    table
}

fn races(run: &ExperimentRows<'_>) -> HtmlTable {
    let columns = ["store", "lock", "changes", "changes lost", "new sessions", "new sessions lost"];
    let caption =
        "Two processes at once: they change one session, then each makes sessions of its own";
    let mut table = HtmlTable::new(format!("{caption}{}", run.tier_suffix), &columns);
    for row in &run.rows {
        let Some(keeper) = &row.keeper else { continue };
        let Some(race) = &keeper.race else { continue };
        let mut cells = vec![text(row.title()), text(&keeper.locking)];
        match &race.broke {
            Some(why) => {
                cells.push(TableCell::Bad(why.clone()));
                cells.extend([TableCell::Empty, TableCell::Empty, TableCell::Empty]);
            }
            None => cells.extend(
                [(race.changes, race.changes_lost), (race.sessions, race.sessions_lost)]
                    .into_iter()
                    .flat_map(|(all, gone)| [right(count(all as f64)), lost(gone)]),
            ),
        }
        table.row(cells);
    }
    table
}

fn lost(gone: u64) -> TableCell {
    if gone == 0 { right("0") } else { TableCell::Bad(count(gone as f64)) }
}

/// Explains the stand-in, and why it slows down with each session.
fn stand_in(run: &ExperimentRows<'_>, title: &str) -> Markup {
    let own: Vec<&Row> = run.rows.iter().filter(|row| row.title() == title).copied().collect();
    let keepers = || own.iter().filter_map(|row| row.keeper.as_ref());
    let original = keepers().find_map(|keeper| keeper.stands_for.as_deref());
    let largest = own.iter().max_by_key(|row| row.sessions).map_or(0, |row| row.sessions);
    let here = |row: &&&Row| row.sessions == largest;
    let cache = own.iter().filter(here).find_map(|row| row.keeper.as_ref()?.whole_cache.as_ref());
    html! {
        @if let Some(original) = original {
            p {
                (title) " stands in for " (original) ", which is not packaged."
                @if let Some(cache) = cache {
                    " With " (count(largest as f64)) " sessions, each one that is opened and saved "
                    "turns all of them (" (count(cache.bytes as f64))
                    " bytes) into a hash " (short(cache.thaws_per_session)) " times and back "
                    (short(cache.freezes_per_session)) " times."
                }
            }
        }
    }
}
