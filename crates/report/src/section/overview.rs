//! The first screen: one sentence on which store to use, and one chart of all stores.
//!
//! The chart is of the weakest tier measured that keeps sessions over a restart, or of `none` if no
//! other was measured.

use maud::{Markup, html};
use sessile_advice::handler_of_row;
use sessile_core::Durability;
use sessile_results::Row;
use sessile_results::number::{time, with_noun};
use sessile_results::reference;
use sessile_results::statistics::is_told;

use super::throughput::in_order;
use super::{length, verdict};
use crate::chart::{Bar, BarRow, Bars, ChartText};
use crate::ids::ElementIds;
use crate::runs::{ExperimentRows, PageReports, most_rounds, most_workers};

/// Empty if no cycle without a fixed rate was measured.
pub(crate) fn overview(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let tiers = verdict::tiers(runs);
    let tier = tiers.iter().find(|tier| **tier != Durability::None).or(tiers.first());
    let measured = tier.and_then(|tier| Some((*tier, closed(runs, *tier)?)));
    let Some((tier, run)) = measured else { return html! {} };
    html! { p.lead { (verdict::sentence(runs)) } (chart(&run, tier, ids)) }
}

/// The first measurement of the cycle without a fixed rate, in a tier.
fn closed<'a>(runs: &PageReports<'a>, tier: Durability) -> Option<ExperimentRows<'a>> {
    let closed = runs.of_experiment("cycle").into_iter();
    let mut closed = closed.filter(|run| run.report.settings.rate.is_none());
    let mut run =
        closed.find(|run| run.rows.iter().any(|row| row.question.durability == tier.name()))?;
    run.rows.retain(|row| row.question.durability == tier.name() && row.question.op == "cycle");
    Some(run)
}

/// Of a row that does what a handler does: that handler, with the row in brackets. `None` for
/// other yardsticks.
fn name(row: &Row) -> Option<String> {
    let title = row.subject.shown_title();
    if reference::by_name(&row.subject.store).is_some_and(|it| it.unlocked) {
        return None; // the chart is of requests that lock
    }
    match handler_of_row(&row.subject.store) {
        Some(handler) => Some(format!("{handler} ({title})")),
        None => (!row.subject.marked_title().ends_with('*')).then_some(title),
    }
}

fn chart(run: &ExperimentRows<'_>, tier: Durability, ids: &ElementIds) -> Markup {
    let most = most_workers(&run.rows);
    let mut rows = run.only(|row| row.question.workers == most && name(row).is_some());
    let rounds = most_rounds(&rows);
    rows.sort_by(|a, b| {
        b.figures.ops_per_second.median.total_cmp(&a.figures.ops_per_second.median)
    });
    let slowest = |row: &Row| match &row.outcome.failed {
        None if is_told(0.999, row.figures.operations) => time(row.figures.latency_us.p999),
        _ => String::new(),
    };
    let bars = rows.iter().map(|row| BarRow {
        name: name(row).unwrap_or_default(),
        bars: vec![Bar {
            series: 0,
            name: slowest(row),
            length: length(row, row.figures.ops_per_second),
        }],
    });
    let figure = |row: &&Row| match (name(row).unwrap_or_default(), &row.outcome.failed) {
        (name, Some(_)) => format!("{name} failed"),
        (name, None) => format!("{name} {:.0}", row.figures.ops_per_second.median),
    };
    let said: Vec<String> = rows.iter().map(figure).collect();
    let chart = Bars {
        words: ChartText {
            title: format!("Locked requests a second of each store, tier {}", tier.name()),
            description: format!(
                "A bar for each store{}: {}.",
                in_order(rounds, "store"),
                said.join("; ")
            ),
        },
        unit: "locked requests a second".to_owned(),
        series: "p99.9".to_owned(),
        rows: bars.collect(),
    };
    html! {
        @if !rows.is_empty() {
            figure {
                (chart.draw(ids))
                figcaption {
                    "Each request takes the lock, reads, changes and saves a session; "
                    (with_noun(most, "worker")) " at a time; tier " (tier.name()) " promises "
                    (verdict::in_words(tier.name())) ". "
                    "One request in a thousand takes longer than p99.9. "
                    "A name before brackets is a handler that sites have, judged by the row in "
                    "the brackets, which sends the same commands; what the handler takes in PHP "
                    "is in no row. "
                    "Stores behind a socket do more than those inside the process."
                }
            }
        }
    }
}
