//! Pages per second of a web server by the number of parallel requests, and the behaviour of a full
//! cache.
//!
//! Handlers in the process and over a socket have charts of their own, which include failures.

use maud::{Markup, html};
use sessile_bench::php;
use sessile_bench::report::{Row, Visitors};

use super::{KINDS, not_run, spoilt, went_wrong, wrong_ones};
use crate::DrawError;
use crate::chart::{Axis, ChartText, Curve, Curves};
use crate::ids::ElementIds;
use crate::number::{count, figure, short};
use crate::runs::{ExperimentRows, PageReports, complaint, fault, titles};
use crate::table::{HtmlTable, TableCell, percentile, right, text};

/// The kernel counts the processor time of other processes in these.
const TICK_US: f64 = 10_000.0;
/// Fewer say little: each process is off by up to one of them.
const TICKS_MIN: f64 = 20.0;

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let measured = runs.by_tier("lifecycle", |_| true);
    Ok(html! {
        p {
            "nginx and php-fpm give out a page that starts a session, stores 100 values, "
            "regenerates the id, destroys the session and starts "
            "another one that stays. Each line is a session handler of PHP; garbage collection is "
            "off for all. A handler without a lock lets "
            "two requests change one session at once, and one change is lost: compare those that "
            "lock with each other."
        }
        @if measured.is_empty() { (not_run(runs, "lifecycle")) }
        @for run in &measured { (of_run(run, ids)?) }
    })
}

fn of_run(run: &ExperimentRows<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let (pages, others): (Vec<&Row>, Vec<&Row>) = run.rows.iter().partition(|row| row.op == "page");
    let processes =
        pages.iter().filter_map(|row| row.web).map(|web| web.processes).max().unwrap_or(0);
    let rounds = pages.iter().map(|row| row.rounds).max().unwrap_or(0);
    let requests = pages.iter().map(|row| row.sessions).max().unwrap_or(0);
    Ok(html! {
        p.conditions {
            (processes) " processes of PHP, " (rounds) " rounds of " (count(requests as f64))
            " requests in each combination" (run.tier_suffix) "." (spoilt(run.report))
        }
        (charts(run, &pages, ids)?)
        (by_parallel(&pages, &run.tier_suffix).draw(ids))
        (costs(&pages, &run.tier_suffix).folded(ids))
        @if others.iter().any(|row| row.is_of_visitors()) {
            (visitors(&others, &run.tier_suffix).folded(ids))
        }
        @for row in others.iter().filter(|row| row.op == "overflow") { (overflow(row)) }
    })
}

/// Handlers that lock; those without a lock are in the table only.
fn charts(run: &ExperimentRows<'_>, pages: &[&Row], ids: &ElementIds) -> Result<Markup, DrawError> {
    let mut figures = Vec::new();
    for (kind, place) in KINDS {
        let here = |row: &&&Row| row.kind == kind && php::locks(&row.title()) != Some(false);
        let rows: Vec<&Row> = pages.iter().filter(here).copied().collect();
        if !rows.is_empty() {
            let title = format!("{place}, with a lock{}", run.tier_suffix);
            figures.push(html! {
                h3 { (title) }
                figure {
                    (curves(run, &rows, &title).draw(ids)?) figcaption { "Higher is better." }
                }
                (wrong_ones(&rows, &|row| format!("{} parallel requests", row.workers)))
            });
        }
    }
    Ok(html! { @for figure in figures { (figure) } })
}

fn parallel(rows: &[&Row]) -> Vec<usize> {
    let mut parallel: Vec<usize> = rows.iter().map(|row| row.workers).collect();
    parallel.sort_unstable();
    parallel.dedup();
    parallel
}

