//! Sessions in Perl: the cost of opening and closing one, what each keeper locks, and the
//! consequences.

use maud::{Markup, html};
use sessile_bench::report::Row;

use super::{KINDS, conditions, not_run, went_wrong};
use crate::ids::ElementIds;
use crate::number::{count, short};
use crate::runs::{ExperimentRows, PageReports, titles};
use crate::table::{HtmlTable, TableCell, percentiles, right, text};

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
            @for (kind, place) in KINDS {
                @let table = times(run, kind, place);
                @if !table.is_empty() { (table.draw(ids)) }
            }
            @let race = races(run);
            @if !race.is_empty() { (race.draw(ids)) }
            @for title in titles(&run.rows) { (stand_in(run, &title)) }
        }
    }
}

/// What a keeper locks; empty for an unknown keeper.
fn locking(row: &Row) -> &str {
    row.keeper.as_ref().map_or("unknown", |keeper| keeper.locking.as_str())
}

fn times(run: &ExperimentRows<'_>, kind: &str, place: &str) -> HtmlTable {
    let columns = [
        "store",
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
    // What makes sessions is in the JSON only.
    for row in run.rows.iter().filter(|row| row.kind == kind && (row.op != "make" || row.is_bad()))
    {
        let mut cells =
            vec![text(row.title()), right(count(row.sessions as f64)), text(locking(row))];
        if row.failed.is_some() {
            cells.push(TableCell::Bad("failed".to_owned()));
            cells.extend([TableCell::Empty, TableCell::Empty, TableCell::Empty, TableCell::Empty]);
        } else {
            let rate = row.ops_per_second;
            cells.push(right(count(rate.median)));
            cells.push(right(format!("{}..{}", short(rate.low), short(rate.high))));
            cells.extend(percentiles(row.latency_us, row.operations));
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
