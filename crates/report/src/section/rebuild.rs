//! A page that rebuilds its cache on each view, because the save was refused: a column for each
//! contender.

use maud::{Markup, html};
use sessile_bench::report::{Rebuild, Row};

use super::{not_run, spoilt, went_wrong};
use crate::ids::ElementIds;
use crate::number::{bytes, count, figure, time};
use crate::runs::{ExperimentRows, PageReports};
use crate::table::{HtmlTable, TableCell, right, text};

type ReportRow = (&'static str, fn(&Rebuild) -> TableCell);

const FIGURES: [ReportRow; 18] = [
    ("views that built the entry anew", |it| {
        let words = format!("{} of {}", count(it.rebuilt as f64), count(it.views as f64));
        if it.views > 0 && it.rebuilt == it.views { TableCell::Bad(words) } else { right(words) }
    }),
    ("of those, saves that failed", |it| right(count(it.unsaved as f64))),
    ("to load the entry", |it| right(time(it.load_us))),
    ("to build it", |it| of_a_build(it, it.rebuild_us)),
    ("to save it", |it| of_a_build(it, it.save_us)),
    ("memory that memcached has given to entries", |it| {
        it.stored_bytes.map_or(TableCell::Empty, |stored| right(bytes(stored as f64)))
    }),
    ("transactions", |it| right(count(it.siege.transactions as f64))),
    ("availability", |it| right(format!("{:.2} %", it.siege.availability_percent))),
    ("elapsed time", |it| right(format!("{} s", figure(it.siege.elapsed_s)))),
    ("data transferred", |it| right(bytes(it.siege.transferred_bytes as f64))),
    ("response time", |it| right(time(it.siege.response_s * 1e6))),
    ("transactions a second", |it| right(figure(it.siege.rate))),
    ("throughput a second", |it| right(bytes(it.siege.throughput_bytes))),
    ("concurrency", |it| right(figure(it.siege.concurrency))),
    ("successful", |it| right(count(it.siege.successful as f64))),
    ("failed", |it| {
        if it.siege.failed > 0 { TableCell::Bad(count(it.siege.failed as f64)) } else { right(0) }
    }),
    ("longest view", |it| right(time(it.siege.longest_s * 1e6))),
    ("shortest view", |it| right(time(it.siege.shortest_s * 1e6))),
];

/// Without a build there is no time; that is not 0.
fn of_a_build(rebuild: &Rebuild, us: f64) -> TableCell {
    if rebuild.rebuilt == 0 { text("not once") } else { right(time(us)) }
}

/// Processor time of a view. 0 means that the experiment did not measure the server.
fn processor_time(row: &Row, us: f64) -> TableCell {
    if row.rebuild.is_none() || us <= 0.0 { text("not measured") } else { right(time(us)) }
}

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let measured = runs.of_experiment("rebuild");
    html! {
        p {
            "Each view of a page needs one large entry of a cache. Where its save is refused the "
            "entry is never there, and every view builds it "
            "anew. The figures carry the names that load generators give them."
        }
        p.callout {
            strong { "Look at how often, and not at how long." } " What a rebuild works on is made "
            "up: ten passes of md5 for each value. So times, "
            "views a second and what follows from them are those of this page, and say nothing of "
            "another one. One view before the samples builds and saves "
            "the entry, so whoever keeps it has it in all of them."
        }
        @if measured.is_empty() { (not_run(runs, "rebuild")) }
        @for run in &measured {
            p { (spoilt(run.report)) } (table(run).draw(ids)) (compressed(run)) (found(run))
        }
    }
}

/// Says that a contender has another entry than the others.
fn compressed(run: &ExperimentRows<'_>) -> Markup {
    let title = run.rows.iter().map(|row| row.title()).find(|title| title.ends_with("#compressed"));
    html! {
        @if let Some(title) = title {
            p {
                strong { (title) " has another entry." } " It is as long as that of the others, "
                "but made of words that come again, as paths of templates "
                "do, and the extension compresses it; the entry of the others does not compress "
                "well. So it shows how far compression goes where it "
                "helps, and its times do not compare with theirs."
            }
        }
    }
}

fn table(run: &ExperimentRows<'_>) -> HtmlTable {
    let names: Vec<String> = run.rows.iter().map(|row| row.title()).collect();
    let columns: Vec<&str> =
        std::iter::once("figure").chain(names.iter().map(String::as_str)).collect();
    let mut table =
        HtmlTable::new("The load on a page, by where its cache keeps the large entry", &columns);
    let mut of_rows = |name: &str, of: &dyn Fn(&Row) -> TableCell| {
        table.row(std::iter::once(text(name)).chain(run.rows.iter().map(|row| of(row))).collect());
    };
    of_rows("went wrong", &went_wrong);
    of_rows("processor time of the load generator, a view", &|row| {
        processor_time(row, row.cpu_us_per_op.client)
    });
    of_rows("processor time of the server, a view", &|row| {
        processor_time(row, row.cpu_us_per_op.server)
    });
    for (name, of) in FIGURES {
        let cells = run.rows.iter().map(|row| {
            row.rebuild.as_ref().map_or_else(|| TableCell::Bad("failed".to_owned()), of)
        });
        table.row(std::iter::once(text(name)).chain(cells).collect());
    }
    table
}

/// What an operator finds in the log, and in the store for large entries.
fn found(run: &ExperimentRows<'_>) -> Markup {
    let rows = || run.rows.iter().filter_map(|row| Some((row.title(), row.rebuild.as_ref()?)));
    html! {
        @for (title, rebuild) in rows() {
            @if let Some(line) = &rebuild.log { p { "The log with " (title) ": " code { (line) } } }
            @if let Some(largest) = &rebuild.largest {
                p { "The scan with " (title) ": " code { (largest) } }
            }
        }
    }
}
