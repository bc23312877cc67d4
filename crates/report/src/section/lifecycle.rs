//! Pages of a web server a second by the number of parallel requests, and what becomes of a cache that is full.

use maud::{Markup, html};
use sessile_bench::report::Row;

use super::{not_run, spoilt};
use crate::DrawError;
use crate::chart::{Axis, Curve, Curves, Words};
use crate::ids::Ids;
use crate::number::{count, figure, short};
use crate::runs::{Run, Runs, titles};
use crate::table::{Cell, Table, right, text};

pub(super) fn body(runs: &Runs<'_>, ids: &Ids) -> Result<Markup, DrawError> {
    let measured = runs.of_experiment("lifecycle");
    Ok(html! {
        p {
            "nginx and php-fpm give out a page that starts a session, stores 100 values, regenerates the id, destroys the session and starts "
            "another one that stays. Each line is a session handler of PHP; garbage collection is off for all."
        }
        @if measured.is_empty() { (not_run(runs, "lifecycle")) }
        @for run in &measured { (of_run(run, ids)?) }
    })
}

fn of_run(run: &Run<'_>, ids: &Ids) -> Result<Markup, DrawError> {
    let (pages, others): (Vec<&Row>, Vec<&Row>) = run.rows.iter().partition(|row| row.op == "page");
    let processes = pages.iter().find_map(|row| row.web).map_or(0, |web| web.processes);
    let rounds = pages.iter().map(|row| row.rounds).max().unwrap_or(0);
    let requests = pages.iter().map(|row| row.sessions).max().unwrap_or(0);
    Ok(html! {
        p.conditions {
            (processes) " processes of PHP, " (rounds) " rounds of " (count(requests as f64)) " requests in each combination." (spoilt(run.report))
        }
        figure { (curves(run, &pages).draw(ids)?) figcaption { "A missing point is a combination that failed; the table says so. Higher is better." } }
        (by_parallel(&pages).draw(ids))
        (costs(&pages).draw(ids))
        @if others.iter().any(|row| row.visitors().is_some()) { (visitors(&others).draw(ids)) }
        @for row in others { (overflow(row)) }
    })
}

fn parallel(rows: &[&Row]) -> Vec<usize> {
    let mut parallel: Vec<usize> = rows.iter().map(|row| row.workers).collect();
    parallel.sort_unstable();
    parallel.dedup();
    parallel
}

fn curves(run: &Run<'_>, rows: &[&Row]) -> Curves {
    let parallel = parallel(rows);
    let sound: Vec<&&Row> = rows.iter().filter(|row| row.failed.is_none()).collect();
    let curves = titles(rows).into_iter().map(|name| {
        let values = parallel.iter().enumerate().filter_map(|(position, count)| {
            let row = sound.iter().find(|row| row.workers == *count && row.title() == name)?;
            Some((position as f64, row.ops_per_second.median))
        });
        let number = rows.iter().find(|row| row.title() == name).map_or(0, |row| run.number(row));
        Curve { number, values: values.collect(), name }
    });
    let names: Vec<String> = parallel.iter().map(ToString::to_string).collect();
    Curves {
        words: Words {
            title: "Requests a second by the number of parallel requests".to_owned(),
            description: "A line for each session handler of PHP; its values are in the table below.".to_owned(),
        },
        x: Axis::named("parallel requests", &names),
        y: Axis::linear("requests a second", sound.iter().map(|row| row.ops_per_second.median)),
        curves: curves.collect(),
    }
}

/// A line for each handler, a column for each number of parallel requests.
fn by_parallel(rows: &[&Row]) -> Table {
    let parallel = parallel(rows);
    let columns: Vec<String> = parallel.iter().map(|count| format!("C={count}")).collect();
    let header: Vec<&str> = ["handler", "tier"].into_iter().chain(columns.iter().map(String::as_str)).collect();
    let mut table =
        Table::new("Requests a second by the number of parallel requests C: median (lowest to highest)", &header);
    for title in titles(rows) {
        let own = |count: &usize| rows.iter().find(|row| row.workers == *count && row.title() == title);
        let tier = rows.iter().find(|row| row.title() == title).map_or("", |row| row.durability.as_str());
        let cells = parallel.iter().map(|count| own(count).map_or(Cell::Empty, |row| rate(row)));
        table.row([text(&title), text(tier)].into_iter().chain(cells).collect());
    }
    table
}