fn curves(run: &ExperimentRows<'_>, rows: &[&Row], title: &str) -> Curves {
    let sound = |row: &&&Row| row.failed.is_none();
    let curves = titles(rows).into_iter().map(|name| {
        let own = || rows.iter().filter(|row| row.title() == name);
        let at = |row: &Row| row.workers as f64;
        let mut values: Vec<(f64, f64)> =
            own().filter(sound).map(|row| (at(row), row.ops_per_second.median)).collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let wrong = own().filter(|row| row.is_bad()).map(|row| at(row)).collect();
        let number = own().next().map_or(0, |row| run.number(row));
        Curve { name, number, values, wrong }
    });
    let places: Vec<f64> = rows.iter().map(|row| row.workers as f64).collect();
    Curves {
        words: ChartText {
            title: format!("Requests a second by the number of parallel requests: {title}"),
            description:
                "A line for each session handler of PHP; its values are in the table below."
                    .to_owned(),
        },
        x: Axis::measured("parallel requests", &places),
        y: Axis::linear(
            "requests a second",
            rows.iter().filter(sound).map(|row| row.ops_per_second.median),
        ),
        curves: curves.collect(),
    }
}

/// A line for each handler, a column for each number of parallel requests.
fn by_parallel(rows: &[&Row], beside: &str) -> HtmlTable {
    let parallel = parallel(rows);
    let columns: Vec<String> = parallel.iter().map(|count| format!("C={count}")).collect();
    let header: Vec<&str> =
        ["handler", "tier", "lock"].into_iter().chain(columns.iter().map(String::as_str)).collect();
    let caption =
        "Requests a second by the number of parallel requests C: median (lowest to highest)";
    let mut table = HtmlTable::new(format!("{caption}{beside}"), &header);
    for title in titles(rows) {
        let own =
            |count: &usize| rows.iter().find(|row| row.workers == *count && row.title() == title);
        let tier =
            rows.iter().find(|row| row.title() == title).map_or("", |row| row.durability.as_str());
        let cells =
            parallel.iter().map(|count| own(count).map_or(TableCell::Empty, |row| rate(row)));
        table.row([text(&title), text(tier), lock(&title)].into_iter().chain(cells).collect());
    }
    table
}

fn lock(title: &str) -> TableCell {
    text(php::locks(title).map_or("unknown", |locks| if locks { "yes" } else { "no" }))
}

/// A failed row is a result; a figure with faults shows them.
fn rate(row: &Row) -> TableCell {
    if row.failed.is_some() {
        return TableCell::Bad("failed".to_owned());
    }
    let rate = row.ops_per_second;
    let figure = match row.rounds {
        1 => count(rate.median),
        _ => format!("{} ({} to {})", count(rate.median), short(rate.low), short(rate.high)),
    };
    match fault(row) {
        Some(fault) => TableCell::Bad(format!("{figure}, {fault}")),
        None => right(figure),
    }
}

fn costs(rows: &[&Row], beside: &str) -> HtmlTable {
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
        "went wrong",
    ];
    let caption = "Latency, processor time of a request (web server and PHP, the store's server, \
                   the client), and sessions that were there in the end";
    let mut table = HtmlTable::new(format!("{caption}{beside}"), &columns);
    let most = rows.iter().map(|row| row.workers).max().unwrap_or(0);
    for row in rows.iter().filter(|row| row.workers == most || row.is_bad()) {
        let mut cells = vec![text(row.title()), right(row.workers)];
        cells.extend(cost(row));
        cells.push(went_wrong(row));
        table.row(cells);
    }
    table
}

/// The saving by lazy start: without it an anonymous visitor leaves a record. Unknown if no visitor
/// was served.
fn visitors(rows: &[&Row], beside: &str) -> HtmlTable {
    let columns = [
        "handler",
        "sessions in",
        "lock",
        "lazy start",
        "visitors",
        "that stored",
        "records",
        "cookies",
        "grown KiB",
        "server's changes",
        "KiB to it",
        "went wrong",
    ];
    let caption = "Visitors without a cookie, for each of whom a session is started: records and \
                   cookies that they left, by how much the place \
        of the sessions has grown, and what a Redis server counts by itself. Look at the records, \
        not at the growth: an empty file takes \
        an inode and no block, the engine takes its memory in larger pieces, and a server's memory \
        may shrink meanwhile";
    let mut table = HtmlTable::new(format!("{caption}{beside}"), &columns);
    for row in rows.iter().filter(|row| row.is_of_visitors()) {
        let title = row.title();
        let lazy = row.lazy_start().map_or("no such rule", |lazy| if lazy { "on" } else { "off" });
        let mut cells = vec![text(&title), text(row.place()), lock(&title), text(lazy)];
        cells.extend(row.visitors().map_or_else(|| [const { TableCell::Empty }; 7], left));
        cells.push(went_wrong(row));
        table.row(cells);
    }
    table
}

