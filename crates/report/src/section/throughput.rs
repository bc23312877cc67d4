//! Operations per second: bars with the intervals of their rounds; embedded stores, stores over a
//! socket and durability tiers apart.

use maud::{Markup, html};
use sessile_bench::report::Row;

use super::{KINDS, conditions, interval, not_run, published};
use crate::DrawError;
use crate::chart::{Bar, BarLength, BarRow, Bars, ChartText};
use crate::ids::ElementIds;
use crate::number::{count, figure, short};
use crate::runs::{ExperimentRows, MARK, PageReports, fault, marked, titles};
use crate::table::{HtmlTable, TableCell, right, text};

/// `cycle` in a closed loop.
pub(super) fn cycle(runs: &PageReports<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let closed: Vec<ExperimentRows<'_>> = runs
        .of_experiment("cycle")
        .into_iter()
        .filter(|run| run.report.settings.rate.is_none())
        .collect();
    Ok(html! {
        p {
            "One cycle is what one request does: take the session's lock, read it, change it, "
            "write it back. This is the figure that "
            "matters for an application."
        }
        @if closed.is_empty() { (not_run(runs, "cycle")) }
        @for run in &closed { (of_run(run, ids)?) }
    })
}

pub(super) fn ops(runs: &PageReports<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let (as_published, corrected): (Vec<ExperimentRows<'_>>, Vec<ExperimentRows<'_>>) =
        runs.of_experiment("ops").into_iter().partition(|run| run.report.settings.as_published);
    Ok(html! {
        p {
            "Each operation on its own, on sessions of 1,500 random characters unless said "
            "otherwise. A change is a locked read and "
            "write, because an unlocked one loses updates."
        }
        @if corrected.is_empty() { (not_run(runs, "ops")) }
        @for run in &corrected { (of_run(run, ids)?) }
        (published::body(runs, &corrected, &as_published, ids))
    })
}

pub(super) fn of_run(run: &ExperimentRows<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let mut figures = Vec::new();
    let ops = ops_in_order(&run.rows);
    for op in &ops {
        for (kind, place) in KINDS {
            for tier in run.distinct(|row| row.durability.clone()) {
                let here =
                    |row: &&&Row| row.op == *op && row.kind == kind && row.durability == tier;
                let rows: Vec<&Row> = run.rows.iter().filter(here).copied().collect();
                if !rows.is_empty() {
                    let heading = if ops.len() > 1 {
                        format!("{}: {}", capital(op), small(place))
                    } else {
                        place.to_owned()
                    };
                    figures.push(html! {
                        h3 { (heading) ", tier " (tier) }
                        (one(run, &rows, op, &format!("{}, tier {tier}", small(place)), ids)?)
                    });
                }
            }
        }
    }
    Ok(html! { (conditions(run)) @for figure in figures { (figure) } })
}