/// A failed row is a result.
fn rate(row: &Row) -> Cell {
    let rate = row.ops_per_second;
    match (row.failed.is_some(), row.rounds) {
        (true, _) => Cell::Bad("failed".to_owned()),
        (false, 1) => right(count(rate.median)),
        (false, _) => right(format!("{} ({} to {})", count(rate.median), short(rate.low), short(rate.high))),
    }
}

fn costs(rows: &[&Row]) -> Table {
    let columns = [
        "handler",
        "C",
        "p50 in ms",
        "p99 in ms",
        "max in ms",
        "web \u{b5}s",
        "server \u{b5}s",
        "client \u{b5}s",
        "failed",
        "sessions kept",
    ];
    let caption = "Latency, processor time of a request (web server and PHP, the store's server, the client), and sessions that were there in the end";
    let mut table = Table::new(caption, &columns);
    for row in rows {
        let Some(web) = row.web else { continue };
        let latency = row.latency_us;
        let failed = web.failed_requests.max(web.not_2xx);
        let mut cells = vec![text(row.title()), right(row.workers)];
        cells.extend([latency.p50, latency.p99, latency.max].map(|us| right(figure(us / 1e3))));
        cells.extend(
            [web.cpu_us_per_op, row.cpu_us_per_op.server, row.cpu_us_per_op.client].map(|us| right(figure(us))),
        );
        cells.push(if failed > 0 { Cell::Bad(count(failed as f64)) } else { right(0) });
        cells.push(web.sessions_kept.map_or(text("cannot be counted"), |kept| right(count(kept as f64))));
        table.row(cells);
    }
    table
}

/// What lazy start saves: without it a visitor for whom nothing is remembered leaves a record.
fn visitors(rows: &[&Row]) -> Table {
    let columns = [
        "handler",
        "lazy start",
        "visitors",
        "that stored",
        "records",
        "cookies",
        "grown KiB",
        "server's changes",
        "KiB to it",
    ];
    let caption = "Visitors without a cookie, for each of whom a session is started: records and cookies that they left, by how much the place \
        of the sessions has grown, and what a Redis server counts by itself";
    let mut table = Table::new(caption, &columns);
    for (row, left) in rows.iter().filter_map(|row| Some((row, row.visitors()?))) {
        let number = |value: Option<u64>| value.map_or(text(""), |value| right(count(value as f64)));
        let kib = |value: Option<u64>| value.map_or(text(""), |bytes| right(figure(bytes as f64 / 1_024.0)));
        let lazy = left.lazy_start.map_or("no such rule", |lazy| if lazy { "on" } else { "off" });
        let mut cells =
            vec![text(row.title()), if row.failed.is_some() { Cell::Bad("failed".to_owned()) } else { text(lazy) }];
        cells.extend([Some(left.visitors), Some(left.storing), left.records, Some(left.cookies)].map(number));
        cells.push(kib(left.grown_bytes));
        cells.push(number(left.server.map(|server| server.changes)));
        cells.push(kib(left.server.map(|server| server.received_bytes)));
        table.row(cells);
    }
    table
}

/// What a memory of fixed size does when it is full.
fn overflow(row: &Row) -> Markup {
    let Some(overflow) = row.web.and_then(|web| web.overflow) else { return html! {} };
    let [held, made, lost] = [overflow.held, overflow.made, overflow.lost].map(|number| count(number as f64));
    html! {
        p.callout {
            strong { (row.title()) " with " (overflow.megabytes) " MB of shared memory" }
            " held " (held) " sessions at most. Of " (made) " that had been made then, "
            strong.bad { (lost) " were missing" } ", and " (overflow.failed_requests) " requests had failed."
        }
    }
}