fn left(left: &Visitors) -> [TableCell; 7] {
    let number =
        |value: Option<u64>| value.map_or(TableCell::Empty, |value| right(count(value as f64)));
    let sign = |bytes: i64| if bytes < 0 { "-" } else { "" };
    let kib = |bytes: u64| figure(bytes as f64 / 1_024.0);
    [
        number(Some(left.visitors)),
        number(Some(left.storing)),
        number(left.records),
        number(Some(left.cookies)),
        left.grown_bytes.map_or(TableCell::Empty, |bytes| {
            right(format!("{}{}", sign(bytes), kib(bytes.unsigned_abs())))
        }),
        number(left.server.map(|server| server.changes)),
        left.server.map_or(TableCell::Empty, |server| right(kib(server.received_bytes))),
    ]
}

fn cost(row: &Row) -> Vec<TableCell> {
    let Some(web) = row.web.filter(|_| row.rounds > 0) else {
        return std::iter::once(TableCell::Bad("failed".to_owned()))
            .chain((0..7).map(|_| TableCell::Empty))
            .collect();
    };
    let (latency, cpu) = (row.latency_us, row.cpu_us_per_op);
    let failed = web.failed_requests.max(web.not_2xx);
    // Percentiles are those of the median round.
    let of_a_round = row.operations / row.rounds as u64;
    let mut cells: Vec<TableCell> = [(latency.p50, 0.5), (latency.p99, 0.99)]
        .map(|(us, quantile)| percentile(us / 1e3, quantile, of_a_round))
        .into();
    cells.push(right(figure(latency.max / 1e3)));
    cells.push(if web.cpu_us_per_op * (row.operations as f64) < TICKS_MIN * TICK_US {
        text("too short")
    } else {
        right(figure(web.cpu_us_per_op))
    });
    cells.push(match (row.kind.as_str(), cpu.of_server()) {
        ("socket", Some(server)) => right(figure(server)),
        ("socket", None) => text("not measured"),
        _ => text("no server"),
    });
    cells.push(right(figure(cpu.client)));
    cells.push(if failed > 0 { TableCell::Bad(count(failed as f64)) } else { right(0) });
    cells.push(
        web.sessions_kept.map_or(text("cannot be counted"), |kept| right(count(kept as f64))),
    );
    cells
}

/// The behaviour of a full memory. The number of sessions it held is as exact as the counts are
/// frequent.
fn overflow(row: &Row) -> Markup {
    let Some(overflow) = row.web.and_then(|web| web.overflow) else {
        let why = complaint(row)
            .unwrap_or_else(|| "the result does not say what became of it".to_owned());
        return html! {
            p.callout { strong { (row.title()) " until it is full: " } strong.bad { (why) } }
        };
    };
    let [held, made, lost] =
        [overflow.held, overflow.made, overflow.lost].map(|number| count(number as f64));
    let step = overflow.made.saturating_sub(overflow.held);
    html! {
        p.callout {
            strong { (row.title()) " with " (overflow.megabytes) " MB of shared memory" }
            " held " (held) " sessions when they were counted"
            @if step > 0 {
                ", in steps of " (count(step as f64)) ": it may have held up to so many more"
            }
            ". Of " (made) " that had been made at the last count, "
            strong.bad { (lost) " were missing" } ", and " (overflow.failed_requests) " requests "
            "had failed."
        }
    }
}