fn ops_in_order(rows: &[&Row]) -> Vec<String> {
    let mut ops: Vec<String> = Vec::new();
    for row in rows {
        if !ops.contains(&row.op) {
            ops.push(row.op.clone());
        }
    }
    ops
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Lower case, for the middle of a heading.
pub(super) fn small(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}

fn one(
    run: &ExperimentRows<'_>,
    rows: &[&Row],
    op: &str,
    place: &str,
    ids: &ElementIds,
) -> Result<Markup, DrawError> {
    let workers = run.distinct(|row| row.workers);
    let rounds = rows.iter().map(|row| row.rounds).max().unwrap_or(0);
    let ranked = ranked(rows);
    let bars = Bars {
        words: ChartText {
            title: format!("{}s a second, {place}", capital(op)),
            description: description(&ranked, rows, op),
        },
        unit: format!("{op}s a second"),
        series: "workers".to_owned(),
        rows: ranked.iter().map(|title| bar_row(title, rows, &workers)).collect(),
    };
    let caption = format!("{}s a second and latency in microseconds, {place}", capital(op));
    Ok(html! {
        figure {
            (bars.draw(ids)?)
            figcaption { (interval(run.report, rounds)) " Further to the right is better. " (MARK) }
        }
        (table(&ranked, rows, &caption).draw(ids))
    })
}

/// Titles by their largest figure, fastest first; those without one last.
fn ranked(rows: &[&Row]) -> Vec<String> {
    let best = |title: &String| {
        let own = rows.iter().filter(|row| row.shown_title() == *title && row.failed.is_none());
        own.map(|row| row.ops_per_second.median).fold(-1.0, f64::max)
    };
    let mut titles = titles(rows);
    titles.sort_by(|a, b| best(b).total_cmp(&best(a)));
    titles
}

fn bar_row(title: &str, rows: &[&Row], workers: &[usize]) -> BarRow {
    let own = rows.iter().filter(|row| row.shown_title() == title);
    let bars = own.map(|row| {
        let series = workers.iter().position(|count| *count == row.workers).unwrap_or(0);
        Bar { series: series as u8, name: row.workers.to_string(), length: length(row) }
    });
    BarRow { name: marked(title), bars: bars.collect() }
}

/// A failure replaces the bar of its row.
pub(super) fn length(row: &Row) -> BarLength {
    match &row.failed {
        Some(_) => BarLength::Failed("failed (see the warnings)".to_owned()),
        None => {
            let rate = row.ops_per_second;
            BarLength::Value {
                median: rate.median,
                low: rate.low,
                high: rate.high,
                fault: fault(row),
            }
        }
    }
}

fn description(ranked: &[String], rows: &[&Row], op: &str) -> String {
    let said = ranked.iter().map(|title| {
        let own = rows.iter().filter(|row| row.shown_title() == *title);
        let figures = own.map(|row| match row.failed {
            Some(_) => format!("failed with {} workers", row.workers),
            None => format!(
                "{} with {}",
                short(row.ops_per_second.median),
                crate::number::with_noun(row.workers, "worker")
            ),
        });
        format!("{title}: {}", figures.collect::<Vec<String>>().join(", "))
    });
    format!(
        "A bar for each contender and number of workers, in {op}s a second, the fastest first. {}.",
        said.collect::<Vec<String>>().join("; ")
    )
}

fn table(ranked: &[String], rows: &[&Row], caption: &str) -> HtmlTable {
    let columns = [
        "store",
        "workers",
        "a second",
        "lowest",
        "highest",
        "p50",
        "p99",
        "p99.9",
        "errors, misses, lost",
    ];
    let mut table = HtmlTable::new(caption, &columns);
    for title in ranked {
        for row in rows.iter().filter(|row| row.shown_title() == *title) {
            let rate = row.ops_per_second;
            let mut cells = vec![text(marked(title)), right(row.workers)];
            if row.failed.is_some() {
                cells.push(TableCell::Bad("failed".to_owned()));
                cells.extend((0..5).map(|_| TableCell::Empty));
            } else {
                cells.extend([rate.median, rate.low, rate.high].map(|rate| right(count(rate))));
                let latency = row.latency_us;
                cells.extend([latency.p50, latency.p99, latency.p999].map(|us| right(figure(us))));
            }
            cells.push(fault(row).map_or_else(|| right("0"), TableCell::Bad));
            table.row(cells);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessile_bench::statistics::Spread;

    #[test]
    fn the_fastest_comes_first_and_what_failed_stays() {
        let row = |store: &str, median: f64, failed: Option<&str>| Row {
            store: store.into(),
            variant: "default".into(),
            ops_per_second: Spread { median, low: median, high: median },
            failed: failed.map(str::to_owned),
            ..Row::default()
        };
        let rows =
            [row("slow", 10.0, None), row("dead", 99.0, Some("it died")), row("fast", 50.0, None)];
        let rows: Vec<&Row> = rows.iter().collect();
        assert_eq!(ranked(&rows), ["fast", "slow", "dead"]);
        assert!(matches!(length(rows[1]), BarLength::Failed(_)));
    }
}
