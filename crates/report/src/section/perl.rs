//! What a program in Perl pays to open a session and to close it, by what its keeper locks.

use maud::{Markup, html};
use sessile_bench::report::Row;

use super::throughput::{length, small};
use super::{KINDS, interval, not_run, spoilt};
use crate::DrawError;
use crate::chart::{Bar, BarRow, Bars, Words};
use crate::ids::Ids;
use crate::number::{count, figure};
use crate::runs::{Run, Runs, fault, titles};
use crate::table::{Cell, Table, right, text};

pub(super) fn body(runs: &Runs<'_>, ids: &Ids) -> Result<Markup, DrawError> {
    let measured = runs.of_experiment("perl");
    Ok(html! {
        p {
            "A process of Perl opens a session, reads ten values and writes ten in turn, and closes it: all sessions as new ones ("
            em { "make" } "), then once more (" em { "reopen" } "). Compare keepers that lock alike: " em { "whole" }
            " keeps others away from open to close, " em { "shared" } " lets several in, and of two changes one can be lost, " em { "none" }
            " covers nothing beyond a single call."
        }
        @if measured.is_empty() { (not_run(runs, "perl")) }
        @for run in &measured { (of_run(run, ids)?) }
    })
}

fn of_run(run: &Run<'_>, ids: &Ids) -> Result<Markup, DrawError> {
    let mut figures = Vec::new();
    for op in ["make", "reopen"] {
        for (kind, place) in KINDS {
            let here = |row: &&&Row| row.op == op && row.kind == kind;
            let rows: Vec<&Row> = run.rows.iter().filter(here).copied().collect();
            if !rows.is_empty() {
                figures.push(html! { h3 { (op) ", " (small(place)) } (chart(run, &rows, op, &small(place), ids)?) });
            }
        }
    }
    let bytes = run.rows.first().map_or(0, |row| row.payload_bytes);
    Ok(html! {
        p.conditions { "Sessions of " (count(bytes as f64)) " bytes." (spoilt(run.report)) }
        @for figure in figures { (figure) }
        (table(run).draw(ids))
        (asides(run))
    })
}

fn chart(run: &Run<'_>, rows: &[&Row], op: &str, place: &str, ids: &Ids) -> Result<Markup, DrawError> {
    let sizes = run.distinct(|row| row.sessions);
    let mut names = titles(rows);
    let best = |name: &str| {
        let own = rows.iter().filter(|row| row.title() == name && row.failed.is_none());
        own.map(|row| row.ops_per_second.median).fold(-1.0, f64::max)
    };
    names.sort_by(|a, b| best(b).total_cmp(&best(a)));
    let bars = |name: &String| {
        let own = rows.iter().filter(|row| row.title() == *name);
        let series = |row: &Row| sizes.iter().position(|size| *size == row.sessions).unwrap_or(0) as u8;
        own.map(|row| Bar { series: series(row), name: count(row.sessions as f64), length: length(row) }).collect()
    };
    let bars = Bars {
        words: Words {
            title: format!("Sessions a second, {op}, {place}"),
            description: "A bar for each keeper, the fastest first; its values are in the table below.".to_owned(),
        },
        unit: "sessions a second, from open to close".to_owned(),
        series: "sessions".to_owned(),
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

fn table(run: &Run<'_>) -> Table {
    let columns =
        ["keeper", "lock", "op", "sessions", "a second", "lowest", "highest", "p50", "p90", "p99", "Perl", "server"];
    let caption = "Sessions a second, latency and processor time of one from open to close in microseconds";
    let mut table = Table::new(caption, &columns);
    for row in &run.rows {
        let locking = row.keeper.as_ref().map_or("not told", |keeper| keeper.locking.as_str());
        let mut cells = vec![text(row.title()), text(locking), text(&row.op), right(count(row.sessions as f64))];
        if row.failed.is_some() {
            cells.push(Cell::Bad("failed".to_owned()));
            cells.extend((0..7).map(|_| Cell::Empty));
        } else {
            let (rate, latency, cpu) = (row.ops_per_second, row.latency_us, row.cpu_us_per_op);
            let speed = right(count(rate.median));
            cells.push(fault(row).map_or(speed, Cell::Bad));
            cells.extend([rate.low, rate.high].map(|rate| right(count(rate))));
            cells.extend([latency.p50, latency.p90, latency.p99, cpu.client].map(|us| right(figure(us))));
            cells.push(if row.kind == "socket" { right(figure(cpu.server)) } else { Cell::Empty });
        }
        table.row(cells);
    }
    table
}

/// What stands for what, and what it costs to keep all sessions as one value.
fn asides(run: &Run<'_>) -> Markup {
    let keepers = || run.rows.iter().filter_map(|row| Some((row, row.keeper.as_ref()?)));
    let mut stand_ins: Vec<(&str, &str)> =
        keepers().filter_map(|(row, keeper)| Some((row.store.as_str(), keeper.stands_for.as_deref()?))).collect();
    stand_ins.dedup();
    html! {
        ul.notes {
            @for (name, original) in stand_ins { li { code { (name) } " stands in for " (original) ", which is not packaged." } }
            @for (row, keeper) in keepers() {
                @if let Some(cache) = &keeper.whole_cache {
                    li {
                        code { (row.title()) } " with " (count(row.sessions as f64)) " sessions, " (row.op)
                        ": for each that is opened and saved, all " (count(cache.bytes as f64)) " bytes become a hash "
                        (format!("{:.1}", cache.thaws_per_session)) " times and a value again "
                        (format!("{:.1}", cache.freezes_per_session)) " times, which is "
                        (format!("{:.0}", cache.serialising * 100.0)) " % of the time."
                    }
                }
            }
        }
    }
}
